"""Takes a contribution table with any column names, separators and decimal signs into the table the reader knows."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flcontrib_core.errors import Problem, RunLogError
from flcontrib_core.execution.apart import CeilingReached, call_apart
from flcontrib_core.execution.limits import ProcessLimits
from flcontrib_core.files import write_atomic
from flcontrib_core.runs.import_counts import CLIENT_NAMES, ROUND_NAMES
from flcontrib_core.runs.limits import MAX_RECORD_BYTES, MAX_TABLE_BYTES, MAX_TABLE_CELLS, MAX_TABLE_ROWS
from flcontrib_core.runs.parquet import parquet_text
from flcontrib_core.runs.problems import EnoughProblems, Findings, quoted, refusal, shown, table_place
from flcontrib_core.runs.table_records import read_records
from flcontrib_core.runs.table_rows import plain_name, plain_names
from flcontrib_core.vocabulary import LOWER_IS_BETTER

PARTICIPATED_NAMES = ("participated", "took_part", "participation", "selected", "teilgenommen")
ROLES = ("epoch", "client", "participated")
"""What a column can be beside a utility."""
YES = frozenset({"1", "1.0", "true", "yes", "y", "t", "ja", "wahr", "x"})
NO = frozenset({"0", "0.0", "false", "no", "n", "f", "nein", "falsch", ""})
FIRST_ROWS = 5
MOST_COLUMNS = 1000
"""Most of which nobody reads; each is looked at on its own."""
CHILD_MEMORY = 2 << 30
CHILD_SECONDS = 60
_DECIMAL_COMMA, _THOUSANDS = re.compile(r"[-+]?\d*,\d+"), re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+")
_WHOLE = re.compile(r"0*(\d{1,6})(?:[.,]0+)?")


@dataclass(frozen=True)
class TableUnderstanding:
    """Which column is what, and how numbers are written."""

    epoch: str
    client: str
    utilities: Mapping[str, str]
    """Utility → column."""
    participated: str | None
    separator: str
    decimal: str
    rows: int
    ignored: tuple[str, ...]

    @property
    def lower_is_better(self) -> tuple[str, ...]:
        """The utilities that are read as losses: by their names alone, for nothing else in a table says it."""
        names, harm = plain_names(list(self.utilities))
        losses = [plain_name(name) in LOWER_IS_BETTER or name in harm for name in names]
        return tuple(utility for utility, loss in zip(self.utilities, losses, strict=True) if loss)

    def to_json(self) -> dict[str, Any]:
        """What the command and the page show before anything is written."""
        columns = {"epoch": self.epoch, "client": self.client, "utilities": dict(self.utilities)}
        return {
            "kind": "table",
            "columns": columns | ({} if self.participated is None else {"participated": self.participated}),
            "lower_is_better": list(self.lower_is_better),
            "separator": self.separator,
            "decimal": self.decimal,
            "rows": self.rows,
            "ignored": list(self.ignored),
        }


class ForeignTable:
    """A table somebody else wrote (CSV or Parquet), understood; ``write`` puts it down as docs/run-log.md has it."""

    def __init__(self, path: Path, columns: Mapping[str, str] | None = None, name: str = "") -> None:
        """``columns``: what a person says some columns are, ``{"epoch": …, "client": …, "participated": …}`` (the last
        one "" for none) and any utility by the name it shall have; the rest is recognised. Where a utility is named,
        only those named are read.
        ``name``: what messages call the table, where its file has another name.
        """
        self._name = name or path.name
        self.separator, self.header, self._rows = _read(path, self._name)
        if twice := [name for name, times in Counter(self.header).items() if name and times > 1]:
            raise self._refusal(f"column {shown(twice[0])} twice")
        told = {what: name for what, name in (columns or {}).items() if name}
        unknown = [name for name in told.values() if name not in self.header]
        if unknown:
            raise self._refusal(f"no column {shown(unknown[0])} among {quoted(self.header)}")
        if shared := [name for name in told.values() if list(told.values()).count(name) > 1]:
            raise self._refusal(f"column {shown(shared[0])} for two things")
        free = [name for name in self.header if name not in told.values()]
        epoch = told.get("epoch") or self._named(ROUND_NAMES, free, "the epoch")
        client = told.get("client") or self._named(CLIENT_NAMES, free, "the client")
        named = {name: column for name, column in told.items() if name not in ROLES}
        flags = [name for name in free if name not in (epoch, client) and self._is_flag(name)]
        recognised = _called(PARTICIPATED_NAMES, flags) if "participated" not in (columns or {}) else None
        participated = told.get("participated") or recognised
        rest = [name for name in self.header if name not in (epoch, client, participated)]
        self._decimal = "," if self._commas(rest) else "."
        utilities = named or {name: name for name in rest if name and self._is_numeric(name)}
        if not utilities:
            raise self._refusal(f"no column of numbers beside {shown(epoch)} and {shown(client)}")
        ignored = tuple(name for name in rest if name not in utilities.values())
        self.understood = TableUnderstanding(
            epoch, client, utilities, participated, self.separator, self._decimal, len(self._rows), ignored
        )

    def _refusal(self, found: str) -> RunLogError:
        return refusal("E_IMPORT:table", self._name, found)

    def _named(self, names: tuple[str, ...], among: Sequence[str], what: str) -> str:
        found = _called(names, among)
        if found is None:
            raise self._refusal(f"no column that is {what} among {quoted(self.header)}")
        return found

    def _cells(self, name: str) -> list[str]:
        place = self.header.index(name)
        return [row[place].strip() if place < len(row) else "" for row in self._rows]

    def _commas(self, names: list[str]) -> bool:
        cells = [cell for name in names for cell in self._cells(name) if "," in cell]
        if self.separator != ",":
            return bool(cells)
        return any(_DECIMAL_COMMA.fullmatch(cell) and not _THOUSANDS.fullmatch(cell) for cell in cells)

    def _number(self, cell: str) -> str:
        return cell.replace(".", "").replace(",", ".") if self._decimal == "," and "," in cell else cell

    def _is_numeric(self, name: str) -> bool:
        cells = [cell for cell in self._cells(name) if cell]
        return bool(cells) and all(_is_number(self._number(cell)) for cell in cells)

    def _is_flag(self, name: str) -> bool:
        return all(cell.lower() in YES | NO for cell in self._cells(name))

    def rows(self, findings: Findings) -> Iterator[list[str]]:
        """The rows as they will be read, (epoch, client, utilities …); what is no such row goes to ``findings``.

        Who did not take part has no row. Rounds counted from 0 become epochs counted from 1, for epoch 0 is the
        initial model's.
        """
        told = self.understood
        cells = {name: self._cells(name) for name in (told.epoch, told.client, *told.utilities.values())}
        present = None if told.participated is None else self._cells(told.participated)
        epochs = [_WHOLE.fullmatch(cell) for cell in cells[told.epoch]]
        first = min((int(found[1]) for found in epochs if found), default=1)
        for place, (client, whole) in enumerate(zip(cells[told.client], epochs, strict=True)):
            if present is not None and present[place].lower() in NO:
                continue
            values = [self._number(cells[column][place]) for column in told.utilities.values()]
            wrong = [] if whole is not None else [(told.epoch, "a whole number")]
            if present is not None and present[place].lower() not in YES:
                wrong.append((str(told.participated), "yes or no, 1 or 0, true or false"))
            for column, value in zip(told.utilities.values(), values, strict=True):
                if value and not _is_number(value):
                    wrong.append((column, "a number or an empty cell"))
            for column, expected in wrong:
                where = table_place(self._name, place + 1, column)
                findings.refuse("E_IMPORT:table", where, shown(self._cells(column)[place]), expected)
            if whole is not None and not wrong:
                yield [str(int(whole[1]) + (first == 0)), client, *values]

    def write(self, target: Path) -> None:
        """Writes the table; ``target`` ends in .csv. Raises RunLogError with every cell that cannot be read."""
        findings = Findings()
        out = io.StringIO()
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(["epoch", "client", *self.understood.utilities])
        with suppress(EnoughProblems):
            lines.writerows(self.rows(findings))
        findings.raise_errors()
        write_atomic(target, out.getvalue().encode())


@dataclass(frozen=True)
class TableGlance:
    """A foreign table before it is read: its columns, what they were taken for, and its first rows as they will be."""

    header: tuple[str, ...]
    understood: dict[str, Any]
    """``TableUnderstanding.to_json``; empty where ``problems`` say why nothing was understood."""
    first_rows: tuple[tuple[str, ...], ...]
    problems: tuple[Problem, ...]


def glance_apart(path: Path, name: str, columns: Mapping[str, str], target: Path | None = None) -> TableGlance:
    """Looks at a stranger's table called ``name`` in a child with ceilings; with ``target``, writes it there where
    nothing is wrong.

    Raises RunLogError where it needs more than the ceilings allow.
    """
    limits = ProcessLimits(memory_bytes=CHILD_MEMORY, cpu_seconds=CHILD_SECONDS, niceness=0)
    written = None if target is None else str(target)
    argument = {"path": str(path), "name": name, "columns": dict(columns), "target": written}
    try:
        told = call_apart(f"{__name__}:_glance", argument, limits)
    except CeilingReached as reached:
        raise refusal("E_IMPORT:cost", name, f"more {reached.what} than a table is given") from reached
    rows, problems = tuple(map(tuple, told["first_rows"])), tuple(Problem(**p) for p in told["problems"])
    return TableGlance(tuple(told["header"]), told["understood"], rows, problems)


def _glance(argument: dict[str, Any], say: Callable[[Any], None]) -> dict[str, Any]:
    """The child's side of ``glance_apart``."""
    path, findings = Path(argument["path"]), Findings()
    told: dict[str, Any] = {"header": [], "understood": {}, "first_rows": [], "problems": []}
    try:
        told["header"] = _read(path, argument["name"])[1]
        table = ForeignTable(path, argument["columns"], argument["name"])
        told["understood"] = table.understood.to_json()
        if argument["target"] is not None:
            table.write(Path(argument["target"]))
        for row in table.rows(findings):
            told["first_rows"].append(row)
            if len(told["first_rows"]) == FIRST_ROWS:
                break
    except RunLogError as refused:
        findings.errors += refused.problems
    except EnoughProblems:
        pass
    told["problems"] = [problem.to_json() for problem in findings.errors]
    return told


def _is_number(text: str) -> bool:
    try:
        return "_" not in text and abs(float(text)) >= 0
    except ValueError:
        return False


def _called(names: tuple[str, ...], among: Sequence[str]) -> str | None:
    """The first column that has one of these names, in any writing."""
    written = {name.lower().replace(" ", "_").replace("-", "_"): name for name in reversed(among)}
    return next((written[name] for name in names if name in written), None)


def _read(path: Path, called: str) -> tuple[str, list[str], list[list[str]]]:
    """The separator, the header and the rows of a table, all of it text."""
    if path.stat().st_size > MAX_TABLE_BYTES:
        raise refusal("E_FILE_SIZE", called, f"{path.stat().st_size} bytes", f"at most {MAX_TABLE_BYTES}")
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            file.seek(0)
            with parquet_text(file, called) as (columns, _, decoded):
                return ",", [n.strip() for n in columns], [r for c in read_records(decoded, called) for r in c]
    text = _text(path)
    separator = max(";\t,", key=text.partition("\n")[0].count)
    # Before a row is cut: each costs a hundred times its text where it is short.
    lines, cells = 1 + max(text.count("\n"), text.count("\r")), text.count(separator)
    if lines > MAX_TABLE_ROWS or lines + cells > MAX_TABLE_CELLS:
        found, most = f"{lines} lines, {lines + cells} cells", f"{MAX_TABLE_ROWS} rows and {MAX_TABLE_CELLS} cells"
        raise refusal("E_FILE_SIZE", called, found, f"at most {most}")
    if max(map(len, text.splitlines()), default=0) > MAX_RECORD_BYTES:
        raise refusal("E_FILE_SIZE", called, "a line without end", f"lines of at most {MAX_RECORD_BYTES} bytes")
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=separator) if row]
    except csv.Error as bad:
        raise refusal("E_TABLE", called, str(bad)) from bad
    if rows and len(rows[0]) > MOST_COLUMNS:
        raise refusal("E_FILE_SIZE", called, f"{len(rows[0])} columns", f"at most {MOST_COLUMNS}")
    return separator, [name.strip() for name in rows[0]] if rows else [], rows[1:]


def _text(path: Path) -> str:
    """The file as text: UTF-8 or UTF-16 with its mark, else what spreadsheets on Windows write."""
    content = path.read_bytes()
    try:
        return content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")
