"""Estimators that only another Python's packages have, on games that were tabulated in this one.

Once all coalitions of a game are known it needs neither model nor torch. ``estimate_elsewhere`` gives such tables to a
child of another interpreter, which has this package's base and its own estimators' packages (shapiq from 1.8 on needs
Python 3.12), and takes the values back. Generators are seeded as an assessment seeds them, so that values do not
depend on where they were computed. The variable ``FLCONTRIB_SHAPIQ`` names the interpreter.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from flcontrib_core.codec import decode, encode
from flcontrib_core.errors import FLContribError, MissingPart, SettingsError
from flcontrib_core.execution.children import other_python
from flcontrib_core.games.table_game import TableGame
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.registry import epoch_estimator
from flcontrib_core.vocabulary import FloatArray

VARIABLE = "FLCONTRIB_SHAPIQ"


@dataclass(frozen=True)
class MethodBudget:
    """One method with one budget."""

    method: str
    evaluations: int


@dataclass(frozen=True)
class TabulatedEstimate:
    """What a method made of one epoch's table."""

    task: MethodBudget
    epoch: int
    evaluations: int
    """Spent"""
    values: list[list[float]]
    """(players, utilities)"""


@dataclass(frozen=True)
class EstimatesElsewhere:
    """All estimates, and why a method has none; a budget below what a method can use leaves a hole."""

    estimates: list[TabulatedEstimate]
    missing: dict[str, str]


def estimate_elsewhere(
    python: str, tables: Mapping[int, FloatArray], tasks: Sequence[MethodBudget], seed: int
) -> EstimatesElsewhere:
    """Every task on every epoch's table, (2^n, utilities) in mask order, by a child of the interpreter ``python``.

    Raises SettingsError where it does not start, FLContribError with its last words where it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder, "tables.npz"), allow_pickle=False, **{str(epoch): t for epoch, t in tables.items()})
        order = {"seed": seed, "tasks": [asdict(task) for task in tasks]}
        Path(folder, "order.json").write_text(json.dumps(order))
        command, environment = other_python(python, "-m", __name__, folder)
        try:
            # what the libraries print says nothing about the answer, and may be a hundred thousand lines
            ended = subprocess.run(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
            )
        except OSError as error:
            raise SettingsError(f"{VARIABLE} names {python!r}, which does not start: {error}") from error
        if ended.returncode:
            last = ended.stderr.strip().splitlines()[-1:] or ["it said nothing"]
            raise FLContribError(f"{python} ended with code {ended.returncode}: {last[0]}")
        return decode(EstimatesElsewhere, json.loads(Path(folder, "answer.json").read_text()))


def answer_here(tables: Mapping[int, FloatArray], tasks: Iterable[MethodBudget], seed: int) -> EstimatesElsewhere:
    """The same in this process."""
    estimates: list[TabulatedEstimate] = []
    missing: dict[str, str] = {}
    for task in tasks:
        estimator = epoch_estimator(task.method, evaluations=task.evaluations)
        for epoch, table in tables.items():
            oracle = CoalitionOracle(TableGame(table, [str(u) for u in range(table.shape[1])]))
            try:
                estimate = estimator.estimate(oracle, np.random.default_rng([seed, epoch]))
            except MissingPart as error:
                missing[task.method] = str(error)
                break
            except SettingsError:
                break  # a budget below what the method can use
            estimates.append(TabulatedEstimate(task, epoch, estimate.evaluations, estimate.values.tolist()))
    return EstimatesElsewhere(estimates, missing)


def _serve(folder: Path) -> None:
    """The child's side."""
    order = json.loads((folder / "order.json").read_text())
    with np.load(folder / "tables.npz", allow_pickle=False) as stored:
        tables = {int(epoch): stored[epoch] for epoch in stored.files}
    answer = answer_here(tables, [MethodBudget(**task) for task in order["tasks"]], order["seed"])
    (folder / "answer.json").write_text(json.dumps(encode(EstimatesElsewhere, answer)[0]))


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
