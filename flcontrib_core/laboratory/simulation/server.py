"""The server: it makes one model of many updates, by a rule that may keep moments between epochs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from flcontrib_core.laboratory.simulation.aggregation import best_subset, fedavg, subset_models
from flcontrib_core.laboratory.simulation.changes.change import MEANS, ServerRule
from flcontrib_core.laboratory.simulation.kinds import Aggregation
from flcontrib_core.laboratory.simulation.settings import SimulationSettings
from flcontrib_core.vocabulary import BoolArray, Float32Array, FloatArray, IntArray

ADAPTIVE_RATE = 0.01
MEAN, SQUARE, FLOOR = 0.9, 0.99, 1e-3
"""β1, β2 and τ of "Adaptive federated optimization" (Reddi et al., ICLR 2021)."""
ADAPTIVE = (Aggregation.FEDADAM, Aggregation.FEDADAGRAD, Aggregation.FEDYOGI)


def rule_of(settings: SimulationSettings) -> ServerRule:
    """What the run's settings ask of the server."""
    usual = ADAPTIVE_RATE if settings.aggregation in ADAPTIVE else 1.0
    return ServerRule(settings.aggregation, usual if settings.server_rate is None else settings.server_rate)


@dataclass
class Server:
    """Holds the moments of momentum and adaptive rules; plain rules need none."""

    losses: Callable[[Float32Array], FloatArray]
    """Validation losses of flat models (models, P), for the greedy rule."""
    statistics: BoolArray
    """(P,) running statistics (BatchNorm's): they are averaged, never stepped."""
    mean: FloatArray | None = field(default=None)
    square: FloatArray | None = field(default=None)

    def step(
        self,
        model: Float32Array,
        updates: Float32Array,
        sizes: IntArray,
        rule: ServerRule,
        noise: np.random.Generator,
    ) -> Float32Array:
        """The model after an epoch (P,)."""
        if rule.aggregation is Aggregation.GREEDY:
            subset = best_subset(model, updates, sizes, self.losses)
            average: Float32Array = subset_models(model, updates, sizes, subset)[0]
        else:
            average = fedavg(model, updates, sizes)
        if rule.takes_the_mean:
            return average
        change = average.astype(np.float64) - model
        step = np.where(self.statistics, change, self._adapted(change, rule))
        if rule.noise:
            spread = rule.noise * float(np.linalg.norm(step)) / len(step) ** 0.5
            step = step + np.where(self.statistics, 0.0, noise.normal(0.0, spread, size=len(step)))
        after: Float32Array = (model + step).astype(np.float32)
        return after

    def _adapted(self, change: FloatArray, rule: ServerRule) -> FloatArray:
        """The step (P,) that the rule makes of the updates' mean."""
        if rule.aggregation in MEANS:
            return rule.rate * change
        momentum = rule.momentum if rule.aggregation is Aggregation.FEDAVGM else MEAN
        before = np.zeros_like(change) if self.mean is None else self.mean
        self.mean = momentum * before + (1 - momentum) * change
        if rule.aggregation is Aggregation.FEDAVGM:
            return np.asarray(rule.rate * self.mean)
        square, squared = np.full_like(change, FLOOR**2) if self.square is None else self.square, change**2
        if rule.aggregation is Aggregation.FEDADAGRAD:
            self.square = square + squared
        elif rule.aggregation is Aggregation.FEDADAM:
            self.square = SQUARE * square + (1 - SQUARE) * squared
        else:
            self.square = square - (1 - SQUARE) * squared * np.sign(square - squared)
        return np.asarray(rule.rate * self.mean / (np.sqrt(self.square) + FLOOR))
