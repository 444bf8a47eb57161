"""Which calls change what is on disk?

Everything the workspace writes goes through one ``Disk``: the short list of system calls below (SQLite's own writes
excepted, whose commits pass here too). Tests put a failing or dying disk in its place and try every call in turn.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

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
        files.sync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def commit(self, connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    def sync_folder(self, folder: Path) -> None:
        """Makes names that were added to or taken from a folder survive a power cut."""
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            self.sync(descriptor)
        finally:
            os.close(descriptor)

    def make_folder(self, folder: Path) -> None:
        """Creates the folder and its missing parents, durably."""
        missing = [p for p in (folder, *folder.parents) if not p.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
            self.sync_folder(path.parent)


class Staged:
    """A complete, synced file without a name; gone at the end of its ``with`` block unless it was placed."""

    def __init__(self, path: Path, sha256: str, descriptor: int) -> None:
        self.path = path
        self.sha256 = sha256
        self.size = os.fstat(descriptor).st_size
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self._descriptor)


class Staging:
    """Files on their way in: written aside, synced, then moved under their name in one step.

    A staged file is locked by the process that writes it, so ``sweep`` can tell what a dead process left behind.
    """

    _numbers = itertools.count()

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder = folder
        self.disk = disk

    def stage(self, chunks: Iterable[bytes]) -> Staged:
        """Writes and syncs; on any failure nothing is left."""

        def fill(descriptor: int) -> str:
            digest = hashlib.sha256()
            for chunk in chunks:
                self.disk.write(descriptor, chunk)
                digest.update(chunk)
            return digest.hexdigest()

        return self._stage(fill)

    def stage_file(self, write: Callable[[BinaryIO], None]) -> Staged:
        """Like ``stage``, for a writer that needs to seek in its file."""

        def fill(descriptor: int) -> str:
            with os.fdopen(os.dup(descriptor), "w+b") as file:
                write(file)
                file.flush()
                file.seek(0)
                return hashlib.file_digest(file, "sha256").hexdigest()

        return self._stage(fill)

    def place(self, staged: Staged, target: Path) -> None:
        """Gives the staged file its name, durably; an equal or damaged file of that name is replaced."""
        self.disk.make_folder(target.parent)
        self.disk.rename(staged.path, target)
        self.disk.sync_folder(target.parent)

    def write_file(self, target: Path, content: bytes) -> None:
        """A small file in one step: whole or not there."""
        with self.stage([content]) as staged:
            self.place(staged, target)

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

    def _stage(self, fill: Callable[[int], str]) -> Staged:
        path, descriptor = self._new_file()
        try:
            digest = fill(descriptor)
            os.fchmod(descriptor, 0o444)
            self.disk.sync(descriptor)
            return Staged(path, digest, descriptor)
        except BaseException:
            path.unlink(missing_ok=True)
            os.close(descriptor)
            raise

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
