"""Games as the surrogates see them: where coalitions lie, and the outputs that are regressed on λ(S).

Outputs are link-transformed validation logits where the game has logits (``LogitView``), and the utilities themselves
where nothing else can be seen (``UtilityView``).
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from flcontrib_core.blas import side_by_side, slices
from flcontrib_core.shapley.logit_link import LogitLink
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.vocabulary import (
    CoalitionMatrix,
    CoalitionWeights,
    Float32Array,
    FloatArray,
    LogitGame,
    UtilityMatrix,
)

_CELLS_IN_CACHE = 1 << 18
"""Outputs turned into logits at a time (1 MiB of float32)"""


class GameView(Protocol):
    """A game as a surrogate fits it: where coalitions lie, their outputs, and what outputs are worth."""

    @property
    def blocks(self) -> tuple[slice, ...]:
        """Columns of the outputs that share a kernel: one block for logits, one per utility otherwise."""
        ...

    def block_of_utility(self, utility: int) -> int:
        """Which block of outputs a utility is read from."""
        ...

    def weights(self, coalitions: CoalitionMatrix) -> CoalitionWeights:
        """The aggregation weights of each coalition."""
        ...

    def evaluate(self, coalitions: CoalitionMatrix) -> tuple[UtilityMatrix, FloatArray]:
        """Utilities and outputs (coalitions, columns); outputs that are not finite are kept out of every fit."""
        ...

    def utilities(self, outputs: Float32Array | FloatArray) -> UtilityMatrix:
        """What predicted outputs are worth, relative to F_prev."""
        ...


class LogitView:
    """A game whose outputs are its link-transformed validation logits (a ``GameView``)."""

    def __init__(self, oracle: CoalitionOracle, game: LogitGame) -> None:
        self._oracle, self._game = oracle, game

    @cached_property
    def _link(self) -> LogitLink:
        singletons = np.eye(self._oracle.players, dtype=bool)
        return LogitLink.from_singletons(self._oracle.evaluate_with_logits(singletons)[1])

    @property
    def blocks(self) -> tuple[slice, ...]:
        """All logits share a kernel."""
        return (slice(None),)

    def block_of_utility(self, utility: int) -> int:
        """Every utility is read from the same logits."""
        return 0

    def weights(self, coalitions: CoalitionMatrix) -> CoalitionWeights:
        """λ(S) as the game tells it."""
        return self._game.weights(coalitions)

    def evaluate(self, coalitions: CoalitionMatrix) -> tuple[UtilityMatrix, FloatArray]:
        """Utilities, and logits behind the link."""
        values, logits = self._oracle.evaluate_with_logits(coalitions)  # before the link, which needs a part of them
        return values, self._link.outputs(logits)

    def utilities(self, outputs: Float32Array | FloatArray) -> UtilityMatrix:
        """What the game reads from the logits, a cache's worth of them at a time."""
        step = max(1, _CELLS_IN_CACHE // outputs.shape[1])
        values = np.empty((len(outputs), len(self._oracle.utilities)))

        def fill(some: slice) -> None:
            values[some] = self._game.utilities_of_logits(self._link.logits(outputs[some]))

        side_by_side(fill, slices(len(outputs), step))
        return values


@runtime_checkable
class WeighingGame(Protocol):
    """A game that tells λ(S)."""

    def weights(self, coalitions: CoalitionMatrix) -> CoalitionWeights:
        """The aggregation weights of each coalition."""
        ...


class UtilityView:
    """A game whose outputs are its utilities (a ``GameView``)."""

    def __init__(self, oracle: CoalitionOracle) -> None:
        self._oracle = oracle

    @property
    def blocks(self) -> tuple[slice, ...]:
        """Every utility has a kernel of its own."""
        return tuple(slice(k, k + 1) for k in range(len(self._oracle.utilities)))

    def block_of_utility(self, utility: int) -> int:
        """Its own."""
        return utility

    def weights(self, coalitions: CoalitionMatrix) -> CoalitionWeights:
        """λ(S) where the game tells it, otherwise equal parts."""
        if isinstance(self._oracle.game, WeighingGame):
            return self._oracle.game.weights(coalitions)
        return np.asarray(coalitions / np.maximum(coalitions.sum(axis=1, keepdims=True), 1))

    def evaluate(self, coalitions: CoalitionMatrix) -> tuple[UtilityMatrix, FloatArray]:
        """The utilities, twice."""
        values = self._oracle.evaluate(coalitions)
        return values, values

    def utilities(self, outputs: Float32Array | FloatArray) -> UtilityMatrix:
        """The outputs themselves."""
        return outputs.astype(np.float64)
