"""Random orders of joining: drawn within a budget, walked, cut, and averaged.

A player's value is the mean, over uniform orders, of what the coalition gains when it joins. Every order adds up
to u(N) exactly, and the first position counts like any other. Repeated prefixes are free.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.shapley.coalitions import prefix_coalitions, random_permutations
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.vocabulary import FloatArray, IntArray, PlayerByUtility, UtilityMatrix

BATCH = 32
_STILL = 1e-12
"""Of the largest deviation seen: what is smaller is rounding."""


def draw_orders(rng: np.random.Generator, count: int, players: int, antithetic: bool) -> IntArray:
    """(count, walks, players): independent orders, each alone or followed by its reverse."""
    orders = random_permutations(rng, count, players)
    return np.stack([orders, orders[:, ::-1]], axis=1) if antithetic else orders[:, None]


def orders_within(ledger: Ledger, rng: np.random.Generator, antithetic: bool, at_most: int) -> IntArray:
    """(orders, walks, players) as many random orders as the budget pays for; their prefixes are booked."""
    players = ledger.oracle.players
    orders: list[IntArray] = []
    while len(orders) < at_most:
        for order in draw_orders(rng, min(BATCH, at_most - len(orders)), players, antithetic):
            if not ledger.reserve(prefix_coalitions(order).reshape(-1, players)):
                return np.array(orders).reshape(len(orders), -1, players)
            orders.append(order)
    return np.array(orders)


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


def small_sample_factor(degrees: float | FloatArray) -> FloatArray:
    """Width of Student's 95 % interval relative to ±1.96 (Cornish–Fisher; within 1 % from 3 degrees on).

    >>> round(float(small_sample_factor(9)) * 1.96, 2)
    2.26
    """
    z = 1.96
    terms = (z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return np.asarray(
        sum(term / np.asarray(degrees, dtype=np.float64) ** power for power, term in enumerate(terms)) / z
    )


def mean_and_error(samples: FloatArray) -> tuple[PlayerByUtility, PlayerByUtility]:
    """Mean over independent samples (axis 0) and its standard error, NaN for a single sample.

    The error is widened by Student's factor, so that ±1.96 of it is a 95 % interval from a handful of samples too. Who
    was never seen to differ, while others do, may differ in one of so many samples that was not drawn: by the rule of
    three ±1.96 of its error are three such samples, each as far off as any that was seen.
    """
    count = len(samples)
    mean = samples.mean(axis=0)
    if count < 2:
        return mean, np.full_like(mean, np.nan)
    errors = samples.std(axis=0, ddof=1) * (small_sample_factor(count - 1) / np.sqrt(count))
    farthest = np.abs(samples - mean).max(axis=(0, 1))  # (utilities,)
    return mean, np.where(errors <= _STILL * farthest, 3.0 / 1.96 * farthest / count, errors)
