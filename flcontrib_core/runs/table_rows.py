"""How do the rows of an untrusted CSV or Parquet table become keys and numbers, a few at a time?"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs.containers import unreadable
from flcontrib_core.runs.limits import (
    MAX_CLIENTS,
    MAX_EPOCHS,
    MAX_ID_CHARACTERS,
    MAX_RATIO,
    MAX_TABLE_BYTES,
    MAX_TABLE_ROWS,
    MAX_TABLE_UTILITIES,
)
from flcontrib_core.runs.manifest import id_fault, normal
from flcontrib_core.runs.problems import refusal, shown

Cell = float | None
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?|[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE)
_INTEGER = re.compile(r"\d{1,9}", re.ASCII)
_FORMS = "columns epoch, client (or coalition) and one per utility"
FIX = "Write the table as docs/run-log.md shows: long form, comma-separated, decimal points."


class ClientIds:
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
                code, where, f"another client {shown(identity)}", f"at most {MAX_CLIENTS}, unique after NFC", FIX
            )
        self._normal.add(normal(identity))
        self._positions[identity] = len(self.ids)
        self.ids.append(identity)
        return len(self.ids) - 1


class TableRows:
    """The rows of one table, read once from beginning to end."""

    def __init__(
        self, name: str, columns: Sequence[str], records: Iterator[Sequence[Any]], required: tuple[str, ...]
    ) -> None:
        self.name = name
        self.count = 0
        self._records = records
        self.columns = list(columns)
        keys = required[:1] or tuple(key for key in ("client", "coalition") if key in self.columns)
        if len(keys) != 1 or ("epoch" not in self.columns and not required) or not set(required) <= set(self.columns):
            raise self._unknown(f"columns {', '.join(required)}" if required else _FORMS)
        self.key = keys[0]
        values = [name for name in self.columns if name != self.key and (required or name != "epoch")]
        self.utilities: tuple[str, ...] = tuple(values)
        too_many = len(values) > (1 if required else MAX_TABLE_UTILITIES)
        unnamed = any(not 1 <= len(name.strip()) <= MAX_ID_CHARACTERS for name in values)
        if not values or too_many or unnamed or len(set(self.columns)) != len(self.columns):
            raise self._unknown(f"{_FORMS}, each with a name of its own")

    def _unknown(self, expected: str) -> RunLogError:
        return refusal("E_TABLE", self.name, f"columns {shown(self.columns)}", expected, FIX)

    def __iter__(self) -> Iterator[Row]:
        places = {name: place for place, name in enumerate(self.columns)}
        values = [places[name] for name in self.utilities]
        for record in self._records:
            self.count += 1
            if self.count > MAX_TABLE_ROWS:
                raise refusal("E_FILE_SIZE", self.name, f"more than {MAX_TABLE_ROWS} rows", "fewer", "Split the run.")
            where = f"{self.name} row {self.count}"
            if len(record) == len(self.columns):
                number = record[places["epoch"]] if "epoch" in places else None
                yield Row(number, record[places[self.key]], [record[place] for place in values], where)
            else:
                yield Row(None, None, None, where)


@dataclass(frozen=True)
class Row:
    """One record, not yet judged: each question about it may find a fault in it, and the next row goes on."""

    number: Any
    identity: Any
    cells: list[Any] | None
    """None = the record has another number of cells than the table has columns."""
    where: str

    def epoch(self) -> int:
        if self.cells is None:
            raise refusal("E_TABLE", self.where, "another number of cells", "one per column", FIX)
        number = int(self.number) if isinstance(self.number, float) and self.number.is_integer() else self.number
        if _INTEGER.fullmatch(str(number)) and int(number) <= MAX_EPOCHS:
            return int(number)
        raise refusal("E_TABLE_VALUE", self.where, f"epoch {shown(number)}", f"an integer up to {MAX_EPOCHS}", FIX)

    def key(self) -> str:
        return "" if self.identity is None else str(self.identity)

    def numbers(self) -> list[Cell]:
        return [_number(cell, self.where) for cell in self.cells or ()]


def _number(cell: Any, where: str) -> Cell:
    """A cell as a number; empty (or null) means: took part, not computed."""
    if cell is None or cell == "":
        return None
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return float(cell)
    if isinstance(cell, str) and _NUMBER.fullmatch(cell.strip(" ")):
        return float(cell.strip(" "))
    raise refusal("E_TABLE_VALUE", where, shown(cell), "a number or an empty cell", FIX)


def open_rows(path: Path, kind: str, required: tuple[str, ...] = ()) -> TableRows:
    """The rows of the table at ``path``; ``required`` names the only columns it may have, the key first."""
    records = _parquet_records(path) if kind == "parquet" else _csv_records(path)
    header = next(records, None)
    if header is None:
        raise refusal("E_TABLE", path.name, "an empty file", _FORMS, FIX)
    return TableRows(path.name, [str(name) for name in header], records, required)


def _csv_records(path: Path) -> Iterator[Sequence[Any]]:
    """The header, then every record. A line that cannot be cut into cells ends the reading."""
    try:
        with path.open("rb") as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
            yield from csv.reader(text, strict=True)
    except UnicodeDecodeError as bad:
        raise refusal("E_TABLE", path.name, f"bytes that are not UTF-8 ({bad.reason})", "UTF-8", FIX) from None
    except csv.Error as bad:
        raise refusal("E_TABLE", path.name, str(bad), "comma-separated values", FIX) from None
    except OSError as bad:
        raise unreadable(path, bad) from bad


def _parquet_records(path: Path) -> Iterator[Sequence[Any]]:
    """The header, then every record, in batches. Sizes are taken from the file's own directory first."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # What lies inside the pages is the library's to check; its errors are ArrowException or OSError.
        with pq.ParquetFile(path, memory_map=False, pre_buffer=False) as file:
            _bound_parquet(file.metadata, path)
            schema = file.schema_arrow
            plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_large_string)
            odd = [f for f in schema if not any(test(f.type) for test in plain) and not _is_text_dictionary(f.type, pa)]
            if odd:
                raise refusal(
                    "E_TABLE",
                    path.name,
                    f"column {shown(odd[0].name)} of type {odd[0].type}",
                    "texts and numbers",
                    FIX,
                )
            yield schema.names
            for batch in file.iter_batches(batch_size=8192, use_threads=False):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as bad:
        raise refusal("E_TABLE", path.name, shown(str(bad)), "a whole Parquet file", "Write the table again.") from None


def _is_text_dictionary(kind: Any, pa: Any) -> bool:
    return bool(
        pa.types.is_dictionary(kind)
        and (pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type))
    )


def _bound_parquet(metadata: Any, path: Path) -> None:
    expanded = sum(metadata.row_group(i).total_byte_size for i in range(min(metadata.num_row_groups, MAX_TABLE_ROWS)))
    if metadata.num_rows > MAX_TABLE_ROWS or metadata.num_columns > MAX_TABLE_UTILITIES + 2:
        found = f"{metadata.num_rows} rows × {metadata.num_columns} columns"
        raise refusal(
            "E_FILE_SIZE", path.name, found, f"at most {MAX_TABLE_ROWS} × {MAX_TABLE_UTILITIES + 2}", "Split the run."
        )
    if expanded > MAX_TABLE_BYTES // 2 or expanded > max(1 << 20, MAX_RATIO * path.stat().st_size):
        raise refusal(
            "E_FILE_SIZE",
            path.name,
            f"{expanded} bytes when expanded",
            f"at most {MAX_TABLE_BYTES // 2}",
            "Split the run.",
        )
