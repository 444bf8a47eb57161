"""A full disk and a read-only folder end in named states; what is there can still be read."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.workspace import Job, JobState, NoSpaceLeft, ReadOnlyWorkspace, Workspace
from flcontrib_core.workspace.index import Index
from flcontrib_core.workspace.jobs import _children
from tests.workspace.forked import forked, joined
from tests.workspace.recorded import bundle_run, scratch_folder
from tests.workspace.runners import ALL

READER = """
import sys
from flcontrib_core.workspace import Workspace
with Workspace(sys.argv[1]) as workspace:
    (run,) = workspace.runs()
    print(run.name, workspace.open_run(run.digest).epoch_count, len(workspace.results()), workspace.verify_chain())
    print([job.state.value for job in workspace.jobs.poll()], type(workspace.impaired).__name__)
"""


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A real file system of 3 MB."""
    with scratch_folder() as folder:
        place = folder / "disk"
        place.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], capture_output=True, check=False
        )
        if mounted.returncode != 0:
            pytest.skip("needs the right to mount a small disk")
        try:
            yield place
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> Path:
    """Takes every last byte of a disk."""
    ballast = place / "ballast"
    with ballast.open("ab", buffering=0) as out:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    out.write(bytes(size))
            except OSError:
                continue
    return ballast


def ended(workspace: Workspace, job: Job) -> Job:
    while workspace.jobs.find(job.id).active:
        time.sleep(0.02)
        workspace.jobs.poll()
    while _children:  # its process, too: what it still holds open would free space when it ends
        time.sleep(0.02)
        workspace.jobs.poll()
    return workspace.jobs.find(job.id)


def test_a_job_on_a_full_disk_pauses_and_goes_on_when_there_is_space(small_disk: Path, folder: Path) -> None:
    bundle = bundle_run(folder / "run")
    settings = {"seed": 4, "epochs": 12, "numbers": 8_000}
    with Workspace(folder / "roomy", runners=ALL) as workspace:
        run = workspace.add_run(bundle, "a run").digest
        expected = ended(workspace, workspace.jobs.submit(run, settings, "epochs")).result
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2_300_000))
    with Workspace(small_disk / "workspace", runners=ALL) as workspace:
        workspace.add_run(bundle, "a run")
        job = ended(workspace, workspace.jobs.submit(run, settings, "epochs"))
        assert job.state is JobState.PAUSED_NO_SPACE
        assert "Free some space" in job.error
        assert job.progress is not None
        finished = job.progress.done
        assert 0 < finished < 12
        ballast.unlink()
        workspace.jobs.resume(job.id)
        done = ended(workspace, job)
        assert (done.state, done.attempt, done.result) == (JobState.DONE, 2, expected)
        assert workspace.verify_chain() is None


def test_a_disk_without_a_byte_left_can_be_read_by_a_new_process(small_disk: Path, folder: Path) -> None:
    with Workspace(small_disk / "workspace", runners=ALL) as workspace:
        run = workspace.add_run(bundle_run(folder / "run"), "a run").digest
        workspace.store_result(run, {}, "note", {"n": 1})
        ended(workspace, workspace.jobs.submit(run, {"seed": 1, "epochs": 2}, "epochs"))
    ballast = fill(small_disk)
    read = subprocess.run(
        python_command("-c", READER, str(small_disk / "workspace")),
        capture_output=True,
        text=True,
        check=False,
        env=child_environment(),
    )
    assert read.stdout.splitlines() == ["a run 3 2 None", "['done'] NoSpaceLeft"], read.stderr
    with Workspace(small_disk / "workspace") as workspace:
        assert isinstance(workspace.impaired, NoSpaceLeft)
        for attempt in (
            lambda: workspace.store_result(run, {"x": 1}, "note", {"v": np.zeros(100_000)}),
            lambda: workspace.checkpoints().keep("aa" * 32, {"v": np.zeros(10)}),
            lambda: workspace.utility_memory().keep_epoch("aa" * 32, {b"\x01": np.zeros(2)}),
            lambda: workspace.add_run(bundle_run(folder / "other", seed=9)),
            lambda: workspace.jobs.submit(run, {"seed": 2, "epochs": 2}, "audit"),
        ):
            with pytest.raises(NoSpaceLeft, match="Free some space"):
                attempt()
        ballast.unlink()
        workspace.store_result(run, {"x": 1}, "note", {})
        assert workspace.impaired is None, "space came back and the workspace noticed by itself"
        assert workspace.verify_chain() is None


def test_the_last_word_of_a_job_needs_no_space(small_disk: Path, folder: Path) -> None:
    """The index cannot take the state of a job that found the disk full; its status file can, for any reader."""
    with Workspace(small_disk / "workspace", runners=ALL) as workspace:
        run = workspace.add_run(bundle_run(folder / "run"), "a run").digest
        settings = {"seed": 1, "epochs": 4, "gate": str(folder / "gate"), "gate_at": 3}
        job = workspace.jobs.submit(run, settings, "epochs")
        while (progress := workspace.jobs.find(job.id).progress) is None or progress.done < 2:
            time.sleep(0.01)
        ballast = fill(small_disk)
        (folder / "gate").touch()
        while (found := workspace.jobs.find(job.id)).active:
            time.sleep(0.02)
        assert found.state is JobState.PAUSED_NO_SPACE
        ballast.unlink()
        workspace.jobs.resume(job.id)
        assert ended(workspace, job).state is JobState.DONE


def as_somebody_else(action: Callable[[], None]) -> None:
    """Runs in a child that has no right to write (root may write anywhere, so it becomes nobody)."""

    def without_rights() -> None:
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        action()

    joined([forked(without_rights)])


def open_to_all(folder: Path, writable: bool) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod((0o755 if writable else 0o555) if path.is_dir() else (0o644 if writable else 0o444))


@pytest.mark.parametrize("left_behind", [False, True], ids=["closed", "with a write-ahead log of a killed process"])
def test_a_read_only_workspace_is_read_and_says_why_nothing_can_be_written(folder: Path, left_behind: bool) -> None:
    folder.chmod(0o755)
    path = folder / "workspace"
    writer = Workspace(path, runners=ALL)
    run = writer.add_run(bundle_run(folder / "run"), "a run").digest
    writer.store_result(run, {}, "note", {"n": 1, "v": np.arange(3.0)})
    writer.checkpoints().keep("aa" * 32, {"v": np.ones(2)})
    writer.utility_memory().keep_epoch("aa" * 32, {b"\x01": np.ones(2)})
    ended(writer, writer.jobs.submit(run, {"seed": 1, "epochs": 1}, "epochs"))
    if left_behind:
        (path / "index.sqlite-shm").unlink()  # gone after a restart of the machine; the log itself is still there
        assert (path / "index.sqlite-wal").stat().st_size > 0
    else:
        writer.close()
    open_to_all(path, writable=False)

    def look() -> None:
        with Workspace(path, runners=ALL) as workspace:
            assert isinstance(workspace.impaired, ReadOnlyWorkspace)
            assert [r.name for r in workspace.runs()] == ["a run"]
            assert workspace.open_run(run).epoch_count == 3
            entry = workspace.latest_result(run, "note")
            assert entry is not None
            assert workspace.load_result(entry)["v"].tolist() == [0, 1, 2]
            assert workspace.checkpoints().recall("aa" * 32) is not None
            assert len(workspace.utility_memory().recall_epoch("aa" * 32)) == 1
            assert [job.state for job in workspace.jobs.poll()] == [JobState.DONE]
            assert workspace.verify_chain() is None
            for attempt in (
                lambda: workspace.store_result(run, {"x": 1}, "note", {}),
                lambda: workspace.checkpoints().keep("bb" * 32, {"v": np.zeros(1)}),
                lambda: workspace.utility_memory().keep_epoch("bb" * 32, {b"\x01": np.zeros(2)}),
                lambda: workspace.add_run([b"anything"], "new"),
                lambda: workspace.jobs.submit(run, {"seed": 2, "epochs": 1}, "epochs"),
                lambda: workspace.delete_run(run),
            ):
                with pytest.raises(ReadOnlyWorkspace):
                    attempt()

    try:
        as_somebody_else(look)
    finally:
        open_to_all(path, writable=True)


def test_a_new_workspace_in_a_read_only_folder_is_refused(folder: Path) -> None:
    folder.chmod(0o755)
    closed = folder / "closed"
    closed.mkdir(mode=0o555)

    def make() -> None:
        with pytest.raises(ReadOnlyWorkspace, match="choose another workspace"):
            Workspace(closed / "workspace")

    as_somebody_else(make)


def test_sqlite_s_own_complaint_of_a_full_disk_has_the_same_name(workspace: Workspace, bundle: Path) -> None:
    run = workspace.add_run(bundle).digest
    index: Index = workspace._index
    with index.write() as transaction:
        pages = transaction.execute("PRAGMA page_count")[0][0]
        transaction.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(NoSpaceLeft):
        workspace.store_result(run, {"long": "x" * 100_000}, "note", {})
    assert workspace.verify_chain() is None
    with index.write() as transaction:
        transaction.execute("PRAGMA max_page_count = 1000000")
    assert workspace.store_result(run, {"long": "x" * 100_000}, "note", {}).available
