"""Prices of assessments before they start: evaluations, time and memory from the estimator that will run."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from flcontrib_core.execution.engine import Execution
from flcontrib_core.history.measurement import RunMeasurement, measure
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.updates_only import lacking_part
from flcontrib_core.runs.run_log import ContributionTable, Run, participants_per_epoch
from flcontrib_core.scheduling.choose import choose_epochs
from flcontrib_core.scheduling.schedule import SchedulingProblem
from flcontrib_core.shapley.coalitions import distinct_coalitions
from flcontrib_core.shapley.costs import Cost, cost_of
from flcontrib_core.vocabulary import FillPolicy, IntArray, OnProgress, no_progress

START_SECONDS = 3.0
"""Of each further worker process: importing the numerical libraries."""
_TABLE_BYTES = 24
"""Per coalition and utility of an exact table: value, key and index."""
_PREDICTED_BYTES = 256 << 20
"""What a regression's predictions take at once, whatever its size."""


@dataclass(frozen=True)
class Price:
    """Predicted work of an assessment; None = nothing has to be evaluated."""

    epochs: int
    """How many are computed."""
    evaluations: int | None
    """Distinct coalitions, in all computed epochs."""
    most_evaluations: int | None
    """The ceiling: every stopping rule at its end, every rescue needed."""
    seconds: float | None
    """From the speed measured just before: a prediction, never part of a result."""
    memory_bytes: int | None
    """Of all processes together."""
    observations: int
    """Cheap evaluations of every epoch, computed or not: movement, channels."""
    largest: int
    """Participants of the largest computed epoch."""
    flagged: int
    """Computed epochs with an update so long that estimators spend more."""
    workers: int = 1
    evaluations_per_second: float | None = None
    """Plain evaluations of this log's model on this machine, one process."""


def epoch_costs(measurement: RunMeasurement, settings: AssessSettings) -> tuple[Cost, ...]:
    """What each epoch costs with the estimator that will run, epoch 1 first; raises CostRefusal where that would."""
    if measurement.pace is None and not np.isfinite(measurement.multiply_adds).all():
        return tuple(Cost(c, c) for c in map(_looked_up, measurement.sizes))
    known: dict[tuple[int, bool], Cost] = {}
    costs = []
    for size, flagged, adds in zip(measurement.sizes, measurement.flagged, measurement.multiply_adds, strict=True):
        key = (size, bool(flagged))
        if key not in known:
            known[key] = cost_of(settings.estimator, size, float(adds), flagged=bool(flagged), weights=settings.weights)
        costs.append(known[key])
    return tuple(costs)


def _looked_up(players: int) -> int:
    return distinct_coalitions(players) if players else 0


def unpriced_problem(measurement: RunMeasurement, weight_utility: str) -> SchedulingProblem:
    """What schedules are chosen from: they depend on movement and participation, and on no estimator."""
    return SchedulingProblem(
        measurement.movement(weight_utility),
        measurement.participated,
        measurement.client_ids,
        float(measurement.initial[measurement.column(weight_utility)]),
    )


def problem_of(measurement: RunMeasurement, settings: AssessSettings) -> SchedulingProblem:
    """The scheduling problem of a measured run, with the price of each epoch: nothing is evaluated."""
    costs: IntArray = np.array([cost.likely for cost in epoch_costs(measurement, settings)], dtype=np.int64)
    return replace(unpriced_problem(measurement, settings.weight_utility), evaluations=costs)


def price(measurement: RunMeasurement, settings: AssessSettings, epochs: Collection[int], workers: int = 1) -> Price:
    """What computing these epochs (1-based) costs with these settings on so many processes."""
    costs = epoch_costs(measurement, settings) if epochs else ()
    chosen = {t: costs[t - 1] for t in epochs if measurement.sizes[t - 1]}
    likely = sum(c.likely for c in chosen.values())
    most = sum(c.most for c in chosen.values())
    largest = max((measurement.sizes[t - 1] for t in chosen), default=0)
    pace = measurement.pace
    plain = sum(measurement.sizes) + 2 * len(measurement.sizes)
    if settings.fill is FillPolicy.LEAVE_ONE_OUT:
        plain += sum(n for t, n in enumerate(measurement.sizes, 1) if t not in chosen)
    seconds = memory = None
    if pace is not None:
        regressed = sum(c.regressed for c in chosen.values())
        alone = likely * pace.evaluation_seconds + regressed * pace.regression_seconds
        beside = pace.observation_seconds + pace.preparation_seconds
        alone += 2 * len(measurement.sizes) * pace.evaluation_seconds + sum(measurement.sizes) * beside
        seconds = alone / max(1, min(workers, len(chosen))) + (START_SECONDS if workers > 1 else 0.0)
        memory = max(1, workers) * (pace.base_bytes + _epoch_bytes(measurement, settings, chosen))
    return Price(
        epochs=len(epochs),
        evaluations=likely,
        most_evaluations=most,
        seconds=seconds,
        memory_bytes=memory,
        observations=plain,
        largest=largest,
        flagged=sum(bool(measurement.flagged[t - 1]) for t in chosen),
        workers=workers,
        evaluations_per_second=None if pace is None else 1 / max(pace.evaluation_seconds, 1e-9),
    )


def _epoch_bytes(measurement: RunMeasurement, settings: AssessSettings, chosen: dict[int, Cost]) -> int:
    """Of the dearest epoch in one process: updates, what is kept of its evaluations, a regression's room."""
    most = 0
    for t, cost in chosen.items():
        updates = 2 * 4 * measurement.parameter_count * (measurement.sizes[t - 1] + 2)
        kept = cost.likely * len(settings.utilities) * _TABLE_BYTES
        regression = 0
        if cost.regressed:
            regression = cost.regressed * measurement.outputs * 12 + min(
                _PREDICTED_BYTES, 16384 * measurement.outputs * 8
            )
        most = max(most, updates + kept + regression)
    return math.ceil(most)


def price_of(
    run: Run, settings: AssessSettings | None = None, workers: int = 1, on_progress: OnProgress = no_progress
) -> Price:
    """Predicted evaluations, seconds and memory of assessing a run with these settings.

    Measures the log first: one evaluation per epoch and a probe of about two seconds. Raises CostRefusal for an
    exponential request. A log without model or validation set costs no evaluation: only its updates are read.
    """
    return price_and_measurement(run, settings, workers, on_progress)[0]


def price_and_measurement(
    run: Run, settings: AssessSettings | None = None, workers: int = 1, on_progress: OnProgress = no_progress
) -> tuple[Price, RunMeasurement | None]:
    """As ``price_of``, with the measurement that it rests on; None where nothing is evaluated."""
    settings = settings or AssessSettings()
    if isinstance(run, ContributionTable):
        return Price(run.epoch_count, None, None, None, None, 0, int(run.participated.sum(axis=1).max()), 0), None
    if lacking_part(run) is not None:
        return Price(0, 0, 0, None, None, 0, max(participants_per_epoch(run), default=0), 0), None
    measurement = measure(run, (settings.weight_utility,), on_progress, Execution(workers))
    if not settings.values:
        return price(measurement, settings, (), workers), measurement
    schedule = choose_epochs(problem_of(measurement, settings), settings.budget)
    return price(measurement, settings, schedule.chosen, workers), measurement
