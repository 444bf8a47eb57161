"""How do the rows ``epoch, coalition, utility …`` become complete coalition games, indexed by bitmask?"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path

import numpy as np

from flcontrib_core.runs.confusables import confusable_evidence
from flcontrib_core.runs.limits import MAX_COALITION_PLAYERS
from flcontrib_core.runs.manifest import normal
from flcontrib_core.runs.problems import Findings, refusal, shown, span
from flcontrib_core.runs.run_log import UtilityTable
from flcontrib_core.runs.table_rows import FIX, Cell, ClientIds
from flcontrib_core.vocabulary import FloatArray, IntArray


class CoalitionRows:
    """The utilities of every coalition: one bitmask per row, over the epoch's clients in order of appearance."""

    def __init__(self, utilities: tuple[str, ...], findings: Findings) -> None:
        self._utilities = utilities
        self._findings = findings
        self._clients = ClientIds()
        self._bits: dict[int, dict[int, int]] = {}
        """epoch -> client position -> bit"""
        self._epochs, self._masks, self._values = array("q"), array("q"), array("d")

    def add(self, epoch: int, coalition: str, values: list[Cell], where: str) -> None:
        if epoch < 1:
            raise refusal("E_EPOCH_ORDER", where, f"epoch {epoch}", "epochs from 1 on", FIX)
        bits = self._bits.setdefault(epoch, {})
        names = coalition.split(";") if coalition else []
        mask = 0
        for name in names:
            bit = bits.setdefault(self._clients.position(name, where), len(bits))
            if bit >= MAX_COALITION_PLAYERS:
                found = f"more than {MAX_COALITION_PLAYERS} participants in epoch {epoch}"
                raise refusal("E_FILE_SIZE", where, found, f"at most {MAX_COALITION_PLAYERS} (2^n coalitions)", FIX)
            mask |= 1 << bit
        if mask.bit_count() != len(names):
            raise refusal("E_TABLE", where, f"{shown(coalition)}: a client twice", "each member once", FIX)
        numbers = [cell for cell in values if cell is not None and np.isfinite(cell)]
        if len(numbers) != len(values):
            code = "E_TABLE_VALUE" if None in values else "E_NONFINITE"
            raise refusal(code, where, f"{shown(values)} for {_named(coalition)}", "a finite number per utility", FIX)
        self._epochs.append(epoch)
        self._masks.append(mask)
        self._values.extend(numbers)

    def table(
        self,
        path: Path,
        digest: str,
        lower: frozenset[str],
        sizes: dict[str, int] | None,
        passed: Callable[[str], None],
    ) -> UtilityTable | None:
        missing = [t for t in range(1, max(self._bits, default=0) + 1) if t not in self._bits]
        if missing:
            self._findings.refuse(
                "E_EPOCH_ORDER", path.name, f"no rows for epochs {span(missing)}", "epochs 1 … T without a gap", FIX
            )
        epochs, masks = np.array(self._epochs, dtype=np.int64), np.array(self._masks, dtype=np.int64)
        columns = np.array(self._values).reshape(len(epochs), len(self._utilities))
        order = np.lexsort((masks, epochs))
        values: list[FloatArray] = []
        for epoch in sorted(self._bits):
            rows = order[slice(*np.searchsorted(epochs[order], (epoch, epoch + 1)))]
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
            participants=tuple(tuple(sorted(self._bits[epoch])) for epoch in sorted(self._bits)),
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
            raise refusal("E_TABLE_DUP", where, f"{_named(twice)} twice", "one row per coalition", FIX)
        if len(unique) != 2**players:
            missing = 2**players - len(unique)
            first = next((mask for mask, found in enumerate(unique) if mask != found), len(unique))
            others = f" and {missing - 1} other coalitions" if missing > 1 else ""
            raise refusal(
                "E_COALITION",
                where,
                f"no row for {_named(self._coalition(epoch, first))}{others}",
                f"all {2**players} coalitions of its {players} participants",
                "Add the missing coalition.",
            )

    def _coalition(self, epoch: int, mask: int) -> str:
        return ";".join(self._clients.ids[position] for position, bit in self._bits[epoch].items() if mask >> bit & 1)

    def _in_client_order(self, epoch: int) -> IntArray:
        """For every bitmask over the sorted participants: the same coalition's mask in order of appearance."""
        own = [self._bits[epoch][position] for position in sorted(self._bits[epoch])]
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
            self._findings.refuse("E_CLIENT_SIZE", where, f"no data size of {shown(without[0])}", "one per client", FIX)
            return None
        return tuple(known[normal(name)] for name in self._clients.ids)


def _named(coalition: str) -> str:
    return f"coalition {shown(coalition)}" if coalition else "the empty coalition"
