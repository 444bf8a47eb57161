"""Which run does a table describe: values computed elsewhere, or the utility of every coalition?

A *contribution table* has the columns ``epoch, client`` and one per utility; a *utility table* has ``epoch,
coalition`` and one per utility. Both come as CSV or Parquet and are read row by row with the same rules.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.runs.confusables import confusable_evidence
from flcontrib_core.runs.containers import unreadable
from flcontrib_core.runs.encoding import run_digest
from flcontrib_core.runs.limits import (
    MAX_CLIENTS,
    MAX_COALITION_PLAYERS,
    MAX_DATA_SIZE,
    MAX_TABLE_BYTES,
    MAX_TABLE_CELLS,
)
from flcontrib_core.runs.manifest import id_fault, normal
from flcontrib_core.runs.problems import Findings, refusal, shown, span
from flcontrib_core.runs.run_log import ContributionTable, UtilityTable
from flcontrib_core.runs.table_rows import Cell, TableRows, open_rows
from flcontrib_core.vocabulary import LOWER_IS_BETTER, FloatArray, IntArray

_AGAIN = "Correct the table; docs/run-log.md shows both forms."


def read_table(
    path: Path,
    kind: str,
    nonfinite: str,
    lower_is_better: Sequence[str],
    passed: Callable[[str], None],
    findings: Findings,
) -> ContributionTable | UtilityTable | None:
    """The table at ``path``; faults go to ``findings`` and give None."""
    digest = _content_digest(path)
    passed("archive safe")
    rows = open_rows(path, kind)
    utilities = rows.utilities
    unknown = [name for name in lower_is_better if name not in utilities]
    if unknown:
        raise SettingsError(f"lower_is_better names {shown(unknown)}; the table's utilities are {', '.join(utilities)}")
    lower = frozenset(name for name in utilities if name in LOWER_IS_BETTER or name in lower_is_better)
    passed("manifest")
    hashes = {"table": digest}
    if rows.key == "client":
        values = _Contributions(utilities, nonfinite == "absent", findings)
        _gather(rows, values.add, findings)
        passed("shapes")
        return values.table(path, run_digest(hashes), lower, passed)
    sizes = _read_data_sizes(path, hashes)
    games = _Games(utilities, findings)
    _gather(rows, games.add, findings)
    passed("shapes")
    return games.table(path, run_digest(hashes), lower, sizes, passed)


def _content_digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        size = path.stat().st_size
        if size > MAX_TABLE_BYTES:
            raise refusal("E_FILE_SIZE", path.name, f"{size} bytes", f"at most {MAX_TABLE_BYTES}", "Split the run.")
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError as bad:
        raise unreadable(path, bad) from bad
    return digest.hexdigest()


def _gather(rows: TableRows, add: Callable[[int, str, list[Cell], str], None], findings: Findings) -> None:
    for row in rows:
        with findings.collecting():
            add(row.epoch(), row.key(), row.numbers(), row.where)
    if not rows.count:
        findings.refuse("E_TABLE", rows.name, "no rows", "at least one", _AGAIN)


class _Clients:
    """Client ids in the order of their first appearance."""

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}
        self._normal: set[str] = set()
        self.ids: list[str] = []

    def position(self, identity: str, where: str) -> int:
        found = self._positions.get(identity)
        if found is not None:
            return found
        if (fault := id_fault(identity)) is not None:
            raise refusal("E_CLIENT_ID", where, shown(identity), fault, "Give the client a name.")
        if normal(identity) in self._normal or len(self.ids) >= MAX_CLIENTS:
            code = "E_CLIENT_DUP" if normal(identity) in self._normal else "E_FILE_SIZE"
            raise refusal(
                code, where, f"another client {shown(identity)}", f"at most {MAX_CLIENTS}, unique after NFC", _AGAIN
            )
        self._normal.add(normal(identity))
        self._positions[identity] = len(self.ids)
        self.ids.append(identity)
        return len(self.ids) - 1


class _Contributions:
    def __init__(self, utilities: tuple[str, ...], absent_if_nonfinite: bool, findings: Findings) -> None:
        self._utilities = utilities
        self._absent_if_nonfinite = absent_if_nonfinite
        self._findings = findings
        self._clients = _Clients()
        self._epochs, self._positions, self._values = array("q"), array("q"), array("d")
        self._left_out: dict[str, list[int]] = {}

    def add(self, epoch: int, client: str, values: list[Cell], where: str) -> None:
        position = self._clients.position(client, where)
        if any(cell is not None and not np.isfinite(cell) for cell in values):
            if not self._absent_if_nonfinite:
                raise refusal(
                    "E_NONFINITE",
                    where,
                    f"{shown(values)} of client {shown(client)}",
                    "finite numbers",
                    "Leave the cell empty.",
                )
            self._left_out.setdefault(client, []).append(epoch)
            return
        self._epochs.append(epoch)
        self._positions.append(position)
        self._values.extend(np.nan if cell is None else cell for cell in values)

    def table(
        self, path: Path, digest: str, lower: frozenset[str], passed: Callable[[str], None]
    ) -> ContributionTable | None:
        epochs, positions = np.array(self._epochs, dtype=np.int64), np.array(self._positions, dtype=np.int64)
        last, clients = int(epochs.max(initial=0)), len(self._clients.ids)
        if (last + 1) * clients * len(self._utilities) > MAX_TABLE_CELLS:
            found = f"epoch {last} × {clients} clients × {len(self._utilities)} utilities"
            raise refusal("E_FILE_SIZE", path.name, found, f"at most {MAX_TABLE_CELLS} cells", "Split the run.")
        if last == 0 and not self._findings.errors:
            self._findings.refuse("E_EPOCH_NONE", path.name, "no epoch from 1 on", "at least one epoch", _AGAIN)
        cells = epochs * max(clients, 1) + positions
        unique, times = np.unique(cells, return_counts=True)
        for cell in unique[times > 1][:50]:
            epoch, position = divmod(int(cell), clients)
            where = f"{path.name} epoch {epoch}"
            self._findings.refuse(
                "E_TABLE_DUP", where, f"{shown(self._clients.ids[position])} twice", "one row each", _AGAIN
            )
        if self._findings.errors:
            return None
        passed("values")
        participated = np.zeros((last + 1, clients), dtype=bool)
        participated[epochs, positions] = True
        participated[0] = False
        columns = np.array(self._values).reshape(len(epochs), len(self._utilities))
        values: dict[str, FloatArray] = {}
        for column, name in enumerate(self._utilities):
            values[name] = np.zeros((last + 1, clients))
            values[name][epochs, positions] = columns[:, column]
        for client, left_out in self._left_out.items():
            found = f"values that are not finite in epochs {span(sorted(left_out))}"
            fix = "Treated as absent in these epochs, as asked."
            self._findings.warn("W_NONFINITE_ABSENT", f"client {shown(client)}", found, "finite numbers", fix)
        self._findings.warnings += confusable_evidence(self._clients.ids)
        passed("cross-checks")
        passed("ready")
        return ContributionTable(
            name=path.stem,
            digest=digest,
            client_ids=tuple(self._clients.ids),
            utilities=self._utilities,
            values=values,
            participated=participated,
            lower_is_better=lower,
            warnings=tuple(self._findings.warnings),
            origin=str(path),
        )


class _Games:
    """The utilities of every coalition: one bitmask per row, over the epoch's clients in order of appearance."""

    def __init__(self, utilities: tuple[str, ...], findings: Findings) -> None:
        self._utilities = utilities
        self._findings = findings
        self._clients = _Clients()
        self._bits: dict[int, dict[int, int]] = {}
        """epoch -> client position -> bit"""
        self._epochs, self._masks, self._values = array("q"), array("q"), array("d")

    def add(self, epoch: int, coalition: str, values: list[Cell], where: str) -> None:
        if epoch < 1:
            raise refusal("E_EPOCH_ORDER", where, f"epoch {epoch}", "epochs from 1 on", _AGAIN)
        bits = self._bits.setdefault(epoch, {})
        names = coalition.split(";") if coalition else []
        mask = 0
        for name in names:
            bit = bits.setdefault(self._clients.position(name, where), len(bits))
            if bit >= MAX_COALITION_PLAYERS:
                found = f"more than {MAX_COALITION_PLAYERS} participants in epoch {epoch}"
                raise refusal("E_FILE_SIZE", where, found, f"at most {MAX_COALITION_PLAYERS} (2^n coalitions)", _AGAIN)
            mask |= 1 << bit
        if mask.bit_count() != len(names):
            raise refusal("E_TABLE", where, f"{shown(coalition)}: a client twice", "each member once", _AGAIN)
        numbers = [cell for cell in values if cell is not None and np.isfinite(cell)]
        if len(numbers) != len(values):
            code = "E_TABLE_VALUE" if None in values else "E_NONFINITE"
            raise refusal(
                code, where, f"{shown(values)} for {_named(coalition)}", "a finite number per utility", _AGAIN
            )
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
                "E_EPOCH_ORDER", path.name, f"no rows for epochs {span(missing)}", "epochs 1 … T without a gap", _AGAIN
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
            raise refusal("E_TABLE_DUP", where, f"{_named(twice)} twice", "one row per coalition", _AGAIN)
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
            where = companion(path).name
            self._findings.refuse(
                "E_CLIENT_SIZE", where, f"no data size of {shown(without[0])}", "one per client", _AGAIN
            )
            return None
        return tuple(known[normal(name)] for name in self._clients.ids)


def _named(coalition: str) -> str:
    return f"coalition {shown(coalition)}" if coalition else "the empty coalition"


def companion(path: Path) -> Path:
    """Where the optional data sizes of a utility table lie: ``NAME.data_sizes.csv`` beside ``NAME.csv``."""
    return path.with_name(f"{path.stem}.data_sizes{path.suffix}")


def _read_data_sizes(path: Path, hashes: dict[str, str]) -> dict[str, int] | None:
    """The companion table ``client, data_size``; it is part of the run's identity under the name ``data_sizes``."""
    beside = companion(path)
    if not beside.is_file():
        return None
    hashes["data_sizes"] = _content_digest(beside)
    sizes: dict[str, int] = {}
    for row in open_rows(beside, "parquet" if beside.suffix.lower() == ".parquet" else "csv", ("client", "data_size")):
        size, *_ = row.numbers() or [None]
        if size is None or not size.is_integer() or not 1 <= size <= MAX_DATA_SIZE:
            raise refusal("E_CLIENT_SIZE", row.where, shown(size), "an integer of at least 1", _AGAIN)
        if row.key() in sizes:
            raise refusal("E_TABLE_DUP", row.where, f"{shown(row.key())} twice", "one row per client", _AGAIN)
        sizes[row.key()] = int(size)
    return sizes
