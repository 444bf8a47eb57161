"""The job that follows a recording: it reads on while a training writes, and takes the whole in when that has ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flcontrib_core.auditing import AuditReport, AuditSettings, LiveAudit, settings_from_record
from flcontrib_core.codec import pack
from flcontrib_core.detection import Alert
from flcontrib_core.detection.online import ProvisionalAlert
from flcontrib_core.errors import WorkspaceError
from flcontrib_core.history.assess import Computing
from flcontrib_core.reports import alert_json
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import OnProgress, no_progress
from flcontrib_core.workspace.job import Job, job_identity
from flcontrib_core.workspace.recordings import RECORDING
from flcontrib_core.workspace.store import Workspace
from flcontrib_core.workspace.stored_runs import RunEntry

FOLLOW = "follow"
LOOK_SECONDS = 1.0


def follow_recording(
    workspace: Workspace,
    folder: Path,
    *,
    name: str | None = None,
    nonfinite: str = "refuse",
    settings: AuditSettings | None = None,
    until: int | None = None,
) -> tuple[RunEntry, Job]:
    """Follows a folder that a recorder writes: the run that stands for it, and the job that reads on.

    ``until``: the training ends with this epoch; without it somebody says so (``Workspace.say_ended``). Asked again,
    it is the same run and the same job, which goes on where it was stopped.
    """
    entry = workspace.enter_recording(folder, name, nonfinite)
    asked = {"audit": (settings or AuditSettings()).record(), "until": until}
    job = next((j for j in workspace.jobs.list() if j.run_digest == entry.digest and j.kind == FOLLOW), None)
    if job is not None and job.active:
        return entry, job
    return entry, workspace.jobs.submit(entry.digest, asked, FOLLOW, recompute=True)


def follow_in_workspace(
    workspace: Workspace, run_digest: str, settings: dict[str, Any], on_progress: OnProgress = no_progress
) -> None:
    """Reads a recording on until it has ended: after each look the report so far is where a page finds it, and each new
    alert is in the log once. Then the whole is taken in and audited as any other run."""
    audit_settings, until = settings_from_record(settings["audit"]), settings.get("until")
    entry, settled = workspace.find_run(run_digest), workspace.settled_as(run_digest)
    if entry is None and settled is not None:  # an earlier attempt ended after it had settled
        workspace.jobs.submit(settled.digest, audit_settings.record())
        return
    if entry is None or entry.kind != RECORDING:
        raise WorkspaceError(f"{run_digest[:12]}… is no recording; there is nothing to follow")
    desk = job_identity(FOLLOW, run_digest, settings)
    live = LiveAudit(
        Path(entry.source),
        audit_settings,
        nonfinite=entry.reading.nonfinite,
        reported=workspace.provisional_alerts(run_digest),
    )
    execution = workspace.preferences.agreed_execution()

    def computing(run: RunLog) -> Computing:
        return {
            "device": execution.device,
            "workers": execution.workers,
            "engine": execution.engine,
            "address": execution.address,
            "gpus": execution.gpus,
            "checkpoints": workspace.checkpoints(run),
            "memory": workspace.utility_memory(run),
        }

    while True:
        ended = workspace.is_ended(run_digest)  # asked before the look: what was recorded until then is seen
        news = live.look(computing, on_progress)
        if news is not None:
            epochs = news.run.epoch_count
            if workspace.previews.wanted(desk):
                workspace.previews.keep(desk, pack(AuditReport, news.report(audit_settings)))
            on_progress(epochs, until or epochs, f"epoch {epochs}")
            _pass_on(workspace, entry, news.new_alerts, epochs)
            workspace.raise_provisional(run_digest, [ProvisionalAlert.of(a, epochs) for a in news.new_alerts])
        if live.run is not None and (ended or (until is not None and live.run.epoch_count >= until)):
            _settle(workspace, entry, audit_settings)
            return
        time.sleep(LOOK_SECONDS)


def _pass_on(workspace: Workspace, entry: RunEntry, alerts: Sequence[Alert], epochs: int) -> None:
    """Tells whom the workspace's settings name, before the log says so: after a kill rather twice than never."""
    notices = workspace.preferences.agreed_notices()
    for alert in alerts:
        notice = {"event": "alert", "run": entry.name, "epoch": epochs, "provisional": True, **alert_json(alert)}
        for fault in notices.tell(notice):
            print(fault, file=sys.stderr, flush=True)


def _settle(workspace: Workspace, entry: RunEntry, settings: AuditSettings) -> None:
    """The finished run in place of its recording; its audit is a job like any other and owes nothing to having been
    followed, but for the epochs that are finished already."""
    run = workspace.add_run(Path(entry.source), entry.name, nonfinite=entry.reading.nonfinite)
    alike = [r for r in workspace.runs() if r.name == run.name and r.digest not in (run.digest, entry.digest)]
    if alike:  # the training went on after an earlier end: two runs never have one name
        workspace.describe_run(run.digest, by="", name=f"{entry.name}, {run.epochs} epochs")
    workspace.settle_recording(entry.digest, run.digest)
    workspace.jobs.submit(run.digest, settings.record())
