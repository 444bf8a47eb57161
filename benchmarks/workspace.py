"""What does it cost to lose nothing? Memory against a row per coalition, and the workspace's own running costs."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.measurement import Measurement
from flcontrib_core.runs.recorder import RunRecorder
from flcontrib_core.shapley.oracle import coalition_keys
from flcontrib_core.workspace import Workspace

_PLAYERS, _UTILITIES = 16, 2


def run(scale: str) -> list[Measurement]:
    """Side by side in one process; CPU seconds, medians of repeated runs."""
    with tempfile.TemporaryDirectory(prefix="flcontrib-bench-") as folder:
        return [*_memory(Path(folder)), *_running_costs(Path(folder), entries=300 if scale == "small" else 3000)]


def _memory(folder: Path) -> list[Measurement]:
    values = _all_coalitions()
    keys = [f"{number:064x}" for number in range(5)]
    ours_keep, ours_recall, rows_keep, rows_recall = [], [], [], []
    with Workspace(folder / "memory") as workspace:
        memory = workspace.utility_memory()
        for key in keys:
            ours_keep.append(_cpu(lambda key=key: memory.keep_epoch(key, values)))
            ours_recall.append(_cpu(lambda key=key: memory.recall_epoch(key)))
        stored = sum(workspace.objects.path(name).stat().st_size for name in workspace.objects.names())
        ours_bytes = stored / len(keys) / len(values)
    table = folder / "rows.sqlite"
    connection = sqlite3.connect(table)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE utility (game INTEGER, coalition BLOB, a REAL, b REAL, PRIMARY KEY (game, coalition)) "
        "WITHOUT ROWID"
    )
    for game in range(len(keys)):
        rows_keep.append(_cpu(lambda game=game: _keep_rows(connection, game, values)))
        rows_recall.append(_cpu(lambda game=game: _recall_rows(connection, game)))
    connection.close()
    rows_bytes = table.stat().st_size / len(keys) / len(values)
    floor = (_PLAYERS + 7) // 8 + 8 * _UTILITIES
    note = f"{len(values)} coalitions of {_PLAYERS} players, {_UTILITIES} utilities"
    return [
        Measurement("memory: bytes per coalition over the bare numbers", ours_bytes / floor, 1.05, False, "×", note),
        Measurement("memory: smaller than an SQLite row per coalition", rows_bytes / ours_bytes, 1.2, True, "×", note),
        Measurement("memory: keeping, CPU against rows", _median(rows_keep) / _median(ours_keep), 1.0, True, "×", note),
        Measurement(
            "memory: recalling, CPU against rows", _median(rows_recall) / _median(ours_recall), 1.0, True, "×", note
        ),
    ]


def _running_costs(folder: Path, entries: int) -> list[Measurement]:
    """A workspace with a long history: how much of a page's time does it take?"""
    path = folder / "history"
    with Workspace(path) as workspace:
        run_digest = workspace.add_run(_recorded(folder / "run")).digest
        checkpoints = workspace.checkpoints()
        arrays = {"values": np.zeros((64, 3)), "errors": np.zeros((64, 3))}
        keeping = [
            (_both(lambda number=number: checkpoints.keep(f"{number:064x}", arrays))) for number in range(entries)
        ]
        for number in range(entries):
            workspace.store_result(run_digest, {"n": number}, "note", {"n": number})
        polling = [_cpu(workspace.jobs.poll) for _ in range(50)]
        listing = [_cpu(lambda: workspace.latest_result(run_digest, "note")) for _ in range(20)]
        verifying = _cpu(workspace.verify_chain)
    opening = [_cpu(lambda: Workspace(path).close()) for _ in range(5)]
    (path / "index.sqlite").unlink()
    rebuilding = _cpu(lambda: Workspace(path).close())
    note = f"{entries} finished epochs, {entries} results"
    cpu, wall = (_median([pair[i] for pair in keeping]) * 1000 for i in (0, 1))
    return [
        Measurement("finished epoch kept durably, CPU", cpu, 10.0, False, "ms", f"{wall:.1f} ms wall with its syncs"),
        Measurement("polling the jobs of an idle workspace, CPU", _median(polling) * 1000, 5.0, False, "ms"),
        Measurement("newest result of a run, CPU", _median(listing) * 1000, None, False, "ms", note),
        Measurement("opening with integrity check, CPU", _median(opening) * 1000, 1000.0, False, "ms", note),
        Measurement("verifying the chain, CPU", verifying * 1000, None, False, "ms", note),
        Measurement("rebuilding a lost index, CPU", rebuilding * 1000, None, False, "ms", note),
    ]


def _all_coalitions() -> dict[bytes, np.ndarray]:
    numbers = np.arange(1, 2**_PLAYERS, dtype=np.uint32)
    members = (numbers[:, None] >> np.arange(_PLAYERS)) & 1 == 1
    values = np.random.default_rng(0).normal(size=(len(numbers), _UTILITIES))
    return dict(zip(coalition_keys(members), values, strict=True))


def _keep_rows(connection: sqlite3.Connection, game: int, values: dict[bytes, np.ndarray]) -> None:
    with connection:
        rows = ((game, key, float(value[0]), float(value[1])) for key, value in values.items())
        connection.executemany("INSERT INTO utility VALUES (?, ?, ?, ?)", rows)


def _recall_rows(connection: sqlite3.Connection, game: int) -> dict[bytes, np.ndarray]:
    rows = connection.execute("SELECT coalition, a, b FROM utility WHERE game = ?", (game,))
    return {key: np.array((a, b)) for key, a, b in rows}


def _recorded(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    with RunRecorder(
        folder,
        clients=[("a", 10), ("b", 20)],
        parameters=[("weight", (10,))],
        initial=np.zeros(10, dtype=np.float32),
    ) as recorder:
        recorder.epoch(rng.normal(size=(2, 10)).astype(np.float32))
    return folder


def _cpu(action: Callable[[], object]) -> float:
    return _both(action)[0]


def _both(action: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    action()
    return time.process_time() - cpu, time.perf_counter() - wall


def _median(numbers: list[float]) -> float:
    return float(np.median(numbers))
