"""The models a federation passed through, how far each epoch moved them, and the scheduling problem that makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from flcontrib_core.errors import MissingPart
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.runs.mapped import room
from flcontrib_core.runs.run_log import EpochData, EpochRecord, Run, RunLog
from flcontrib_core.runs.tasks import CLASSIFICATION
from flcontrib_core.scheduling.budget import check_request
from flcontrib_core.scheduling.schedule import SchedulingProblem
from flcontrib_core.vocabulary import Float32Array, IntArray, OnProgress, no_progress

if TYPE_CHECKING:
    from flcontrib_core.execution.engine import Engine, Execution
    from flcontrib_core.games.evaluator import Evaluator
    from flcontrib_core.games.task_reader import OwnMetrics


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


@dataclass(frozen=True)
class Passed:
    """Where a walk stands after an epoch, for one that goes on from there."""

    epoch: int
    model: Float32Array
    """F(t)"""
    last_step: Float32Array | None
    """F(t) − F(t−1)"""

    @classmethod
    def after(cls, step: WalkStep) -> Passed:
        """Behind this epoch."""
        return cls(step.record.epoch, step.end, _difference(step.end, step.start))


def walk(run: RunLog, since: Passed | None = None) -> Iterator[WalkStep]:
    """Each epoch with its starting model, one at a time; eq. (fl_naive). ``since``: behind an epoch of the same run."""
    start = run.initial() if since is None else since.model
    last_step = None if since is None else since.last_step
    for record in run.epochs[0 if since is None else since.epoch :]:
        data = run.epoch_data(record.epoch)
        end = model_after(start, record, data)
        yield WalkStep(record, start, last_step, data, end)
        last_step = None  # before the next one: three large models at a time are one too many
        last_step = _difference(end, start)
        start = end


def _difference(end: Float32Array, start: Float32Array) -> Float32Array:
    step: Float32Array = room(len(end))
    return np.subtract(end, start, out=step)


def model_after(start: Float32Array, record: EpochRecord, data: EpochData) -> Float32Array:
    """F(t) of an epoch that starts from F(t−1): the stored global model, else the weighted mean."""
    from flcontrib_core.games.submodels import aggregate

    if data.global_model is not None:
        return data.global_model
    return aggregate(start, data.updates, record.weights) if record.participants else start


def evaluator_for(
    run: RunLog,
    utilities: tuple[str, ...],
    rows: IntArray | None = None,
    *,
    device: str = "cpu",
    metrics: OwnMetrics | None = None,
) -> Evaluator:
    """The evaluator of a log that carries its architecture and validation set.

    ``rows``: these validation rows in place of all, in this order, repeated where asked twice. What such an evaluator
    answers must not be remembered as the log's own. ``metrics``: own ones beside the task's.
    """
    from flcontrib_core.games.architecture import Architecture
    from flcontrib_core.games.evaluator import Evaluator

    validation = run.validation()
    if run.model is None or validation is None:
        lacking = "architecture (model.json)" if run.model is None else "validation set (validation.safetensors)"
        raise MissingPart(
            f"{run.name}: the log has no {lacking}, so sub-models cannot be evaluated. Record it, pass the module "
            "that was trained as evaluator=ModuleEvaluator(net, loader), or upload a contribution table."
        )
    if run.task == CLASSIFICATION and run.classes is None:
        raise MissingPart(f'{run.name}: the manifest does not say how many classes there are; add "classes"')
    if run.frozen is not None and run.frozen.parameters and run.frozen.given is None:
        raise MissingPart(
            f"{run.name}: the log names a frozen part of its model and does not hold it (sha256 "
            f"{run.frozen.sha256 or 'of each client its own'}). Give the numbers that the clients started from "
            "as the frozen part."
        )
    if rows is not None:
        group = None if validation.group is None else validation.group[rows]
        validation = replace(validation, x=validation.x[rows], y=validation.y[rows], group=group)
    classes = run.classes if run.task == CLASSIFICATION else None
    architecture = Architecture.from_spec(run.model, run.parameters, classes, run.frozen)
    return Evaluator(architecture, validation, utilities, device, task=run.task, own=metrics)


def scheduling_problem(
    run: Run,
    settings: AssessSettings | None = None,
    evaluator: Evaluator | None = None,
    on_progress: OnProgress = no_progress,
    engine: Engine | None = None,
    where: Execution | None = None,
) -> SchedulingProblem:
    """What the scheduler needs to know about a run: movement, participation, predicted cost of each epoch.

    Costs one evaluation per epoch; the real change counts where the log carries the global model. They are made by
    ``engine``, opened for a workbench with this evaluator and run, else by one opened as ``where`` says.
    Raises ``SettingsError`` for a budget that no schedule could have, before anything is evaluated.
    """
    from flcontrib_core.history.measurement import measure, measure_log
    from flcontrib_core.history.preflight import problem_of

    settings = settings or AssessSettings()
    check_request(settings.budget, run.epoch_count)
    if isinstance(run, RunLog):
        evaluator = evaluator or evaluator_for(run, (settings.weight_utility,))
        measured = measure_log(run, evaluator, on_progress, probe=False, engine=engine, where=where)
        return problem_of(measured, settings)
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
