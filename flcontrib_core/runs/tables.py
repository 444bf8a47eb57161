"""Which run does a table describe: values computed elsewhere, or the utility of every coalition?

A *contribution table* has the columns ``epoch, client`` and one per utility; a *utility table* has ``epoch,
coalition`` and one per utility. Both come as CSV or Parquet and are read row by row with the same rules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from flcontrib_core.errors import SettingsError
from flcontrib_core.runs.containers import unreadable
from flcontrib_core.runs.contribution_table import ContributionRows
from flcontrib_core.runs.encoding import run_digest
from flcontrib_core.runs.limits import MAX_DATA_SIZE, MAX_TABLE_BYTES, PIECE_BYTES
from flcontrib_core.runs.problems import Findings, refusal, shown
from flcontrib_core.runs.run_log import ContributionTable, UtilityTable
from flcontrib_core.runs.table_rows import FIX, Cell, TableRows, open_rows
from flcontrib_core.runs.utility_table import CoalitionRows
from flcontrib_core.vocabulary import LOWER_IS_BETTER


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
        values = ContributionRows(utilities, nonfinite == "absent", findings)
        _gather(rows, values.add, findings)
        passed("shapes")
        return values.table(path, run_digest(hashes), lower, passed)
    sizes = _read_data_sizes(path, hashes)
    games = CoalitionRows(utilities, findings)
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
            while piece := file.read(PIECE_BYTES):
                digest.update(piece)
    except OSError as bad:
        raise unreadable(path, bad) from bad
    return digest.hexdigest()


def _gather(rows: TableRows, add: Callable[[int, str, list[Cell], str], None], findings: Findings) -> None:
    for row in rows:
        with findings.collecting():
            add(row.epoch(), row.key(), row.numbers(), row.where)
    if not rows.count:
        findings.refuse("E_TABLE", rows.name, "no rows", "at least one", FIX)


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
            raise refusal("E_CLIENT_SIZE", row.where, shown(size), "an integer of at least 1", FIX)
        if row.key() in sizes:
            raise refusal("E_TABLE_DUP", row.where, f"{shown(row.key())} twice", "one row per client", FIX)
        sizes[row.key()] = int(size)
    return sizes
