"""How are estimators run that need the whole sequence of epoch games (ComFedSV, one-round)?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, overload

import numpy as np

from flcontrib_core.history.assembly import assemble_history
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.epoch_work import EpochAnswer
from flcontrib_core.history.remarks import grouped
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.trajectory import WalkStep, walk
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.shapley.estimate import EpochOfRun, RunEstimate, RunEstimator, RunGames, ShapleyEstimate
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.vocabulary import Float32Array, OnProgress

if TYPE_CHECKING:
    from flcontrib_core.games.evaluator import Evaluator


class EpochGames(Sequence[EpochOfRun]):
    """The run's epochs with participants as games; in order each is read once, so one epoch is in memory."""

    def __init__(self, run: RunLog, evaluator: Evaluator, settings: AssessSettings, equal_sizes: bool) -> None:
        self.run, self.evaluator, self.settings = run, evaluator, settings
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
        wanted = self.records[index].epoch
        return next(self._game(step) for step in walk(self.run) if step.record.epoch == wanted)

    def __iter__(self) -> Iterator[EpochOfRun]:
        for step in walk(self.run):
            if step.record.participants:
                yield self._game(step)

    def _game(self, step: WalkStep) -> EpochOfRun:
        from flcontrib_core.games.submodels import epoch_game

        record = step.record
        sizes = (1,) * len(record.participants) if self.equal_sizes else record.weights
        total = len(self.run.clients) if self.equal_sizes else sum(self.run.data_sizes)
        game = epoch_game(
            step.start,
            step.data.updates,
            sizes,
            self.evaluator,
            weights=self.settings.weights,
            federation_size=float(total),
        )
        return EpochOfRun(record.epoch, record.participants, CoalitionOracle(game))


def assess_whole_run(
    run: RunLog,
    settings: AssessSettings,
    estimator: RunEstimator,
    evaluator: Evaluator,
    began: float,
    on_progress: OnProgress,
) -> ContributionHistory:
    """A history from a run-level estimator; its absent clients may have values (the method's own reading)."""
    from flcontrib_core.games.submodels import WholeRunGame

    games = EpochGames(run, evaluator, settings, equal_sizes=getattr(estimator, "uniform_weights", False))

    def read_epochs() -> Iterator[tuple[Sequence[int], Sequence[float], Float32Array]]:
        for record in games.records:
            yield record.participants, record.weights, run.epoch_data(record.epoch).updates

    total = float(sum(run.data_sizes))
    game = WholeRunGame(run.initial(), len(run.clients), read_epochs, evaluator, settings.weights, total)
    whole = CoalitionOracle(game)
    rng = np.random.default_rng([settings.seed, 0])
    estimate = estimator.estimate_run(RunGames(games, len(run.clients), whole), rng)
    answers: dict[int, EpochAnswer] = {}
    # The increments are the run's own, by its data sizes, even where the method's games weigh all clients alike.
    for row, epoch in enumerate(EpochGames(run, evaluator, settings, equal_sizes=False)):
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
