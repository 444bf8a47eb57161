"""Shapley values from a table of all coalitions, and the best coalition of those evaluated."""

from __future__ import annotations

import math

import numpy as np

from flcontrib_core.shapley.coalitions import all_coalitions, coalition_sizes, distinct_coalitions
from flcontrib_core.shapley.estimate import ShapleyEstimate
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.remarks import EstimatorRemark
from flcontrib_core.vocabulary import FloatArray, PlayerByUtility, UtilityMatrix


def shapley_from_table(table: FloatArray) -> PlayerByUtility:
    """The values of eq. (shapley_value) for a table of all coalitions.

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


def exact_estimate(
    oracle: CoalitionOracle, method: str = "exact", remarks: tuple[EstimatorRemark, ...] = ()
) -> ShapleyEstimate:
    """Exact values under the name of the method that ended up here."""
    values = shapley_from_table(evaluate_all(oracle))
    return ShapleyEstimate(
        values, np.zeros_like(values), oracle.evaluations, exact=True, method=method, remarks=remarks
    )


def best_coalition(oracle: CoalitionOracle, utility: str, lower_is_better: bool) -> tuple[tuple[int, ...], bool]:
    """The coalition S* with the best utility (greedy aggregation), and whether that is proved.

    Reads what the oracle has already evaluated, ∅ included (S* = ∅: keep the previous model). The second answer is
    True where all 2^n coalitions were evaluated. Among equals the smaller coalition wins, then the earlier players.
    """
    members, values = oracle.evaluated_coalitions()
    column = values[:, oracle.utilities.index(utility)] * (1.0 if lower_is_better else -1.0)
    candidates = members[column == column.min()]
    best = min((tuple(np.flatnonzero(row).tolist()) for row in candidates), key=lambda group: (len(group), group))
    return best, oracle.evaluations == distinct_coalitions(oracle.players)
