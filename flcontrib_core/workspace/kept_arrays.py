"""How are finished epochs and results kept, and what happens when one is damaged?

Both are records in the object store. A finished epoch is found by its key and is simply computed again when it was
damaged; a result is found by run, kind and settings, is entered in the audit log, and says when another version made
it. What is acknowledged is durable: the object is synced and named before the row that points at it is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from flcontrib_core.workspace.audit_log import AuditLog, LogEntry
from flcontrib_core.workspace.faults import DamagedObject, storage_faults
from flcontrib_core.workspace.index import Index
from flcontrib_core.workspace.index_file import Transaction
from flcontrib_core.workspace.objects import ObjectStore, pack_record, text_array, text_of, unpack_record
from flcontrib_core.workspace.provenance import digest_of, provenance, software_version

EPOCH = "epoch"
RESULT = "result"
_DOCUMENT = "document"
_ARRAY = "array:"


@dataclass(frozen=True)
class ResultEntry:
    """A finished result: what it answers, who made it, where it lies. ``digest`` is the sha256 of its content."""

    sequence: int
    run_digest: str
    kind: str
    settings: dict[str, Any]
    settings_digest: str
    digest: str
    version: str
    size: int
    kept_at: str
    remarks: dict[str, Any]
    """What may differ between equal results: seconds taken, evaluations recalled."""
    available: bool
    """False when its object was lost or set aside; compute it again."""

    @property
    def stale(self) -> bool:
        """Was it made by another version than this one?"""
        return self.version != software_version()


@dataclass(frozen=True)
class StoredResult:
    """The content of a result."""

    document: Any
    arrays: dict[str, np.ndarray]
    provenance: dict[str, Any]


class EpochCheckpoints:
    """Finished epochs by key (sha256 over epoch digest, settings and version)."""

    def __init__(self, index: Index, objects: ObjectStore, log: AuditLog, family: str) -> None:
        self._index = index
        self._objects = objects
        self._log = log
        self._family = family

    def recall(self, key: str) -> dict[str, np.ndarray] | None:
        """The arrays as they were kept; None when unknown – or damaged, which is set aside and entered in the log."""
        rows = self._index.read("SELECT object FROM epochs WHERE key = ?", (key,))
        if not rows:
            return None
        name = rows[0]["object"]
        try:
            with storage_faults(self._objects.folder):
                label, arrays = unpack_record(self._objects.read(name))
            if label.get("key") == key:
                return arrays
            raise DamagedObject(f"the index calls object {name[:12]}… epoch {key[:12]}…, the object does not", name)
        except DamagedObject as damage:
            if self._index.impaired is None:
                with self._index.write() as transaction:
                    transaction.execute("DELETE FROM epochs WHERE key = ?", (key,))
                    report_damage(transaction, self._objects, self._log, damage, "the epoch is computed again")
            return None

    def keep(self, key: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keeps a finished epoch; durable when it returns. An epoch that is kept already stays as it is."""
        content = pack_record({"what": EPOCH, "key": key, "family": self._family}, arrays)
        with (
            storage_faults(self._objects.folder),
            self._objects.staging.stage([content]) as staged,
            self._index.write() as transaction,
        ):
            if not transaction.execute("SELECT 1 FROM epochs WHERE key = ?", (key,)):
                self._objects.publish(staged)
                enter_epoch(transaction, key, staged.sha256, self._family)


class Results:
    """Finished results of runs."""

    def __init__(self, index: Index, objects: ObjectStore, log: AuditLog) -> None:
        self._index = index
        self._objects = objects
        self._log = log

    def keep(
        self,
        run_digest: str,
        settings: dict[str, Any],
        kind: str,
        document: Any = None,
        arrays: Mapping[str, np.ndarray] | None = None,
        remarks: dict[str, Any] | None = None,
    ) -> ResultEntry:
        """Keeps a result; durable and in the audit log when it returns. The same content twice is one entry.

        Whatever may differ between two equal computations (seconds) belongs into ``remarks``: it is kept in the log,
        not in the object, so that equal results have equal digests.
        """
        label = {"what": RESULT, "kind": kind, **provenance(run_digest, settings)}
        packed = {_ARRAY + name: array for name, array in (arrays or {}).items()}
        content = pack_record(label, {_DOCUMENT: text_array(document), **packed})
        body = {
            "kind": kind,
            "settings": settings,
            "settings_digest": label["settings_digest"],
            "version": software_version(),
            "size": len(content),
            "remarks": remarks or {},
        }
        with (
            storage_faults(self._objects.folder),
            self._objects.staging.stage([content]) as staged,
            self._index.write() as transaction,
        ):
            known = transaction.execute(
                "SELECT entry, hash FROM results WHERE run = ? AND object = ?", (run_digest, staged.sha256)
            )
            self._objects.publish(staged)  # also when known: it may have been damaged since
            if known:
                entry = LogEntry.of(known[-1])
            else:
                entry = self._log.append(transaction, "result-kept", run_digest, {**body, "object": staged.sha256})
        return self._entry(entry)

    def list(self, run_digest: str | None = None, kind: str | None = None) -> tuple[ResultEntry, ...]:
        """Results of runs that are here, newest first."""
        rows = self._index.read(
            "SELECT entry, hash FROM results WHERE (?1 IS NULL OR run = ?1) AND (?2 IS NULL OR kind = ?2) "
            "ORDER BY sequence DESC",
            (run_digest, kind),
        )
        return tuple(self._entry(LogEntry.of(row)) for row in rows)

    def latest(
        self, run_digest: str, kind: str, settings: dict[str, Any] | None = None, *, also_stale: bool = True
    ) -> ResultEntry | None:
        """The newest result that can be read, for these settings where given."""
        wanted = None if settings is None else digest_of(settings)
        for entry in self.list(run_digest, kind):
            fits = wanted is None or entry.settings_digest == wanted
            if fits and entry.available and (also_stale or not entry.stale):
                return entry
        return None

    def load(self, entry: ResultEntry) -> StoredResult:
        """The content, verified. Raises DamagedObject, after setting it aside, when it is not what was kept."""
        try:
            with storage_faults(self._objects.folder):
                label, arrays = unpack_record(self._objects.read(entry.digest))
        except DamagedObject as damage:
            if self._index.impaired is None:
                with self._index.write() as transaction:
                    report_damage(transaction, self._objects, self._log, damage, "compute the result again")
            raise DamagedObject(f"{damage}; this result has to be computed again", entry.digest) from damage
        named = {name.removeprefix(_ARRAY): array for name, array in arrays.items() if name.startswith(_ARRAY)}
        return StoredResult(text_of(arrays[_DOCUMENT]), named, label)

    def _entry(self, entry: LogEntry) -> ResultEntry:
        body = entry.body
        return ResultEntry(
            sequence=entry.sequence,
            run_digest=entry.subject,
            kind=body["kind"],
            settings=body["settings"],
            settings_digest=body["settings_digest"],
            digest=body["object"],
            version=body["version"],
            size=body["size"],
            kept_at=entry.at,
            remarks=body["remarks"],
            available=self._objects.holds(body["object"]),
        )


def enter_epoch(transaction: Transaction, key: str, name: str, family: str) -> None:
    transaction.execute("INSERT OR IGNORE INTO epochs (key, object, family) VALUES (?, ?, ?)", (key, name, family))


def restore_epochs(transaction: Transaction, objects: ObjectStore) -> int:
    """Enters every finished epoch found among the objects into a rebuilt index; returns how many."""
    restored = 0
    for name in objects.names():
        label = objects.label(name)
        if label is not None and label.get("what") == EPOCH:
            enter_epoch(transaction, str(label["key"]), name, str(label["family"]))
            restored += 1
    return restored


def report_damage(
    transaction: Transaction, objects: ObjectStore, log: AuditLog, damage: DamagedObject, consequence: str
) -> None:
    """Sets a damaged object aside and enters that in the log."""
    moved = str(objects.set_aside(damage.name)) if objects.holds(damage.name) else "nowhere: it was missing"
    log.append(transaction, "damage", damage.name, {"what": str(damage), "moved_to": moved, "consequence": consequence})
