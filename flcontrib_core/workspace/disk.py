"""Every call that changes the disk, and files that appear under their name only when they are whole.

Everything the workspace writes goes through one ``Disk`` (SQLite's own writes excepted, whose commits pass here too).
Tests put a failing or dying disk in its place and try every call in turn.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from flcontrib_core import files


class Disk:
    """The calls whose failure or absence a crash can show."""

    def write(self, descriptor: int, data: bytes | memoryview) -> None:
        """All of ``data`` at the descriptor's position."""
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]

    def overwrite(self, descriptor: int, data: bytes, offset: int) -> None:
        """All of ``data`` in place: needs no new space on disk."""
        left = memoryview(data)
        while left:
            written = os.pwrite(descriptor, left, offset)
            left, offset = left[written:], offset + written

    def sync(self, descriptor: int) -> None:
        """Makes a file's content survive a power cut."""
        files.sync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Gives a file its name, in one step."""
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        """Takes a file away, if it is there."""
        path.unlink(missing_ok=True)

    def commit(self, connection: sqlite3.Connection) -> None:
        """Ends a transaction of the index."""
        connection.execute("COMMIT")

    def sync_file(self, path: Path) -> None:
        """Makes a file's content survive a power cut – or, of a folder, the names that were added or taken away."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            self.sync(descriptor)
        finally:
            os.close(descriptor)

    def settle(self, partial: Path, target: Path) -> None:
        """Gives a finished file its name, durably."""
        self.make_folder(target.parent)
        self.rename(partial, target)
        self.sync_file(target.parent)

    def make_folder(self, folder: Path) -> None:
        """Creates the folder and its missing parents, durably."""
        missing = [p for p in (folder, *folder.parents) if not p.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
            self.sync_file(path.parent)

    def set_aside(self, damaged: Path, quarantine: Path) -> Path:
        """Moves a file into quarantine under its own name, numbered when that name is taken."""
        taken = 0
        while (target := quarantine / (f"{damaged.name}.{taken}" if taken else damaged.name)).exists():
            taken += 1
        self.settle(damaged, target)
        return target


@dataclass(frozen=True)
class Staged:
    """A complete, synced file without a name."""

    path: Path
    sha256: str
    size: int


class Staging:
    """Files on their way in: written aside, synced, then moved under their name in one step.

    A staged file is locked by the process that writes it, so ``sweep`` can tell what a dead process left behind.
    """

    _numbers = itertools.count()

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder = folder
        self.disk = disk

    @contextmanager
    def stage(self, source: Iterable[bytes] | Callable[[BinaryIO], None]) -> Iterator[Staged]:
        """A whole file for the length of the block, from chunks or by a writer that seeks; then gone, unless named."""
        path, descriptor = self._new_file()
        try:
            digest = self._fill(descriptor, source)
            os.fchmod(descriptor, 0o444)
            self.disk.sync(descriptor)
            yield Staged(path, digest, os.fstat(descriptor).st_size)
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def write_file(self, target: Path, content: bytes) -> None:
        """A small file in one step: whole or not there."""
        with self.stage([content]) as staged:
            self.disk.settle(staged.path, target)

    def sweep(self) -> int:
        """Removes what dead processes left half written; returns how many files."""
        swept = 0
        for path in self.folder.glob("*.part"):
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
                swept += 1
            except BlockingIOError:
                pass  # its writer is alive
            finally:
                os.close(descriptor)
        return swept

    def _fill(self, descriptor: int, source: Iterable[bytes] | Callable[[BinaryIO], None]) -> str:
        if callable(source):
            with os.fdopen(os.dup(descriptor), "w+b") as file:
                source(file)
                file.flush()
                file.seek(0)
                return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256()
        for chunk in source:
            self.disk.write(descriptor, chunk)
            digest.update(chunk)
        return digest.hexdigest()

    def _new_file(self) -> tuple[Path, int]:
        while True:
            path = self.folder / f"{os.getpid()}-{next(self._numbers)}.part"
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:  # left by a dead process that had our number
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # a sweeper looked at it before we could lock it
                os.close(descriptor)
                continue
            if os.fstat(descriptor).st_nlink:
                return path, descriptor
            os.close(descriptor)
