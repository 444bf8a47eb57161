"""How do the rows ``epoch, client, utility …`` become a history with three states: computed, absent, not computed?"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path

import numpy as np

from flcontrib_core.runs.confusables import confusable_evidence
from flcontrib_core.runs.limits import MAX_TABLE_CELLS
from flcontrib_core.runs.problems import Findings, refusal, shown, span
from flcontrib_core.runs.run_log import ContributionTable
from flcontrib_core.runs.table_rows import FIX, Cell, ClientIds
from flcontrib_core.vocabulary import FloatArray


class ContributionRows:
    """Gathers the rows of a contribution table; no row = absent, empty cell = took part but not computed."""

    def __init__(self, utilities: tuple[str, ...], absent_if_nonfinite: bool, findings: Findings) -> None:
        self._utilities = utilities
        self._absent_if_nonfinite = absent_if_nonfinite
        self._findings = findings
        self._clients = ClientIds()
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
            self._findings.refuse("E_EPOCH_NONE", path.name, "no epoch from 1 on", "at least one epoch", FIX)
        cells = epochs * max(clients, 1) + positions
        unique, times = np.unique(cells, return_counts=True)
        for cell in unique[times > 1][:50]:
            epoch, position = divmod(int(cell), clients)
            where = f"{path.name} epoch {epoch}"
            self._findings.refuse(
                "E_TABLE_DUP", where, f"{shown(self._clients.ids[position])} twice", "one row each", FIX
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
            where = f"client {shown(client)}"
            self._findings.warn("W_NONFINITE_ABSENT", where, found, "finite numbers", fix, (client,))
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
