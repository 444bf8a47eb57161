"""The database file as a whole: is it sound and of today's version, and how is it made so?

Damage (a failed integrity check, a changed schema, entries that their copies know otherwise) and an older version end
alike: the file is moved into quarantine and a new one built from the files of the workspace. A newer one is refused.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.workspace.disk import Disk
from flcontrib_core.workspace.faults import is_damage
from flcontrib_core.workspace.schema import APPLICATION_ID, SCHEMA, VERSION

_PATIENCE_SECONDS = 30.0
_SHARED_MEMORY = Path("/dev/shm")


class Transaction:
    """One all-or-nothing change; ``after_commit`` actions run once it is durable, before the writer is answered."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.actions: list[Callable[[], None]] = []

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Runs a statement and returns its rows."""
        return self._connection.execute(statement, parameters).fetchall()

    def after_commit(self, action: Callable[[], None]) -> None:
        """Something to do once the transaction has ended well."""
        self.actions.append(action)


Rebuild = Callable[[Transaction, str], None]
"""Fills an empty index from files; the text says why it had to be done."""
FindLoss = Callable[[Transaction], str | None]
"""What the index has lost against the files, if anything."""


def connect(path: Path) -> sqlite3.Connection:
    """A connection that commits durably and leaves transactions to its caller."""
    connection = _opened(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")
    return connection


def connect_without_writing(path: Path) -> tuple[sqlite3.Connection, tempfile.TemporaryDirectory[str] | None]:
    """Reads without writing a byte beside the file: directly where SQLite can, else from a copy elsewhere.

    SQLite needs a shared-memory file beside a database in WAL mode; in a read-only folder or on a full disk it may
    not be able to make one.
    """
    try:
        connection = _opened(f"file:{quote(str(path))}?mode=ro", uri=True)
        connection.execute("SELECT count(*) FROM log").fetchone()
        return connection, None
    except sqlite3.OperationalError:
        elsewhere = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
        copy = tempfile.TemporaryDirectory(dir=elsewhere, prefix="flcontrib-")
        for file in database_files(path)[:2]:
            if file.exists():
                shutil.copyfile(file, Path(copy.name) / file.name)
        return connect(Path(copy.name) / path.name), copy


def database_files(path: Path) -> tuple[Path, Path, Path]:
    """The file, its write-ahead log and its shared memory."""
    return path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")


class IndexFile:
    """The file as a whole. The caller holds the exclusive lock while it is mended."""

    def __init__(self, path: Path, quarantine: Path, disk: Disk, rebuild: Rebuild, find_loss: FindLoss) -> None:
        self.path = path
        self._quarantine = quarantine
        self._disk = disk
        self._rebuild = rebuild
        self._find_loss = find_loss

    def trouble(self) -> str | None:
        """None when the file can be used as it is, otherwise what is wrong with it."""
        if self._unfinished.exists():
            return "a rebuild was interrupted"
        if not self.path.exists():
            return "missing"
        try:
            connection = connect(self.path)
            try:
                return self._examine(connection)
            finally:
                connection.close()
        except sqlite3.DatabaseError as fault:
            if is_damage(fault):
                return str(fault)
            raise

    def mend(self) -> None:
        """Creates the file, or moves what is there into quarantine and builds it anew from the files."""
        trouble = self.trouble()  # again: another process may have mended it while we waited for the lock
        if trouble is None:
            return
        self._unfinished.touch()
        self._disk.sync_file(self.path.parent)
        moved = [self._disk.set_aside(old, self._quarantine) for old in database_files(self.path) if old.exists()]
        fresh = self.path.with_name("index.part")
        for leftover in database_files(fresh):
            leftover.unlink(missing_ok=True)
        connection = connect(fresh)
        try:
            connection.executescript(SCHEMA)
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("BEGIN IMMEDIATE")
            transaction = Transaction(connection)
            self._rebuild(transaction, f"{trouble}; the old file is {moved[0]}" if moved else trouble)
            self._disk.commit(connection)
        finally:
            connection.close()  # the last connection folds the write-ahead log into the file
        self._disk.sync_file(fresh)
        self._disk.settle(fresh, self.path)
        for action in transaction.actions:
            action()
        self._disk.remove(self._unfinished)
        self._disk.sync_file(self.path.parent)

    def _examine(self, connection: sqlite3.Connection) -> str | None:
        verdicts = [row[0] for row in connection.execute("PRAGMA integrity_check(3)")]
        if verdicts != ["ok"]:
            return f"integrity check: {'; '.join(verdicts)}"
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        schema = _schema(connection)
        if version == 0 and not schema:
            return "empty"
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise WorkspaceError(f"{self.path} is a database of another program; choose another workspace")
        if version > VERSION:
            raise WorkspaceError(
                f"{self.path} was written by a newer version (schema {version}, this one knows {VERSION}); "
                "upgrade flcontrib or choose another workspace"
            )
        if version < VERSION:
            return f"of an older version (schema {version}, this one writes {VERSION})"
        if schema != _expected_schema():
            return "the schema is not the one that was written"
        return self._find_loss(Transaction(connection))

    @property
    def _unfinished(self) -> Path:
        """Stands while the file is being replaced: whoever finds it starts over."""
        return self.path.with_name("index.rebuilding")


def _opened(where: Path | str, *, uri: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(where, _PATIENCE_SECONDS, isolation_level=None, check_same_thread=False, uri=uri)
    connection.row_factory = sqlite3.Row
    # Text of a damaged cell must reach the checks that name it, not end in a decoding error.
    connection.text_factory = lambda text: text.decode(errors="replace")
    return connection


def _expected_schema() -> list[tuple[Any, ...]]:
    model = sqlite3.connect(":memory:")
    try:
        model.executescript(SCHEMA)
        return _schema(model)
    finally:
        model.close()


def _schema(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name")
    return [tuple(row) for row in rows]
