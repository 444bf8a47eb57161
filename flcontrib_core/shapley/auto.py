"""Which estimator does an epoch get when nobody chose one?

A fixed rule, never a measured rate, so that a result does not depend on the machine's load:

1. exact where it is cheap: n ≤ 5, or 2^n × multiply-adds per evaluation ≤ ``exact_multiply_adds``; a game that does
   not tell its multiply-adds: n ≤ 12;
2. exact in a *flagged* epoch (some ‖Δ_i‖ > 3 × the median) up to n = 12, where the surrogate is not to be trusted;
3. otherwise the surrogate (the black-box one without logits), which adds evaluations until its precision is reached
   or its cap;
4. where it ended above the requested precision, or marked a utility unreliable: exact if 2^n × multiply-adds ≤
   ``rescue_multiply_adds`` (opaque: n ≤ 12), else the surrogate's answer with its honest, wide interval.

``--evaluations N`` overrides the rule: exact if N pays for all coalitions, otherwise the surrogate with N.
What was done stands in ``method`` and ``notes``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flcontrib_core.shapley.coalitions import distinct_coalitions
from flcontrib_core.shapley.costs import Cost, refuse_foreign_options
from flcontrib_core.shapley.estimate import EstimatorSettings, ShapleyEstimate
from flcontrib_core.shapley.exact import exact_estimate
from flcontrib_core.shapley.flagged import flag_words, flagged_players
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.registry import cost_of, epoch_estimator
from flcontrib_core.vocabulary import LogitGame

ALWAYS_EXACT = 5
OPAQUE_EXACT = 12
FLAGGED_EXACT = 12


def within(players: int, multiply_adds: float | None, limit: float) -> bool:
    """Whether all coalitions stay below ``limit`` multiply-adds; a game without a price: whether n ≤ 12."""
    if multiply_adds is None:
        return players <= OPAQUE_EXACT
    return 2.0**players * multiply_adds <= limit


def exact_is_cheap(players: int, multiply_adds: float | None, settings: EstimatorSettings) -> bool:
    """Step 1 of the rule."""
    return players <= ALWAYS_EXACT or within(players, multiply_adds, settings.exact_multiply_adds)


def precision_reached(estimate: ShapleyEstimate, precision: float, resolution: float = 0.0) -> bool:
    """Whether every utility's widest 95 % half-width is at most ``precision`` times the spread of its values.

    A utility whose values and half-widths all stay below ``resolution`` shows no difference between clients:
    nothing is left to resolve.
    """
    relative = estimate.relative_half_width()
    flat = (estimate.values.std(axis=0) <= resolution) & (estimate.half_widths.max(axis=0) <= resolution)
    return bool(((relative <= precision) | flat).all())


def predicted_evaluations(n: int, multiply_adds: float | None, name: str, settings: EstimatorSettings) -> int:
    """How many distinct evaluations will an epoch with n participants take, whatever the estimator?

    The likely number (see ``Cost.likely``) from the fixed cost model; ``registry.cost_of`` also tells the ceiling.
    """
    return cost_of(name, n, multiply_adds, settings).likely


class Auto:
    """Exact where it is cheap, the surrogate where it is not, and exact again where the surrogate is not enough."""

    name = "auto"

    def cost(self, players: int, multiply_adds: float | None, settings: EstimatorSettings) -> Cost:
        everything = distinct_coalitions(players)
        surrogate = "surrogate" if multiply_adds is not None else "surrogate-blackbox"
        if settings.evaluations is not None:
            if settings.evaluations >= everything:
                return Cost(everything, everything)
            return cost_of(surrogate, players, multiply_adds, settings)
        if exact_is_cheap(players, multiply_adds, settings):
            return Cost(everything, everything)
        likely, most = cost_of(surrogate, players, multiply_adds, settings)
        may_be_flagged = multiply_adds is not None and players <= FLAGGED_EXACT
        if may_be_flagged or within(players, multiply_adds, settings.rescue_multiply_adds):
            most = everything
        return Cost(likely, most)

    def estimate(
        self, oracle: CoalitionOracle, rng: np.random.Generator, settings: EstimatorSettings
    ) -> ShapleyEstimate:
        refuse_foreign_options(settings, self.name)
        n, game = oracle.players, oracle.game
        multiply_adds = game.multiply_adds if isinstance(game, LogitGame) else None
        if settings.evaluations is not None:
            if settings.evaluations >= distinct_coalitions(n):
                return exact_estimate(oracle, notes=("auto: the evaluations allowed pay for all coalitions",))
            return self._surrogate(oracle, rng, settings, "auto: the evaluations allowed do not pay for all coalitions")
        if exact_is_cheap(n, multiply_adds, settings):
            return exact_estimate(oracle, notes=(f"auto: exact is cheap for {n} participants",))
        flagged = flagged_players(game)
        if flagged and n <= FLAGGED_EXACT:
            return exact_estimate(oracle, notes=(f"auto: exact, because {flag_words(flagged)}",))
        why = f"auto: {flag_words(flagged)}" if flagged else f"auto: exact is not cheap for {n} participants"
        estimate = self._surrogate(oracle, rng, settings, why)
        resolution = 0.1 / game.validation_rows if isinstance(game, LogitGame) else 0.0
        if precision_reached(estimate, settings.precision, resolution) and not estimate.unreliable:
            return estimate
        if estimate.unreliable:
            found = f"the surrogate cannot be trusted for {', '.join(estimate.unreliable)} here"
        else:
            found = f"{estimate.evaluations} evaluations did not bring the interval within {settings.precision:g} sd"
        if within(n, multiply_adds, settings.rescue_multiply_adds):
            return exact_estimate(oracle, notes=(*estimate.notes, f"auto: {found}; computed exactly instead"))
        return replace(estimate, notes=(*estimate.notes, f"auto: {found}, and exact is out of reach"))

    @staticmethod
    def _surrogate(
        oracle: CoalitionOracle, rng: np.random.Generator, settings: EstimatorSettings, why: str
    ) -> ShapleyEstimate:
        name = "surrogate" if isinstance(oracle.game, LogitGame) else "surrogate-blackbox"
        estimate = epoch_estimator(name).estimate(oracle, rng, settings)
        return replace(estimate, notes=(why, *estimate.notes))
