"""What are the Shapley values, computed from all coalitions?"""

from __future__ import annotations

import math

import numpy as np

from flcontrib_core.errors import CostRefusal
from flcontrib_core.shapley.coalitions import all_coalitions, coalition_sizes, distinct_coalitions
from flcontrib_core.shapley.costs import Cost, refuse_foreign_options
from flcontrib_core.shapley.estimate import EstimatorSettings, ShapleyEstimate
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.vocabulary import FloatArray, PlayerByUtility, UtilityMatrix


def shapley_from_table(table: FloatArray) -> PlayerByUtility:
    """Which values does eq. (shapley_value) give for a table of all coalitions?

    ``table`` is (2^n, utilities) in mask order (player i is bit i); the result is (n, utilities). One marginal
    per (coalition, player) is formed by slicing, so constants cancel before they are weighted, and n = 20 takes
    a fraction of a second.

    >>> shapley_from_table(np.array([[0.0], [0.5], [0.2], [0.4]])).ravel().round(12).tolist()
    [0.35, 0.05]
    """
    coalitions, utilities = table.shape
    players = coalitions.bit_length() - 1
    if players < 1 or coalitions != 1 << players:
        raise ValueError(f"a table of all coalitions has 2^n rows, n ≥ 1; found {coalitions}")
    weight_of_size = np.array([1.0 / (players * math.comb(players - 1, size)) for size in range(players)])
    weights = weight_of_size[coalition_sizes(players - 1)]  # (2^(n−1),) of the coalitions without the player
    values = np.empty((players, utilities))
    for player in range(players):
        cut = table.reshape(-1, 2, 1 << player, utilities)
        marginals = (cut[:, 1] - cut[:, 0]).reshape(-1, utilities)
        values[player] = weights @ marginals
    return values


def evaluate_all(oracle: CoalitionOracle) -> UtilityMatrix:
    """(2^n, utilities) every coalition's utilities in mask order; 2^n − 1 distinct evaluations."""
    table = np.empty((1 << oracle.players, len(oracle.utilities)))
    for masks, members in all_coalitions(oracle.players):
        table[masks] = oracle.evaluate(members)
    return table


def exact_estimate(oracle: CoalitionOracle, method: str = "exact", notes: tuple[str, ...] = ()) -> ShapleyEstimate:
    """Exact values under the name of the method that ended up here."""
    values = shapley_from_table(evaluate_all(oracle))
    return ShapleyEstimate(values, np.zeros_like(values), oracle.evaluations, exact=True, method=method, notes=notes)


def refuse_exponential(players: int, settings: EstimatorSettings, method: str) -> None:
    """Raises CostRefusal where all 2^n coalitions are out of reach, naming the cost and what is offered instead."""
    evaluations = distinct_coalitions(players)
    cost = f"{method} over {players} participants needs 2^{players} − 1 = {evaluations:,} evaluations"
    if settings.evaluations is not None and settings.evaluations < evaluations:
        offered = f"auto or complementary with --evaluations {settings.evaluations}"
        limit = f"--evaluations allows {settings.evaluations:,}"
    elif players > settings.exact_players:
        offered = "auto, surrogate or complementary"
        limit = f"the limit is {settings.exact_players} participants"
    else:
        return
    raise CostRefusal(f"{cost}; {limit}. Use {offered}.", evaluations=evaluations, offered=offered)


class Exact:
    """All 2^n coalitions once, then one weighting over bitmasks; never n! orders, never one evaluation per marginal."""

    name = "exact"

    def cost(self, players: int, multiply_adds: float | None, settings: EstimatorSettings) -> Cost:
        refuse_exponential(players, settings, self.name)
        return Cost(distinct_coalitions(players), distinct_coalitions(players))

    def estimate(
        self, oracle: CoalitionOracle, rng: np.random.Generator, settings: EstimatorSettings
    ) -> ShapleyEstimate:
        refuse_foreign_options(settings, self.name)
        refuse_exponential(oracle.players, settings, self.name)
        return exact_estimate(oracle)


def best_coalition(oracle: CoalitionOracle, utility: str, lower_is_better: bool) -> tuple[tuple[int, ...], bool]:
    """Which coalition S* has the best utility (greedy aggregation), and is that proved?

    Reads what the oracle has already evaluated, ∅ included (S* = ∅: keep the previous model). The second answer is
    True where all 2^n coalitions were evaluated. Among equals the smaller coalition wins, then the earlier players.
    """
    members, values = oracle.known_coalitions()
    column = values[:, oracle.utilities.index(utility)] * (1.0 if lower_is_better else -1.0)
    candidates = members[column == column.min()]
    best = min((tuple(np.flatnonzero(row).tolist()) for row in candidates), key=lambda group: (len(group), group))
    return best, oracle.evaluations == distinct_coalitions(oracle.players)
