"""An audit inside a workspace: nothing is lost, and results appear as epochs finish."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flcontrib_core.auditing import AuditReport, AuditSettings, audit, report_on, settings_from_record
from flcontrib_core.bundled_files import bundled
from flcontrib_core.codec import OtherLayout, pack, unpack
from flcontrib_core.history.assembly import assemble_history
from flcontrib_core.history.epoch_work import EpochAnswer
from flcontrib_core.history.trajectory import evaluator_for
from flcontrib_core.history.updates_only import lacking_part
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import OnProgress, no_progress
from flcontrib_core.workspace.job import Job, job_identity
from flcontrib_core.workspace.planning_jobs import keep_meaning
from flcontrib_core.workspace.results import ResultEntry
from flcontrib_core.workspace.store import Workspace
from flcontrib_core.workspace.stored_runs import RunEntry

if TYPE_CHECKING:
    from flcontrib_core.games.evaluator import Evaluator

KIND = "audit"
PREVIEW_SECONDS = 1.0
"""No page asks more often."""
PREVIEW_PATIENCE = 9
"""Reading an unfinished history takes at most one part in ten of a job's time."""


def audit_in_workspace(
    workspace: Workspace, run_digest: str, settings: dict[str, Any], on_progress: OnProgress = no_progress
) -> ResultEntry:
    """Audits a stored run, keeps every finished epoch, the report and its alerts."""
    run, audit_settings = workspace.open_run(run_digest), settings_from_record(settings)
    evaluator, on_epoch = None, None
    execution = workspace.preferences.agreed_execution()
    if isinstance(run, RunLog) and lacking_part(run) is None:
        evaluator = evaluator_for(run, audit_settings.assess.utilities, device=execution.device)
        job_id = job_identity(KIND, run_digest, settings)
        if workspace.previews.wanted(job_id):
            on_epoch = _Preview(workspace, job_id, run, audit_settings, evaluator).add
    report = audit(
        run,
        audit_settings,
        evaluator=evaluator,
        workers=execution.workers,
        engine=execution.engine,
        address=execution.address,
        gpus=execution.gpus,
        checkpoints=workspace.checkpoints(run),
        memory=workspace.utility_memory(run),
        on_progress=on_progress,
        on_epoch=on_epoch,
    )
    keep_meaning(workspace, run)
    return keep_report(workspace, run_digest, settings, report)


def keep_report(workspace: Workspace, run_digest: str, settings: dict[str, Any], report: AuditReport) -> ResultEntry:
    """Stores a report as a result of a run that is in the workspace, and enters its alerts."""
    remarks = {
        "seconds": report.seconds,
        "recalled": report.history.recalled,
        "evaluations": int(report.history.evaluations.sum()),
        "epochs": int(report.history.computed[1:].sum()),
    }
    # What differs between two equal computations goes into the remarks, so that equal results have equal digests.
    timeless = replace(report, seconds=0.0, history=replace(report.history, seconds=0.0, recalled=0))
    entry = workspace.store_result(run_digest, settings, KIND, timeless, remarks)
    workspace.alerts.raise_alerts(run_digest, report.detection.alerts, entry.digest)
    return entry


def stored_report(workspace: Workspace, entry: ResultEntry) -> AuditReport:
    """The report of a stored result, with the seconds it took."""
    report: AuditReport = workspace.load_result(entry, AuditReport)
    seconds = float(entry.remarks.get("seconds", 0.0))
    recalled = int(entry.remarks.get("recalled", 0))
    return replace(report, seconds=seconds, history=replace(report.history, seconds=seconds, recalled=recalled))


def preview_of(workspace: Workspace, job: Job) -> AuditReport | None:
    """What a job at work has found until now: finished epochs as they are, the others pending; None before the first.

    Every look at an unfinished history is one more chance of a false alarm, so it is read with the strict preset.
    """
    arrays = workspace.previews.load(job.id)
    with suppress(OtherLayout):  # left by a job of an older version
        return None if arrays is None else unpack(AuditReport, arrays)
    return None


class _Preview:
    """Leaves the report of the epochs finished so far where a page finds it, as often as a small part of the time
    allows."""

    def __init__(
        self, workspace: Workspace, job_id: str, run: RunLog, settings: AuditSettings, evaluator: Evaluator
    ) -> None:
        self._previews, self._job_id, self._run, self._evaluator = workspace.previews, job_id, run, evaluator
        self._settings = replace(settings, preset="strict")
        self._answers: dict[int, EpochAnswer] = {}
        self._total = sum(1 for e in run.epochs if e.participants)
        self._not_before, self._first = time.monotonic(), True

    def add(self, answer: EpochAnswer) -> None:
        self._answers[answer.epoch] = answer
        began = time.monotonic()
        if began < self._not_before or len(self._answers) == self._total:
            return
        history = assemble_history(self._run, self._settings.assess, self._evaluator, self._answers, None)
        report = report_on(self._run, history, self._settings, self._evaluator.recipe())
        self._previews.keep(self._job_id, pack(AuditReport, report))
        now = time.monotonic()
        # The first reading imports what the last one needs too: that time is not the preview's.
        self._not_before = now + max(PREVIEW_SECONDS, 0.0 if self._first else PREVIEW_PATIENCE * (now - began))
        self._first = False


SAMPLES = (
    "late-window.flrun",
    "two-poisoned.flrun",
    "free-rider-and-scaled.flrun",
    "heterogeneous-honest.flrun",
    "clean-iid.flrun",
    "contributions-table.csv",
)
"""In the order in which a newcomer should see them: in the first one only half of the clients take part in an epoch,
so that every knob of the scheduler changes something."""


def take_in_samples(workspace: Workspace) -> RunEntry | None:
    """Brings the sample runs into a workspace that has no run yet; the first run of the workspace."""
    if not workspace.runs():
        folder = bundled("sample_runs")
        for name in SAMPLES:
            workspace.add_run(folder / name)
    runs = workspace.runs()
    return runs[0] if runs else None


def sample_digests() -> frozenset[str]:
    """The digests of the sample runs, as they were rebuilt last."""
    digests = json.loads((bundled("sample_runs") / "digests.json").read_text(encoding="utf-8"))
    return frozenset(digests["digests"].values())
