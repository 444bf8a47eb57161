"""Measurements of a log before anything is assessed: how far each epoch moved the model, and how fast this machine is.

One walk through the log (one evaluation per epoch) gives the epoch weights of the scheduler and the flagged epochs,
on which estimators spend more. A short probe gives the time of an evaluation and of a regression. Everything a plan
shows – schedule, exposures, evaluations, time, memory – follows from these numbers without opening the log again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import psutil

from flcontrib_core.errors import MissingPart, NonFiniteUtility, RunLogError, SettingsError
from flcontrib_core.execution.engine import Engine, Execution, open_engine, worth_workers
from flcontrib_core.games.utilities import DEFAULT_UTILITIES, utilities_of
from flcontrib_core.history.epoch_places import epoch_places, lies_in_a_file, task_of
from flcontrib_core.history.epoch_work import EpochTask, Fetching, OutOfReach, fetch_model, fetch_updates
from flcontrib_core.history.shared_epoch import with_its_numbers
from flcontrib_core.history.trajectory import evaluator_for
from flcontrib_core.runs.mapped import in_blocks
from flcontrib_core.runs.run_log import ContributionTable, Run, RunLog, UtilityTable
from flcontrib_core.runs.tasks import CLASSIFICATION
from flcontrib_core.shapley.flagged import FLAG_RATIO
from flcontrib_core.vocabulary import BoolArray, Float32Array, FloatArray, OnProgress, Phase, no_progress

if TYPE_CHECKING:
    from flcontrib_core.games.evaluator import Evaluator
    from flcontrib_core.games.submodels import EpochGame, OpaqueEpochGame

WEIGHT_UTILITIES = ("loss", "accuracy", "macro-f1", "worst-class-recall")
"""Utilities whose movement is measured in the one walk: any of them may weigh the epochs."""
_BLOCK = 1 << 20
Clock: TypeAlias = Callable[[], float]
PLANNED_SIZES = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 10_000)
"""Participants of epochs that somebody may plan for with the same model."""
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
    preparation_seconds: float
    """Of what all sub-models of an epoch share, for one participant: its update's part of the first layer's output."""
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
    planned_adds: FloatArray
    """(sizes,) the same for epochs of ``PLANNED_SIZES`` participants."""
    parameter_count: int
    outputs: int
    """Validation rows × classes."""
    pace: Pace | None
    """None for a table, whose utilities are looked up."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Participants of each epoch, epoch 1 first."""
        return tuple(int(n) for n in self.participated.sum(axis=1))

    def adds_for(self, participants: int) -> float:
        """Multiply-adds of one evaluation in an epoch of so many participants; a straight line between planned sizes.

        An evaluator mixes either its first layer's outputs or its weights, whichever costs less.
        """
        last = PLANNED_SIZES[-1]
        if participants > last:
            slope = (self.planned_adds[-1] - self.planned_adds[-2]) / (last - PLANNED_SIZES[-2])
            return float(self.planned_adds[-1] + slope * (participants - last))
        return float(np.interp(participants, PLANNED_SIZES, self.planned_adds))

    def movement(self, utility: str) -> FloatArray:
        """(T,) |change of the utility| in each epoch."""
        return self.moved[:, self.column(utility)]

    def column(self, utility: str) -> int:
        """Where the utility stands in ``moved``; raises SettingsError where it was not measured.

        The loss, which everything is weighed by where nobody says otherwise, is another task's first metric.
        """
        if utility == "loss" and utility not in self.utilities:
            return 0
        if utility not in self.utilities:
            raise SettingsError(f"the movement of {utility!r} was not measured; choose {', '.join(self.utilities)}")
        return self.utilities.index(utility)


@dataclass(frozen=True)
class Measuring:
    """What the measurements of all epochs share."""

    evaluator: Evaluator
    log: RunLog | None


def measure(
    run: Run,
    utilities: tuple[str, ...] = (),
    on_progress: OnProgress = no_progress,
    where: Execution | None = None,
) -> RunMeasurement:
    """Walks once through the log and times a probe: one evaluation per epoch and about two seconds.

    ``utilities`` beside the usual ones, such as a combination that weighs the epochs. Raises MissingPart for a log
    without model or validation set, and for a table of values, of which nothing is left to plan.
    """
    if isinstance(run, ContributionTable):
        raise MissingPart("a contribution table is already computed: there is nothing to schedule")
    if isinstance(run, UtilityTable):
        return _of_table(run)
    usual = WEIGHT_UTILITIES if run.task == CLASSIFICATION else utilities_of(run.task, DEFAULT_UTILITIES)
    asked = utilities_of(run.task, utilities)
    evaluator = evaluator_for(run, tuple(dict.fromkeys((*usual, *asked))))
    return measure_log(run, evaluator, on_progress, probe=True, where=where)


def _movement_price(run: RunLog, evaluator: Evaluator) -> float | None:
    """Multiply-adds of one evaluation per epoch; None where the evaluator does not know."""
    each = [evaluator.multiply_adds(len(e.participants)) for e in run.epochs]
    return None if None in each else float(sum(each))


def measure_log(
    run: RunLog,
    evaluator: Evaluator,
    on_progress: OnProgress = no_progress,
    *,
    probe: bool,
    engine: Engine | None = None,
    where: Execution | None = None,
) -> RunMeasurement:
    """The measurement with a given evaluator, whose utilities are tracked; without ``probe`` no time is measured.

    ``engine``: opened for a workbench with this evaluator and run; else one is opened as ``where`` says.
    """
    if engine is None:
        bench = Measuring(evaluator, run if lies_in_a_file(run) else None)
        price = _movement_price(run, evaluator)  # one evaluation per epoch is seldom worth a cluster's start
        with open_engine(where if where and worth_workers(price) else Execution(workers=1), bench, price) as opened:
            return measure_log(run, evaluator, on_progress, probe=probe, engine=opened)
    track = {0: evaluator.evaluate(run.initial()[None, :])[0][0]}
    flagged = np.zeros(run.epoch_count, dtype=bool)
    sizes = [len(e.participants) for e in run.epochs]
    largest = 1 + int(np.argmax(sizes)) if probe and any(sizes) else 0
    probed: list[EpochTask] = []

    def tasks() -> Iterator[EpochTask]:
        for places in epoch_places(run, engine, set(range(1, run.epoch_count + 1)), ends=True):
            task = task_of(run, places)
            if task.epoch == largest:
                probed.append(task)
            yield task

    for t, values, long in _moved(run, engine, tasks()):
        track[t], flagged[t - 1] = values, long
        on_progress(len(track) - 1, run.epoch_count, Phase.MEASURING)
    moved = np.diff([track[t] for t in range(run.epoch_count + 1)], axis=0)
    return RunMeasurement(
        run_digest=run.digest,
        client_ids=run.client_ids,
        participated=run.participated()[1:],
        utilities=evaluator.utilities,
        initial=track[0],
        # a diverged model moved nowhere that values could share
        moved=np.nan_to_num(np.abs(moved), posinf=0.0),
        flagged=flagged,
        multiply_adds=np.array([evaluator.multiply_adds(n) for n in sizes], dtype=np.float64),
        planned_adds=np.array([evaluator.multiply_adds(n) for n in PLANNED_SIZES], dtype=np.float64),
        parameter_count=run.parameter_count,
        outputs=evaluator.validation_rows * evaluator.classes,
        pace=_pace(run, probed[0], evaluator) if probed else None,
    )


def _moved(run: RunLog, engine: Engine, tasks: Iterator[EpochTask]) -> Iterator[tuple[int, FloatArray, bool]]:
    """(epoch, v(F(t)), whether an update is long) as they become known."""
    for answer in engine.run(_movement, tasks):
        if isinstance(answer, OutOfReach):
            yield from _moved(run, engine, iter([with_its_numbers(run, answer.task, engine)]))
        else:
            yield answer


def _movement(bench: Fetching, task: EpochTask) -> tuple[int, FloatArray, bool] | OutOfReach:
    """On a worker: what the model that an epoch ended in is worth."""
    assert task.end is not None
    try:
        end = fetch_model(bench.log, task.end)
        updates = fetch_updates(bench.log, task) if len(task.weights) >= 3 else None
    except RunLogError:
        return OutOfReach(task)
    values = bench.evaluator.evaluate(end[None, :])[0][0]
    return task.epoch, values, updates is not None and _flagged(updates)


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
        planned_adds=np.full(len(PLANNED_SIZES), np.nan),
        parameter_count=0,
        outputs=0,
        pace=None,
    )


def _flagged(updates: Float32Array) -> bool:
    """As the estimators flag an epoch, from the lengths of its updates."""
    squares = np.zeros(len(updates))
    for block in in_blocks(updates.shape[1], _BLOCK, updates):
        squares += np.einsum("ij,ij->i", updates[:, block], updates[:, block], dtype=np.float64)
    norms = np.sqrt(squares)
    return bool((norms > FLAG_RATIO * np.median(norms)).any())


def _pace(run: RunLog, task: EpochTask, evaluator: Evaluator) -> Pace:
    """Times plain evaluations, one small regression and the cheap channels on the largest epoch."""
    from flcontrib_core.games.observations import observe_epoch
    from flcontrib_core.games.submodels import EpochGame, epoch_game

    # A processor that others use too is not slower: its own time is counted. What runs elsewhere has no other clock.
    clock: Clock = time.process_time if evaluator.device == "cpu" else time.perf_counter
    sizes, start, updates = task.weights, fetch_model(run, task.start), fetch_updates(run, task)
    last_step = None if task.before is None else start - fetch_model(run, task.before)
    game = epoch_game(start, updates, sizes, evaluator)
    base_bytes = psutil.Process().memory_info().rss
    evaluation = _evaluation_seconds(game, clock)
    began = clock()
    observe_epoch(game, task.epoch, last_step, 0)
    observation = (clock() - began) / len(sizes)
    few = min(len(sizes), PROBE_PLAYERS)
    began = clock()
    small = epoch_game(start, updates[:few], sizes[:few], evaluator)
    preparation = (clock() - began) / few
    regression = _regression_seconds(small, evaluation, clock) if isinstance(small, EpochGame) else 0.0
    return Pace(evaluation, regression, observation, preparation, int(base_bytes))


def _evaluation_seconds(game: OpaqueEpochGame, clock: Clock) -> float:
    """Per evaluation, from random coalitions evaluated in growing requests until a quarter of a second is spent."""
    rng = np.random.default_rng(0)
    game.evaluate(rng.random((1, game.players)) < 0.5)  # what the first request sets up is not its price
    asked, spent = 4, 0.0
    while spent < PROBE_SECONDS and asked <= 1 << 14:
        coalitions = rng.random((asked, game.players)) < 0.5
        began = clock()
        game.evaluate(coalitions)
        spent = clock() - began
        per_evaluation, asked = spent / asked, asked * 4
    return per_evaluation


def _regression_seconds(game: EpochGame, evaluation: float, clock: Clock) -> float:
    """What the surrogate takes beside its evaluations, for each of them; 0 where it does not pay to find out."""
    from flcontrib_core.shapley.oracle import CoalitionOracle
    from flcontrib_core.shapley.surrogate import Surrogate

    evaluations = 4 * game.players
    if game.players < 6 or evaluations * game.multiply_adds > PROBE_MULTIPLY_ADDS:
        return 0.0
    oracle = CoalitionOracle(game)
    began = clock()
    try:
        spent = Surrogate(evaluations=evaluations).estimate(oracle, np.random.default_rng(0)).evaluations
    except NonFiniteUtility:  # a diverged sub-model: the assessment will name it
        return 0.0
    return max(0.0, (clock() - began) / spent - evaluation)
