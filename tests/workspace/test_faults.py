"""Every call that changes the disk fails, or is the last one before a crash: nothing acknowledged is ever lost."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.workspace import Workspace
from flcontrib_core.workspace.disk import Disk
from tests.workspace.recorded import bundle_run, scratch_folder
from tests.workspace.scenario import check_sound, run_scenario, what_holds


class CountingDisk(Disk):
    """Passes every call to ``on_call`` first; the base of the failing ones."""

    def __init__(self) -> None:
        self.calls = 0

    def on_call(self, data: tuple[int, bytes | memoryview] | None = None) -> None:
        self.calls += 1

    def write(self, descriptor: int, data: bytes | memoryview) -> None:
        self.on_call((descriptor, data))
        super().write(descriptor, data)

    def overwrite(self, descriptor: int, data: bytes, offset: int) -> None:
        self.on_call()
        super().overwrite(descriptor, data, offset)

    def sync(self, descriptor: int) -> None:
        self.on_call()
        super().sync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        self.on_call()
        super().truncate(descriptor, size)

    def rename(self, source: Path, target: Path) -> None:
        self.on_call()
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self.on_call()
        super().remove(path)

    def commit(self, connection: sqlite3.Connection) -> None:
        self.on_call()
        super().commit(connection)


class FailingDisk(CountingDisk):
    """The n-th call fails with an error of the system, once or from then on; writes fail half-way."""

    def __init__(self, at: int, code: int, for_good: bool) -> None:
        super().__init__()
        self.at, self.code, self.for_good = at, code, for_good

    def on_call(self, data: tuple[int, bytes | memoryview] | None = None) -> None:
        super().on_call(data)
        if self.calls == self.at or (self.for_good and self.calls > self.at):
            if data is not None:
                os.write(data[0], bytes(data[1])[: len(data[1]) // 2])
            raise OSError(self.code, os.strerror(self.code))


class DyingDisk(CountingDisk):
    """The process is killed just before the n-th call, or in the middle of it when it writes."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def on_call(self, data: tuple[int, bytes | memoryview] | None = None) -> None:
        super().on_call(data)
        if self.calls == self.at:
            if data is not None:
                os.write(data[0], bytes(data[1])[: len(data[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def bundles() -> Iterator[tuple[Path, Path]]:
    with scratch_folder() as folder:
        yield bundle_run(folder / "first"), bundle_run(folder / "second", seed=7, epochs=1)


@pytest.fixture(scope="module")
def unbroken(bundles: tuple[Path, Path]) -> tuple[dict[str, object], int]:
    """What an undisturbed scenario ends with, and how many calls it makes."""
    with scratch_folder() as folder:
        disk = CountingDisk()
        run_scenario(folder / "workspace", *bundles, lambda step: None, disk)
        with Workspace(folder / "workspace") as workspace:
            return what_holds(workspace), disk.calls


def assert_recovers(path: Path, bundles: tuple[Path, Path], steps: list[str], unbroken: dict[str, object]) -> None:
    check_sound(path, steps)
    run_scenario(path, *bundles, steps.append)
    check_sound(path, steps)
    with Workspace(path) as workspace:
        assert what_holds(workspace) == unbroken


def die_at(call: int, path: Path, bundles: tuple[Path, Path]) -> list[str]:
    """Runs the scenario in a child that is killed at one call; returns what it had acknowledged."""
    hears, says = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            run_scenario(path, *bundles, lambda step: os.write(says, step.encode() + b"\n") and None, DyingDisk(call))
        finally:
            os._exit(0)
    os.close(says)
    with os.fdopen(hears) as heard:
        steps = heard.read().splitlines()
    os.waitpid(child, 0)
    return steps


def fail_at(call: int, code: int, for_good: bool, path: Path, bundles: tuple[Path, Path]) -> list[str]:
    steps: list[str] = []
    try:
        run_scenario(path, *bundles, steps.append, FailingDisk(call, code, for_good))
    except WorkspaceError:
        return steps
    return steps


def places(calls: int, every: int) -> range:
    return range(1, calls + 2, every)


def crash_everywhere(unbroken: tuple[dict[str, object], int], bundles: tuple[Path, Path], every: int) -> None:
    expected, calls = unbroken
    died = 0
    for call in places(calls, every):
        with scratch_folder() as folder:
            steps = die_at(call, folder / "workspace", bundles)
            died += "deleted" not in steps
            assert_recovers(folder / "workspace", bundles, steps, expected)
    assert died >= len(places(calls, every)) - 2, "the calls were really reached"


def fail_everywhere(unbroken: tuple[dict[str, object], int], bundles: tuple[Path, Path], every: int) -> None:
    expected, calls = unbroken
    stopped = 0
    for number, call in enumerate(places(calls, every)):
        code = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS)[number % 4]
        with scratch_folder() as folder:
            steps = fail_at(call, code, bool(number % 2), folder / "workspace", bundles)
            stopped += "deleted" not in steps
            assert_recovers(folder / "workspace", bundles, steps, expected)
    assert stopped > len(places(calls, every)) // 2, "the calls were really reached"


def test_a_crash_at_any_call_loses_nothing_acknowledged(
    unbroken: tuple[dict[str, object], int], bundles: tuple[Path, Path]
) -> None:
    crash_everywhere(unbroken, bundles, every=13)


def test_a_failure_of_any_call_is_typed_and_loses_nothing(
    unbroken: tuple[dict[str, object], int], bundles: tuple[Path, Path]
) -> None:
    fail_everywhere(unbroken, bundles, every=13)


@pytest.mark.slow
def test_a_crash_at_every_single_call(unbroken: tuple[dict[str, object], int], bundles: tuple[Path, Path]) -> None:
    crash_everywhere(unbroken, bundles, every=1)


@pytest.mark.slow
def test_a_failure_of_every_single_call(unbroken: tuple[dict[str, object], int], bundles: tuple[Path, Path]) -> None:
    fail_everywhere(unbroken, bundles, every=1)


class WatchedDisk(Disk):
    """Checks the order that a power cut would test: content is synced before it is named, names before a commit."""

    def __init__(self) -> None:
        self.unsynced_files: set[tuple[int, int]] = set()
        self.unsynced_folders: set[tuple[int, int]] = set()
        self.named = self.committed = 0

    @staticmethod
    def identity(descriptor: int) -> tuple[int, int]:
        found = os.fstat(descriptor)
        return found.st_dev, found.st_ino

    def write(self, descriptor: int, data: bytes | memoryview) -> None:
        self.unsynced_files.add(self.identity(descriptor))
        super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        self.unsynced_files.discard(self.identity(descriptor))
        self.unsynced_folders.discard(self.identity(descriptor))

    def rename(self, source: Path, target: Path) -> None:
        found = source.stat()
        assert (found.st_dev, found.st_ino) not in self.unsynced_files, f"{target.name} is named before it is synced"
        super().rename(source, target)
        folder = target.parent.stat()
        self.unsynced_folders.add((folder.st_dev, folder.st_ino))
        self.named += 1

    def commit(self, connection: sqlite3.Connection) -> None:
        assert not self.unsynced_folders, "a row is committed before the file it points at has a durable name"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        super().commit(connection)
        self.committed += 1


def test_content_is_synced_before_it_is_named_and_named_before_it_is_committed(
    folder: Path, bundles: tuple[Path, Path]
) -> None:
    disk = WatchedDisk()
    run_scenario(folder / "workspace", *bundles, lambda step: None, disk)
    assert disk.named > 10
    assert disk.committed > 10
    assert not disk.unsynced_files
    assert not disk.unsynced_folders


SHIM = Path(__file__).with_name("failing_calls.c")


@pytest.fixture(scope="module")
def shim() -> Iterator[Path]:
    """The system's own calls, failing on demand – SQLite's included."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs Linux and a C compiler to fail the system's calls under SQLite")
    with scratch_folder() as folder:
        library = folder / "failing_calls.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SHIM, "-ldl"], check=True)
        yield library


def run_with_shim(
    library: Path, path: Path, bundles: tuple[Path, Path], at: int, how: str
) -> tuple[list[str], int, str, int]:
    counter = path.with_name("calls")
    environment = {
        **child_environment(),
        "LD_PRELOAD": str(library),
        "FAIL_UNDER": str(path),
        "FAIL_AT": str(at),
        "FAIL_HOW": how,
        "FAIL_COUNTER": str(counter),
    }
    command = python_command("-m", "tests.workspace.scenario", str(path), *map(str, bundles))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    calls = int(counter.read_text()) if counter.exists() else 0
    return done.stdout.splitlines(), done.returncode, done.stderr, calls


def fail_system_calls(shim: Path, bundles: tuple[Path, Path], expected: dict[str, object], samples: int) -> None:
    with scratch_folder() as folder:
        steps, code, errors, calls = run_with_shim(shim, folder / "workspace", bundles, at=0, how="never")
        assert (code, steps[-1]) == (0, "deleted"), errors
    assert calls > 200, "SQLite's own writes are counted too"
    hit = 0
    for number in range(samples):
        call = 1 + number * calls // samples
        how = ("no-space-for-good", "no-space-once", "input-output-once", "killed")[number % 4]
        with scratch_folder() as folder:
            steps, code, errors, _ = run_with_shim(shim, folder / "workspace", bundles, call, how)
            assert code in ((-signal.SIGKILL,) if how == "killed" else (0, 3)), f"call {call}, {how}: {errors}"
            hit += code != 0
            assert_recovers(folder / "workspace", bundles, steps, expected)
    assert hit > samples // 3


def test_failing_system_calls_under_sqlite_lose_nothing(
    shim: Path, bundles: tuple[Path, Path], unbroken: tuple[dict[str, object], int]
) -> None:
    fail_system_calls(shim, bundles, unbroken[0], samples=8)


@pytest.mark.slow
def test_failing_system_calls_everywhere_lose_nothing(
    shim: Path, bundles: tuple[Path, Path], unbroken: tuple[dict[str, object], int]
) -> None:
    fail_system_calls(shim, bundles, unbroken[0], samples=100)
