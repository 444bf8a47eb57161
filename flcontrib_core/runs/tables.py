"""Reads a table as a run: values computed elsewhere, or the utility of every coalition.

A *contribution table* has the columns ``epoch, client`` and one per utility; a *utility table* has ``epoch,
coalition`` and one per utility. Both come as CSV or Parquet and are read row by row with the same rules.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from flcontrib_core.errors import RunLogError, SettingsError
from flcontrib_core.runs.containers import unreadable
from flcontrib_core.runs.contribution_table import ContributionRows
from flcontrib_core.runs.encoding import run_digest
from flcontrib_core.runs.limits import MAX_DATA_SIZE, MAX_TABLE_BYTES, PIECE_BYTES
from flcontrib_core.runs.problems import Findings, refusal, shown
from flcontrib_core.runs.run_log import ContributionTable, UtilityTable
from flcontrib_core.runs.table_rows import ClientIds, Rows, TableRows, open_rows, plain_name
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
    with _opened(path) as (file, digest, lines):
        passed("archive safe")
        with open_rows(file, path.name, kind, lines) as rows:
            lower = _lower_is_better(rows.utilities, lower_is_better) | (rows.harm_is_up & set(rows.utilities))
            passed("manifest")
            hashes = {"table": digest}
            if rows.key == "client":
                values = ContributionRows(rows.utilities, nonfinite == "absent", findings)
                _gather(rows, values.add, findings)
                passed("shapes")
                return values.table(path, run_digest(hashes), lower, passed)
            sizes = _read_data_sizes(path, hashes)
            games = CoalitionRows(rows.utilities, findings)
            _gather(rows, games.add, findings)
            passed("shapes")
            return games.table(path, run_digest(hashes), lower, sizes, passed)


def _lower_is_better(utilities: Sequence[str], asked: Sequence[str]) -> frozenset[str]:
    unknown = [name for name in asked if name not in utilities]
    if unknown:
        raise SettingsError(f"lower_is_better names {shown(unknown)}; the table's utilities are {', '.join(utilities)}")
    return frozenset(name for name in utilities if plain_name(name) in LOWER_IS_BETTER or name in asked)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, str, int]]:
    """The file, the sha256 of its content and how many lines it has as a text; nothing of it is kept."""
    digest = hashlib.sha256()
    feeds = returns = 0
    last = b""
    try:
        file = path.open("rb")
    except OSError as bad:
        raise unreadable(path, bad) from bad
    with file:
        try:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_TABLE_BYTES:
                raise refusal("E_FILE_SIZE", path.name, f"{size} bytes", f"at most {MAX_TABLE_BYTES}")
            while piece := file.read(PIECE_BYTES):
                digest.update(piece)
                feeds, returns, last = feeds + piece.count(b"\n"), returns + piece.count(b"\r"), piece[-1:]
            file.seek(0)
        except OSError as bad:
            raise unreadable(path, bad) from bad
        yield file, digest.hexdigest(), max(feeds, returns) + (last not in (b"\n", b"\r", b""))


def _gather(rows: TableRows, add: Callable[[Rows], None], findings: Findings) -> None:
    for chunk in rows.read(findings):
        add(chunk)
    if not rows.count:
        findings.refuse("E_TABLE", rows.name, "no rows", "at least one")


def companion(path: str | Path) -> Path:
    """Where the optional data sizes of a utility table lie: ``NAME.data_sizes.csv`` beside ``NAME.csv``."""
    path = Path(path)
    return path.with_name(f"{path.stem}.data_sizes{path.suffix}")


def _read_data_sizes(path: Path, hashes: dict[str, str]) -> dict[str, int] | None:
    """The companion table ``client, data_size``; it is part of the run's identity under the name ``data_sizes``."""
    beside = companion(path)
    if not beside.is_file():
        return None
    found = Findings()
    clients = ClientIds()
    sizes: dict[str, int] = {}
    kind = "parquet" if beside.suffix.lower() == ".parquet" else "csv"
    with (
        _opened(beside) as (file, hashes["data_sizes"], lines),
        open_rows(file, beside.name, kind, lines, ("client", "data_size")) as table,
    ):
        for rows in table.read(found):
            for row, (client, size) in enumerate(zip(rows.keys, rows.values[:, 0].tolist(), strict=True)):
                if not size.is_integer() or not 1 <= size <= MAX_DATA_SIZE:
                    raise refusal("E_CLIENT_SIZE", rows.where(row), shown(size))
                if client in sizes:
                    raise refusal("E_TABLE_DUP", rows.where(row), f"{shown(client)} twice", "one row per client")
                clients.position(client, partial(rows.where, row))
                sizes[client] = int(size)
    if found.errors:
        raise RunLogError(tuple(found.errors))
    return sizes
