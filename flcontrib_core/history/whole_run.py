"""Runs the estimators that need the whole sequence of epoch games (ComFedSV, one-round).

The estimator runs here; what it asks of an epoch, or of the run as a whole, is cut into parts for an engine's workers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, overload

import numpy as np

from flcontrib_core.errors import RunLogError
from flcontrib_core.execution.engine import Engine, Execution, InProcess, open_engine
from flcontrib_core.history.assembly import assemble_history
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.epoch_places import epoch_places, lies_in_a_file, task_of
from flcontrib_core.history.epoch_work import EpochAnswer, EpochTask, FetchedEpoch, Workbench
from flcontrib_core.history.remarks import grouped
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.shared_epoch import EPOCH_MULTIPLY_ADDS, SharedEpoch, borders
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.shapley.estimate import EpochOfRun, RunEstimate, RunEstimator, RunGames, ShapleyEstimate
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.vocabulary import CoalitionMatrix, Float32Array, OnProgress, UtilityMatrix

if TYPE_CHECKING:
    from flcontrib_core.games.evaluator import Evaluator
    from flcontrib_core.games.submodels import WholeRunGame


class EpochGames(Sequence[EpochOfRun]):
    """The run's epochs with participants as games; in order each is read once, so one epoch is in memory."""

    def __init__(self, run: RunLog, bench: Workbench, engine: Engine, equal_sizes: bool) -> None:
        self.run, self.bench, self.engine = run, bench, engine
        self.equal_sizes = equal_sizes
        self.records = [e for e in run.epochs if e.participants]

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> EpochOfRun: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[EpochOfRun]: ...
    def __getitem__(self, index: int | slice) -> EpochOfRun | Sequence[EpochOfRun]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return next(self._games({self.records[index].epoch}))

    def __iter__(self) -> Iterator[EpochOfRun]:
        return self._games({record.epoch for record in self.records})

    def _games(self, epochs: set[int]) -> Iterator[EpochOfRun]:
        for places in epoch_places(self.run, self.engine, epochs, ends=False):
            task = replace(task_of(self.run, places), before=None, end=None)
            if self.equal_sizes:
                task = replace(task, weights=(1.0,) * len(task.weights))
            yield EpochOfRun(task.epoch, places.record.participants, CoalitionOracle(self._game(task).game))

    def _game(self, task: EpochTask) -> FetchedEpoch:
        bench = replace(self.bench, log=self.run) if lies_in_a_file(self.run) else self.bench
        return FetchedEpoch.of(bench, task, SharedEpoch(self.engine, bench, task))


@dataclass(frozen=True)
class WholePart:
    """Some coalitions of the whole run, from the row on at which they stand in the request."""

    row: int
    coalitions: CoalitionMatrix


def evaluate_whole(bench: Workbench, part: WholePart) -> tuple[WholePart, UtilityMatrix | None]:
    """On a worker: v(F_S) of the part's coalitions, from its own reading of the log; None where that cannot be read."""
    assert bench.log is not None
    try:
        return part, whole_run_game(bench.log, bench).absolute(part.coalitions)
    except RunLogError:
        return part, None


def whole_run_game(run: RunLog, bench: Workbench, engine: Engine | None = None) -> WholeRunGame:
    """The game over the whole run; with an engine of several workers a large request is spread over them."""
    from flcontrib_core.games.submodels import WholeRunGame

    def read_epochs() -> Iterator[tuple[Sequence[int], Sequence[float], Float32Array]]:
        for record in run.epochs:
            if record.participants:
                yield record.participants, record.weights, run.epoch_data(record.epoch).updates

    total = float(sum(run.data_sizes))
    alone = WholeRunGame(run.initial(), len(run.clients), read_epochs, bench.evaluator, bench.weights, total)
    if engine is None or engine.workers == 1 or bench.log is None:
        return alone
    workers = engine
    each = run.parameter_count * sum(len(record.participants) for record in run.epochs)

    class Spread(WholeRunGame):
        def absolute(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
            most = len(coalitions) * each / EPOCH_MULTIPLY_ADDS
            cuts = borders(len(coalitions), 8 * bench.evaluator.models_at_once, workers.workers, most)
            if len(cuts) < 3:
                return alone.absolute(coalitions)
            parts = [WholePart(a, coalitions[a:b]) for a, b in pairwise(cuts)]
            values = np.empty((len(coalitions), len(self.utilities)))
            for part, found in workers.run(evaluate_whole, parts):
                rows = slice(part.row, part.row + len(part.coalitions))
                values[rows] = alone.absolute(part.coalitions) if found is None else found
            return values

    return Spread(run.initial(), len(run.clients), read_epochs, bench.evaluator, bench.weights, total)


def assess_whole_run(
    run: RunLog,
    settings: AssessSettings,
    estimator: RunEstimator,
    evaluator: Evaluator,
    began: float,
    where: Execution,
    on_progress: OnProgress,
) -> ContributionHistory:
    """A history from a run-level estimator; its absent clients may have values (the method's own reading)."""
    from flcontrib_core.history.assess import workbench_of

    bench = workbench_of(evaluator, settings, run)
    equal = bool(getattr(estimator, "uniform_weights", False))
    if equal:
        bench = replace(bench, federation_size=float(len(run.clients)))
    with open_engine(where, bench) as engine:
        games = EpochGames(run, bench, engine, equal)
        whole = CoalitionOracle(whole_run_game(run, bench, engine))
        rng = np.random.default_rng([settings.seed, 0])
        estimate = estimator.estimate_run(RunGames(games, len(run.clients), whole), rng)
    answers: dict[int, EpochAnswer] = {}
    # The increments are the run's own, by its data sizes, even where the method's games weigh all clients alike.
    own = replace(bench, federation_size=float(sum(run.data_sizes)))
    for row, epoch in enumerate(EpochGames(run, own, InProcess(own), equal_sizes=False)):
        answers[epoch.epoch] = _answer(epoch, estimate, row, estimator.name)
        on_progress(row + 1, len(games), f"epoch {epoch.epoch}")
    history = assemble_history(run, replace(settings, observe=False), evaluator, answers, None)
    values = history.values.copy()
    for row, record in enumerate(games.records):
        given = np.isfinite(estimate.per_epoch[row])
        values[record.epoch][given] = estimate.per_epoch[row][given]
    return replace(
        history,
        values=values,
        totals_given=estimate.totals,
        remarks=(*grouped({r: () for r in estimate.remarks}), *history.remarks),
        settings=settings.record(),
        seconds=time.perf_counter() - began,
    )


def _answer(epoch: EpochOfRun, run: RunEstimate, row: int, method: str) -> EpochAnswer:
    oracle = epoch.oracle
    members = list(epoch.participants)
    values = run.per_epoch[row][members]
    increment = oracle.evaluate(np.ones((1, oracle.players), dtype=bool))[0]
    nothing = np.full_like(values, np.nan)
    estimate = ShapleyEstimate(values, nothing, int(run.evaluations[row]), False, method)
    start = oracle.game.empty_values  # type: ignore[attr-defined]
    return EpochAnswer(
        epoch.epoch, estimate, start, increment, np.zeros_like(increment), nothing, None, None, {}, 0, 0.0
    )
