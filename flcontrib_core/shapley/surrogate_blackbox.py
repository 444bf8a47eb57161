"""What are an epoch's Shapley values when nothing but the utilities can be seen?

The course of ``surrogate`` with the utilities themselves as outputs, each with a kernel of its own. Where the game
tells its weights and updates they place the coalitions; otherwise all players weigh the same and lie equally far apart.
Less is known per evaluation than from logits, so intervals are wider and more evaluations are spent.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from flcontrib_core.shapley.costs import Cost, refuse_foreign_options, surrogate_cost
from flcontrib_core.shapley.estimate import EstimatorSettings, ShapleyEstimate
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.surrogate_study import Grounds, study_epoch
from flcontrib_core.vocabulary import (
    CoalitionMatrix,
    CoalitionWeights,
    Float32Array,
    FloatArray,
    LogitGame,
    UtilityMatrix,
)


@runtime_checkable
class WeighingGame(Protocol):
    """A game that tells λ(S)."""

    def weights(self, coalitions: CoalitionMatrix) -> CoalitionWeights: ...


class UtilitySubject:
    """A game whose outputs are its utilities (a ``Subject``)."""

    def __init__(self, oracle: CoalitionOracle) -> None:
        self._oracle = oracle

    @property
    def blocks(self) -> tuple[slice, ...]:
        return tuple(slice(k, k + 1) for k in range(len(self._oracle.utilities)))

    def block_of_utility(self, utility: int) -> int:
        return utility

    def weights(self, coalitions: CoalitionMatrix) -> CoalitionWeights:
        if isinstance(self._oracle.game, WeighingGame):
            return self._oracle.game.weights(coalitions)
        return np.asarray(coalitions / np.maximum(coalitions.sum(axis=1, keepdims=True), 1))

    def evaluate(self, coalitions: CoalitionMatrix) -> tuple[UtilityMatrix, FloatArray]:
        values = self._oracle.evaluate(coalitions)
        return values, values

    def utilities(self, outputs: Float32Array | FloatArray) -> UtilityMatrix:
        return outputs.astype(np.float64)


class BlackBoxSurrogate:
    """Regression of the utilities themselves on coalition weights."""

    name = "surrogate-blackbox"

    def cost(self, players: int, multiply_adds: float | None, settings: EstimatorSettings) -> Cost:
        return surrogate_cost(players, settings)

    def estimate(
        self, oracle: CoalitionOracle, rng: np.random.Generator, settings: EstimatorSettings
    ) -> ShapleyEstimate:
        refuse_foreign_options(settings, self.name)
        game = oracle.game
        if isinstance(game, LogitGame):
            grounds = Grounds(game.gram(), game.multiply_adds, 1.0 / game.validation_rows)
        else:
            grounds = Grounds(np.eye(oracle.players), np.inf, 0.0)
        return study_epoch(self.name, UtilitySubject(oracle), oracle, grounds, rng, settings)
