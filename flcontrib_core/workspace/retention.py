"""Retention: results stay, logs go. What single clients sent is kept for as long as somebody needs it, and no longer.

A log that is dropped takes with it what can only be used to compute again (finished epochs, remembered utilities).
Results, alerts, decisions and the run's name stay. Added again, the run is what it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from flcontrib_core.errors import SettingsError
from flcontrib_core.workspace.audit_log import AuditLog
from flcontrib_core.workspace.removals import DROPPED, size_on_disk
from flcontrib_core.workspace.results import StoredResults
from flcontrib_core.workspace.stored_runs import RunEntry, StoredRuns

MOST_DAYS = 36_500


@dataclass(frozen=True)
class OldLog:
    """A stored log that is older than asked for, and why it stays if it does."""

    entry: RunEntry
    files: tuple[Path, ...]
    """That go; none where it stays"""
    bytes_freed: int
    """Of its log and of what can only be used with it"""
    stays: str = ""
    """Why it is not dropped; empty where it is."""


class Retention(StoredRuns, StoredResults):
    """The part of a workspace that lets go of logs."""

    log: AuditLog

    def old_logs(self, days: int) -> tuple[OldLog, ...]:
        """What ``drop_logs`` would do, log by log; changes nothing."""
        return tuple(self._old_logs(days))

    def drop_logs(self, days: int, *, by: str) -> tuple[OldLog, ...]:
        """Drops the stored logs of runs that were added more than ``days`` days ago and have a result that can be
        read; says what was dropped and what stays. Each is an entry of the audit log."""
        dropped = []
        for old in self._old_logs(days):
            dropped.append(old)
            if not old.stays:
                self._drop(old, days, by)
        self.finish_removals()
        return tuple(dropped)

    def _old_logs(self, days: int) -> Iterator[OldLog]:
        if not 0 <= days <= MOST_DAYS:
            raise SettingsError(f"{days} days: give 0 to {MOST_DAYS}")
        before, runs = self.log.now() - timedelta(days=days), self.runs()
        readable = {r.run_digest for r in self.results(kind="audit") if r.available}
        busy = {row["run"] for row in self._index.read("SELECT run FROM asked WHERE state IN ('queued', 'running')")}
        kin = Counter(run.family for run in runs if run.dropped_at is None)
        for entry in runs:
            if not entry.object or not entry.available or datetime.fromisoformat(entry.added_at) >= before:
                continue
            if entry.digest not in readable:
                yield OldLog(entry, (), 0, "it has no result that can be read, and would be lost")
            elif entry.digest in busy:
                yield OldLog(entry, (), 0, "it is being computed")
            else:
                kin[entry.family] -= 1
                paths = tuple(self._files_of(entry, cached=kin[entry.family] == 0))
                yield OldLog(entry, paths, sum(size_on_disk(path) for path in paths))

    def _files_of(self, entry: RunEntry, cached: bool) -> Iterator[Path]:
        """The log, and with ``cached`` what only runs of its family can make use of."""
        rows = self._index.read("SELECT object FROM cached WHERE family = ?", (entry.family,)) if cached else ()
        for name in dict.fromkeys([entry.object, entry.companion, *(row["object"] for row in rows)]):
            if name is not None:
                yield self.objects.path(name)

    def _drop(self, old: OldLog, days: int, by: str) -> None:
        with self._index.write() as transaction:
            for path in old.files:
                transaction.execute("DELETE FROM cached WHERE object = ?", (path.name,))
                noted = str(path.relative_to(self.path))
                transaction.execute("INSERT OR IGNORE INTO removals (path) VALUES (?)", (noted,))
            body = {"name": old.entry.name, "older_than_days": days, "freed": old.bytes_freed, "by": by.strip()}
            self.log.append(transaction, DROPPED, old.entry.digest, {**body, "files": len(old.files)})
