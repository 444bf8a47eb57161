"""Shapley values of a function that is cheap to ask but has too many coalitions to tabulate.

Sizes are strata. The function is regressed on features whose Shapley values are known in closed form; what the features
leave over is averaged per size over the coalitions with and without each player. The sum is right whatever the features
explain, and its sampling error is that of the rest alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flcontrib_core.blas import in_order, side_by_side
from flcontrib_core.shapley.coalitions import coalitions_of_size
from flcontrib_core.shapley.oracle import coalition_keys
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


class ShapleySample:
    """Sampled coalitions and what a function says of them, from which its Shapley values follow; it can grow."""

    def __init__(
        self,
        predict: Callable[[CoalitionMatrix], UtilityMatrix],
        weights: Callable[[CoalitionMatrix], CoalitionWeights],
        features: SimplexFeatures,
        players: int,
        rng: np.random.Generator,
    ) -> None:
        """``predict`` has u(∅) = 0."""
        self._predict, self._weights, self._features = predict, weights, features
        self.players, self._rng = players, rng
        self._whole = predict(np.ones((1, players), dtype=bool))[0]
        self._of_features = features.shapley()
        self._strata = [_Drawn.nothing(players, len(self._whole)) for _ in range(players - 1)]

    def __len__(self) -> int:
        return sum(len(drawn.coalitions) for drawn in self._strata)

    def grow(self, samples: int) -> None:
        """About ``samples`` coalitions in all; what was asked about stays."""
        planned = sample_sizes(self.players, samples)
        more = [self._further(size, int(planned[size])) for size in range(1, self.players)]
        coalitions = np.concatenate(more)
        values = self._predict(coalitions)
        bounds = np.cumsum([0, *(len(some) for some in more)]).tolist()

        def join(stratum: int) -> None:
            some = slice(bounds[stratum], bounds[stratum + 1])
            if some.start < some.stop:
                features = self._features.values(self._weights(coalitions[some]))
                self._strata[stratum] = self._strata[stratum].joined(_Drawn(coalitions[some], values[some], features))

        side_by_side(join, range(len(more)))

    def _further(self, size: int, planned: int) -> CoalitionMatrix:
        """What to ask about next of one size. A size that is taken whole keeps what it has, each coalition once."""
        drawn = self._strata[size - 1]
        if len(drawn.coalitions) and planned >= math.comb(self.players, size):
            seen = coalition_keys(drawn.coalitions)
            once = np.unique(np.array(seen), return_index=True)[1]
            self._strata[size - 1] = drawn.rows(np.sort(once))
            everything, known = coalitions_of_size(self.players, size), set(seen)
            fresh = [key not in known for key in coalition_keys(everything)]
            return np.asarray(everything[np.array(fresh, dtype=bool)])
        return balanced_coalitions(self._rng, max(0, planned - len(drawn.coalitions)), self.players, size)

    def shapley(self) -> tuple[PlayerByUtility, PlayerByUtility]:
        """(players, utilities) values and their sampling errors. Efficient to rounding: values sum to predict(N)."""
        players = self.players
        # What all coalitions of a size share cancels between members and others: every stratum is centred.
        strata = in_order(_Drawn.centred, self._strata)
        coefficients = _least_squares(strata, players)

        def left_over(drawn: _Drawn) -> tuple[PlayerByUtility, PlayerByUtility]:
            """What the features leave of one size, and its variance."""
            left = drawn.values - drawn.features @ coefficients
            count = len(drawn.coalitions)
            with_player = drawn.coalitions.sum(axis=0)[:, None]
            without = count - with_player
            held = drawn.coalitions.T.astype(np.float64) @ left
            share_unseen = 1.0 - count / math.comb(players, int(drawn.coalitions[0].sum()))
            spread = (left**2).mean(axis=0) * share_unseen
            mean = (held / with_player - (left.sum(axis=0) - held) / without) / players
            return mean, spread * (1 / with_player + 1 / without) / players**2

        estimate = self._of_features.T @ coefficients
        variance = np.zeros_like(estimate)
        for mean, uncertain in in_order(left_over, strata):
            estimate += mean
            variance += uncertain
        estimate += (self._whole - estimate.sum(axis=0)) / players
        return estimate, np.sqrt(variance)


@dataclass(frozen=True)
class _Drawn:
    """Coalitions of one size, what the function says of them, and their features."""

    coalitions: CoalitionMatrix
    values: UtilityMatrix
    features: FloatArray

    @classmethod
    def nothing(cls, players: int, utilities: int) -> _Drawn:
        return cls(np.zeros((0, players), dtype=bool), np.zeros((0, utilities)), np.zeros((0, 0)))

    def joined(self, more: _Drawn) -> _Drawn:
        if not len(self.coalitions):
            return more
        return _Drawn(
            np.concatenate([self.coalitions, more.coalitions]),
            np.concatenate([self.values, more.values]),
            np.concatenate([self.features, more.features]),
        )

    def rows(self, some: IntArray) -> _Drawn:
        return _Drawn(self.coalitions[some], self.values[some], self.features[some])

    def centred(self) -> _Drawn:
        means = self.values.mean(axis=0), self.features.mean(axis=0)
        return _Drawn(self.coalitions, self.values - means[0], self.features - means[1])


def sampled_shapley(
    predict: Callable[[CoalitionMatrix], UtilityMatrix],
    weights: Callable[[CoalitionMatrix], CoalitionWeights],
    features: SimplexFeatures,
    players: int,
    samples: int,
    rng: np.random.Generator,
) -> tuple[PlayerByUtility, PlayerByUtility]:
    """Shapley values of ``predict`` (u(∅) = 0) and their sampling errors, (players, utilities) each."""
    sample = ShapleySample(predict, weights, features, players, rng)
    sample.grow(samples)
    return sample.shapley()


def _least_squares(strata: list[_Drawn], players: int) -> FloatArray:
    """(features, utilities) coefficients by normal equations with a trace of ridge: features may be collinear."""
    count, utilities = strata[0].features.shape[1], strata[0].values.shape[1]
    normal, target = np.zeros((count, count)), np.zeros((count, utilities))
    rows = sum(len(drawn.coalitions) for drawn in strata)

    def products(drawn: _Drawn) -> tuple[FloatArray, FloatArray]:
        size = int(drawn.coalitions[0].sum())
        weight = (1 / size + 1 / (players - size)) / len(drawn.coalitions)
        return weight * (drawn.features.T @ drawn.features), weight * (drawn.features.T @ drawn.values)

    for of_features, of_values in in_order(products, strata):
        normal += of_features
        target += of_values
    scale = np.sqrt(np.diag(normal) / rows)
    scale[scale == 0] = 1.0
    normal /= np.outer(scale, scale)
    normal[np.diag_indices_from(normal)] += _RIDGE * rows
    return np.asarray(np.linalg.solve(normal, target / scale[:, None]) / scale[:, None])


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
