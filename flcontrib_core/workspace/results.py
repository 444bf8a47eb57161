"""Finished results of runs: typed values in the object store, found by run, kind and settings.

A result is entered in the audit log with the layout of its type. One whose layout this version does not have is still
listed, as ``outdated``, and no longer offered for reading: it has to be computed again.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

from flcontrib_core.codec import layout_of, pack, unpack
from flcontrib_core.provenance import digest_of, provenance, software_version
from flcontrib_core.workspace.audit_log import AuditLog, LogEntry
from flcontrib_core.workspace.cache import report_damage
from flcontrib_core.workspace.faults import DamagedObject, storage_faults
from flcontrib_core.workspace.index import Index, conditions
from flcontrib_core.workspace.objects import ObjectStore, pack_record, unpack_record

TYPES: Mapping[str, str] = {
    "asked": "flcontrib_core.history.asking:Asked",
    "audit": "flcontrib_core.auditing:AuditReport",
    "measurement": "flcontrib_core.history.measurement:RunMeasurement",
    "meaning": "flcontrib_core.history.meaning:LogMeaning",
    "proof": "flcontrib_core.scheduling.schedule:Schedule",
    "reproduction": "flcontrib_core.reports.paper_figure:PaperFigure",
}
"""What results of each kind are. Of other kinds (a test's, a plug-in's) any value is stored as it is."""
SHOWN: Mapping[str, str] = {"audit": "flcontrib_core.notebook:NotebookReport"}
"""What results of a kind are to a person at a keyboard: a subclass of their type, made by its ``of``."""


_NAMED, _PINNED = "result-named", "result-pinned"
_LONGEST_NAME = 80


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
    stored_at: str
    remarks: dict[str, Any]
    """What may differ between equal results: seconds taken, evaluations recalled."""
    available: bool
    """False when it cannot be read: its object was lost or set aside, or it is outdated. Compute it again."""
    outdated: bool = False
    """Was it computed by an older version whose results this one cannot read? Recompute it."""
    name: str = ""
    """As somebody called it; empty where nobody did."""
    pinned: bool = False
    """Is it what opens when nobody asks for another result of its run?"""

    @property
    def stale(self) -> bool:
        """Was it made by another version than this one?"""
        return self.outdated or self.version != software_version()

    @property
    def full(self) -> bool:
        """Was every epoch asked for, with its values?"""
        budget = self.settings.get("budget") or {}
        return not budget.get("budget") and not budget.get("epochs") and bool(self.settings.get("values", True))


def opening_first(results: Iterable[ResultEntry]) -> dict[str, ResultEntry]:
    """Of each run the result that is shown where none is named; runs without one that can be read are left out."""
    first: dict[str, ResultEntry] = {}
    for entry in results:
        before = first.get(entry.run_digest)
        if entry.available and (before is None or _rank(entry) > _rank(before)):
            first[entry.run_digest] = entry
    return first


def _rank(entry: ResultEntry) -> tuple[bool, bool, bool, int]:
    return entry.pinned, entry.full and not entry.stale, entry.full, entry.sequence


class StoredResults:
    """The part of a workspace that stores finished results."""

    _index: Index
    objects: ObjectStore
    log: AuditLog

    def store_result(
        self, run_digest: str, settings: dict[str, Any], kind: str, value: Any, remarks: dict[str, Any] | None = None
    ) -> ResultEntry:
        """Stores a result; durable and in the audit log when it returns. The same content twice is one entry.

        Whatever may differ between two equal computations (seconds) belongs into ``remarks``: it is kept in the log,
        not in the object, so that equal results have equal digests.
        """
        declared = _type_of(kind) or (type(value) if is_dataclass(value) else object)
        label = {"what": "result", "kind": kind, **provenance(run_digest, settings)}
        content = pack_record(label, pack(declared, value))
        body = {
            "kind": kind,
            "settings": settings,
            "settings_digest": label["settings_digest"],
            "version": software_version(),
            "layout": layout_of(declared),
            "size": len(content),
            "remarks": remarks or {},
        }
        with (
            storage_faults(self.objects.folder),
            self.objects.staging.stage([content]) as staged,
            self._index.write() as transaction,
        ):
            stored = transaction.execute(
                "SELECT entry, hash FROM results WHERE run = ? AND object = ?", (run_digest, staged.sha256)
            )
            self.objects.publish(staged)  # also when known: it may have been damaged since
            if stored:
                entry = LogEntry.of(stored[-1])
            else:
                entry = self.log.append(transaction, "result-kept", run_digest, {**body, "object": staged.sha256})
        return self._result(entry)

    def results(self, run_digest: str | None = None, kind: str | None = None) -> tuple[ResultEntry, ...]:
        """Results of the runs that are here, newest first."""
        where, given = conditions(run=run_digest, kind=kind)
        rows = self._index.read(f"SELECT entry, hash FROM results WHERE {where} ORDER BY sequence DESC", given)
        names, pins = self._labels(run_digest)
        listed = (self._result(LogEntry.of(row)) for row in rows)
        return tuple(
            replace(r, name=names.get((r.run_digest, r.digest), ""), pinned=pins.get(r.run_digest) == r.digest)
            for r in listed
        )

    def default_result(self, run_digest: str, kind: str = "audit") -> ResultEntry | None:
        """What is shown where no result is named: the pinned one, else the newest of all epochs, else the newest.

        So a result under a budget never takes the place of a full one by itself.
        """
        return opening_first(self.results(run_digest, kind)).get(run_digest)

    def name_result(self, entry: ResultEntry, name: str) -> None:
        """Calls a result something; an empty name takes it back."""
        self._label(entry, _NAMED, {"object": entry.digest, "name": " ".join(name.split())[:_LONGEST_NAME]})

    def pin_result(self, entry: ResultEntry, pinned: bool = True) -> None:
        """Makes a result the one that opens first, or leaves that to the usual order again."""
        self._label(entry, _PINNED, {"object": entry.digest if pinned else None})

    def _label(self, entry: ResultEntry, kind: str, body: dict[str, Any]) -> None:
        with storage_faults(self.objects.folder), self._index.write() as transaction:
            self.log.append(transaction, kind, entry.run_digest, body)

    def _labels(self, run_digest: str | None) -> tuple[dict[tuple[str, str], str], dict[str, str | None]]:
        """Names by run and object, and the pinned object of each run; the last word of each holds."""
        names: dict[tuple[str, str], str] = {}
        pins: dict[str, str | None] = {}
        where, given = conditions(subject=run_digest)
        rows = self._index.read(
            f"SELECT entry, hash FROM standing WHERE kind IN (?, ?) AND {where} ORDER BY sequence",
            (_NAMED, _PINNED, *given),
        )
        for said in map(LogEntry.of, rows):
            if said.kind == _NAMED:
                names[said.subject, said.body["object"]] = said.body["name"]
            else:
                pins[said.subject] = said.body["object"]
        return names, pins

    def latest_result(
        self, run_digest: str, kind: str, settings: dict[str, Any] | None = None, *, also_stale: bool = True
    ) -> ResultEntry | None:
        """The newest result that can be read, for these settings where given."""
        asked = None if settings is None else digest_of(settings)
        for entry in self.results(run_digest, kind):
            fits = asked is None or entry.settings_digest == asked
            if fits and entry.available and (also_stale or not entry.stale):
                return entry
        return None

    def load_result(self, entry: ResultEntry, declared: Any = None) -> Any:
        """The value as its type declares it (that of its kind where none is given); a report shows itself in a
        notebook and can be written, as one just computed. Raises OtherLayout when another version stored it in another
        form.

        Raises DamagedObject, after setting the object aside, when it is not what was stored.
        """
        try:
            with storage_faults(self.objects.folder):
                _, arrays = unpack_record(self.objects.read(entry.digest))
        except DamagedObject as damage:
            if self._index.impaired is None:
                with self._index.write() as transaction:
                    report_damage(transaction, self.objects, self.log, damage, "compute the result again")
            raise DamagedObject(f"{damage}; this result has to be computed again", entry.digest) from damage
        kind = _type_of(entry.kind)
        value = unpack(declared or kind or object, arrays)
        if kind is not None and isinstance(value, kind) and entry.kind in SHOWN:
            return _imported(SHOWN[entry.kind]).of(value)
        return value

    def _result(self, entry: LogEntry) -> ResultEntry:
        body = entry.body
        declared = _type_of(body["kind"])
        outdated = declared is not None and body.get("layout") != layout_of(declared)
        return ResultEntry(
            sequence=entry.sequence,
            run_digest=entry.subject,
            kind=body["kind"],
            settings=body["settings"],
            settings_digest=body["settings_digest"],
            digest=body["object"],
            version=body["version"],
            size=body["size"],
            stored_at=entry.at,
            remarks=body["remarks"],
            available=not outdated and self.objects.holds(body["object"]),
            outdated=outdated,
        )


def _type_of(kind: str) -> Any:
    """The declared type of a kind of results; None where there is none."""
    return _imported(TYPES[kind]) if kind in TYPES else None


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
