"""The surrogate's design: which coalitions to evaluate next, before anything is known about them.

Every size gets a quota, small and very large coalitions more than the middle; inside its quota each size contributes
those coalitions about which a regression on the ones already chosen would be most uncertain. No evaluation is
needed while choosing. Without the quotas the same greedy choice fails silently: at 16 players it never looks at the
sizes 3 to 14.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from flcontrib_core.blas import side_by_side, slices
from flcontrib_core.shapley.coalitions import coalitions_of_size, random_coalitions_of_size
from flcontrib_core.shapley.oracle import coalition_keys
from flcontrib_core.shapley.simplex_kernel import Kernel, SimplexPoints, points_of, similarity
from flcontrib_core.vocabulary import BoolArray, CoalitionMatrix, CoalitionWeights, FloatArray, IntArray

_CANDIDATES = 8192
_FEWEST_PER_SIZE, _MOST_PER_SIZE = 64, 1024
_COLUMNS = 2048
"""Candidates that are looked at in one piece"""
_LEAST_NOISE = 1e-6
"""Keeps the greedy choice from chasing rounding errors where the regression interpolates."""


PRIOR_KERNEL = Kernel(length=1.0, noise=1e-3)
"""Guides the design before anything is evaluated."""


@dataclass(frozen=True)
class Stratum:
    """A family of coalitions with a regression of its own: all of them, or those with / without flagged players."""

    flagged: BoolArray
    """(players,) whose updates stand out"""
    with_flagged: bool | None
    """None: every coalition; otherwise those with at least one flagged player, or those with none."""

    def holds(self, coalitions: CoalitionMatrix) -> BoolArray:
        """(coalitions,) True where the coalition belongs to this stratum."""
        if self.with_flagged is None:
            return np.ones(len(coalitions), dtype=bool)
        return np.asarray(coalitions[:, self.flagged].any(axis=1) == self.with_flagged)

    def count(self, size: int) -> int:
        """How many coalitions of this size the stratum has."""
        everyone, clean = len(self.flagged), int((~self.flagged).sum())
        if self.with_flagged is None:
            return math.comb(everyone, size)
        return math.comb(everyone, size) - math.comb(clean, size) if self.with_flagged else math.comb(clean, size)

    def candidates(self, rng: np.random.Generator, size: int, most: int) -> CoalitionMatrix:
        """Distinct coalitions of one size: all where they are few, otherwise up to ``most`` random ones."""
        players = len(self.flagged)
        if self.with_flagged is False:
            clean = np.flatnonzero(~self.flagged)
            members = np.zeros((0, players), dtype=bool)
            if size <= len(clean):
                inner = Stratum(np.zeros(len(clean), dtype=bool), None).candidates(rng, size, most)
                members = np.zeros((len(inner), players), dtype=bool)
                members[:, clean] = inner
            return members
        if math.comb(players, size) <= most:
            members = coalitions_of_size(players, size)
        else:
            members = np.unique(random_coalitions_of_size(rng, most, players, size), axis=0)
        return members[self.holds(members)]


def size_shares(players: int) -> FloatArray:
    """(n + 1,) how much a coalition size matters: s^−1.5 + 0.3 (n − s)^−1.5 for 2 ≤ s ≤ n − 1, else 0.

    Departure: the measured design shared by 1/s alone. Most of the error of loss values sits in pairs, but a fifth of
    that of accuracy values sits in the n coalitions without one player, each of which moves one value by 1/n of its
    rounding error; a few evaluations there remove it.
    """
    sizes = np.arange(2, players, dtype=np.float64)
    shares = np.zeros(players + 1)
    shares[2:players] = sizes**-1.5 + 0.3 * (players - sizes) ** -1.5
    return shares


def size_quotas(shares: FloatArray, capacities: Sequence[int], evaluated: IntArray, more: int) -> IntArray:
    """(n + 1,) how many coalitions of each size to add: one per size that has none, then by largest share per member.

    ``capacities`` and ``evaluated`` (n + 1,) count what each size has and what was evaluated of it.
    """
    total = evaluated.copy()
    room = np.array([0 if share == 0 else min(cap, 1 << 40) for share, cap in zip(shares, capacities, strict=True)])
    for _ in range(more):
        with np.errstate(divide="ignore"):
            claim = np.where(total < room, np.where(total == 0, 1e6 * shares, shares / np.maximum(total, 1)), -1.0)
        size = int(claim.argmax())
        if claim[size] < 0:
            break
        total[size] += 1
    return np.asarray(total - evaluated)


@dataclass(frozen=True)
class Guide:
    """What the design goes by in one family of coalitions."""

    stratum: Stratum
    factor: FloatArray
    """(players, dimensions) its metric: x = λA"""
    points: SimplexPoints
    """Those that are, or are about to be, fitted"""
    kernel: Kernel


def next_coalitions(
    guide: Guide,
    evaluated: CoalitionMatrix,
    weights: Callable[[CoalitionMatrix], CoalitionWeights],
    more: int,
    rng: np.random.Generator,
) -> CoalitionMatrix:
    """Up to ``more`` coalitions of the guide's stratum, in the order of choice, none of them among ``evaluated``."""
    stratum, players = guide.stratum, evaluated.shape[1]
    mine = evaluated[stratum.holds(evaluated)]
    counted = np.bincount(mine.sum(axis=1), minlength=players + 1)
    capacities = [stratum.count(size) for size in range(players + 1)]
    quotas = size_quotas(size_shares(players), capacities, counted, more)
    sizes = np.flatnonzero(quotas)
    if len(sizes) == 0:
        return np.zeros((0, players), dtype=bool)
    most = int(np.clip(_CANDIDATES // len(sizes), _FEWEST_PER_SIZE, _MOST_PER_SIZE))
    pool = np.concatenate([stratum.candidates(rng, int(size), max(most, 2 * int(quotas[size]))) for size in sizes])
    seen = set(coalition_keys(mine))
    pool = pool[np.array([key not in seen for key in coalition_keys(pool)], dtype=bool)]
    rows = _most_uncertain(guide.points, points_of(weights(pool), guide.factor), pool.sum(axis=1), quotas, guide.kernel)
    return np.asarray(pool[rows])


def _most_uncertain(
    points: SimplexPoints, pool: SimplexPoints, sizes: IntArray, quotas: IntArray, kernel: Kernel
) -> IntArray:
    """Rows of ``pool`` by repeatedly taking the largest remaining variance inside the quotas (pivoted Cholesky)."""
    noise = max(kernel.noise, _LEAST_NOISE)
    left = quotas.copy()
    picks = int(left.sum())
    factor = np.empty((len(points) + picks, len(pool)))
    covariance = similarity(points, points, kernel.length)
    covariance[np.diag_indices_from(covariance)] += noise
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    factor[: len(points)] = root @ similarity(points, pool, kernel.length)
    variance = pool.self_similarity() - np.einsum("ij,ij->j", factor[: len(points)], factor[: len(points)])
    open_rows = left[sizes] > 0
    places = np.arange(len(pool))
    parts = [(some, pool.rows(some)) for some in slices(len(pool), _COLUMNS)]
    picked: list[int] = []
    for rank in range(len(points), len(points) + picks):
        if 2 * np.count_nonzero(open_rows) < len(open_rows):  # the arithmetic is that of the rows still to choose from
            keep = np.flatnonzero(open_rows)
            factor, pool = np.ascontiguousarray(factor[:, keep]), pool.rows(keep)
            variance, sizes, places, open_rows = variance[keep], sizes[keep], places[keep], open_rows[keep]
            parts = [(some, pool.rows(some)) for some in slices(len(pool), _COLUMNS)]
        if not len(open_rows):
            break
        row = int(np.where(open_rows, variance, -np.inf).argmax())
        scale = math.sqrt(max(float(variance[row]), 0.0) + noise)
        own = np.empty(len(pool))
        extend = partial(_fill_row, own, factor[:rank], row, pool.rows(slice(row, row + 1)), kernel.length)
        side_by_side(extend, parts)
        own /= scale
        factor[rank] = own
        variance -= own**2
        picked.append(int(places[row]))
        left[sizes[row]] -= 1
        open_rows[row] = False
        if left[sizes[row]] == 0:
            open_rows &= sizes != sizes[row]
    return np.array(picked, dtype=np.int64)


def _fill_row(
    own: FloatArray,
    factor: FloatArray,
    row: int,
    chosen: SimplexPoints,
    length: float,
    part: tuple[slice, SimplexPoints],
) -> None:
    """Some columns of the next row of the factor, not yet divided by its pivot."""
    some, candidates = part
    own[some] = similarity(chosen, candidates, length)[0] - factor[:, row].copy() @ factor[:, some]
