"""How does an audit run inside a workspace, so that nothing is lost and results appear as epochs finish?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flcontrib_core.assessment.assembly import assemble_history
from flcontrib_core.assessment.checkpoints import unpack_answer
from flcontrib_core.assessment.trajectory import evaluator_for
from flcontrib_core.auditing import AuditReport, audit, settings_from_record
from flcontrib_core.bundled_files import bundled
from flcontrib_core.contribution import EpochKeys, planned_epochs
from flcontrib_core.contribution_history import ContributionHistory
from flcontrib_core.reports.keeping import pack_report, unpack_report
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import OnProgress, no_progress
from flcontrib_core.workspace import ResultEntry, RunEntry, Workspace

KIND = "audit"


def audit_in_workspace(
    workspace: Workspace, run_digest: str, settings: dict[str, Any], on_progress: OnProgress = no_progress
) -> ResultEntry:
    """Audits a stored run, keeps every finished epoch, the report and its alerts."""
    run = workspace.open_run(run_digest)
    report = audit(
        run,
        settings_from_record(settings),
        checkpoints=workspace.checkpoints(run),
        memory=workspace.utility_memory(run),
        on_progress=on_progress,
    )
    remarks = {"seconds": report.seconds, "recalled": report.history.recalled}
    # What differs between two equal computations goes into the remarks, so that equal results have equal digests.
    timeless = replace(report, seconds=0.0, history=replace(report.history, seconds=0.0, recalled=0))
    entry = workspace.keep_result(run_digest, settings, KIND, arrays=pack_report(timeless), remarks=remarks)
    workspace.alerts.raise_alerts(run_digest, report.detection.alerts, entry.digest)
    return entry


def stored_report(workspace: Workspace, entry: ResultEntry) -> AuditReport:
    """The report of a stored result, with the seconds it took."""
    report = unpack_report(dict(workspace.load_result(entry).arrays))
    seconds = float(entry.remarks.get("seconds", 0.0))
    recalled = int(entry.remarks.get("recalled", 0))
    return replace(report, seconds=seconds, history=replace(report.history, seconds=seconds, recalled=recalled))


def finished_so_far(workspace: Workspace, run_digest: str, settings: dict[str, Any]) -> ContributionHistory | None:
    """What a running job has computed until now: finished epochs as they are, the others not computed (yet).

    None for tables, which need no job, and while nothing is finished.
    """
    run = workspace.open_run(run_digest)
    if not isinstance(run, RunLog):
        return None
    wanted = replace(settings_from_record(settings).assess, observe=True)
    evaluator = evaluator_for(run, wanted.utilities)
    chosen = planned_epochs(run, wanted, evaluator)
    keys, kept = EpochKeys(run, wanted, evaluator), workspace.checkpoints(run)
    found = {e.epoch: kept.recall(keys.answer(e.epoch, e.epoch in chosen)) for e in run.epochs if e.participants}
    answers = {t: unpack_answer(arrays) for t, arrays in found.items() if arrays is not None}
    if not answers:
        return None
    return assemble_history(run, replace(wanted, observe=False), evaluator, answers, None)


SAMPLES = (
    "two-poisoned.flrun",
    "late-window.flrun",
    "free-rider-and-scaled.flrun",
    "heterogeneous-honest.flrun",
    "clean-iid.flrun",
    "contributions-table.csv",
)
"""In the order in which a newcomer should see them."""


def take_in_samples(workspace: Workspace) -> RunEntry | None:
    """Brings the sample runs into a workspace that has no run yet; the first run of the workspace."""
    if not workspace.runs():
        folder = bundled("sample_runs")
        for name in SAMPLES:
            workspace.add_run(folder / name)
    runs = workspace.runs()
    return runs[0] if runs else None
