"""Measurements of a log before anything is assessed: how far each epoch moved the model, and how fast this machine is.

One walk through the log (one evaluation per epoch) gives the epoch weights of the scheduler and the flagged epochs,
on which estimators spend more. A short probe gives the time of an evaluation and of a regression. Everything a plan
shows – schedule, exposures, evaluations, time, memory – follows from these numbers without opening the log again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import psutil

from flcontrib_core.errors import MissingPart, NonFiniteUtility, SettingsError
from flcontrib_core.history.trajectory import WalkStep, evaluator_for, walk
from flcontrib_core.runs.run_log import ContributionTable, Run, RunLog, UtilityTable
from flcontrib_core.shapley.flagged import FLAG_RATIO
from flcontrib_core.vocabulary import BoolArray, FloatArray, OnProgress, no_progress

if TYPE_CHECKING:
    from flcontrib_core.games.evaluator import Evaluator
    from flcontrib_core.games.submodels import EpochGame

WEIGHT_UTILITIES = ("loss", "accuracy", "macro-f1", "worst-class-recall")
"""Utilities whose movement is measured in the one walk: any of them may weigh the epochs."""
PROBE_PLAYERS = 24
"""Most participants of the probed epoch: a regression's time per evaluation hardly changes beyond."""
PROBE_SECONDS = 0.25
"""How long plain evaluations are timed."""
PROBE_MULTIPLY_ADDS = 2e10
"""The probed regression is left out where its evaluations alone would cost more; then they outweigh it anyway."""


@dataclass(frozen=True)
class Pace:
    """How fast this machine works on this log, and how much memory that takes. A prediction, never part of a result."""

    evaluation_seconds: float
    """Of one sub-model: mixing, forward pass, reading the utilities."""
    regression_seconds: float
    """What a surrogate takes for each of its evaluations, beside evaluating it."""
    observation_seconds: float
    """Of the cheap channels, for one participant in one epoch."""
    base_bytes: int
    """Of a process that has loaded the log's model and validation set."""


@dataclass(frozen=True)
class RunMeasurement:
    """What is known of a run before its values are: enough to plan and to price."""

    run_digest: str
    client_ids: tuple[str, ...]
    participated: BoolArray
    """(T, clients), epoch 1 first."""
    utilities: tuple[str, ...]
    initial: FloatArray
    """(utilities,) of the initial model."""
    moved: FloatArray
    """(T, utilities) |change| of the global model in each epoch."""
    flagged: BoolArray
    """(T,) an update is more than three times as long as the median."""
    multiply_adds: FloatArray
    """(T,) of one evaluation; NaN where nothing is evaluated (a table)."""
    parameter_count: int
    outputs: int
    """Validation rows × classes."""
    pace: Pace | None
    """None for a table, whose utilities are looked up."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Participants of each epoch, epoch 1 first."""
        return tuple(int(n) for n in self.participated.sum(axis=1))

    def movement(self, utility: str) -> FloatArray:
        """(T,) |change of the utility| in each epoch."""
        return self.moved[:, self.column(utility)]

    def column(self, utility: str) -> int:
        """Where the utility stands in ``moved``; raises SettingsError where it was not measured."""
        if utility not in self.utilities:
            raise SettingsError(f"the movement of {utility!r} was not measured; choose {', '.join(self.utilities)}")
        return self.utilities.index(utility)


def measure(run: Run, utilities: tuple[str, ...] = (), on_progress: OnProgress = no_progress) -> RunMeasurement:
    """Walks once through the log and times a probe: one evaluation per epoch and about two seconds.

    ``utilities`` beside the usual ones, such as a combination that weighs the epochs. Raises MissingPart for a log
    without model or validation set, and for a table of values, of which nothing is left to plan.
    """
    if isinstance(run, ContributionTable):
        raise MissingPart("a contribution table is already computed: there is nothing to schedule")
    if isinstance(run, UtilityTable):
        return _of_table(run)
    evaluator = evaluator_for(run, tuple(dict.fromkeys((*WEIGHT_UTILITIES, *utilities))))
    return measure_log(run, evaluator, on_progress, probe=True)


def measure_log(
    run: RunLog, evaluator: Evaluator, on_progress: OnProgress = no_progress, *, probe: bool
) -> RunMeasurement:
    """The measurement with a given evaluator, whose utilities are tracked; without ``probe`` no time is measured."""
    track = [evaluator.evaluate(run.initial()[None, :])[0][0]]
    flagged, probed, largest = [], None, 0
    for step in walk(run):
        track.append(evaluator.evaluate(step.end[None, :])[0][0])
        flagged.append(_flagged(step))
        if probe and len(step.record.participants) > largest:
            probed, largest = step, len(step.record.participants)
        on_progress(step.record.epoch, run.epoch_count, "measuring the model's movement")
    sizes = [len(e.participants) for e in run.epochs]
    return RunMeasurement(
        run_digest=run.digest,
        client_ids=run.client_ids,
        participated=run.participated()[1:],
        utilities=evaluator.utilities,
        initial=track[0],
        # a diverged model moved nowhere that values could share
        moved=np.nan_to_num(np.abs(np.diff(track, axis=0)), posinf=0.0),
        flagged=np.array(flagged, dtype=bool),
        multiply_adds=np.array([evaluator.multiply_adds(n) for n in sizes], dtype=np.float64),
        parameter_count=run.parameter_count,
        outputs=evaluator.validation_rows * evaluator.classes,
        pace=None if probed is None else _pace(probed, evaluator),
    )


def _of_table(run: UtilityTable) -> RunMeasurement:
    participated = np.zeros((run.epoch_count, len(run.client_ids)), dtype=bool)
    for t, members in enumerate(run.participants):
        participated[t, list(members)] = True
    return RunMeasurement(
        run_digest=run.digest,
        client_ids=run.client_ids,
        participated=participated,
        utilities=run.utilities,
        initial=run.values[0][0],
        moved=np.array([np.abs(values[-1] - values[0]) for values in run.values]),
        flagged=np.zeros(run.epoch_count, dtype=bool),
        multiply_adds=np.full(run.epoch_count, np.nan),
        parameter_count=0,
        outputs=0,
        pace=None,
    )


def _flagged(step: WalkStep) -> bool:
    """As the estimators flag an epoch, from the lengths of its updates."""
    if len(step.record.participants) < 3:
        return False
    norms = np.sqrt(np.einsum("ij,ij->i", step.data.updates, step.data.updates, dtype=np.float64))
    return bool((norms > FLAG_RATIO * np.median(norms)).any())


def _pace(step: WalkStep, evaluator: Evaluator) -> Pace:
    """Times plain evaluations, one small regression and the cheap channels on the largest epoch."""
    from flcontrib_core.games.observations import observe_epoch
    from flcontrib_core.games.submodels import EpochGame

    sizes = step.record.weights
    game = EpochGame(step.start, np.ascontiguousarray(step.data.updates), sizes, evaluator)
    base_bytes = psutil.Process().memory_info().rss
    evaluation = _evaluation_seconds(game)
    began = time.perf_counter()
    observe_epoch(game, step.record.epoch, step.last_step, 0)
    observation = (time.perf_counter() - began) / len(sizes)
    few = min(len(sizes), PROBE_PLAYERS)
    small = EpochGame(step.start, np.ascontiguousarray(step.data.updates[:few]), sizes[:few], evaluator)
    return Pace(evaluation, _regression_seconds(small, evaluation), observation, int(base_bytes))


def _evaluation_seconds(game: EpochGame) -> float:
    """Per evaluation, from random coalitions evaluated in growing requests until a quarter of a second is spent."""
    rng = np.random.default_rng(0)
    game.evaluate(rng.random((1, game.players)) < 0.5)  # what the first request sets up is not its price
    asked, spent = 4, 0.0
    while spent < PROBE_SECONDS and asked <= 1 << 14:
        coalitions = rng.random((asked, game.players)) < 0.5
        began = time.perf_counter()
        game.evaluate(coalitions)
        spent = time.perf_counter() - began
        per_evaluation, asked = spent / asked, asked * 4
    return per_evaluation


def _regression_seconds(game: EpochGame, evaluation: float) -> float:
    """What the surrogate takes beside its evaluations, for each of them; 0 where it does not pay to find out."""
    from flcontrib_core.shapley.oracle import CoalitionOracle
    from flcontrib_core.shapley.surrogate import Surrogate

    evaluations = 4 * game.players
    if game.players < 6 or evaluations * game.multiply_adds > PROBE_MULTIPLY_ADDS:
        return 0.0
    oracle = CoalitionOracle(game)
    began = time.perf_counter()
    try:
        spent = Surrogate(evaluations=evaluations).estimate(oracle, np.random.default_rng(0)).evaluations
    except NonFiniteUtility:  # a diverged sub-model: the assessment will name it
        return 0.0
    return max(0.0, (time.perf_counter() - began) / spent - evaluation)
