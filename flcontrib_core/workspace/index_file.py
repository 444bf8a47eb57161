"""Is the database file sound and of today's version, and how is it made so?

Damage (a failed integrity check, a changed schema, entries that its files still know) moves the file into quarantine
and builds a new one from the files of the workspace; an older version is backed up and lifted; a newer one refused.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.workspace.disk import Disk
from flcontrib_core.workspace.objects import set_aside
from flcontrib_core.workspace.schema import APPLICATION_ID, MIGRATIONS, Migration

_PATIENCE_SECONDS = 30.0
_SHARED_MEMORY = Path("/dev/shm")


class Transaction:
    """One all-or-nothing change; ``after_commit`` actions run once it is durable, before the writer is answered."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.actions: list[Callable[[], None]] = []

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        return self._connection.execute(statement, parameters).fetchall()

    def after_commit(self, action: Callable[[], None]) -> None:
        self.actions.append(action)


Rebuild = Callable[[Transaction, str], None]
"""Fills an empty index from files; the text says why it had to be done."""
FindLoss = Callable[[Transaction], str | None]
"""What the index has lost against the files, if anything."""


def connect(path: Path) -> sqlite3.Connection:
    """A connection that commits durably and leaves transactions to its caller."""
    return _prepared(sqlite3.connect(path, _PATIENCE_SECONDS, isolation_level=None, check_same_thread=False))


def connect_without_writing(path: Path) -> tuple[sqlite3.Connection, tempfile.TemporaryDirectory[str] | None]:
    """Reads without writing a byte beside the file: directly where SQLite can, else from a copy elsewhere.

    SQLite needs a shared-memory file beside a database in WAL mode; in a read-only folder or on a full disk it may
    not be able to make one.
    """
    address = f"file:{quote(str(path))}?mode=ro"
    try:
        connection = sqlite3.connect(
            address, _PATIENCE_SECONDS, isolation_level=None, check_same_thread=False, uri=True
        )
        connection.row_factory = sqlite3.Row
        connection.text_factory = _readable
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

    def __init__(
        self,
        path: Path,
        quarantine: Path,
        disk: Disk,
        rebuild: Rebuild,
        find_loss: FindLoss,
        migrations: Sequence[Migration] = MIGRATIONS,
    ) -> None:
        self.path = path
        self.version = len(migrations)
        self._quarantine = quarantine
        self._disk = disk
        self._rebuild = rebuild
        self._find_loss = find_loss
        self._migrations = migrations

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
            if str(getattr(fault, "sqlite_errorname", "")).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
                return str(fault)
            raise

    def mend(self) -> None:
        """Creates, lifts or rebuilds the file, whichever it needs by now."""
        trouble = self.trouble()  # again: another process may have mended it while we waited for the lock
        if trouble == "older":
            self._migrate()
        elif trouble is not None:
            self._replace(trouble)

    def _examine(self, connection: sqlite3.Connection) -> str | None:
        found = [row[0] for row in connection.execute("PRAGMA integrity_check(3)")]
        if found != ["ok"]:
            return f"integrity check: {'; '.join(found)}"
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        schema = _schema(connection)
        if version == 0 and not schema:
            return "empty"
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise WorkspaceError(f"{self.path} is a database of another program; choose another --workspace")
        if version > self.version:
            raise WorkspaceError(
                f"{self.path} was written by a newer version (schema {version}, this one knows {self.version}); "
                "upgrade flcontrib or choose another --workspace"
            )
        if schema != self._expected_schema(version):
            return "the schema is not the one that was written"
        return "older" if version < self.version else self._find_loss(Transaction(connection))

    def _expected_schema(self, version: int) -> list[tuple[Any, ...]]:
        model = connect(Path(":memory:"))
        try:
            _lift(model, self._migrations[:version])
            return _schema(model)
        finally:
            model.close()

    def _migrate(self) -> None:
        connection = connect(self.path)
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            self._back_up(connection, version)
            connection.execute("BEGIN IMMEDIATE")
            _lift(connection, self._migrations[version:])
            self._stamp(connection)
            self._disk.commit(connection)
        finally:
            connection.close()

    def _back_up(self, connection: sqlite3.Connection, version: int) -> None:
        folder = self.path.with_name("backups")
        self._disk.make_folder(folder)
        sequence = connection.execute("SELECT coalesce(max(sequence), 0) FROM log").fetchone()[0]
        target = folder / f"index-v{version}-entry-{sequence}.sqlite"
        partial = target.with_suffix(".part")
        partial.unlink(missing_ok=True)
        copy = sqlite3.connect(partial)
        try:
            connection.backup(copy)
        finally:
            copy.close()
        self._settle(partial, target)

    def _replace(self, trouble: str) -> None:
        """Moves what is there into quarantine and builds the index anew from the files."""
        self._unfinished.touch()
        self._disk.sync_folder(self.path.parent)
        moved = [set_aside(old, self._quarantine, self._disk) for old in database_files(self.path) if old.exists()]
        fresh = self.path.with_name("index.part")
        for leftover in database_files(fresh):
            leftover.unlink(missing_ok=True)
        connection = connect(fresh)
        try:
            connection.execute("BEGIN IMMEDIATE")
            _lift(connection, self._migrations)
            self._stamp(connection)
            transaction = Transaction(connection)
            self._rebuild(transaction, f"{trouble}; the old file is {moved[0]}" if moved else trouble)
            self._disk.commit(connection)
        finally:
            connection.close()  # the last connection folds the write-ahead log into the file
        self._settle(fresh, self.path)
        for action in transaction.actions:
            action()
        self._disk.remove(self._unfinished)
        self._disk.sync_folder(self.path.parent)

    def _stamp(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA user_version = {self.version}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    def _settle(self, partial: Path, target: Path) -> None:
        descriptor = os.open(partial, os.O_RDONLY)
        try:
            self._disk.sync(descriptor)
        finally:
            os.close(descriptor)
        self._disk.rename(partial, target)
        self._disk.sync_folder(target.parent)

    @property
    def _unfinished(self) -> Path:
        """Stands while the file is being replaced: whoever finds it starts over."""
        return self.path.with_name("index.rebuilding")


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.row_factory = sqlite3.Row
    connection.text_factory = _readable
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")
    return connection


def _readable(text: bytes) -> str:
    """Text of a damaged cell must reach the checks that name it, not end in a decoding error."""
    return text.decode(errors="replace")


def _schema(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name")
    return [tuple(row) for row in rows]


def _lift(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    """Runs migrations inside the caller's transaction (``executescript`` would commit it)."""
    for script in migrations:
        for statement in _statements(script):
            connection.execute(statement)


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for part in script.split(";"):
        statement += part + ";"
        if sqlite3.complete_statement(statement) and statement.strip() != ";":
            yield statement
            statement = ""
