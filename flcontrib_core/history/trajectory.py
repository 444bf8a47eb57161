"""The models a federation passed through, how far each epoch moved them, and the scheduling problem that makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flcontrib_core.errors import MissingPart
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.runs.run_log import EpochData, EpochRecord, Run, RunLog
from flcontrib_core.scheduling.schedule import SchedulingProblem
from flcontrib_core.vocabulary import Float32Array, OnProgress, no_progress

if TYPE_CHECKING:
    from flcontrib_core.games.evaluator import Evaluator


@dataclass(frozen=True)
class WalkStep:
    """One epoch on the way through a run: the model it starts from and what arrived."""

    record: EpochRecord
    start: Float32Array
    """F(t−1)"""
    last_step: Float32Array | None
    """F(t−1) − F(t−2)"""
    data: EpochData
    end: Float32Array
    """F(t): the stored global model, else the rebuilt weighted mean"""


def walk(run: RunLog) -> Iterator[WalkStep]:
    """Each epoch with its starting model, one at a time; eq. (fl_naive)."""
    from flcontrib_core.games.submodels import aggregate

    start = run.initial()
    last_step: Float32Array | None = None
    for record in run.epochs:
        data = run.epoch_data(record.epoch)
        end = start if data.global_model is None else data.global_model
        if data.global_model is None and record.participants:
            end = aggregate(start, data.updates, record.weights)
        yield WalkStep(record, start, last_step, data, end)
        last_step = end - start
        start = end


def evaluator_for(run: RunLog, utilities: tuple[str, ...]) -> Evaluator:
    """The evaluator of a log that carries its architecture and validation set."""
    from flcontrib_core.games.architecture import Architecture
    from flcontrib_core.games.evaluator import Evaluator

    validation = run.validation()
    if run.model is None or validation is None:
        lacking = "architecture (model.json)" if run.model is None else "validation set (validation.safetensors)"
        raise MissingPart(
            f"{run.name}: the log has no {lacking}, so sub-models cannot be evaluated. Record it, pass the module "
            "that was trained as evaluator=ModuleEvaluator(net, loader), or upload a contribution table."
        )
    classes = run.classes
    if classes is None:
        raise MissingPart(f'{run.name}: the manifest does not say how many classes there are; add "classes"')
    return Evaluator(Architecture.from_spec(run.model, run.parameters, classes), validation, utilities)


def scheduling_problem(
    run: Run,
    settings: AssessSettings | None = None,
    evaluator: Evaluator | None = None,
    on_progress: OnProgress = no_progress,
) -> SchedulingProblem:
    """What the scheduler needs to know about a run: movement, participation, predicted cost of each epoch.

    Costs one evaluation per epoch; the real change counts where the log carries the global model.
    """
    from flcontrib_core.history.measurement import measure, measure_log
    from flcontrib_core.history.preflight import problem_of

    settings = settings or AssessSettings()
    if isinstance(run, RunLog):
        evaluator = evaluator or evaluator_for(run, (settings.weight_utility,))
        return problem_of(measure_log(run, evaluator, on_progress, probe=False), settings)
    return problem_of(measure(run), settings)


def problem_of_history(history: ContributionHistory, settings: AssessSettings | None = None) -> SchedulingProblem:
    """The scheduling problem of a run that was assessed before: nothing is evaluated again.

    Costs are those the epochs really had; for skipped ones the median of computed epochs with as many participants,
    else what the settings' estimator predicts for a game of which it knows the size alone.
    """
    from flcontrib_core.shapley.costs import cost_of

    settings = settings or AssessSettings()
    name = settings.weight_utility
    utility = name if name in history.utilities else history.utilities[0]
    if history.pending.any():
        raise MissingPart("some epochs are still being computed; their movement is not known yet")
    size = history.participated[1:].sum(axis=1)
    spent = np.where(history.computed[1:], history.evaluations[1:], 0)
    cost = spent.copy()
    for n in np.unique(size[spent == 0]):
        known = spent[(size == n) & (spent > 0)]
        if known.size:
            likely = int(np.median(known))
        else:
            likely = cost_of(settings.estimator, int(n), None, weights=settings.weights).likely
        cost[(size == n) & (spent == 0)] = likely
    series = history.of(utility)
    movement = np.abs(series.increments[1:] + series.server_share[1:])
    return SchedulingProblem(
        movement,
        history.participated[1:],
        history.client_ids,
        float(series.increments[0]),
        cost.astype(np.int64),
    )
