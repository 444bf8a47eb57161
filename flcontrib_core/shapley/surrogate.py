"""What are an epoch's Shapley values, from a few evaluations and a model of all the others?

A coalition's value depends on it only through the point λ(S) of a simplex, and validation logits move smoothly with
that point. The surrogate evaluates everybody, each alone and a designed sample, regresses the logits on λ(S), predicts
the logits of every other coalition, and reads all utilities from them; evaluated coalitions keep their true values.
One fit serves any number of utilities.

====================  ==========================================================================================
start                 N, all singletons and the design up to 2n, in one request (∅ is free)
``logit_link``        logits on a scale on which they can be regressed
``simplex_kernel``    distances from the updates' Gram matrix, kernel by marginal likelihood, regression
``surrogate_design``  which coalitions next: a quota per size, inside it the most uncertain; nested steps of 2n
values                the exact Shapley values of the predicted table up to 16 players; above, and for models so
                      small that a table costs more than it is worth, ``sampled_shapley``; then + (u(N) − Σφ)/n
``surrogate_error``   standard errors from leave-one-out residuals
stop                  from 4n on, when the widest 95 % half-width is within ``precision`` × the spread of the values
                      for every utility that shows any; at min(16n, 2^n/2) at the latest
====================  ==========================================================================================

Which coalitions are evaluated does not depend on when it stops, so a higher precision re-uses all of them;
``--evaluations N`` spends N. A *flagged* epoch (some ‖Δ_i‖ > 3 × the median) with a utility that counts rows gets two
regressions, one for the coalitions without flagged players, at least 8n evaluations, and those utilities are marked
``unreliable``. Coalitions whose logits are not finite are named and never fitted.

Departure: the measured design starts with n + 2 evaluations and chooses the rest with a fitted kernel; the first n − 1
of the rest are chosen here with a fixed one. Values are as good (median NMSE at 4n on the tuning seeds 4.1e-4 / 4.0e-3
against 4.8e-4 / 4.4e-3), and evaluators run full chunks: 48 forward passes for 40 coalitions instead of 64.
Departure: the measured design evaluates ∅ too; its logits are used here only under fixed weights.
Departure: "flat" (spread < 0.1/V: no difference between clients) is asked of utilities that count rows; a smooth one is
flat where its spread is rounding.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from flcontrib_core.errors import MissingPart
from flcontrib_core.shapley.costs import Cost, refuse_foreign_options, surrogate_cost
from flcontrib_core.shapley.estimate import EstimatorSettings, ShapleyEstimate
from flcontrib_core.shapley.logit_link import LogitLink
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


class LogitSubject:
    """A game whose outputs are its link-transformed validation logits (a ``Subject``)."""

    def __init__(self, oracle: CoalitionOracle, game: LogitGame) -> None:
        self._oracle, self._game = oracle, game

    @cached_property
    def _link(self) -> LogitLink:
        singletons = np.eye(self._oracle.players, dtype=bool)
        return LogitLink.from_singletons(self._oracle.evaluate_with_logits(singletons)[1])

    @property
    def blocks(self) -> tuple[slice, ...]:
        return (slice(None),)

    def block_of_utility(self, utility: int) -> int:
        return 0

    def weights(self, coalitions: CoalitionMatrix) -> CoalitionWeights:
        return self._game.weights(coalitions)

    def evaluate(self, coalitions: CoalitionMatrix) -> tuple[UtilityMatrix, FloatArray]:
        values, logits = self._oracle.evaluate_with_logits(coalitions)  # before the link, which needs a part of them
        return values, self._link.outputs(logits)

    def utilities(self, outputs: Float32Array | FloatArray) -> UtilityMatrix:
        return self._game.utilities_of_logits(self._link.logits(outputs))


class LogitSurrogate:
    """Regression of validation logits on coalition weights: the default where exact is too slow."""

    name = "surrogate"

    def cost(self, players: int, multiply_adds: float | None, settings: EstimatorSettings) -> Cost:
        return surrogate_cost(players, settings)

    def estimate(
        self, oracle: CoalitionOracle, rng: np.random.Generator, settings: EstimatorSettings
    ) -> ShapleyEstimate:
        refuse_foreign_options(settings, self.name)
        game = oracle.game
        if not isinstance(game, LogitGame):
            raise MissingPart("this game has no logits; use an estimator for opaque utilities (surrogate-blackbox)")
        grounds = Grounds(game.gram(), game.multiply_adds, 1.0 / game.validation_rows)
        return study_epoch(self.name, LogitSubject(oracle, game), oracle, grounds, rng, settings)
