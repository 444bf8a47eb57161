"""A job outlives whoever asked for it, ends in a named state whatever happens, and goes on where it stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.execution.limits import ProcessLimits
from flcontrib_core.workspace import DamagedIndex, Job, JobState, Workspace
from flcontrib_core.workspace.job_status import JobStatus, Progress, StatusFile, read_status
from flcontrib_core.workspace.worker import StatusReporter
from tests.app.filled_workspace import wait_until
from tests.workspace.runners import ALL


@pytest.fixture
def workspace(folder: Path) -> Iterator[Workspace]:
    with Workspace(folder / "workspace", runners=ALL) as opened:
        yield opened
        for job in opened.jobs.list():
            opened.jobs.cancel(job.id)


@pytest.fixture
def run(workspace: Workspace, bundle: Path) -> str:
    return workspace.add_run(bundle, "a run").digest


def until(workspace: Workspace, job: Job, condition: Callable[[Job], bool]) -> Job:
    """Polls as a page would; the deadline is far beyond anything a busy machine needs."""
    for _ in range(25_000):
        workspace.jobs.poll()
        found = workspace.jobs.find(job.id)
        if condition(found):
            return found
        time.sleep(0.02)
    raise AssertionError(f"job is still {found.state}: {found.error}\n{workspace.jobs.output(job.id)}")


def ended(workspace: Workspace, job: Job) -> Job:
    return until(workspace, job, lambda j: not j.active)


def pid_of(workspace: Workspace, job: Job) -> int:
    pid = read_status(workspace.path / "jobs" / job.id / "status")[0].pid
    assert pid is not None
    return pid


def has_ended(pid: int) -> bool:
    """Gone, or a number in the table that nobody has asked after; what it held is let go a moment before."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def gated(folder: Path, name: str = "one") -> dict[str, Any]:
    return {"name": name, "gate": str(folder / f"gate-{name}"), "starts": str(folder / "starts")}


def starts(folder: Path) -> list[str]:
    return [line.split()[0] for line in (folder / "starts").read_text().splitlines()]


def test_a_job_runs_detached_and_its_result_is_kept(workspace: Workspace, run: str) -> None:
    settings = {"seed": 1, "epochs": 4}
    job = ended(workspace, workspace.jobs.submit(run, settings, "epochs"))
    assert (job.state, job.error) == (JobState.DONE, "")
    assert job.progress is not None
    assert (job.progress.done, job.progress.total, job.progress.label) == (4, 4, "epoch 4")
    entry = workspace.latest_result(run, "epochs", settings)
    assert entry is not None
    assert job.result == entry.digest
    assert job.seconds > 0


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process can be read on Linux only")
def test_the_worker_is_in_a_session_of_its_own_niced_and_limited(workspace: Workspace, run: str, folder: Path) -> None:
    limits = ProcessLimits(memory_bytes=3 << 30, cpu_seconds=1000, file_bytes=1 << 30, niceness=7)
    job = workspace.jobs.submit(run, gated(folder), "gated", limits=limits)
    until(workspace, job, lambda j: j.progress is not None)
    worker = psutil.Process(pid_of(workspace, job))
    assert os.getsid(worker.pid) == worker.pid != os.getsid(0)
    assert worker.nice() >= 7
    share = Path(f"/proc/{worker.pid}/autogroup")
    assert not share.exists() or share.read_text().split()[-1] == "7", "its session steps back as a whole"
    assert worker.rlimit(psutil.RLIMIT_DATA)[0] == 3 << 30
    assert worker.rlimit(psutil.RLIMIT_CPU)[0] == 1000
    assert worker.rlimit(psutil.RLIMIT_FSIZE)[0] == 1 << 30


def test_the_same_question_is_one_job(workspace: Workspace, run: str, folder: Path) -> None:
    settings = gated(folder)
    first = workspace.jobs.submit(run, settings, "gated")
    second = workspace.jobs.submit(run, dict(reversed(settings.items())), "gated")
    assert first.id == second.id
    Path(settings["gate"]).touch()
    ended(workspace, first)
    assert workspace.jobs.submit(run, settings, "gated").state is JobState.DONE, "done is done"
    assert starts(folder) == ["one"]
    again = workspace.jobs.submit(run, settings, "gated", recompute=True)
    assert ended(workspace, again).attempt == 2
    assert starts(folder) == ["one", "one"]


def test_jobs_wait_their_turn_and_the_next_one_starts_without_a_poll(
    workspace: Workspace, run: str, folder: Path
) -> None:
    first, second, third = (workspace.jobs.submit(run, gated(folder, n), "gated") for n in ("a", "b", "c"))
    until(workspace, first, lambda j: j.progress is not None)
    assert [workspace.jobs.find(j.id).queue_position for j in (first, second, third)] == [None, 1, 2]
    workspace.jobs.cancel(second.id)
    (folder / "gate-a").touch()
    while workspace.jobs.find(third.id).progress is None:  # reading only: the first worker must start it
        time.sleep(0.02)
    assert workspace.jobs.find(first.id).state is JobState.DONE
    (folder / "gate-c").touch()
    assert ended(workspace, third).state is JobState.DONE
    assert starts(folder) == ["a", "c"]


def test_two_may_run_at_once_when_allowed(folder: Path, bundle: Path) -> None:
    with Workspace(folder / "workspace", runners=ALL, concurrent_jobs=2) as workspace:
        run = workspace.add_run(bundle).digest
        jobs = [workspace.jobs.submit(run, gated(folder, n), "gated") for n in ("a", "b", "c")]
        for job in jobs[:2]:
            until(workspace, job, lambda j: j.progress is not None)
        assert workspace.jobs.find(jobs[2].id).state is JobState.QUEUED
        for name in ("a", "b", "c"):
            (folder / f"gate-{name}").touch()
        assert {ended(workspace, job).state for job in jobs} == {JobState.DONE}


def test_a_killed_worker_s_job_is_lost_and_resumes_after_its_last_epoch(
    workspace: Workspace, run: str, folder: Path
) -> None:
    settings = {"seed": 5, "epochs": 6, "gate": str(folder / "gate"), "gate_at": 4}
    settings["acknowledged"] = str(folder / "acks")
    job = workspace.jobs.submit(run, settings, "epochs")
    running = until(workspace, job, lambda j: j.progress is not None and j.progress.done == 3)
    os.kill(pid_of(workspace, running), signal.SIGKILL)
    lost = ended(workspace, job)
    assert lost.state is JobState.LOST
    assert "at 3 of 6" in lost.error
    assert "resume" in lost.error
    (folder / "gate").touch()
    done = ended(workspace, workspace.jobs.resume(job.id))
    assert (done.state, done.attempt) == (JobState.DONE, 2)
    assert (folder / "acks").read_text().split() == ["1", "2", "3", "4", "5", "6"], "no epoch was computed twice"


def test_a_zombie_is_not_alive(workspace: Workspace, run: str, folder: Path) -> None:
    """Nobody reaps the worker here: its process number stays in the table, its lock does not."""
    job = workspace.jobs.submit(run, gated(folder), "gated")
    until(workspace, job, lambda j: j.progress is not None)
    pid = pid_of(workspace, job)
    os.kill(pid, signal.SIGKILL)
    while workspace.jobs.find(job.id).state is not JobState.LOST:  # reading only, which reaps nothing
        time.sleep(0.01)
    wait_until(lambda: has_ended(pid), "the last of the process")
    assert psutil.pid_exists(pid)


def test_a_stranger_with_the_old_process_number_is_neither_seen_nor_killed(
    workspace: Workspace, run: str, folder: Path
) -> None:
    job = workspace.jobs.submit(run, gated(folder), "gated")
    until(workspace, job, lambda j: j.progress is not None)
    os.kill(pid_of(workspace, job), signal.SIGKILL)
    ended(workspace, job)
    stranger = subprocess.Popen(
        python_command("-c", "input()"), stdin=subprocess.PIPE, start_new_session=True, env=child_environment()
    )
    try:
        status = StatusFile.claim(workspace.path / "jobs" / job.id / "status", workspace._disk)
        assert status is not None
        status.write(JobStatus(attempt=1, pid=stranger.pid))
        status.close()
        with workspace._index.write() as transaction:
            transaction.execute("UPDATE jobs SET state = 'running'")
        assert workspace.jobs.find(job.id).state is JobState.LOST
        workspace.jobs.cancel(job.id)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
        assert stranger.stdin is not None
        stranger.stdin.close()


def test_cancel_ends_the_worker_and_all_it_started(workspace: Workspace, run: str, folder: Path) -> None:
    settings = {"gate": str(folder / "gate"), "child": str(folder / "child")}
    job = workspace.jobs.submit(run, settings, "greedy")
    until(workspace, job, lambda j: j.progress is not None)
    child, worker = int((folder / "child").read_text()), pid_of(workspace, job)
    cancelled = workspace.jobs.cancel(job.id)
    assert (cancelled.state, cancelled.error) == (JobState.CANCELLED, "cancelled by request")
    for pid in (child, worker):
        wait_until(lambda pid=pid: has_ended(pid), "the last of a killed process")
    (folder / "gate").touch()
    assert ended(workspace, workspace.jobs.resume(job.id)).state is JobState.DONE


def test_a_waiting_job_is_cancelled_and_never_starts(workspace: Workspace, run: str, folder: Path) -> None:
    first = workspace.jobs.submit(run, gated(folder, "a"), "gated")
    second = workspace.jobs.submit(run, gated(folder, "b"), "gated")
    assert workspace.jobs.cancel(second.id).state is JobState.CANCELLED
    (folder / "gate-a").touch()
    ended(workspace, first)
    workspace.jobs.poll()
    assert starts(folder) == ["a"]
    assert workspace.jobs.submit(run, gated(folder, "b"), "gated").active, "asked again, it is queued again"


@pytest.mark.parametrize(
    ("how", "state", "words"),
    [
        ("cost", JobState.REFUSED_COST, "2^40 evaluations. Offered instead: the surrogate"),
        ("settings", JobState.FAILED, "k = -1 is outside 0..1"),
        ("bug", JobState.FAILED, "ZeroDivisionError: a fault of the program"),
        ("killed", JobState.LOST, "ended without a word at 1 of 3"),
    ],
)
def test_every_end_has_a_name(workspace: Workspace, run: str, how: str, state: JobState, words: str) -> None:
    job = ended(workspace, workspace.jobs.submit(run, {"how": how}, "failing"))
    assert job.state is state
    assert words in job.error
    assert job.resumable
    assert job.progress is not None
    assert job.progress.done == 1
    assert ("Traceback" in workspace.jobs.output(job.id)) == (how == "bug")


def test_the_memory_ceiling_ends_a_job_by_name(workspace: Workspace, run: str) -> None:
    limits = ProcessLimits(memory_bytes=1 << 30)
    job = workspace.jobs.submit(run, {"how": "memory", "bytes": 2 << 30}, "failing", limits=limits)
    job = ended(workspace, job)
    assert (job.state, "memory limit" in job.error) == (JobState.FAILED, True)


def test_the_ceiling_of_cpu_time_ends_a_job_by_name(workspace: Workspace, run: str) -> None:
    job = workspace.jobs.submit(run, {"how": "cpu"}, "failing", limits=ProcessLimits(cpu_seconds=2))
    job = ended(workspace, job)
    assert (job.state, "2 s CPU time" in job.error) == (JobState.FAILED, True)


def test_the_file_size_ceiling_pauses_a_job(workspace: Workspace, run: str) -> None:
    limits = ProcessLimits(file_bytes=1 << 20)
    job = workspace.jobs.submit(run, {"how": "file size", "bytes": 2 << 20}, "failing", limits=limits)
    job = ended(workspace, job)
    assert job.state is JobState.PAUSED_NO_SPACE
    assert "resume" in job.error
    assert list((workspace.path / "incoming").iterdir()) == []


def test_jobs_survive_the_loss_of_the_index(workspace: Workspace, run: str, folder: Path) -> None:
    finished = ended(workspace, workspace.jobs.submit(run, {"seed": 1, "epochs": 2}, "epochs"))
    cancelled = workspace.jobs.submit(run, gated(folder, "a"), "gated")
    until(workspace, cancelled, lambda j: j.progress is not None)
    workspace.jobs.cancel(cancelled.id)
    running = workspace.jobs.submit(run, gated(folder, "b"), "gated")
    waiting = workspace.jobs.submit(run, gated(folder, "c"), "gated")
    until(workspace, running, lambda j: j.progress is not None)
    before = {job.id: job.state for job in workspace.jobs.list()}
    workspace.close()
    (workspace.path / "index.sqlite").unlink()
    with Workspace(workspace.path, runners=ALL) as mended:
        assert {job.id: job.state for job in mended.jobs.list()} == before
        assert mended.jobs.find(finished.id).result == finished.result
        for name in ("b", "c"):
            (folder / f"gate-{name}").touch()
        assert {ended(mended, job).state for job in (running, waiting)} == {JobState.DONE}


def test_a_run_is_not_deleted_under_a_job(workspace: Workspace, run: str, folder: Path) -> None:
    job = workspace.jobs.submit(run, gated(folder), "gated")
    with pytest.raises(WorkspaceError, match="cancel its job"):
        workspace.delete_run(run)
    workspace.jobs.cancel(job.id)
    assert workspace.delete_run(run).jobs == 1
    assert workspace.jobs.list() == ()
    assert list((workspace.path / "jobs").iterdir()) == []


def test_unknown_runs_kinds_and_jobs_are_refused(workspace: Workspace, run: str) -> None:
    with pytest.raises(WorkspaceError, match="no run"):
        workspace.jobs.submit("0" * 64, {}, "epochs")
    with pytest.raises(WorkspaceError, match="no runner"):
        workspace.jobs.submit(run, {}, "os:system")
    with pytest.raises(WorkspaceError, match="no job"):
        workspace.jobs.cancel("0" * 32)


def test_what_is_stored_cannot_name_code(workspace: Workspace, run: str, folder: Path) -> None:
    """A process that was not told about a runner leaves its jobs alone, whatever their row says."""
    workspace.jobs.submit(run, gated(folder, "a"), "gated")
    waiting = workspace.jobs.submit(run, gated(folder, "b"), "gated")
    (folder / "gate-b").touch()
    with Workspace(workspace.path, concurrent_jobs=2) as stranger:
        stranger.jobs.poll()
        assert stranger.jobs.find(waiting.id).state is JobState.QUEUED


def test_settings_changed_in_the_index_are_noticed(workspace: Workspace, run: str) -> None:
    job = ended(workspace, workspace.jobs.submit(run, {"seed": 1, "epochs": 1}, "epochs"))
    with workspace._index.write() as transaction:
        transaction.execute("DROP TRIGGER log_is_never_edited")
        transaction.execute("""UPDATE log SET entry = replace(entry, '"seed":1', '"seed":2')""")
    with pytest.raises(DamagedIndex, match="open the workspace again"):
        workspace.jobs.find(job.id)
    with Workspace(workspace.path, runners=ALL) as mended:
        assert mended.jobs.find(job.id).settings == {"seed": 1, "epochs": 1}
        assert mended.log.entries("index-rebuilt")


def test_a_status_is_read_whole_while_it_is_overwritten(workspace: Workspace, folder: Path) -> None:
    path = folder / "status"
    StatusFile.create(path, workspace._staging)
    status = StatusFile.claim(path, workspace._disk)
    assert status is not None
    assert StatusFile.claim(path, workspace._disk) is None, "one holder at a time"
    for number in range(1, 6):
        progress = Progress(number, 9, "x" * 10_000, 1.0, 0, 0.0)
        status.write(JobStatus(attempt=number, progress=progress, error="é" * 5000))
        found, alive = read_status(path)
        assert (found.attempt, alive) == (number, True)
    content = path.read_bytes()
    torn = bytearray(content)
    torn[8192 + 30] ^= 0xFF  # the newest slot (the sixth update lies in the second) is being overwritten just now
    path.write_bytes(torn)
    assert read_status(path)[0].attempt == 4
    assert len(content) == path.stat().st_size == 2 * 8192
    status.close()
    assert read_status(path)[1] is False


def test_the_time_left_follows_the_pace_of_this_attempt() -> None:
    assert Progress(30, 50, "", seconds=12.0, first_done=20, first_seconds=2.0).seconds_left == pytest.approx(20.0)
    assert Progress(20, 50, "", seconds=2.0, first_done=20, first_seconds=2.0).seconds_left is None


def test_a_part_of_the_work_that_begins_anew_has_a_pace_of_its_own(workspace: Workspace, folder: Path) -> None:
    """How quickly twenty epochs were measured says nothing about how long twelve take to compute."""
    path = folder / "status"
    StatusFile.create(path, workspace._staging)
    status = StatusFile.claim(path, workspace._disk)
    assert status is not None
    account = StatusReporter(status, 1)
    for done in (0, 19):
        account.on_progress(done, 20, "measuring")
    for done in (0, 1):
        account.on_progress(done, 12, f"epoch {done}")
        assert account.current.progress is not None
        assert account.current.progress.first_done == 0
        assert account.current.progress.first_seconds > 0
    assert account.current.progress is not None
    first = account.current.progress.first_seconds
    account.on_progress(2, 12, "epoch 2")
    assert account.current.progress.first_seconds == first, "one part goes on"
    status.close()
