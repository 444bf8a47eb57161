"""What do random orders of joining say (Monte Carlo; Castro 2009, Ghorbani & Zou 2019)?

A player's value is the mean, over uniform orders, of what the coalition gains when it joins. Every order adds up
to u(N) exactly, and the first position counts like any other. Options: ``truncate`` stops an order once its prefix
is within 1 % of u(N) (each later player of that order counts 0: a bias the standard error does not show; the
shortcut is never written into a memo); ``antithetic`` walks every order backwards too and averages the pair.

Default budget: ``costs.default_evaluations``. Orders are drawn until the next one no longer fits; repeated
prefixes are free.
"""

from __future__ import annotations

import math

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.shapley.coalitions import distinct_coalitions, everybody, prefix_coalitions, random_permutations
from flcontrib_core.shapley.costs import Cost, evaluation_budget, refuse_foreign_options
from flcontrib_core.shapley.estimate import EstimatorSettings, ShapleyEstimate
from flcontrib_core.shapley.exact import exact_estimate
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.vocabulary import FloatArray, IntArray, PlayerByUtility, UtilityMatrix

TRUNCATION_SHARE = 0.01
"""An order is cut where |u(N) − u(prefix)| < this share of |u(N)|; nothing is cut where u(N) = 0."""
BATCH = 32


def draw_orders(rng: np.random.Generator, count: int, players: int, antithetic: bool) -> IntArray:
    """(count, walks, players): independent orders, each alone or followed by its reverse."""
    orders = random_permutations(rng, count, players)
    return np.stack([orders, orders[:, ::-1]], axis=1) if antithetic else orders[:, None]


def orders_within(ledger: Ledger, rng: np.random.Generator, antithetic: bool, at_most: int) -> IntArray:
    """(orders, walks, players) as many random orders as the budget pays for; their prefixes are booked."""
    players = ledger.oracle.players
    kept: list[IntArray] = []
    while len(kept) < at_most:
        for order in draw_orders(rng, min(BATCH, at_most - len(kept)), players, antithetic):
            if not ledger.reserve(prefix_coalitions(order).reshape(-1, players)):
                return np.array(kept).reshape(len(kept), -1, players)
            kept.append(order)
    return np.array(kept)


def marginals_of(prefix_values: FloatArray, permutations: IntArray) -> FloatArray:
    """(permutations, players, utilities) from (permutations, positions, utilities), put back into player order."""
    marginals = np.diff(prefix_values, axis=1, prepend=0.0)  # u(∅) = 0: the first position counts
    by_player = np.empty_like(marginals)
    np.put_along_axis(by_player, permutations[:, :, None], marginals, axis=1)
    return by_player


def marginals_along(orders: IntArray, ledger: Ledger) -> FloatArray:
    """(orders, players, utilities) the mean gain over an order's walks, from one call of the oracle."""
    count, walks, players = orders.shape
    flat = orders.reshape(-1, players)
    values = ledger.evaluate(prefix_coalitions(flat).reshape(-1, players)).reshape(len(flat), players, -1)
    return np.asarray(marginals_of(values, flat).reshape(count, walks, players, -1).mean(axis=1))


def truncated_marginals(
    permutations: IntArray, ledger: Ledger, total: UtilityMatrix, tolerance: FloatArray
) -> FloatArray:
    """(permutations, players, utilities); past the cut a marginal counts 0, separately for every utility.

    All permutations walk in step, so that each position is one call of the oracle; one that is cut in every
    utility asks for nothing more.
    """
    players = permutations.shape[1]
    prefixes = prefix_coalitions(permutations)
    reached = np.zeros((len(permutations), players, total.shape[1]))  # the prefix's value, frozen at the cut
    walking = np.ones((len(permutations), total.shape[1]), dtype=bool)
    for position in range(players):
        if position:
            reached[:, position] = reached[:, position - 1]
        active = walking.any(axis=1)
        if not active.any():
            continue
        values = ledger.evaluate(prefixes[active, position])
        reached[active, position] = np.where(walking[active], values, reached[active, position])
        walking &= np.abs(total - reached[:, position]) >= tolerance
    return marginals_of(reached, permutations)


def small_sample_factor(degrees: int) -> float:
    """How much wider than ±1.96 is the 95 % interval of Student's t? (Cornish–Fisher; within 1 % from 3 degrees on)

    >>> round(small_sample_factor(9) * 1.96, 2)
    2.26
    """
    z = 1.96
    terms = (z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return math.fsum(term / degrees**power for power, term in enumerate(terms)) / z


def mean_and_error(samples: FloatArray) -> tuple[PlayerByUtility, PlayerByUtility]:
    """Mean over independent samples (axis 0) and its standard error, NaN for a single sample.

    The error is widened by Student's factor, so that ±1.96 of it is a 95 % interval from a handful of samples too.
    """
    count = len(samples)
    mean = samples.mean(axis=0)
    if count < 2:
        return mean, np.full_like(mean, np.nan)
    return mean, samples.std(axis=0, ddof=1) * (small_sample_factor(count - 1) / np.sqrt(count))


class MonteCarlo:
    """Random orders with standard errors; plain, truncated, antithetic or both."""

    name = "monte-carlo"

    def cost(self, players: int, multiply_adds: float | None, settings: EstimatorSettings) -> Cost:
        budget = evaluation_budget(settings, players)
        self._refuse_too_few(budget, players, settings.antithetic)
        return Cost(budget, budget)

    def estimate(
        self, oracle: CoalitionOracle, rng: np.random.Generator, settings: EstimatorSettings
    ) -> ShapleyEstimate:
        refuse_foreign_options(settings, self.name, "truncate", "antithetic")
        budget = evaluation_budget(settings, oracle.players)
        method = self.name + " truncated" * settings.truncate + " antithetic" * settings.antithetic
        if budget >= distinct_coalitions(oracle.players):
            return exact_estimate(oracle, f"{method} (exact: all coalitions)")
        self._refuse_too_few(budget, oracle.players, settings.antithetic)
        ledger = Ledger(oracle, budget)
        at_most = max(1000, 4 * budget)  # ends the free walk over prefixes that are all known
        if settings.truncate:
            samples, notes = self._truncated(ledger, rng, settings.antithetic, at_most)
        else:
            samples, notes = marginals_along(orders_within(ledger, rng, settings.antithetic, at_most), ledger), ()
        values, errors = mean_and_error(samples)
        notes = (f"{len(samples)} independent orders", *notes)
        return ShapleyEstimate(values, errors, ledger.spent, exact=False, method=method, notes=notes)

    @staticmethod
    def _refuse_too_few(budget: int, players: int, antithetic: bool) -> None:
        least = min(2 * players - 1 if antithetic else players, distinct_coalitions(players))
        if budget < least:
            raise SettingsError(
                f"monte-carlo needs {least} evaluations for one order of {players} participants"
                f"{' and its reverse' if antithetic else ''}; --evaluations allows {budget}"
            )

    @staticmethod
    def _truncated(
        ledger: Ledger, rng: np.random.Generator, antithetic: bool, at_most: int
    ) -> tuple[FloatArray, tuple[str, ...]]:
        """(orders, players, utilities); an order starts only if the budget pays for it uncut, so none is half done."""
        players = ledger.oracle.players
        total = ledger.evaluate(everybody(players))
        tolerance = TRUNCATION_SHARE * np.abs(total)
        walks = 2 if antithetic else 1
        samples: list[FloatArray] = []
        # after N itself is paid, an uncut order costs n − 1 new coalitions per walk
        while len(samples) < at_most and ledger.left >= walks * (players - 1):
            fitting = min(BATCH, at_most - len(samples), ledger.left // (walks * (players - 1)))
            orders = draw_orders(rng, fitting, players, antithetic)
            marginals = truncated_marginals(orders.reshape(-1, players), ledger, total, tolerance)
            samples.extend(marginals.reshape(fitting, walks, players, -1).mean(axis=1))
        note = f"orders cut within {TRUNCATION_SHARE:.0%} of u(N): a bias that the standard error does not show"
        return np.array(samples), (note,)
