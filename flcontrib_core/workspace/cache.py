"""What need not be computed twice: finished epochs, and coalition utilities from whichever estimator, budget or day.

Both are records in the object store, found by a key that stands for everything that can move a number's last bit.
Values come back as they were, so recalling never changes a result. A damaged record is set aside, entered in the audit
log, and simply computed again. What is acknowledged is durable: the object is synced and named before the row that
points at it is committed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.workspace.audit_log import AuditLog
from flcontrib_core.workspace.faults import DamagedObject, storage_faults
from flcontrib_core.workspace.index import Index
from flcontrib_core.workspace.index_file import Transaction
from flcontrib_core.workspace.objects import ObjectStore, pack_record, unpack_record

EPOCH = "epoch"
UTILITIES = "utilities"


class _Cache:
    """Records of one kind by key. ``family`` is whose runs new ones serve: they go when its last run is deleted."""

    what: str
    consequence: str
    """Of damage, in words."""

    def __init__(self, index: Index, objects: ObjectStore, log: AuditLog, family: str) -> None:
        self._index = index
        self._objects = objects
        self._log = log
        self._family = family

    def _recall(self, key: str) -> Iterator[dict[str, np.ndarray]]:
        """The records of a key, oldest first; damaged ones are reported and left out."""
        for row in self._index.read(
            "SELECT object FROM cached WHERE key = ? AND what = ? ORDER BY rowid", (key, self.what)
        ):
            try:
                with storage_faults(self._objects.folder):
                    label, arrays = unpack_record(self._objects.read(row["object"]))
                if label.get("key") != key:
                    raise DamagedObject(f"object {row['object'][:12]}… is not {self.what} {key[:12]}…", row["object"])
                yield arrays
            except DamagedObject as damage:
                if self._index.impaired is None:
                    with self._index.write() as transaction:
                        transaction.execute("DELETE FROM cached WHERE key = ? AND object = ?", (key, row["object"]))
                        report_damage(transaction, self._objects, self._log, damage, self.consequence)

    def _keep(self, key: str, arrays: Mapping[str, np.ndarray], *, unless_known: bool) -> None:
        if re.fullmatch(r"[0-9a-f]{64}", key) is None:
            raise WorkspaceError(f"{key[:80]!r} is not a key; use the sha256 of what it stands for")
        content = pack_record({"what": self.what, "key": key, "family": self._family}, arrays)
        with (
            storage_faults(self._objects.folder),
            self._objects.staging.stage([content]) as staged,
            self._index.write() as transaction,
        ):
            if not unless_known or not transaction.execute(
                "SELECT 1 FROM cached WHERE key = ? AND what = ?", (key, self.what)
            ):
                self._objects.publish(staged)
                _enter(transaction, key, staged.sha256, self.what, self._family)


class StoredCheckpoints(_Cache):
    """Finished epochs by key."""

    what, consequence = EPOCH, "the epoch is computed again"

    def recall(self, key: str) -> dict[str, np.ndarray] | None:
        """The arrays as they were kept; None when unknown or damaged."""
        return next(self._recall(key), None)

    def keep(self, key: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keeps a finished epoch; durable when it returns. An epoch that is kept already stays as it is."""
        self._keep(key, arrays, unless_known=True)


class StoredUtilities(_Cache):
    """Utilities of coalitions, by the key of their game; every assessment adds what was new to it."""

    what, consequence = UTILITIES, "the utilities are computed again"

    def recall_epoch(self, key: str) -> dict[bytes, np.ndarray]:
        """Everything known of one game: packed coalition -> utilities (U,)."""
        utilities: dict[bytes, np.ndarray] = {}
        for record in self._recall(key):
            width = record["coalitions"].shape[1]
            packed = record["coalitions"].tobytes()
            names = (packed[at : at + width] for at in range(0, len(packed), width))
            utilities = dict(zip(names, record["values"], strict=True)) | utilities
        return utilities

    def keep_epoch(self, key: str, values: Mapping[bytes, np.ndarray]) -> None:
        """Remembers new utilities of a game; durable when it returns."""
        if not values:
            return
        if len({len(coalition) for coalition in values}) > 1 or len({np.shape(v) for v in values.values()}) > 1:
            raise WorkspaceError("the coalitions of one game have one length and one number of utilities")
        coalitions = np.frombuffer(b"".join(values), dtype=np.uint8).reshape(len(values), -1)
        utilities = np.array(list(values.values()), dtype=np.float64)
        self._keep(key, {"coalitions": coalitions, "values": utilities}, unless_known=False)


def restore_cached(transaction: Transaction, objects: ObjectStore) -> int:
    """Enters everything cached that is found among the objects into a rebuilt index; returns how much."""
    restored = 0
    for name, label in objects.labels():
        if label.get("what") in (EPOCH, UTILITIES):
            _enter(transaction, str(label["key"]), name, str(label["what"]), str(label["family"]))
            restored += 1
    return restored


def report_damage(
    transaction: Transaction, objects: ObjectStore, log: AuditLog, damage: DamagedObject, consequence: str
) -> None:
    """Sets a damaged object aside and enters that in the log."""
    moved = objects.set_aside(damage.name)
    log.append(transaction, "damage", damage.name, {"what": str(damage), "moved_to": moved, "consequence": consequence})


def _enter(transaction: Transaction, key: str, name: str, what: str, family: str) -> None:
    transaction.execute(
        "INSERT OR IGNORE INTO cached (key, object, what, family) VALUES (?, ?, ?, ?)", (key, name, what, family)
    )
