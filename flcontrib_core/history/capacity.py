"""What a federation of another size would take: hours, machines and gigabytes, from what was measured on a log.

Nothing is computed: the time of one evaluation of this log's model on this machine is scaled by multiply-adds, the
number of evaluations comes from the estimator that would run, and bytes from participants times parameters.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import psutil

from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.games.utilities import DEFAULT_UTILITIES, utilities_of
from flcontrib_core.history.measurement import RunMeasurement
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.trajectory import evaluator_for
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.shapley.costs import cost_of

EFFICIENCY = 0.85
"""Of further workers' time: an assumption for what they lose to reading, sending and waiting."""
KEPT_BYTES = 96
"""Of a result, for each client, epoch and utility: values, errors, states and channels."""


@dataclass(frozen=True)
class FederationSize:
    """A federation to plan for."""

    clients: int
    participants: int
    """Of an epoch"""
    epochs: int
    parameters: int
    multiply_adds: float | None = None
    """Of one evaluation, where the federation's own model is known; else the measured model's are scaled"""

    def __post_init__(self) -> None:
        if not 1 <= self.participants <= self.clients or self.epochs < 1 or self.parameters < 1:
            raise SettingsError(
                f"{self.participants} participants of {self.clients} clients, {self.epochs} epochs, {self.parameters} "
                "parameters: each is at least one, and no more take part than there are"
            )


@dataclass(frozen=True)
class Machine:
    """What one node has."""

    cores: int
    memory: int

    @classmethod
    def this(cls) -> Machine:
        """The one this runs on."""
        return cls(os.cpu_count() or 1, psutil.virtual_memory().total)


@dataclass(frozen=True)
class Capacity:
    """What assessing a federation takes. Predictions, never part of a result."""

    federation: FederationSize
    evaluations: int
    """Of all epochs"""
    core_hours: float
    log_bytes: int
    result_bytes: int
    process_bytes: int
    """Memory of one worker"""
    workers_per_node: int
    """As many as its cores and its memory allow"""
    nodes: int
    """That finish within the hours asked for"""
    hours: float
    """On so many nodes"""


def federation_of(measured: RunMeasurement) -> FederationSize:
    """The measured run itself."""
    return FederationSize(
        len(measured.client_ids),
        max(1, *measured.sizes),
        len(measured.sizes),
        max(1, measured.parameter_count),
    )


def federation_with(run: RunLog, clients: int, participants: int, epochs: int) -> FederationSize:
    """A federation that trains the model of this log on its validation set: its evaluator says what that costs.

    Nothing is evaluated. Raises MissingPart for a log without a model or a validation set.
    """
    adds = evaluator_for(run, utilities_of(run.task, DEFAULT_UTILITIES)).multiply_adds(participants)
    return FederationSize(clients, participants, epochs, run.parameter_count, adds)


def capacity(
    measured: RunMeasurement,
    size: FederationSize,
    settings: AssessSettings | None = None,
    *,
    within_hours: float = 24.0,
    machine: Machine | None = None,
) -> Capacity:
    """What it takes to compute every epoch of such a federation with these settings on machines like this one.

    Raises MissingPart for a table, which nothing is evaluated of, and CostRefusal where the estimator refuses.
    """
    settings, machine = settings or AssessSettings(), machine or Machine.this()
    pace = measured.pace
    if pace is None:
        raise MissingPart("a table is looked up: nothing of it is evaluated, at no scale")
    probed = max(measured.sizes)  # the largest epoch is the one that was timed
    adds = float(measured.multiply_adds[measured.sizes.index(probed)])
    wider = size.parameters / max(1, measured.parameter_count)
    adds_there = size.multiply_adds or measured.adds_for(size.participants) * wider
    cost = cost_of(settings.estimator, size.participants, adds_there, weights=settings.weights)
    epoch = (cost.likely + 2) * pace.evaluation_seconds * adds_there / adds
    beside = pace.observation_seconds + pace.preparation_seconds
    epoch += cost.regressed * pace.regression_seconds + size.participants * beside * wider
    update = 4 * size.parameters
    process = pace.base_bytes + 2 * update * (size.participants + 2) + cost.regressed * measured.outputs * 12
    workers = max(1, min(machine.cores, machine.memory // process))
    seconds = size.epochs * epoch
    # an epoch can be shared by all workers, so that the number of epochs is no limit
    at_once = seconds / (3600 * workers * EFFICIENCY)
    nodes = max(1, math.ceil(at_once / within_hours), math.ceil(process / machine.memory))
    return Capacity(
        federation=size,
        evaluations=cost.likely * size.epochs,
        core_hours=seconds / 3600,
        log_bytes=size.epochs * size.participants * update + update,
        result_bytes=KEPT_BYTES * size.clients * size.epochs * len(settings.utilities),
        process_bytes=process,
        workers_per_node=workers,
        nodes=nodes,
        hours=at_once / nodes,
    )


def standing_questions(measured: RunMeasurement) -> dict[str, FederationSize]:
    """What everybody asks: this run, ten thousand clients for a thousand epochs, a hundred million parameters."""
    own = federation_of(measured)
    return {
        "this run": own,
        "10 000 clients, 1 % of them in each of 1 000 epochs": FederationSize(10_000, 100, 1000, own.parameters),
        "100 million parameters": FederationSize(own.clients, own.participants, own.epochs, 100_000_000),
    }
