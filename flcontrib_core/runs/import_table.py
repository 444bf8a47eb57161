"""Takes a contribution table with any column names, separators and decimal signs into the table the reader knows."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flcontrib_core.files import write_atomic
from flcontrib_core.runs.import_layout import CLIENT_NAMES
from flcontrib_core.runs.limits import MAX_RECORD_BYTES, MAX_TABLE_BYTES, MAX_TABLE_CELLS
from flcontrib_core.runs.problems import refusal, shown

EPOCH_NAMES = ("epoch", "round", "runde", "iteration", "iter", "step", "rnd", "server_round", "t")
_WHOLE = re.compile(r"0*(\d{1,6})(?:[.,]0+)?")


@dataclass(frozen=True)
class TableUnderstanding:
    """Which column is what, and how numbers are written."""

    epoch: str
    client: str
    utilities: tuple[str, ...]
    separator: str
    decimal: str
    rows: int
    ignored: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "table",
            "columns": {"epoch": self.epoch, "client": self.client, "utilities": list(self.utilities)},
            "separator": self.separator,
            "decimal": self.decimal,
            "rows": self.rows,
            "ignored": list(self.ignored),
        }


class ForeignTable:
    """A table somebody else wrote, understood; ``write`` puts it down as docs/run-log.md has it."""

    def __init__(self, path: Path, columns: Mapping[str, str] | None = None) -> None:
        """``columns``: what a person says some columns are, ``{"epoch": …, "client": …}``; the rest is recognised."""
        if path.stat().st_size > MAX_TABLE_BYTES:
            raise refusal("E_FILE_SIZE", str(path), f"{path.stat().st_size} bytes", f"at most {MAX_TABLE_BYTES}")
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        head = text.partition("\n")[0]
        separator = max(";\t,", key=head.count)
        if max(map(len, text.splitlines()), default=0) > MAX_RECORD_BYTES:
            raise refusal("E_FILE_SIZE", str(path), "a line without end", f"lines of at most {MAX_RECORD_BYTES} bytes")
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=separator) if row]
        self._header, self._rows = [name.strip() for name in rows[0]] if rows else [], rows[1:]
        if len(rows) * len(self._header) > MAX_TABLE_CELLS:
            raise refusal("E_FILE_SIZE", str(path), f"{len(rows)} rows", f"at most {MAX_TABLE_CELLS} cells")
        self._path = path
        told = dict(columns or {})
        unknown = [name for name in told.values() if name not in self._header]
        if unknown:
            raise refusal("E_IMPORT:table", str(path), f"no column {shown(unknown[0])} among {shown(self._header)}")
        epoch = told.get("epoch") or self._named(EPOCH_NAMES, "the epoch")
        client = told.get("client") or self._named(CLIENT_NAMES, "the client")
        rest = [name for name in self._header if name not in (epoch, client)]
        self._decimal = "," if separator != "," and self._commas(rest) else "."
        utilities = [name for name in rest if self._is_numeric(name)]
        if not utilities:
            raise refusal(
                "E_IMPORT:table", str(path), f"no column of numbers beside {shown(epoch)} and {shown(client)}"
            )
        ignored = tuple(name for name in rest if name not in utilities)
        self.understood = TableUnderstanding(
            epoch, client, tuple(utilities), separator, self._decimal, len(self._rows), ignored
        )

    def _named(self, names: tuple[str, ...], what: str) -> str:
        lowered = {name.lower().replace(" ", "_").replace("-", "_"): name for name in reversed(self._header)}
        for name in names:
            if name in lowered:
                return lowered[name]
        raise refusal("E_IMPORT:table", str(self._path), f"no column that is {what} among {shown(self._header)}")

    def _cells(self, name: str) -> list[str]:
        place = self._header.index(name)
        return [row[place].strip() if place < len(row) else "" for row in self._rows]

    def _commas(self, names: list[str]) -> bool:
        return any("," in cell for name in names for cell in self._cells(name))

    def _number(self, cell: str) -> str:
        return cell.replace(".", "").replace(",", ".") if self._decimal == "," and "," in cell else cell

    def _is_numeric(self, name: str) -> bool:
        cells = [self._number(cell) for cell in self._cells(name) if cell]
        try:
            return bool(cells) and all(abs(float(cell)) >= 0 for cell in cells)
        except ValueError:
            return False

    def write(self, target: Path) -> None:
        """Writes the table; ``target`` ends in .csv."""
        told = self.understood
        epochs = [_WHOLE.fullmatch(cell) for cell in self._cells(told.epoch)]
        for number, (found, cell) in enumerate(zip(epochs, self._cells(told.epoch), strict=True), start=2):
            if found is None:
                raise refusal(
                    "E_IMPORT:table", f"{self._path}, line {number}", f"epoch {shown(cell)}", "a whole number"
                )
        first = min((int(found[1]) for found in epochs if found), default=1)
        out = io.StringIO()
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(["epoch", "client", *told.utilities])
        columns = [[self._number(cell) for cell in self._cells(name)] for name in told.utilities]
        for place, client in enumerate(self._cells(told.client)):
            found = epochs[place]
            assert found is not None
            # Rounds counted from 0 become epochs counted from 1: epoch 0 is the initial model's.
            lines.writerow([int(found[1]) + (first == 0), client, *(column[place] for column in columns)])
        write_atomic(target, out.getvalue().encode())
