"""Which epochs does a benchmark of estimators look at, and what are their exact values?

Federations are trained by the product's own simulator in the paper's set-up, on the data folder $FLCONTRIB_DATA.
Exact tables of 16 participants take minutes each: they are kept in the temporary folder between runs, keyed by the
run's digest, the epoch and the validation rows.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from flcontrib_core.games.submodels import EpochGame
from flcontrib_core.games.table_game import TableGame
from flcontrib_core.history.trajectory import evaluator_for, walk
from flcontrib_core.laboratory.simulation.settings import SimulationSettings
from flcontrib_core.laboratory.simulation.simulated_run import simulate_in_memory
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.shapley.exact_values import evaluate_all, shapley_from_table
from flcontrib_core.shapley.flagged import flagged_players
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.vocabulary import FloatArray, PlayerByUtility

Answer = TypeVar("Answer")
UTILITIES = ("loss", "accuracy")


@dataclass
class BenchmarkEpoch:
    """One epoch's game and, on demand, all its values."""

    name: str
    number: int
    game: EpochGame
    key: str

    @cached_property
    def flagged(self) -> bool:
        return bool(flagged_players(self.game))

    @cached_property
    def table(self) -> FloatArray:
        """(2^n, utilities) by enumeration; kept on disk from 2^14 coalitions on."""
        if self.game.players < 14:
            return evaluate_all(CoalitionOracle(self.game))
        folder = Path(tempfile.gettempdir()) / "flcontrib-benchmarks"
        folder.mkdir(exist_ok=True)
        file = folder / f"{self.key}.npy"
        if not file.exists():
            part = file.with_suffix(f".{os.getpid()}.part")
            with part.open("wb") as stream:
                np.save(stream, evaluate_all(CoalitionOracle(self.game)))
            part.replace(file)
        return np.asarray(np.load(file))

    @cached_property
    def truth(self) -> PlayerByUtility:
        return shapley_from_table(self.table)

    def oracle(self) -> CoalitionOracle:
        """Evaluates sub-models."""
        return CoalitionOracle(self.game)

    def lookup(self) -> CoalitionOracle:
        """Answers from the exact table: for methods that need utilities only."""
        return CoalitionOracle(TableGame(self.table, self.game.utilities))

    def nmse(self, values: PlayerByUtility) -> FloatArray:
        """(utilities,) mean squared error over the variance of the exact values."""
        return np.asarray(((values - self.truth) ** 2).mean(axis=0) / self.truth.var(axis=0))


def simulated_epochs(
    name: str, settings: SimulationSettings, epochs: Sequence[int], utilities: tuple[str, ...] = UTILITIES
) -> Iterator[BenchmarkEpoch]:
    """Trains the federation and yields the games of some of its epochs."""
    return epochs_of(simulate_in_memory(settings), name, epochs, utilities)


def epochs_of(
    run: RunLog, name: str, epochs: Sequence[int], utilities: tuple[str, ...] = UTILITIES
) -> Iterator[BenchmarkEpoch]:
    """The games of some epochs of a run."""
    evaluator = evaluator_for(run, utilities)
    for step in walk(run):
        number = step.record.epoch
        if number in epochs:
            game = EpochGame(step.start, step.data.updates, step.record.weights, evaluator)
            identity = f"{run.digest} {number} {game.validation_rows} {utilities}"
            key = hashlib.sha256(identity.encode()).hexdigest()[:32]
            yield BenchmarkEpoch(f"{name}, epoch {number}", number, game, key)


def cpu(work: Callable[..., Answer], *arguments: Any) -> tuple[Answer, float]:
    """The answer and the CPU seconds it took."""
    began = time.process_time()
    answer = work(*arguments)
    return answer, time.process_time() - began
