"""One SQLite index for several processes and threads.

WAL with synchronous FULL: what was committed is on disk, readers never wait for a writer. Every write holds a shared
lock on ``index.lock``; whoever replaces the file holds it exclusively, so no write can go to a file that was just moved
away. Where nothing can be written, reading goes on and ``impaired`` says why.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.workspace.disk import Disk
from flcontrib_core.workspace.faults import DamagedIndex, NoSpaceLeft, ReadOnlyWorkspace, gone, storage_faults
from flcontrib_core.workspace.index_file import (
    IndexFile,
    Transaction,
    connect,
    connect_without_writing,
    database_files,
)
from flcontrib_core.workspace.schema import VERSION


@dataclass(frozen=True)
class _Held:
    """An open connection, and what must stay as it is on disk for it to be the right one."""

    connection: sqlite3.Connection
    state: object
    copy: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        self.connection.close()
        if self.copy is not None:
            self.copy.cleanup()


_left_to_parent: list[_Held] = []
"""Connections inherited through a fork: closing them here would disturb the parent that still uses them."""


class Index:
    """Reads and transactions on the index of a workspace, from any thread."""

    def __init__(self, file: IndexFile, disk: Disk) -> None:
        self.path = file.path
        self.impaired: NoSpaceLeft | ReadOnlyWorkspace | None = None
        """Why nothing can be written at present; reading goes on."""
        self._file = file
        self._disk = disk
        self._lock_file: int | None = None
        self._owner = os.getpid()
        self._writing = threading.RLock()
        self._transacting: int | None = None
        """The thread that is inside a transaction."""
        self._writer: _Held | None = None
        self._reading = threading.RLock()
        self._reader: _Held | None = None

    def open(self) -> None:
        """Brings the file into today's shape. Raises WorkspaceError for an index of a newer version."""
        try:
            with self._writing, storage_faults(self.path):
                with self._file_lock(fcntl.LOCK_SH):
                    trouble = self._file.trouble()
                if trouble is not None:
                    with self._file_lock(fcntl.LOCK_EX):
                        self._file.mend()
                if not os.access(self.path.parent, os.W_OK):
                    raise ReadOnlyWorkspace(f"{self.path.parent}: the folder is read-only; it can be read, not changed")
        except (NoSpaceLeft, ReadOnlyWorkspace) as fault:
            if not self.path.exists():
                raise
            self.impaired = fault
        else:
            self.impaired = None

    def read(self, statement: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Rows as of the last commit of whichever process; a damaged file is mended first, once."""
        try:
            return self._rows(statement, parameters)
        except DamagedIndex:
            if self._transacting == threading.get_ident():  # the file cannot be replaced under our own transaction
                raise
            self.open()
            return self._rows(statement, parameters)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """A transaction that is durable when the block has ended, and left no trace when the block raised."""
        with self._writing:
            if self.impaired is not None:
                self.open()  # perhaps by now there is space again
            if self.impaired is not None:
                raise self.impaired
            with storage_faults(self.path), self._file_lock(fcntl.LOCK_SH):
                connection = self._writing_connection()
                connection.execute("BEGIN IMMEDIATE")
                transaction = Transaction(connection)
                self._transacting = threading.get_ident()
                try:
                    yield transaction
                    self._disk.commit(connection)
                    for action in transaction.actions:
                        action()
                except BaseException:  # raised again, whatever it is
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                finally:
                    self._transacting = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody is inside a transaction, or between its commit and what follows it, for the length of the block."""
        with self._writing, storage_faults(self.path), self._file_lock(fcntl.LOCK_EX):
            yield

    def close(self) -> None:
        """Lets go of the file; the next call opens it again."""
        with self._writing, self._reading:
            self._forget_what_was_forked()
            for held in (self._writer, self._reader):
                if held is not None:
                    held.close()
            self._writer = self._reader = None
            if self._lock_file is not None:
                os.close(self._lock_file)
                self._lock_file = None

    def _rows(self, statement: str, parameters: Sequence[Any]) -> list[sqlite3.Row]:
        with self._reading, storage_faults(self.path):
            return self._reading_connection().execute(statement, parameters).fetchall()

    @contextmanager
    def _file_lock(self, kind: int) -> Iterator[None]:
        self._forget_what_was_forked()
        if self._lock_file is None:
            try:
                self._lock_file = os.open(self.path.with_name("index.lock"), os.O_RDWR | os.O_CREAT, 0o600)
            except OSError:
                if not self.path.exists():
                    raise
                yield  # whoever cannot make the lock cannot write either: there is nothing to guard against
                return
        fcntl.flock(self._lock_file, kind)
        try:
            yield
        finally:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    def _writing_connection(self) -> sqlite3.Connection:
        if self._writer is not None and self._writer.state != _identity(self.path):
            self._writer.close()
            self._writer = None
        if self._writer is None:
            self._refuse_missing()
            self._writer = _Held(connect(self.path), _identity(self.path))
        schema_version = self._writer.connection.execute("PRAGMA user_version").fetchone()[0]
        if schema_version != VERSION:
            raise WorkspaceError(
                f"{self.path} was taken over by another version (schema {schema_version}); start again"
            )
        return self._writer.connection

    def _reading_connection(self) -> sqlite3.Connection:
        self._forget_what_was_forked()
        if self._reader is not None and self._reader.state != self._state(self._reader.copy):
            self._reader.close()
            self._reader = None
        if self._reader is None:
            self._refuse_missing()
            self._reader = self._new_reader()
            self._reader.connection.execute("PRAGMA query_only = ON")
        return self._reader.connection

    def _new_reader(self) -> _Held:
        try:
            if self.impaired is not None:
                raise self.impaired
            connection = connect(self.path)
            connection.execute("SELECT count(*) FROM log").fetchone()
            return _Held(connection, self._state(None))
        except (sqlite3.OperationalError, NoSpaceLeft, ReadOnlyWorkspace):
            connection, copy = connect_without_writing(self.path)
            return _Held(connection, self._state(copy), copy)

    def _refuse_missing(self) -> None:
        """A lost index is rebuilt from the files; where they are gone too, nobody makes an empty one in their place."""
        if not self.path.exists():
            if not self.path.with_name("log").is_dir():
                raise gone(self.path.parent)
            raise DamagedIndex(f"{self.path} is missing; open the workspace again to rebuild it")

    def _state(self, copy: object) -> object:
        """The file's identity; where a copy is read, also its content's."""
        if copy is None:
            return _identity(self.path)
        return [_identity(path, content=True) for path in database_files(self.path)[:2]]

    def _forget_what_was_forked(self) -> None:
        if self._owner != os.getpid():
            _left_to_parent.extend(held for held in (self._writer, self._reader) if held is not None)
            self._writer = self._reader = self._lock_file = None
            self._owner = os.getpid()


def _identity(path: Path, content: bool = False) -> object:
    """Which file stands at this path (and, where its content matters, in which state)."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return (status.st_dev, status.st_ino, *((status.st_size, status.st_mtime_ns) if content else ()))


def conditions(**columns: str | None) -> tuple[str, tuple[str, ...]]:
    """What follows WHERE for the columns that are given, and its parameters.

    SQLite finds rows of one run by an index where it is asked for ``run = ?``, and reads every entry of its log where
    it is asked for ``? IS NULL OR run = ?``.
    """
    given = {name: value for name, value in columns.items() if value is not None}
    return " AND ".join(f"{name} = ?" for name in given) or "TRUE", tuple(given.values())
