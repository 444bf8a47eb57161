"""Shapley values of a function that is cheap to ask but has too many coalitions to tabulate.

Sizes are strata. The function is regressed on features whose Shapley values are known in closed form; what the features
leave over is averaged per size over the coalitions with and without each player. The sum is right whatever the features
explain, and its sampling error is that of the rest alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from flcontrib_core.shapley.coalitions import coalitions_of_size
from flcontrib_core.shapley.simplex_features import SimplexFeatures
from flcontrib_core.vocabulary import (
    CoalitionMatrix,
    CoalitionWeights,
    FloatArray,
    IntArray,
    PlayerByUtility,
    UtilityMatrix,
)

_RIDGE = 1e-10


def sample_sizes(players: int, samples: int) -> IntArray:
    """(n + 1,) coalitions to draw of each size 1 … n − 1, about ``samples`` in all; small sizes vary most.

    Every size gets enough that each player is a member, and no member, at least twice; a size with few coalitions is
    taken whole and leaves its share to the others.
    """
    sizes = np.arange(1, players)
    shares = 1.0 / sizes + 0.25 / (players - sizes)
    least = 2.0 * np.maximum(-(-players // sizes), -(-players // (players - sizes)))
    most = np.array([float(min(math.comb(players, int(size)), samples)) for size in sizes])
    drawn = np.minimum(least, most)
    for _ in range(players):
        filled = drawn >= most
        left = samples - drawn[filled].sum()
        if filled.all() or left <= 0:
            break
        given = np.clip(left * shares / shares[~filled].sum(), least, most)
        drawn = np.where(filled, most, np.minimum(given, most))
        if not ((drawn >= most) & ~filled).any():
            break
    planned = np.zeros(players + 1, dtype=np.int64)
    planned[1:players] = np.round(drawn)
    return planned


def balanced_coalitions(rng: np.random.Generator, count: int, players: int, size: int) -> CoalitionMatrix:
    """(count, players) random coalitions of one size in which the players appear about equally often.

    All of them where ``count`` pays for that. Otherwise random orders are cut into disjoint groups; above half the
    players, the groups are the ones left out.
    """
    if count >= math.comb(players, size):
        return coalitions_of_size(players, size)
    group = min(size, players - size)
    per_order = players // group
    orders = rng.permuted(np.tile(np.arange(players), (-(-count // per_order), 1)), axis=1)
    groups = orders[:, : per_order * group].reshape(-1, group)[:count]
    members = np.zeros((count, players), dtype=bool)
    np.put_along_axis(members, groups, True, axis=1)
    _give_everybody_a_place(members, rng)
    return members if size == group else ~members


def _give_everybody_a_place(members: CoalitionMatrix, rng: np.random.Generator) -> None:
    """Lets players that the cuts left out take the place of one that has several; in place.

    With few groups of a size that does not divide the players, somebody is often in none of them, and a player
    without a coalition of some size has no value.
    """
    held = members.sum(axis=0)
    for player in np.flatnonzero(held == 0):
        for row in rng.permutation(len(members)):
            spare = np.flatnonzero(members[row] & (held > 1))
            if len(spare):
                leaving = int(rng.choice(spare))
                members[row, leaving], members[row, player] = False, True
                held[leaving] -= 1
                held[player] += 1
                break


def sampled_shapley(
    predict: Callable[[CoalitionMatrix], UtilityMatrix],
    weights: Callable[[CoalitionMatrix], CoalitionWeights],
    features: SimplexFeatures,
    players: int,
    samples: int,
    rng: np.random.Generator,
) -> tuple[PlayerByUtility, PlayerByUtility]:
    """Shapley values of ``predict`` (u(∅) = 0) and their sampling errors, (players, utilities) each.

    Efficient to rounding: the values sum to predict(N).
    """
    planned = sample_sizes(players, samples)
    strata = [balanced_coalitions(rng, int(planned[size]), players, size) for size in range(1, players)]
    coalitions = np.concatenate([*strata, np.ones((1, players), dtype=bool)])
    values = predict(coalitions)
    explained = features.values(weights(coalitions))
    everyone = values[-1].copy()
    bounds = np.cumsum([0, *(len(stratum) for stratum in strata)])
    rows = [slice(a, b) for a, b in pairwise(bounds.tolist())]
    # What all coalitions of a size share cancels between members and others: every stratum is centred.
    for some in rows:
        values[some] -= values[some].mean(axis=0)
        explained[some] -= explained[some].mean(axis=0)
    inner = slice(0, int(bounds[-1]))
    importance = np.concatenate(
        [np.full(len(s), math.sqrt((1 / k + 1 / (players - k)) / len(s))) for k, s in enumerate(strata, start=1)]
    )
    coefficients = _least_squares(explained[inner] * importance[:, None], values[inner] * importance[:, None])
    left = values[inner] - explained[inner] @ coefficients
    estimate = features.shapley().T @ coefficients
    variance = np.zeros_like(estimate)
    for size, (stratum, some) in enumerate(zip(strata, rows, strict=True), start=1):
        with_player = stratum.sum(axis=0)[:, None]
        without = len(stratum) - with_player
        held = stratum.T.astype(np.float64) @ left[some]
        total = left[some].sum(axis=0)
        estimate += (held / with_player - (total - held) / without) / players
        share_unseen = 1.0 - len(stratum) / math.comb(players, size)
        spread = (left[some] ** 2).mean(axis=0) * share_unseen
        variance += spread * (1 / with_player + 1 / without) / players**2
    estimate += (everyone - estimate.sum(axis=0)) / players
    return estimate, np.sqrt(variance)


def _least_squares(design: FloatArray, target: FloatArray) -> FloatArray:
    """(features, utilities) coefficients by normal equations with a trace of ridge: features may be collinear."""
    normal = design.T @ design
    scale = np.sqrt(np.diag(normal) / len(design))
    scale[scale == 0] = 1.0
    normal /= np.outer(scale, scale)
    normal[np.diag_indices_from(normal)] += _RIDGE * len(design)
    return np.asarray(np.linalg.solve(normal, design.T @ target / scale[:, None]) / scale[:, None])


def shapley_of_differences(coalitions: CoalitionMatrix, differences: UtilityMatrix) -> PlayerByUtility:
    """(players, utilities) what the Shapley values change by when these distinct coalitions change by so much."""
    players = coalitions.shape[1]
    change = np.zeros((players, differences.shape[1]))
    for row, difference in zip(coalitions, differences, strict=True):
        size = int(row.sum())
        if size:
            weight = 1.0 / math.comb(players, size)
            others = weight / (players - size) if size < players else 0.0
            change += np.where(row, weight / size, -others)[:, None] * difference
    return change
