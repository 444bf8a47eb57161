"""The estimator of an epoch for which nobody chose one: exact where that is cheap, otherwise the surrogate.

A fixed rule, never a measured rate, so that a result does not depend on the machine's load:

1. exact where it is cheap: n ≤ 5, or 2^n × multiply-adds per evaluation ≤ ``exact_multiply_adds``; a game that does
   not tell its multiply-adds: n ≤ 12;
2. exact in a *flagged* epoch (some ‖Δ_i‖ > 3 × the median) up to n = 12, where the surrogate is not to be trusted;
3. otherwise the surrogate (of the utilities where there are no logits), which adds evaluations until its precision is
   reached or its cap;
4. where it ended above the requested precision, or marked a utility unreliable: exact if 2^n × multiply-adds ≤
   ``rescue_multiply_adds`` (opaque: n ≤ 12), else the surrogate's answer with its honest, wide interval.

``evaluations = N`` overrides the rule: exact if N pays for all coalitions, otherwise the surrogate with N.
What was done stands in ``method`` and ``remarks``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.shapley.base import BaseEstimator
from flcontrib_core.shapley.coalitions import distinct_coalitions
from flcontrib_core.shapley.costs import Cost
from flcontrib_core.shapley.estimate import ShapleyEstimate
from flcontrib_core.shapley.exact_values import exact_estimate
from flcontrib_core.shapley.flagged import FLAG_RATIO, flagged_players, named_players
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.remarks import (
    EstimatorRemark,
    EvaluationsPayForAll,
    ExactIsCheap,
    ExactIsNotCheap,
    Handling,
    LongUpdates,
    SurrogateFellShort,
)
from flcontrib_core.shapley.surrogate import Surrogate
from flcontrib_core.vocabulary import LogitGame

ALWAYS_EXACT = 5
OPAQUE_EXACT = 12
FLAGGED_EXACT = 12


def within(players: int, multiply_adds: float | None, limit: float) -> bool:
    """Whether all coalitions stay below ``limit`` multiply-adds; a game without a price: whether n ≤ 12."""
    if multiply_adds is None:
        return players <= OPAQUE_EXACT
    return 2.0**players * multiply_adds <= limit


def precision_reached(estimate: ShapleyEstimate, precision: float, resolution: float = 0.0) -> bool:
    """Whether every utility's widest 95 % half-width is at most ``precision`` times the spread of its values.

    A utility whose values and half-widths all stay below ``resolution`` shows no difference between clients:
    nothing is left to resolve.
    """
    relative = estimate.relative_half_width()
    flat = (estimate.values.std(axis=0) <= resolution) & (estimate.half_widths.max(axis=0) <= resolution)
    return bool(((relative <= precision) | flat).all())


@dataclass(frozen=True, kw_only=True)
class Auto(BaseEstimator):
    """Exact where it is cheap, the surrogate where it is not, and exact again where the surrogate is not enough."""

    precision: float = 0.3
    """Stop when the largest 95 % half-width ≤ precision · sd of the values over clients."""
    exact_multiply_adds: float = 2.5e10
    """Exact where 2^n × multiply-adds per evaluation stays below this: about a second of one core, n ≤ 8 for the
    paper's MLP on up to 500 validation rows, n ≤ 12 or 13 for small models."""
    rescue_multiply_adds: float = 2.5e11
    """Exact, where the precision was not reached, while 2^n × multiply-adds stays below this."""

    name = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.surrogate(opaque=False)  # checks the precision
        if min(self.exact_multiply_adds, self.rescue_multiply_adds) < 0:
            raise SettingsError("auto: exact_multiply_adds and rescue_multiply_adds are not negative")

    def surrogate(self, opaque: bool) -> Surrogate:
        """What is used where exact is not cheap."""
        return Surrogate(
            evaluations=self.evaluations, precision=self.precision, outputs="utilities" if opaque else "logits"
        )

    def cost(self, players: int, multiply_adds: float | None) -> Cost:
        """By the rule, as if nothing were flagged; a flagged epoch or a rescue is in ``most``."""
        everything = distinct_coalitions(players)
        surrogate = self.surrogate(opaque=multiply_adds is None)
        if self.evaluations is not None:
            if self.evaluations >= everything:
                return Cost(everything, everything)
            return surrogate.cost(players, multiply_adds)
        if self._exact_is_cheap(players, multiply_adds):
            return Cost(everything, everything)
        cost = surrogate.cost(players, multiply_adds)
        may_be_flagged = multiply_adds is not None and players <= FLAGGED_EXACT
        rescued = may_be_flagged or within(players, multiply_adds, self.rescue_multiply_adds)
        return cost._replace(most=everything) if rescued else cost

    def cost_when_flagged(self, players: int, multiply_adds: float | None) -> Cost:
        """Exact up to 12 participants, and wherever the surrogate, not trusted on such an epoch, is rescued."""
        everything = distinct_coalitions(players)
        if self.evaluations is not None or self._exact_is_cheap(players, multiply_adds):
            return self.cost(players, multiply_adds)
        if players <= FLAGGED_EXACT or within(players, multiply_adds, self.rescue_multiply_adds):
            return Cost(everything, everything)
        return self.surrogate(opaque=multiply_adds is None).cost_when_flagged(players, multiply_adds)

    def estimate(self, oracle: CoalitionOracle, rng: np.random.Generator) -> ShapleyEstimate:
        """By the rule."""
        n, game = oracle.players, oracle.game
        multiply_adds = game.multiply_adds if isinstance(game, LogitGame) else None
        if self.evaluations is not None:
            if self.evaluations >= distinct_coalitions(n):
                return exact_estimate(oracle, remarks=(EvaluationsPayForAll(self.evaluations, pay=True),))
            return self._surrogate(oracle, rng, EvaluationsPayForAll(self.evaluations, pay=False))
        if self._exact_is_cheap(n, multiply_adds):
            return exact_estimate(oracle, remarks=(ExactIsCheap(n),))
        flagged = flagged_players(game)
        if flagged and n <= FLAGGED_EXACT:
            return exact_estimate(oracle, remarks=(self._long_updates(oracle, flagged, Handling.EXACT),))
        why = self._long_updates(oracle, flagged, Handling.ESTIMATED) if flagged else ExactIsNotCheap(n)
        estimate = self._surrogate(oracle, rng, why)
        resolution = 0.1 / game.validation_rows if isinstance(game, LogitGame) else 0.0
        if precision_reached(estimate, self.precision, resolution) and not estimate.unreliable:
            return estimate
        rescued = within(n, multiply_adds, self.rescue_multiply_adds)
        short = SurrogateFellShort(tuple(estimate.unreliable), estimate.evaluations, self.precision, rescued)
        remarks = (*estimate.remarks, short)
        return exact_estimate(oracle, remarks=remarks) if rescued else replace(estimate, remarks=remarks)

    @staticmethod
    def _long_updates(oracle: CoalitionOracle, flagged: tuple[int, ...], handling: Handling) -> LongUpdates:
        return LongUpdates(named_players(oracle, flagged), FLAG_RATIO, handling)

    def _exact_is_cheap(self, players: int, multiply_adds: float | None) -> bool:
        """Step 1 of the rule."""
        return players <= ALWAYS_EXACT or within(players, multiply_adds, self.exact_multiply_adds)

    def _surrogate(self, oracle: CoalitionOracle, rng: np.random.Generator, why: EstimatorRemark) -> ShapleyEstimate:
        estimate = self.surrogate(opaque=not isinstance(oracle.game, LogitGame)).estimate(oracle, rng)
        return replace(estimate, remarks=(why, *estimate.remarks))
