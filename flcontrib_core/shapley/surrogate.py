"""The surrogates: Shapley values from a few evaluations and a regression that predicts all the others.

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
``evaluations = N`` spends N. A *flagged* epoch (some ‖Δ_i‖ > 3 × the median) with a utility that counts rows gets two
regressions, one for the coalitions without flagged players, at least 8n evaluations, and those utilities are marked
``unreliable``. Coalitions whose logits are not finite are named and never fitted.

Where nothing but the utilities can be seen, ``outputs="utilities"`` regresses the utilities themselves, each with a
kernel of its own. Where the game tells its weights and updates they place the coalitions; otherwise all players weigh
the same and lie equally far apart. Less is known per evaluation than from logits, so intervals are wider and more
evaluations are spent.

Departure: the measured design starts with n + 2 evaluations and chooses the rest with a fitted kernel; the first n − 1
of the rest are chosen here with a fixed one. Values are as good (median NMSE at 4n on the tuning seeds 4.1e-4 / 4.0e-3
against 4.8e-4 / 4.4e-3), and evaluators run full chunks: 48 forward passes for 40 coalitions instead of 64.
Departure: the measured design evaluates ∅ too; its logits are used here only under fixed weights.
Departure: "flat" (spread < 0.1/V: no difference between clients) is asked of utilities that count rows; a smooth one is
flat where its spread is rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from flcontrib_core.blas import one_blas_thread
from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.shapley.base import BaseEstimator, one_of
from flcontrib_core.shapley.coalitions import distinct_coalitions
from flcontrib_core.shapley.costs import Cost
from flcontrib_core.shapley.estimate import ShapleyEstimate
from flcontrib_core.shapley.exact_values import exact_estimate
from flcontrib_core.shapley.flagged import FLAG_RATIO, flagged_players, named_players
from flcontrib_core.shapley.game_views import GameView, LogitView, UtilityView
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.remarks import (
    EstimatorRemark,
    EvaluationsPayForAll,
    Handling,
    IntervalWide,
    LongUpdates,
    NoDifference,
    SubmodelsNotFinite,
)
from flcontrib_core.shapley.surrogate_fit import Check, Prior, SurrogateFit, moves_in_steps
from flcontrib_core.vocabulary import BoolArray, LogitGame


@dataclass(frozen=True, kw_only=True)
class Surrogate(BaseEstimator):
    """Regression of validation logits, or of the utilities, on coalition weights: the default where exact is slow."""

    precision: float = 0.3
    """Stop when the largest 95 % half-width ≤ precision · sd of the values over clients."""
    outputs: Literal["logits", "utilities"] = "logits"
    """What is regressed; games without logits have utilities alone."""

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("outputs", self.outputs, ("logits", "utilities"))
        if not 0 < self.precision < math.inf:
            raise SettingsError(f"precision is {self.precision}; give a positive share of the values' spread, e.g. 0.3")

    @property
    def name(self) -> str:
        """surrogate, or surrogate-blackbox."""
        return "surrogate" if self.outputs == "logits" else "surrogate-blackbox"

    def cost(self, players: int, multiply_adds: float | None) -> Cost:
        """The stopping rule: never before 4n evaluations, never beyond min(16n, 2^n / 2)."""
        return self._cost(players, 4 * players)

    def cost_when_flagged(self, players: int, multiply_adds: float | None) -> Cost:
        """The same, but never before 8n evaluations."""
        return self._cost(players, 8 * players)

    def _cost(self, players: int, first_check: int) -> Cost:
        everything = distinct_coalitions(players)
        if self.evaluations is not None:
            spent = min(self.evaluations, everything)
            return Cost(spent, spent, spent if spent < everything else 0)
        most = max(min(4 * players, everything), min(16 * players, (everything + 1) // 2))
        likely = min(first_check, most)
        return Cost(likely, most, likely if most < everything else 0)

    def estimate(self, oracle: CoalitionOracle, rng: np.random.Generator) -> ShapleyEstimate:
        """Starts with 2n evaluations, grows in nested steps of 2n, checks from 4n (flagged: 8n) on, and stops."""
        view, prior = self._view(oracle)
        n = oracle.players
        steps = np.array([moves_in_steps(utility) for utility in oracle.utilities])
        flagged = np.zeros(n, dtype=bool)
        if steps.any():
            flagged[list(flagged_players(oracle.game))] = True
        most = self.cost(n, None).most
        if most >= distinct_coalitions(n):
            return exact_estimate(oracle, remarks=(EvaluationsPayForAll(distinct_coalitions(n), pay=True),))
        most = self.fit_evaluations(most, n)
        self._refuse_too_few(most, n, flagged)
        with one_blas_thread():
            seed = int(rng.integers(1 << 62))
            fit = SurrogateFit(view, oracle, prior, steps, flagged, seed, first=min(2 * n, most))
            first_check = most if self.evaluations is not None else min(most, (8 if flagged.any() else 4) * n)
            for target in [*range(4 * n, most, 2 * n), most]:
                fit.grow(target)
                if target >= first_check:
                    check = fit.check(self.precision)
                    if not check.wide.any():
                        break
            evaluated = fit.evaluated
            check, more = self.finished(fit, check, rng)
        early = evaluated < 8 * n
        unreliable = (steps | early) & flagged.any() | bool(fit.diverged())
        return ShapleyEstimate(
            check.values,
            check.errors,
            evaluated + more,
            exact=False,
            method=self.name,
            remarks=tuple(self._remarks(fit, check)),
            unreliable=tuple(np.array(oracle.utilities)[unreliable].tolist()),
        )

    def fit_evaluations(self, most: int, players: int) -> int:
        """How many of the evaluations the regression may take."""
        return most

    def finished(self, fit: SurrogateFit, check: Check, rng: np.random.Generator) -> tuple[Check, int]:
        """What becomes of the last check, and how many more coalitions that took."""
        return check, 0

    def _view(self, oracle: CoalitionOracle) -> tuple[GameView, Prior]:
        """The game as it is fitted, and what is known of it."""
        game = oracle.game
        if isinstance(game, LogitGame):
            prior = Prior(game.gram(), game.multiply_adds, 1.0 / game.validation_rows)
            return LogitView(oracle, game) if self.outputs == "logits" else UtilityView(oracle), prior
        if self.outputs == "logits":
            raise MissingPart("this game has no logits; use an estimator for opaque utilities (surrogate-blackbox)")
        return UtilityView(oracle), Prior(np.eye(oracle.players), np.inf, 0.0)

    def _refuse_too_few(self, most: int, players: int, flagged: BoolArray) -> None:
        least = players + 1 + int(flagged.any())
        if most < least:
            raise SettingsError(
                f"{self.name} starts with {least} evaluations for {players} participants (everybody and each alone); "
                f"found evaluations = {most}. Allow at least {least}, better {4 * players}."
            )

    def _remarks(self, fit: SurrogateFit, check: Check) -> Iterator[EstimatorRemark]:
        """What a reader of the result should know."""
        utilities = np.array(fit.oracle.utilities)
        if fit.flagged.any():
            who = named_players(fit.oracle, np.flatnonzero(fit.flagged).tolist())
            yield LongUpdates(who, FLAG_RATIO, Handling.FITTED_APART)
        diverged = fit.diverged()
        if diverged:
            yield SubmodelsNotFinite(len(diverged), named_players(fit.oracle, diverged[0]))
        if check.flat.any():
            yield NoDifference(tuple(utilities[check.flat].tolist()))
        if check.wide.any():
            yield IntervalWide(tuple(utilities[check.wide].tolist()), fit.evaluated, self.precision)
