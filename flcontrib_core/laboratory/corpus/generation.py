"""Many runs at once: simulated to files, assessed to histories, or handed to any function, on several processes.

All three skip what an earlier call has finished, so an interrupted generation goes on where it was. Files appear in one
step; a killed process leaves none that is half written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save

from flcontrib_core.codec import OtherLayout, pack, unpack
from flcontrib_core.errors import SettingsError
from flcontrib_core.execution.engine import Execution, run_tasks
from flcontrib_core.files import write_atomic
from flcontrib_core.history import AssessSettings, ContributionHistory, assess_contributions
from flcontrib_core.laboratory.corpus.runs import CorpusRun, corpus_run
from flcontrib_core.laboratory.simulation import ChangeTruth, changes_of, simulate, simulate_in_memory
from flcontrib_core.runs.run_log import RunLog, Truth

LOG, HISTORY, ANSWER = ".flrun", ".history", ".json"
Work = Callable[[str, RunLog], Any]
"""What to make of a run: given its id and the run in memory, something JSON can say. A function of a module."""


@dataclass(frozen=True)
class AssessedRun:
    """A run of the corpus as a detector meets it, and beside it what is true."""

    run_id: str
    history: ContributionHistory
    truth: Truth
    changes: tuple[ChangeTruth, ...]


def simulate_corpus(runs: Iterable[CorpusRun], folder: str | Path, workers: int = 1) -> Iterator[Path]:
    """Writes each run as ``folder/ID.flrun``; yields the paths as they become ready."""
    yield from run_tasks(_simulated, Path(folder), (run.id for run in runs), Execution(workers))


def assess_corpus(
    runs: Iterable[CorpusRun], folder: str | Path, settings: AssessSettings | None = None, workers: int = 1
) -> Iterator[AssessedRun]:
    """Simulates in memory and assesses; keeps each as ``folder/ID.history`` and yields it, in no fixed order.

    The folder belongs to one ``settings``; another one is refused.
    """
    chosen = AssessSettings(utilities=("loss",)) if settings is None else settings
    _claim(Path(folder), repr(chosen))
    yield from run_tasks(_assessed, (Path(folder), chosen), (run.id for run in runs), Execution(workers))


def kept_runs(runs: Iterable[CorpusRun], folder: str | Path) -> list[CorpusRun]:
    """Those of the runs that ``assess_corpus`` has kept in this folder already."""
    return [run for run in runs if (Path(folder) / f"{run.id}{HISTORY}").exists()]


def keep_assessed(run: AssessedRun, folder: str | Path) -> Path:
    """Writes ``folder/ID.history``: a labelled run that ``read_assessed`` and ``calibrate --also`` take."""
    path = _place(Path(folder), run.run_id, HISTORY)
    arrays = {name: np.ascontiguousarray(array) for name, array in pack(AssessedRun, run).items()}
    write_atomic(path, save(arrays))
    return path


def read_assessed(folder: str | Path) -> Iterator[AssessedRun]:
    """Every labelled run below a folder, whoever made it. Raises SettingsError for one of another version."""
    for path in sorted(Path(folder).rglob(f"*{HISTORY}")):
        try:
            yield unpack(AssessedRun, load_file(path))
        except OtherLayout:
            raise SettingsError(f"{path} was kept by another version of this package; assess its run again") from None


def map_corpus(
    work: Work, runs: Iterable[CorpusRun], folder: str | Path, workers: int = 1
) -> Iterator[tuple[str, Any]]:
    """``work(id, run)`` for each run; keeps the answers as ``folder/ID.json`` and yields them with their ids.

    The folder belongs to one function; another one is refused. Who changes the function takes another folder.
    """
    _claim(Path(folder), f"{work.__module__}.{work.__qualname__}")
    yield from run_tasks(_answered, (Path(folder), work), (run.id for run in runs), Execution(workers))


def _simulated(folder: Path, run_id: str) -> Path:
    path = _place(folder, run_id, LOG)
    if not path.exists():
        simulate(corpus_run(run_id).settings, path)
    return path


def _assessed(shared: tuple[Path, AssessSettings], run_id: str) -> AssessedRun:
    folder, settings = shared
    path = _place(folder, run_id, HISTORY)
    if path.exists():
        try:
            return unpack(AssessedRun, load_file(path))
        except OtherLayout:
            pass  # kept by another version: assessed again below
    run = simulate_in_memory(corpus_run(run_id).settings)
    assert run.truth is not None
    assessed = AssessedRun(run_id, assess_contributions(run, settings), run.truth, changes_of(run))
    keep_assessed(assessed, folder)
    return assessed


def _answered(shared: tuple[Path, Work], run_id: str) -> tuple[str, Any]:
    folder, work = shared
    path = _place(folder, run_id, ANSWER)
    if path.exists():
        return run_id, json.loads(path.read_text(encoding="utf-8"))
    answer = work(run_id, simulate_in_memory(corpus_run(run_id).settings))
    write_atomic(path, json.dumps(answer, ensure_ascii=False) + "\n")
    return run_id, answer


def _place(folder: Path, run_id: str, suffix: str) -> Path:
    path = folder / f"{run_id}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _claim(folder: Path, purpose: str) -> None:
    """Notes what a folder is for, or refuses it where it is for something else."""
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / "made-by.txt"
    if not note.exists():
        write_atomic(note, purpose + "\n")
    elif note.read_text(encoding="utf-8").strip() != purpose:
        raise SettingsError(f"{folder} holds what {note.read_text().strip()} made of the corpus; choose another folder")
