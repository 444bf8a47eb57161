"""Rows ``epoch, coalition, utility …`` as complete coalition games, indexed by bitmask."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs.confusables import confusable_evidence
from flcontrib_core.runs.limits import MAX_COALITION_PLAYERS
from flcontrib_core.runs.manifest import normal
from flcontrib_core.runs.problems import Findings, epochs_named, refusal, shown
from flcontrib_core.runs.run_log import UtilityTable
from flcontrib_core.runs.table_rows import ClientIds, RowFaults, Rows
from flcontrib_core.vocabulary import FloatArray, IntArray


class CoalitionRows:
    """The utilities of every coalition: one bitmask per row, over the epoch's clients in order of appearance."""

    def __init__(self, utilities: tuple[str, ...], findings: Findings) -> None:
        self._utilities = utilities
        self._findings = findings
        self._clients = ClientIds()
        self._bits: dict[int, dict[str, int]] = {}
        """epoch -> client -> its bit, as a mask"""
        self._epochs, self._masks, self._values = array("q"), array("q"), array("d")

    def add(self, rows: Rows) -> None:
        """Takes the next rows of the table; faults go to the findings."""
        faults = RowFaults(len(rows.keys))
        masks = self._known_masks(rows)
        if masks is None or not np.isfinite(rows.values).all():
            masks = self._checked_masks(rows, faults)
        faults.report(self._findings)
        self._epochs.frombytes(rows.epochs[faults.sound].tobytes())
        self._masks.frombytes(np.array(masks, dtype=np.int64)[faults.sound].tobytes())
        self._values.frombytes(rows.values[faults.sound].tobytes())

    def _known_masks(self, rows: Rows) -> list[int] | None:
        """The mask of each coalition, where all members were seen before and none is named twice; else None.

        Almost every row of a large table is of this kind, and a million of them must be read within two seconds.
        """
        epochs = rows.epochs.tolist()
        try:
            if len(epochs) and (rows.epochs == epochs[0]).all():
                return _sums({**self._bits[epochs[0]], "": 0}, rows.keys)
            mask_of = {epoch: {**self._bits[epoch], "": 0}.__getitem__ for epoch in set(epochs)}
            masks = [sum(map(mask_of[epoch], names.split(";"))) for epoch, names in zip(epochs, rows.keys, strict=True)]
        except KeyError:
            return None
        named = [coalition.count(";") + (coalition != "") for coalition in rows.keys]
        return masks if named == list(map(int.bit_count, masks)) else None

    def _checked_masks(self, rows: Rows, faults: RowFaults) -> list[int]:
        """The same row by row, with new members and faults named."""
        masks = [0] * len(rows.keys)
        incomplete = set(np.flatnonzero(~np.isfinite(rows.values).all(axis=1)).tolist())
        for row, (epoch, coalition) in enumerate(zip(rows.epochs.tolist(), rows.keys, strict=True)):
            try:
                masks[row] = self._mask(epoch, coalition, rows, row)
                if row in incomplete:
                    raise self._not_finite(rows, row)
            except RunLogError as refused:
                faults.add(row, refused.problems[0])
        return masks

    def _mask(self, epoch: int, coalition: str, rows: Rows, row: int) -> int:
        """The coalition as a sum of its members' bits; equal members would give a sum with fewer bits."""
        bits = self._bits.get(epoch)
        if not coalition and bits is not None:
            return 0
        if coalition.count(";") >= MAX_COALITION_PLAYERS:
            raise self._too_many(epoch, rows.where(row))
        names = coalition.split(";") if coalition else []
        try:
            mask = sum(map((bits or {}).__getitem__, names))
        except KeyError:
            mask = -1
        if bits is None or mask < 0:
            mask = self._new_members(epoch, names, rows.where(row))
        if mask.bit_count() != len(names):
            found = f"{shown(coalition)}: a client twice"
            raise refusal("E_TABLE", rows.where(row), found, "each member once")
        return mask

    def _new_members(self, epoch: int, names: list[str], where: str) -> int:
        if epoch < 1:
            raise refusal("E_EPOCH_ORDER", where, f"epoch {epoch}", "epochs from 1 on")
        bits = self._bits.setdefault(epoch, {})
        for name in names:
            if name not in bits:
                self._clients.position(name, lambda: where)
                if len(bits) >= MAX_COALITION_PLAYERS:
                    raise self._too_many(epoch, where)
                bits[name] = 1 << len(bits)
        return sum(bits[name] for name in names)

    def _too_many(self, epoch: int, where: str) -> RunLogError:
        found = f"more than {MAX_COALITION_PLAYERS} participants in epoch {epoch}"
        return refusal("E_FILE_SIZE", where, found, f"at most {MAX_COALITION_PLAYERS} (2^n coalitions)")

    def _not_finite(self, rows: Rows, row: int) -> RunLogError:
        code = "E_TABLE_VALUE" if rows.empty[row].any() else "E_NONFINITE"
        found = f"{shown(rows.values[row].tolist())} for {_named(rows.keys[row])}"
        columns = [self._utilities[place] for place in np.flatnonzero(~np.isfinite(rows.values[row])).tolist()]
        return refusal(code, rows.where(row, *columns), found, "a finite number per utility")

    def table(
        self,
        path: Path,
        digest: str,
        lower: frozenset[str],
        sizes: dict[str, int] | None,
        passed: Callable[[str], None],
    ) -> UtilityTable | None:
        """The table of all rows; None where a fault was found."""
        missing = [t for t in range(1, max(self._bits, default=0) + 1) if t not in self._bits]
        if missing:
            self._findings.refuse(
                "E_EPOCH_ORDER", path.name, f"no rows for {epochs_named(missing)}", "epochs 1 … T without a gap"
            )
        epochs, masks = np.array(self._epochs, dtype=np.int64), np.array(self._masks, dtype=np.int64)
        columns = np.array(self._values).reshape(len(epochs), len(self._utilities))
        order = np.lexsort((masks, epochs))
        ordered = epochs[order]
        values: list[FloatArray] = []
        for epoch in sorted(self._bits):
            rows = order[slice(*np.searchsorted(ordered, (epoch, epoch + 1)))]
            with self._findings.collecting():
                self._check_complete(epoch, masks[rows], f"{path.name} epoch {epoch}")
                values.append(columns[rows][self._in_client_order(epoch)])
        data_sizes = self._sizes(sizes, path)
        if self._findings.errors:
            return None
        passed("values")
        self._findings.warnings += confusable_evidence(self._clients.ids)
        passed("cross-checks")
        passed("ready")
        return UtilityTable(
            name=path.stem,
            digest=digest,
            client_ids=tuple(self._clients.ids),
            data_sizes=data_sizes,
            utilities=self._utilities,
            participants=tuple(self._participants(epoch) for epoch in sorted(self._bits)),
            values=tuple(values),
            lower_is_better=lower,
            warnings=tuple(self._findings.warnings),
            origin=str(path),
        )

    def _check_complete(self, epoch: int, masks: IntArray, where: str) -> None:
        """Sorted masks must be 0 … 2^n − 1; what is missing or doubled is named."""
        players = len(self._bits[epoch])
        unique, times = np.unique(masks, return_counts=True)
        if (times > 1).any():
            twice = self._coalition(epoch, int(unique[times > 1][0]))
            raise refusal("E_TABLE_DUP", where, f"{_named(twice)} twice", "one row per coalition")
        if len(unique) != 2**players:
            missing = 2**players - len(unique)
            first = next((mask for mask, found in enumerate(unique) if mask != found), len(unique))
            others = f" and {missing - 1} other coalitions" if missing > 1 else ""
            raise refusal(
                "E_COALITION",
                where,
                f"no row for {_named(self._coalition(epoch, first))}{others}",
                f"all {2**players} coalitions of its {players} participants",
            )

    def _coalition(self, epoch: int, mask: int) -> str:
        return ";".join(name for name, bit in self._bits[epoch].items() if mask & bit)

    def _participants(self, epoch: int) -> tuple[int, ...]:
        return tuple(sorted(self._clients.positions[name] for name in self._bits[epoch]))

    def _in_client_order(self, epoch: int) -> IntArray:
        """For every bitmask over the sorted participants: the same coalition's mask in order of appearance."""
        bits = self._bits[epoch]
        own = [bits[self._clients.ids[position]].bit_length() - 1 for position in self._participants(epoch)]
        wanted = np.arange(2 ** len(own))
        masks = np.zeros_like(wanted)
        for bit, place in enumerate(own):
            masks |= (wanted >> bit & 1) << place
        return masks

    def _sizes(self, sizes: dict[str, int] | None, path: Path) -> tuple[int, ...] | None:
        if sizes is None:
            return None
        known = {normal(name): size for name, size in sizes.items()}
        without = [name for name in self._clients.ids if normal(name) not in known]
        if without:
            where = f"data sizes of {path.name}"
            self._findings.refuse("E_CLIENT_SIZE", where, f"no data size of {shown(without[0])}", "one per client")
            return None
        return tuple(known[normal(name)] for name in self._clients.ids)


def _sums(bits: dict[str, int], coalitions: Sequence[str]) -> list[int] | None:
    """The mask of each coalition of one epoch, all at once; None where a member stands twice. Raises KeyError for a
    member that has no bit yet."""
    text = "\n".join(coalitions)
    signs = np.frombuffer(text.encode("utf-8"), dtype=np.uint8)
    ends = np.flatnonzero(signs == ord("\n"))
    if len(ends) + 1 != len(coalitions):  # a name holds a line break: one by one
        return None
    places = np.flatnonzero((signs == ord(";")) | (signs == ord("\n")))
    names = text.replace("\n", ";").split(";")
    members = np.fromiter(map(bits.__getitem__, names), dtype=np.int64, count=len(names))
    begins = np.concatenate([[0], np.searchsorted(places, ends) + 1])
    masks = np.add.reduceat(members, begins)
    counts = np.diff(np.append(begins, len(names)))
    lengths = np.diff(np.concatenate([[-1], ends, [len(signs)]])) - 1
    sound = np.bitwise_count(masks) == counts - (lengths == 0)
    return masks.tolist() if bool(sound.all()) else None


def _named(coalition: str) -> str:
    return f"coalition {shown(coalition)}" if coalition else "the empty coalition"
