"""What goes with a run that is deleted or whose log is dropped, what stays, and why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flcontrib_core.workspace.cache import EPOCH
from flcontrib_core.workspace.index_file import Transaction
from flcontrib_core.workspace.objects import ObjectStore

if TYPE_CHECKING:
    from flcontrib_core.workspace.stored_runs import RunEntry


DROPPED = "log-dropped"
"""The entry of a run whose log went while its results stay, until it is added again."""
LATEST_DROP = (
    "(SELECT max(json_extract(gone.entry, '$.at')) FROM log AS gone WHERE gone.kind = 'log-dropped' "
    "AND gone.subject = runs.digest AND gone.sequence > runs.sequence)"
)
"""Of a row of ``runs``: when its log was dropped; NULL where it was not since it was added."""


@dataclass(frozen=True)
class DeletedRun:
    """What a deletion removed and what it left."""

    digest: str
    name: str
    bytes_freed: int
    results: int
    epochs: int
    games: int
    jobs: int
    kept: tuple[str, ...]


def decide_removal(transaction: Transaction, entry: RunEntry, objects: ObjectStore, root: Path) -> DeletedRun:
    """Takes a run's rows out of the index and notes its files for removal."""
    kin = transaction.execute(
        "SELECT json_extract(entry, '$.body.name') AS name FROM runs "
        "WHERE digest <> ? AND json_extract(entry, '$.body.family') = ?",
        (entry.digest, entry.family),
    )
    results = transaction.execute("SELECT object FROM results WHERE run = ?", (entry.digest,))
    jobs = transaction.execute("SELECT id FROM asked WHERE run = ?", (entry.digest,))
    cached = []
    if not kin:
        cached = transaction.execute("SELECT key, object, what FROM cached WHERE family = ?", (entry.family,))
        transaction.execute("DELETE FROM cached WHERE family = ?", (entry.family,))
    for row in jobs:
        transaction.execute("DELETE FROM jobs WHERE id = ?", (row["id"],))
    names = [entry.object, entry.companion, *(row["object"] for row in [*results, *cached])]
    paths = [objects.path(name).relative_to(root) for name in names if name is not None]
    paths += [Path("jobs", row["id"]) for row in jobs]
    for path in paths:
        transaction.execute("INSERT OR IGNORE INTO removals (path) VALUES (?)", (str(path),))
    count = transaction.execute("SELECT count(*) FROM log WHERE subject = ?", (entry.digest,))[0][0]
    kept = [f"{count + 1} entries of the audit log about it (name, digests, alerts, decisions)"]
    if kin:
        shared = ", ".join(repr(row["name"]) for row in kin)
        kept.append(f"finished epochs and remembered utilities, shared with {shared}")
    epochs = sum(row["what"] == EPOCH for row in cached)
    games = len({row["key"] for row in cached if row["what"] != EPOCH})
    freed = sum(size_on_disk(root / path) for path in paths)
    return DeletedRun(entry.digest, entry.name, freed, len(results), epochs, games, len(jobs), tuple(kept))


def in_use(transaction: Transaction, name: str) -> bool:
    """Does anything in the index point at the object or the job of this name?"""
    return bool(
        transaction.execute(
            "SELECT 1 FROM runs WHERE (json_extract(entry, '$.body.object') = ?1 "
            f"OR json_extract(entry, '$.body.companion') = ?1) AND {LATEST_DROP} IS NULL "
            "UNION ALL SELECT 1 FROM results WHERE object = ?1 UNION ALL SELECT 1 FROM cached WHERE object = ?1 "
            "UNION ALL SELECT 1 FROM jobs WHERE id = ?1",
            (name,),
        )
    )


def size_on_disk(path: Path) -> int:
    """Of a file, or of all files in a folder; 0 where there is nothing."""
    if path.is_dir():
        return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    return path.stat().st_size if path.exists() else 0
