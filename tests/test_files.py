"""A file that leaves is whole or the one that was there before, whatever breaks it off."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flcontrib_core import files
from flcontrib_core.errors import FileNotWritten
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.files import make_folder, require_writable, write_atomic
from tests.workspace.recorded import scratch_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder() as path:
        yield path


def test_the_file_is_replaced_and_nothing_is_left_beside_it(folder: Path) -> None:
    target = folder / "report.html"
    assert write_atomic(target, "é") == target
    write_atomic(str(target), b"second")
    assert target.read_bytes() == b"second"
    assert os.listdir(folder) == ["report.html"]


def test_the_rights_are_those_of_any_new_file_or_of_the_one_replaced(folder: Path) -> None:
    (folder / "plain").write_text("as the shell would make it")
    write_atomic(folder / "new", b"")
    assert (folder / "new").stat().st_mode == (folder / "plain").stat().st_mode
    (folder / "plain").chmod(0o640)
    write_atomic(folder / "plain", b"")
    assert stat.S_IMODE((folder / "plain").stat().st_mode) == 0o640


def test_a_link_stays_a_link(folder: Path) -> None:
    (folder / "here").mkdir()
    (folder / "link").symlink_to(folder / "here" / "real")
    write_atomic(folder / "link", b"content")
    assert (folder / "link").is_symlink()
    assert (folder / "here" / "real").read_bytes() == b"content"


def test_a_device_is_written_to(folder: Path) -> None:
    write_atomic("/dev/null", b"content")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("call", ["sync", "replace"])
def test_a_failure_keeps_the_old_file_and_has_a_name(folder: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = folder / "report.json"
    write_atomic(target, b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((files, "sync") if call == "sync" else (os, "replace")), full)
    with pytest.raises(FileNotWritten, match=r"report.json cannot be written: No space left.*unchanged"):
        write_atomic(target, b"new")
    assert target.read_bytes() == b"old"
    assert os.listdir(folder) == ["report.json"]


def test_a_folder_that_is_not_there_has_a_name(folder: Path) -> None:
    with pytest.raises(FileNotWritten, match="No such file"):
        write_atomic(folder / "missing" / "report.html", b"")


WRITER = """
import sys
from flcontrib_core.files import write_atomic
print("begun", flush=True)
for number in range(10_000):
    write_atomic(sys.argv[1], str(number % 10).encode() * 300_000)
"""


def test_a_kill_at_any_moment_leaves_a_whole_file(folder: Path) -> None:
    target = folder / "report.html"
    for kill in range(12):
        command = python_command("-c", WRITER, str(target))
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, env=child_environment())
        assert writer.stdout is not None
        writer.stdout.readline()
        while not target.exists():
            assert writer.poll() is None
        first = target.stat().st_ino
        for _ in range(kill):  # after so many replacements
            while target.stat().st_ino == first:
                assert writer.poll() is None
            first = target.stat().st_ino
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        content = target.read_bytes()
        assert len(content) == 300_000
        assert len(set(content)) == 1
        target.unlink()


def test_a_folder_that_cannot_be_made_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotWritten, match="cannot be made"):
        make_folder(tmp_path / "file" / "folder")
    assert make_folder(tmp_path / "a" / "b").is_dir()


def test_where_nothing_can_be_written_is_said_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_writable(tmp_path / "new" / "run")
    require_writable(tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / "notes.txt").write_text("text")
    with pytest.raises(FileNotWritten, match=r"notes.txt is a file, and no folder can stand in it"):
        require_writable(tmp_path / "notes.txt" / "run")
    monkeypatch.setattr(os, "access", lambda place, mode: str(place) != str(tmp_path))  # the tests may run as root
    with pytest.raises(FileNotWritten, match="no permission to write"):
        require_writable(tmp_path / "new" / "run")
