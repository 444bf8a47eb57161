"""Reads the rows of an untrusted CSV or Parquet table as columns of keys and numbers, a few thousand at a time."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

import numpy as np

from flcontrib_core.errors import Problem, RunLogError
from flcontrib_core.runs.limits import (
    MAX_CLIENTS,
    MAX_EPOCHS,
    MAX_ID_CHARACTERS,
    MAX_NUMBER_CHARACTERS,
    MAX_TABLE_CELLS,
    MAX_TABLE_ROWS,
    MAX_TABLE_UTILITIES,
)
from flcontrib_core.runs.manifest import id_fault, normal
from flcontrib_core.runs.parquet import parquet_text
from flcontrib_core.runs.problems import Findings, problem, quoted, refusal, shown, table_place
from flcontrib_core.runs.table_records import Chunk, Columns, read_records
from flcontrib_core.vocabulary import HARM_IS_UP, HELP_IS_UP, LOWER_IS_BETTER, BoolArray, FloatArray, IntArray

_NUMERIC = re.compile(r"[0-9+\-.eE aAnNiIfFtTyY]*+")
"""Signs of which ``float`` accepts only decimal numbers, nan and inf: no underscores, no other script's digits."""
_SHORT = 32
_FORMS = "columns epoch, client (or coalition) and one per utility"


def plain_name(column: str) -> str:
    """What a reader takes a column's name for: spaces around it, capitals and forms of one letter tell nothing."""
    return normal(column).strip().casefold()


def _unseen(column: str) -> bool:
    """Does the name hold signs that no page can show: line ends, escapes, NUL, those without width?"""
    return any(unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp") for sign in column)


class ClientIds:
    """Client ids in the order of their first appearance."""

    def __init__(self) -> None:
        self.positions: dict[str, int] = {}
        self._normal: set[str] = set()
        self.ids: list[str] = []

    def position(self, identity: str, where: Callable[[], str]) -> int:
        """The id's place; a new id gets the next one. Raises ``RunLogError`` where it cannot be an id.

        ``where`` names the row, and is asked only where something is wrong with it.
        """
        known = self.positions.get(identity)
        if known is not None:
            return known
        if (fault := id_fault(identity)) is not None:
            raise refusal("E_CLIENT_ID", where(), shown(identity), fault)
        compared = normal(identity)  # once: ids of a hundred accents each cost more here than anywhere else
        if compared in self._normal:
            raise refusal("E_CLIENT_DUP", where(), f"another client {shown(identity)}")
        if len(self.ids) >= MAX_CLIENTS:
            raise refusal("E_FILE_SIZE", where(), "another client", f"at most {MAX_CLIENTS} clients")
        self._normal.add(compared)
        self.positions[identity] = len(self.ids)
        self.ids.append(identity)
        return len(self.ids) - 1


@dataclass(frozen=True)
class Rows:
    """Some rows of a table whose cells are what they should be; each array has one entry per row."""

    name: str
    numbers: IntArray
    """Where each row stands in the table, counted from 1."""
    epochs: IntArray
    keys: Sequence[str]
    values: FloatArray
    """(rows, utilities), NaN where a cell is empty"""
    empty: BoolArray
    """(rows, utilities)"""

    def where(self, row: int, *columns: str) -> str:
        """A row as messages name it, with the columns they are about."""
        return table_place(self.name, int(self.numbers[row]), *columns)

    def keep(self, kept: BoolArray) -> Rows:
        """Some of the rows."""
        if kept.all():
            return self
        keys = [key for key, keeps in zip(self.keys, kept, strict=True) if keeps]
        return Rows(self.name, self.numbers[kept], self.epochs[kept], keys, self.values[kept], self.empty[kept])


class RowFaults:
    """The first fault of each row of a chunk; a faulty row is left out and reading goes on."""

    def __init__(self, count: int) -> None:
        self._problems: dict[int, Problem] = {}
        self.sound: BoolArray = np.ones(count, dtype=bool)

    def add(self, row: int, problem: Problem) -> None:
        """Notes the first fault of a row."""
        self._problems.setdefault(row, problem)
        self.sound[row] = False

    def report(self, findings: Findings) -> None:
        """Hands the faults over in the order of the rows."""
        for row in sorted(self._problems):
            findings.add(self._problems[row])


def plain_names(columns: Sequence[str]) -> tuple[list[str], frozenset[str]]:
    """The columns without the sign that our own tables state in a header, and those in which harm is up.

    A sign that contradicts what the name alone means stays part of the name: it is another utility.
    """
    names, harm = [], set()
    for column in columns:
        for mark in (HARM_IS_UP, HELP_IS_UP):
            name = column.removesuffix(f" {mark}")
            if name != column and (mark == HARM_IS_UP or name not in LOWER_IS_BETTER):
                column = name
                harm |= {name} if mark == HARM_IS_UP else set()
                break
        names.append(column)
    return names, frozenset(harm)


class TableRows:
    """The rows of one table, read once from beginning to end."""

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        expected_rows: int,
        chunks: Iterator[Chunk],
        required: tuple[str, ...] = (),
    ) -> None:
        """``required`` names the only columns the table may have, the key first."""
        self.name = name
        self.count = 0
        self._chunks = chunks
        self.columns, self.harm_is_up = plain_names(columns)
        keys = required[:1] or tuple(key for key in ("client", "coalition") if key in self.columns)
        if len(keys) != 1 or ("epoch" not in self.columns and not required) or not set(required) <= set(self.columns):
            raise self._unknown(f"columns {', '.join(required)}" if required else _FORMS)
        self.key = keys[0]
        values = [name for name in self.columns if name != self.key and (required or name != "epoch")]
        self.utilities: tuple[str, ...] = tuple(values)
        too_many = len(values) > (1 if required else MAX_TABLE_UTILITIES)
        unnamed = any(not 1 <= len(name.strip()) <= MAX_ID_CHARACTERS or _unseen(name) for name in values)
        seen = {plain_name(name) for name in self.columns[: MAX_TABLE_UTILITIES + 2]}
        if not values or too_many or unnamed or len(seen) != len(self.columns):
            raise self._unknown(f"{_FORMS} (at most {MAX_TABLE_UTILITIES}), each with a name of its own")
        self._bound(expected_rows)
        self._epochs: dict[str, int] = {}

    def _unknown(self, expected: str) -> RunLogError:
        return refusal("E_TABLE", self.name, f"columns {quoted(self.columns, MAX_TABLE_UTILITIES + 2)}", expected)

    def _bound(self, rows: int) -> None:
        if rows > MAX_TABLE_ROWS or rows * len(self.columns) > MAX_TABLE_CELLS:
            found = f"{rows} rows × {len(self.columns)} columns"
            expected = f"at most {MAX_TABLE_ROWS} rows and {MAX_TABLE_CELLS} cells"
            raise refusal("E_FILE_SIZE", self.name, found, expected)

    def read(self, findings: Findings) -> Iterator[Rows]:
        """The rows in chunks, without those that have a fault: these go to ``findings``."""
        for records in self._chunks:
            self._bound(self.count + len(records))
            faults = RowFaults(len(records))
            rows = self._rows(records, faults)
            self.count += len(records)
            faults.report(findings)
            yield rows.keep(faults.sound)

    def _columns(self, records: Chunk, numbers: IntArray, faults: RowFaults) -> Iterable[Sequence[str]]:
        width = len(self.columns)
        if isinstance(records, Columns) and len(records.columns) == width:
            return records.columns
        records = list(records)
        for row, record in enumerate(records) if set(map(len, records)) != {width} else ():
            if len(record) != width:
                found = f"{len(record)} cells"
                where = table_place(self.name, numbers[row])
                faults.add(row, problem("E_TABLE", where, found, f"{width}, one per column"))
                records[row] = [""] * width
        return zip(*records, strict=True)

    def _rows(self, records: Chunk, faults: RowFaults) -> Rows:
        numbers = np.arange(self.count + 1, self.count + len(records) + 1)
        columns = dict(zip(self.columns, self._columns(records, numbers, faults), strict=True))
        epochs = np.zeros(len(records), dtype=np.int64)
        if "epoch" in columns and "epoch" not in self.utilities:
            epochs = self._read_epochs(columns["epoch"], numbers, faults)
        values = np.empty((len(records), len(self.utilities)))
        empty = np.zeros(values.shape, dtype=bool)
        for place, name in enumerate(self.utilities):
            values[:, place], empty[:, place] = self._read_numbers(name, columns[name], numbers, faults)
        return Rows(self.name, numbers, epochs, columns[self.key], values, empty)

    def _wrong_cell(self, number: int, column: str, cell: str, expected: str) -> Problem:
        return problem("E_TABLE_VALUE", table_place(self.name, number, column), shown(cell), expected)

    def _read_epochs(self, cells: Sequence[str], numbers: IntArray, faults: RowFaults) -> IntArray:
        known = self._epochs
        for cell in set(cells).difference(known):
            sound = 1 <= len(cell) <= 9 and cell.isascii() and cell.isdecimal() and int(cell) <= MAX_EPOCHS
            if sound:
                known[cell] = int(cell)
        try:
            return np.array(array("q", map(known.__getitem__, cells)))
        except KeyError:
            for row, cell in enumerate(cells):
                if cell not in known:
                    expected = f"an integer up to {MAX_EPOCHS}"
                    faults.add(row, self._wrong_cell(numbers[row], "epoch", cell, expected))
            return np.array([known.get(cell, 0) for cell in cells], dtype=np.int64)

    def _read_numbers(
        self, column: str, cells: Sequence[str], numbers: IntArray, faults: RowFaults
    ) -> tuple[FloatArray, BoolArray | bool]:
        """A column as numbers, and which cells are empty (took part, not computed)."""
        text = "".join(cells)
        some_empty = "" in cells
        empty = np.array([not cell for cell in cells]) if some_empty else False
        short = len(text) <= _SHORT * len(cells) or max(map(len, cells)) <= MAX_NUMBER_CHARACTERS
        if short and _NUMERIC.fullmatch(text):
            try:
                filled = (cell or "nan" for cell in cells) if some_empty else cells
                return np.array(array("d", map(float, filled))), empty
            except ValueError:
                pass  # one of them is made of these signs and is no number all the same
        values = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells):
            number = _number(cell)
            if number is None:
                faults.add(row, self._wrong_cell(numbers[row], column, cell, "a number or an empty cell"))
            else:
                values[row] = number
        return values, empty


def _number(cell: str) -> float | None:
    """The cell's number, NaN where it is empty, None where it is something else."""
    if not cell:
        return np.nan
    if len(cell) > MAX_NUMBER_CHARACTERS or not _NUMERIC.fullmatch(cell):
        return None
    try:
        return float(cell)
    except ValueError:
        return None


@contextmanager
def open_rows(file: BinaryIO, name: str, kind: str, lines: int, required: tuple[str, ...] = ()) -> Iterator[TableRows]:
    """The rows of the table that is open; ``lines``: how many a text has, for a word before the work begins."""
    if kind == "parquet":
        with parquet_text(file, name) as (columns, count, text):
            yield TableRows(name, columns, count, read_records(text, name), required)
        return
    chunks = read_records(file, name)
    first = next(chunks, None)
    if first is None:
        raise refusal("E_TABLE", name, "an empty file", _FORMS)
    header, *records = first
    yield TableRows(name, header, lines - 1, chain([records] if records else [], chunks), required)
