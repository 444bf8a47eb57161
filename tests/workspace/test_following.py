"""A recording followed while a training writes it: one run, alerts in time, kills on both sides, the same end."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.auditing import AuditReport, AuditSettings, audit
from flcontrib_core.errors import FLContribError, WorkspaceError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.reports import audit_json
from flcontrib_core.runs import RunLog, read_run_log
from flcontrib_core.workspace import RECORDING, Job, JobState, RunEntry, Workspace, follow_recording, recorder_at_work
from flcontrib_core.workspace.audit_jobs import preview_of, stored_report
from flcontrib_core.workspace.follow_jobs import follow_in_workspace
from flcontrib_core.workspace.job_status import read_status
from flcontrib_core.workspace.jobs import JobQueue
from flcontrib_core.workspace.preferences import Notices
from tests.app.filled_workspace import ended, make_tiny_log, wait_until
from tests.execution.test_notices import Receiver, receiver
from tests.workspace.recorded import ending_jobs, record_run, scratch_folder
from tests.workspace.training import SETTINGS, WINDOW

assert receiver  # a fixture of that file
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
    status, alive = read_status(workspace.path / "jobs" / job.id / "status")
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
        ending_jobs(workspace),
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
            if epoch == WINDOW[0] + 2:
                kill_worker(workspace, job)
                job = workspace.jobs.resume(job.id)
            live.let(epoch)
        raised = workspace.provisional_alerts(entry.digest)
        final = settled(workspace, entry)
        assert (names(workspace), final.kind, final.epochs) == (["Live"], "log", SETTINGS.epochs)
        wait_until(lambda: any(j.kind == "audit" for j in workspace.jobs.list()), "the audit of the whole")
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
        assert {**audit_json(kept), "seconds": 0} == {**audit_json(offline), "seconds": 0}
        np.testing.assert_array_equal(kept.history.values, offline.history.values)
        np.testing.assert_array_equal(kept.history.standard_errors, offline.history.standard_errors)
        assert kept.history.recalled > 0, "what was computed while it grew is not computed again"
        assert raised[0].became(kept.detection.alerts[0])
        assert workspace.verify_chain() is None


@pytest.fixture
def idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """A workspace whose jobs are asked for and never start: the test does their work."""
    monkeypatch.setattr(JobQueue, "_start_next", lambda self: False)
    with Workspace(tmp_path / "workspace") as workspace:
        yield workspace


def test_a_training_that_goes_on_after_its_end_is_never_two_runs_of_one_name(idle: Workspace, tmp_path: Path) -> None:
    recorded = record_run(tmp_path / "live", epochs=3)
    entry, job = follow_recording(idle, recorded)
    assert follow_recording(idle, recorded) == (entry, job), "the same folder is the same run"
    idle.say_ended(entry.digest, "ada")
    follow_in_workspace(idle, entry.digest, job.settings)
    first = settled(idle, entry)
    assert [j.kind for j in idle.jobs.list() if j.run_digest == first.digest] == ["audit"]
    record_run(recorded, epochs=2)
    later, job = follow_recording(idle, recorded)
    assert later.digest == entry.digest
    assert not idle.is_ended(later.digest), "what was said of its first end does not hold"
    idle.say_ended(later.digest, "ada")
    follow_in_workspace(idle, later.digest, job.settings)
    assert names(idle) == ["live", "live, 5 epochs"]
    assert settled(idle, entry).epochs == 5, "a link to the recording leads to all of it"


def test_a_recording_that_nobody_wants_any_more_leaves_nothing(idle: Workspace, tmp_path: Path) -> None:
    entry, job = follow_recording(idle, record_run(tmp_path / "live", epochs=3))
    with pytest.raises(WorkspaceError, match="is being computed"):
        idle.delete_run(entry.digest)
    idle.jobs.cancel(job.id)
    idle.delete_run(entry.digest)
    assert idle.runs() == ()
    assert not (idle.path / "jobs" / job.id).exists()
    assert (tmp_path / "live" / "manifest.json").exists(), "its folder is the training's"


@pytest.mark.parametrize("there", ["", "empty", "other"])
def test_a_folder_without_a_recording_is_refused_in_words(idle: Workspace, tmp_path: Path, there: str) -> None:
    folder = tmp_path / (there or "missing")
    if there:
        folder.mkdir()
    if there == "other":
        (folder / "manifest.json").write_text("{}")
    with pytest.raises(FLContribError, match=r"recording yet|no folder|manifest"):
        follow_recording(idle, folder)
    assert idle.runs() == ()


def test_whom_the_settings_name_is_told_of_each_alert_and_a_foreign_workspace_tells_nobody(
    idle: Workspace, tmp_path: Path, receiver: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    kept = tmp_path / "told.json"
    keep = f"import sys; open({str(kept)!r}, 'a').write(sys.stdin.read())"
    command = shlex.join(python_command("-c", keep))
    idle.preferences.set_notices(Notices(command, f"{receiver}/broken"))
    asked = {"audit": AuditSettings().record(), "until": 12}
    recorded = make_tiny_log(tmp_path / "live")
    entry, _ = follow_recording(idle, recorded, until=12)
    follow_in_workspace(idle, entry.digest, asked)
    ((_, notice),) = Receiver.received
    assert isinstance(notice, dict)
    assert (notice["event"], notice["run"], notice["client"]) == ("alert", entry.name, "client-03")
    assert notice["provisional"] is True
    assert [json.loads(line) for line in kept.read_text().splitlines()] == [notice]
    assert "was not told: HTTP Error 500" in capfd.readouterr().err
    Receiver.received.clear()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "of somebody else"))
    assert idle.preferences.agreed_notices() == Notices()
    entry, _ = follow_recording(idle, recorded, until=12)
    follow_in_workspace(idle, entry.digest, asked)
    assert Receiver.received == []
    assert len(kept.read_text().splitlines()) == 1
