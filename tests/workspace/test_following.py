"""A recording that is followed while a training writes it: one run, alerts in time, kills on both sides, the same end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.auditing import AuditReport, audit
from flcontrib_core.errors import WorkspaceError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.runs import RunLog, read_run_log
from flcontrib_core.workspace import RECORDING, Job, JobState, RunEntry, Workspace, follow_recording, recorder_at_work
from flcontrib_core.workspace.audit_jobs import preview_of, stored_report
from tests.app.filled_workspace import ended, wait_until
from tests.workspace.recorded import record_run, scratch_folder
from tests.workspace.training import SETTINGS, WINDOW

QUICK = {"follow": "tests.workspace.runners:quick_follow"}
ROOT = Path(__file__).parents[2]


@dataclass
class Training:
    """A training in a process of its own, let on epoch by epoch."""

    folder: Path
    gates: Path
    process: subprocess.Popen[bytes] | None = None
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        command = python_command("-m", "tests.workspace.training", str(self.folder), str(self.gates))
        environment = {**child_environment(), "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment)
        self.started.append(self.process)
        wait_until(lambda: self.epochs() >= 1 and recorder_at_work(self.folder), "a first epoch")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def epochs(self) -> int:
        lines = self.folder / "epochs.jsonl"
        return len(lines.read_bytes().splitlines()) if lines.exists() else 0

    def let(self, epoch: int) -> None:
        """Lets it pass an epoch and waits for the next one."""
        (self.gates / str(epoch)).touch()
        wait_until(lambda: self.epochs() > epoch, f"epoch {epoch + 1}")


@contextmanager
def training(folder: Path) -> Iterator[Training]:
    gates = folder / "gates"
    gates.mkdir()
    found = Training(folder / "live", gates)
    try:
        found.start()
        yield found
    finally:
        for process in found.started:
            process.kill()
            process.wait()


def seen(workspace: Workspace, job: Job, epochs: int) -> AuditReport:
    """The report so far, when it holds so many epochs."""

    def is_there() -> bool:
        report = preview_of(workspace, job)
        return report is not None and report.history.epoch_count >= epochs

    wait_until(is_there, f"a report of {epochs} epochs")
    report = preview_of(workspace, job)
    assert report is not None
    return report


def names(workspace: Workspace) -> list[str]:
    return [entry.name for entry in workspace.runs()]


def kill_worker(workspace: Workspace, job: Job) -> None:
    output = workspace.path / "jobs" / job.id / "status"
    from flcontrib_core.workspace.job_status import read_status

    status, alive = read_status(output)
    assert alive
    assert status.pid is not None
    os.kill(status.pid, signal.SIGKILL)
    wait_until(lambda: workspace.jobs.find(job.id).state is JobState.LOST, "the end of the worker")


def settled(workspace: Workspace, recording: RunEntry) -> RunEntry:
    wait_until(lambda: workspace.settled_as(recording.digest) is not None, "the end of the recording")
    entry = workspace.settled_as(recording.digest)
    assert entry is not None
    return entry


def test_training_and_follower_are_killed_and_the_end_is_the_offline_one() -> None:
    with (
        scratch_folder() as folder,
        Workspace(folder / "workspace", runners=QUICK) as workspace,
        training(folder) as live,
    ):
        entry, job = follow_recording(workspace, live.folder, until=SETTINGS.epochs)
        assert (entry.kind, names(workspace)) == (RECORDING, ["Live"])
        for epoch in range(1, SETTINGS.epochs):
            report = seen(workspace, job, epoch)
            assert report.detection.preset == "online"
            assert names(workspace) == ["Live"], "one run, however often it is looked at"
            if epoch == 5:
                live.kill()
                assert not recorder_at_work(live.folder)
                live.start()
            if epoch == WINDOW[0] + 3:
                kill_worker(workspace, job)
                again, job = follow_recording(workspace, live.folder)
                assert again.digest == entry.digest
                job = workspace.jobs.resume(workspace.jobs.find(job.id).id)
            live.let(epoch)
        raised = workspace.provisional_alerts(entry.digest)
        final = settled(workspace, entry)
        assert (names(workspace), final.kind, final.epochs) == (["Live"], "log", SETTINGS.epochs)
        (audit_job,) = [j for j in workspace.jobs.list() if j.kind == "audit"]
        assert ended(workspace, audit_job).state is JobState.DONE
        assert [told.client for told in raised].count(raised[0].client) == len(raised) >= 1
        assert raised[0].seen_after <= WINDOW[0] + 3
        assert workspace.provisional_alerts(final.digest) == raised, "told once, whoever was killed"
        result = workspace.default_result(final.digest)
        assert result is not None
        kept = stored_report(workspace, result)
        run = read_run_log(live.folder)
        assert isinstance(run, RunLog)
        offline = audit(run)
        assert final.digest == run.digest
        assert kept.detection == offline.detection
        np.testing.assert_array_equal(kept.history.values, offline.history.values)
        np.testing.assert_array_equal(kept.history.standard_errors, offline.history.standard_errors)
        assert kept.history.recalled > 0, "what was computed while it grew is not computed again"
        assert raised[0].became(kept.detection.alerts[0])
        assert workspace.verify_chain() is None


def test_somebody_says_that_the_training_has_ended(tmp_path: Path) -> None:
    recorded = record_run(tmp_path / "live", epochs=3)
    with Workspace(tmp_path / "workspace", runners=QUICK) as workspace:
        entry, job = follow_recording(workspace, recorded)
        assert seen(workspace, job, 3).history.epoch_count == 3
        assert follow_recording(workspace, recorded)[0].digest == entry.digest
        workspace.say_ended(entry.digest, "ada")
        first = settled(workspace, entry)
        record_run(recorded, epochs=2)  # and it goes on all the same
        later, job = follow_recording(workspace, recorded)
        assert later.digest == entry.digest
        assert seen(workspace, job, 5)
        assert not workspace.is_ended(later.digest), "what was said of its first end does not hold"
        workspace.say_ended(later.digest, "ada")
        wait_until(lambda: workspace.settled_as(entry.digest) not in (None, first), "its second end")
        assert sorted(names(workspace)) == ["live", "live, 5 epochs"]
        for started in workspace.jobs.list():
            ended(workspace, started)


def test_a_recording_that_nobody_follows_any_more_goes_with_its_epochs(tmp_path: Path) -> None:
    with Workspace(tmp_path / "workspace", runners=QUICK) as workspace:
        entry, job = follow_recording(workspace, record_run(tmp_path / "live", epochs=3))
        seen(workspace, job, 3)
        with pytest.raises(WorkspaceError, match="is being computed"):
            workspace.delete_run(entry.digest)
        workspace.jobs.cancel(job.id)
        workspace.delete_run(entry.digest)
        assert workspace.runs() == ()
        assert not (workspace.path / "jobs" / job.id).exists()


@pytest.mark.parametrize("there", ["", "empty", "other"])
def test_a_folder_without_a_recording_is_refused_in_words(tmp_path: Path, there: str) -> None:
    folder = tmp_path / (there or "missing")
    if there:
        folder.mkdir()
    if there == "other":
        (folder / "manifest.json").write_text("{}")
    with Workspace(tmp_path / "workspace") as workspace:
        with pytest.raises(Exception, match="recording yet|no folder|manifest") as refused:
            follow_recording(workspace, folder)
        assert type(refused.value).__name__ in ("WorkspaceError", "RunLogError")
        assert workspace.runs() == ()
