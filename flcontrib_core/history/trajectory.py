"""The models a federation passed through, how far each epoch moved them, and the scheduling problem that makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.runs.run_log import ContributionTable, EpochData, EpochRecord, Run, RunLog, UtilityTable
from flcontrib_core.scheduling.schedule import SchedulingProblem
from flcontrib_core.vocabulary import Float32Array, IntArray, OnProgress, no_progress

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
            end = aggregate(start, data.updates, record.data_sizes)
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
    settings = settings or AssessSettings()
    if isinstance(run, ContributionTable):
        raise MissingPart("a contribution table is already computed: there is nothing to schedule")
    name = settings.weight_utility
    if isinstance(run, UtilityTable):
        if name not in run.utilities:
            raise SettingsError(f"weight utility {name!r} is not in the table; it has {', '.join(run.utilities)}")
        column = run.utilities.index(name)
        movement = np.array([abs(v[-1, column] - v[0, column]) for v in run.values])
        initial = float(run.values[0][0, column])
        participated = np.zeros((run.epoch_count, len(run.client_ids)), dtype=bool)
        for t, members in enumerate(run.participants):
            participated[t, list(members)] = True
        cost = np.array([2 ** len(p) - 1 for p in run.participants], dtype=np.int64)
        return SchedulingProblem(movement, participated, run.client_ids, initial, cost)
    evaluator = evaluator or evaluator_for(run, (name,))
    if name not in evaluator.utilities:
        raise SettingsError(f"weight utility {name!r} is not evaluated; add it to the utilities")
    column = evaluator.utilities.index(name)
    track = [float(evaluator.evaluate(run.initial()[None, :])[0][0, column])]
    for step in walk(run):
        track.append(float(evaluator.evaluate(step.end[None, :])[0][0, column]))
        on_progress(step.record.epoch, run.epoch_count, "measuring the model's movement")
    return SchedulingProblem(
        np.nan_to_num(np.abs(np.diff(track)), posinf=0.0),  # a diverged model moved nowhere that values could share
        run.participated()[1:],
        run.client_ids,
        track[0],
        predicted_cost(run, settings, evaluator),
    )


def predicted_cost(run: RunLog, settings: AssessSettings, evaluator: Evaluator) -> IntArray:
    """(T,) distinct evaluations that each epoch would take with these settings."""
    from flcontrib_core.shapley.costs import cost_of

    price = {
        n: cost_of(settings.estimator, n, evaluator.multiply_adds(n)).likely if n else 0
        for n in {len(e.participants) for e in run.epochs}
    }
    return np.array([price[len(e.participants)] for e in run.epochs], dtype=np.int64)


def problem_of_history(history: ContributionHistory, weight_utility: str = "loss") -> SchedulingProblem:
    """The scheduling problem of a run that was assessed before: nothing is evaluated again.

    Costs are those the epochs really had; for skipped ones, those of computed epochs with as many participants (else
    all 2^n − 1 coalitions, at most 16 n).
    """
    utility = weight_utility if weight_utility in history.utilities else history.utilities[0]
    if history.pending.any():
        raise MissingPart("some epochs are still being computed; their movement is not known yet")
    size = history.participated[1:].sum(axis=1)
    by_size: dict[int, int] = {}
    for t in range(1, history.epoch_count + 1):
        if history.computed[t] and history.evaluations[t]:
            by_size[int(size[t - 1])] = max(by_size.get(int(size[t - 1]), 0), int(history.evaluations[t]))
    cost = [by_size.get(int(n), min(2 ** min(int(n), 40) - 1, 16 * int(n))) for n in size]
    series = history.of(utility)
    movement = np.abs(series.increments[1:] + series.server_share[1:])
    return SchedulingProblem(
        movement,
        history.participated[1:],
        history.client_ids,
        float(series.increments[0]),
        np.array(cost, dtype=np.int64),
    )
