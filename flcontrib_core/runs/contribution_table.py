"""Rows ``epoch, client, utility …`` as a history with three states: computed, absent, not computed."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs.confusables import confusable_evidence
from flcontrib_core.runs.limits import MAX_EMPTY_EPOCHS, MAX_EMPTY_EPOCHS_PER_EPOCH, MAX_HISTORY_CELLS
from flcontrib_core.runs.log_checks import absent_evidence
from flcontrib_core.runs.problems import MAX_PROBLEMS, Findings, problem, refusal, shown
from flcontrib_core.runs.run_log import ContributionTable
from flcontrib_core.runs.table_rows import ClientIds, RowFaults, Rows
from flcontrib_core.vocabulary import FloatArray


def table_template() -> str:
    """A small contribution table to fill in: four clients, six epochs, each of the three states of a cell."""
    lines = ["epoch,client,loss,accuracy"]
    for epoch in range(1, 7):
        for place, client in enumerate(("north", "east", "south", "west")):
            if (epoch + place) % 5 == 0:
                continue  # no row: did not take part
            value = 0.12 / epoch * (1 - 0.2 * place) * (-1 if client == "west" and epoch > 3 else 1)
            computed = f"{-value:.4f},{value / 2:.4f}" if epoch != 3 else ","  # empty: took part, not computed
            lines.append(f"{epoch},{client},{computed}")
    return "\n".join(lines) + "\n"


class ContributionRows:
    """Gathers the rows of a contribution table; no row = absent, empty cell = took part but not computed."""

    def __init__(self, utilities: tuple[str, ...], absent_if_nonfinite: bool, findings: Findings) -> None:
        self._utilities = utilities
        self._absent_if_nonfinite = absent_if_nonfinite
        self._findings = findings
        self._clients = ClientIds()
        self._epochs, self._positions, self._values = array("q"), array("q"), array("d")
        self._left_out: dict[str, list[int]] = {}

    def add(self, rows: Rows) -> None:
        """Takes the next rows of the table; faults go to the findings."""
        faults = RowFaults(len(rows.keys))
        known = self._clients.positions
        for row, client in enumerate(rows.keys) if set(rows.keys).difference(known) else ():
            if client not in known:
                try:
                    self._clients.position(client, partial(rows.where, row, "client"))
                except RunLogError as refused:
                    faults.add(row, refused.problems[0])
        odd = ~(np.isfinite(rows.values) | rows.empty).all(axis=1)
        for row in np.flatnonzero(odd & faults.sound).tolist():
            client = rows.keys[row]
            if self._absent_if_nonfinite:
                self._left_out.setdefault(client, []).append(int(rows.epochs[row]))
                continue
            places = np.flatnonzero(~(np.isfinite(rows.values[row]) | rows.empty[row])).tolist()
            found = f"{shown(rows.values[row, places].tolist())[1:-1]} of client {shown(client)}"
            columns = [self._utilities[place] for place in places]
            faults.add(row, problem("E_NONFINITE:cell", rows.where(row, *columns), found))
        faults.report(self._findings)
        rows = rows.keep(faults.sound & ~odd)
        self._epochs.frombytes(rows.epochs.tobytes())
        positions = np.fromiter(map(known.__getitem__, rows.keys), dtype=np.int64, count=len(rows.keys))
        self._positions.frombytes(positions.tobytes())
        self._values.frombytes(rows.values.tobytes())

    def table(
        self, path: Path, digest: str, lower: frozenset[str], passed: Callable[[str], None]
    ) -> ContributionTable | None:
        """The table of all rows; None where a fault was found."""
        epochs, positions = np.array(self._epochs, dtype=np.int64), np.array(self._positions, dtype=np.int64)
        last, clients = int(epochs.max(initial=0)), len(self._clients.ids)
        given = int(np.count_nonzero(np.bincount(epochs)[1:]))
        if (without := last - given) > (most := MAX_EMPTY_EPOCHS + MAX_EMPTY_EPOCHS_PER_EPOCH * given):
            found = f"epochs up to {last}, {without} of them without a row"
            expected = f"at most {most} without a row beside {given} with rows"
            raise refusal("E_EPOCH_ORDER", path.name, found, expected)
        if (last + 1) * clients * len(self._utilities) > MAX_HISTORY_CELLS:
            found = f"{last} epochs × {clients} clients × {len(self._utilities)} utilities"
            raise refusal("E_FILE_SIZE", path.name, found, f"at most {MAX_HISTORY_CELLS} cells")
        if last == 0 and not self._findings.errors:
            self._findings.refuse("E_EPOCH_NONE", path.name, "no epoch from 1 on")
        cells = epochs * max(clients, 1) + positions
        cells.sort()
        for cell in np.unique(cells[1:][cells[1:] == cells[:-1]])[:MAX_PROBLEMS].tolist():
            epoch, position = divmod(cell, clients)
            where = f"{path.name} epoch {epoch}"
            self._findings.refuse("E_TABLE_DUP", where, f"{shown(self._clients.ids[position])} twice")
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
        self._findings.warnings += absent_evidence(self._left_out)
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
