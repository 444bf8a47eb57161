"""Preferences of a workspace: how its jobs run. Each change is an entry of the audit log; the last one holds."""

from __future__ import annotations

from dataclasses import dataclass

from flcontrib_core.codec import decode, encode
from flcontrib_core.errors import SettingsError
from flcontrib_core.execution.local import usual_workers
from flcontrib_core.workspace.audit_log import AuditLog, LogEntry
from flcontrib_core.workspace.index import Index

_CHANGED = "preference-changed"
_EXECUTION = "execution"
MOST_WORKERS = 256


@dataclass(frozen=True)
class Execution:
    """Where the epochs of a job are computed. No result depends on it."""

    workers: int | None = None
    """Processes; None = all cores but one."""
    engine: str = "local"
    """'local' or 'ray'"""
    address: str | None = None
    """Of a running Ray cluster."""

    def __post_init__(self) -> None:
        if self.workers is not None and not 1 <= self.workers <= MOST_WORKERS:
            raise SettingsError(f"{self.workers} workers: give 1 to {MOST_WORKERS}, or nothing for all cores but one")
        if self.engine not in ("local", "ray"):
            raise SettingsError(f"engine {self.engine!r} is unknown; use 'local' or 'ray'")

    @property
    def processes(self) -> int:
        """The workers there will be."""
        return self.workers or usual_workers()


class Preferences:
    """What holds for all jobs of a workspace."""

    def __init__(self, index: Index, log: AuditLog) -> None:
        self._index = index
        self._log = log

    def execution(self) -> Execution:
        """As it was last set; the usual one where it never was."""
        rows = self._index.read(
            "SELECT entry, hash FROM log WHERE kind = ? AND subject = ? ORDER BY sequence DESC LIMIT 1",
            (_CHANGED, _EXECUTION),
        )
        return decode(Execution, LogEntry.of(rows[0]).body) if rows else Execution()

    def set_execution(self, execution: Execution) -> None:
        """Holds from the next job on; setting what holds already writes nothing."""
        if execution != self.execution():
            with self._index.write() as transaction:
                self._log.append(transaction, _CHANGED, _EXECUTION, encode(Execution, execution)[0])
