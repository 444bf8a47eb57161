"""Pairs (S, N∖S): drawn, evaluated, and turned into Shapley values with standard errors (Zhang et al. 2023).

CC(S) = u(S) − u(N∖S), and φ_i = (1/n) Σ_s mean of CC(S) over the coalitions S ∋ i of size s. One pair updates
everybody: a member of S by +CC(S) in stratum s = |S|, anybody else by −CC(S) in stratum n − s. Pairs are therefore
kept by the larger half only, s ≥ n/2, each at most once: a repeated coalition costs nothing and tells nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from flcontrib_core.shapley.coalitions import coalitions_of_size, everybody, random_coalitions_of_size
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.oracle import coalition_keys
from flcontrib_core.shapley.permutation import small_sample_factor
from flcontrib_core.vocabulary import BoolArray, CoalitionMatrix, FloatArray, IntArray, PlayerByUtility

_LEAST_DEGREES = 2.0
"""From here on Student's factor is computed within 4 %."""
ENUMERABLE = 1 << 18
"""Up to this many pairs of one size are enumerated when a large share of them is wanted."""


def pair_sizes(players: int) -> range:
    """Sizes of the larger half: ⌈n/2⌉ … n − 1. The last is the border, whose partners are the singletons."""
    return range((players + 1) // 2, players) if players > 1 else range(0)


def pair_count(players: int, size: int) -> int:
    """How many pairs have ``size`` players in their larger half (two equal halves make one pair)."""
    return math.comb(players, size) // (2 if 2 * size == players else 1)


def apportion(total: int, weights: FloatArray, capacities: list[int]) -> list[int]:
    """Shares ``total`` in proportion to ``weights``, none above its capacity, the rest passed on; whole numbers."""
    given = [0] * len(capacities)
    while total > 0:
        open_ = [k for k, room in enumerate(capacities) if given[k] < room and weights[k] > 0]
        if not open_:
            break
        share = total * weights[open_] / weights[open_].sum()
        whole = np.floor(share).astype(int)
        for k in np.argsort(-(share - whole), kind="stable")[: total - int(whole.sum())]:
            whole[k] += 1
        for k, offered in zip(open_, whole.tolist(), strict=True):
            taken = min(offered, capacities[k] - given[k])
            given[k] += taken
            total -= taken
    return given


class PairSample:
    """The pairs of one estimate: drawn without repetition, evaluated in one call, read stratum by stratum."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.players = ledger.oracle.players
        self._seen: dict[int, set[bytes]] = {size: set() for size in pair_sizes(self.players)}
        self._drawn: dict[int, list[CoalitionMatrix]] = {size: [] for size in pair_sizes(self.players)}
        self._contributions: dict[int, list[FloatArray]] = {size: [] for size in pair_sizes(self.players)}

    def room(self, size: int) -> int:
        """Pairs of this size not yet drawn."""
        return pair_count(self.players, size) - len(self._seen[size])

    def draw(self, rng: np.random.Generator, counts: dict[int, int]) -> None:
        """Adds ``counts[size]`` uniform new pairs of each size and evaluates them all at once."""
        self._evaluate({size: self._uniform(rng, size, count) for size, count in counts.items() if count})

    def add(self, size: int, larger_halves: CoalitionMatrix) -> int:
        """Adds these pairs, those already drawn left out; returns how many were new."""
        new = self._unseen(size, larger_halves)
        self._evaluate({size: new})
        return len(new)

    def _uniform(self, rng: np.random.Generator, size: int, count: int) -> CoalitionMatrix:
        """(count, players) pairs of one size, uniform without repetition."""
        count = min(count, self.room(size))
        population = pair_count(self.players, size)
        if population <= ENUMERABLE and 2 * (len(self._seen[size]) + count) > population:
            everything = self._unseen(size, coalitions_of_size(self.players, size), book=False)
            drawn = everything[rng.permutation(len(everything))[:count]]
            return self._unseen(size, drawn)
        batches: list[CoalitionMatrix] = []
        while count > 0:
            fresh = self._unseen(size, random_coalitions_of_size(rng, count, self.players, size))
            batches.append(fresh)
            count -= len(fresh)
        return np.concatenate(batches) if batches else np.zeros((0, self.players), dtype=bool)

    def _unseen(self, size: int, halves: CoalitionMatrix, book: bool = True) -> CoalitionMatrix:
        """The pairs never drawn before, each once; of two equal halves the one with player 0 stands for both."""
        if 2 * size == self.players:
            halves = np.where(halves[:, :1], halves, ~halves)
        seen = self._seen[size] if book else set(self._seen[size])
        rows = []
        for row, key in enumerate(coalition_keys(halves)):
            if key not in seen:
                seen.add(key)
                rows.append(row)
        return halves[rows]

    def _evaluate(self, pairs: dict[int, CoalitionMatrix]) -> None:
        pairs = {size: halves for size, halves in pairs.items() if len(halves)}
        if not pairs:
            return
        halves = np.concatenate(list(pairs.values()))
        values = self.ledger.evaluate(np.concatenate([halves, ~halves]))
        contributions = values[: len(halves)] - values[len(halves) :]
        start = 0
        for size, rows in pairs.items():
            self._drawn[size].append(rows)
            self._contributions[size].append(contributions[start : start + len(rows)])
            start += len(rows)

    def strata(self) -> Iterator[tuple[int, BoolArray, FloatArray]]:
        """(stratum, members, CC): which samples fall to which player, and their contributions."""
        for size, drawn in self._drawn.items():
            if not drawn:
                continue
            members, contributions = np.concatenate(drawn), np.concatenate(self._contributions[size])
            if 2 * size == self.players:
                yield size, np.concatenate([members, ~members]), np.concatenate([contributions, -contributions])
            else:
                yield size, members, contributions
                yield self.players - size, ~members, -contributions

    def counts(self) -> IntArray:
        """(players, n − 1) samples of player i in stratum s, column s − 1."""
        counts = np.zeros((self.players, self.players - 1), dtype=np.int64)
        for stratum, members, _ in self.strata():
            counts[:, stratum - 1] = members.sum(axis=0)
        return counts

    def values(self) -> tuple[PlayerByUtility, PlayerByUtility, int]:
        """Values, standard errors, and how many (player, stratum) cells are empty.

        Var φ_i = (1/n²) Σ_s (1 − C_is/P_s) s²_is / C_is with P_s = C(n − 1, s − 1), the coalitions there are: a
        stratum that was enumerated adds nothing. The error is widened by Student's factor for the degrees of freedom
        that these variances have together (Welch, Satterthwaite): a cell may have two samples. An empty cell takes the
        stratum's mean over everybody's samples and adds the mean square of the other players' distances from it; a
        stratum without any sample counts 0, and then there is no error to give.

        Departure: the original counts 0 for an empty cell. The cells of small s are empty first, and they are the
        negative ones: with zeros the values' sum drifts away from u(N), by a multiple of it for a hundred players.
        """
        n = self.players
        total: PlayerByUtility = np.repeat(self.ledger.evaluate(everybody(n)), n, axis=0)  # stratum n: CC(N) = u(N)
        parts: list[tuple[FloatArray, FloatArray]] = []
        cells = 0
        for stratum, members, contributions in self.strata():
            counts, means, spreads = stratum_moments(members, contributions)
            population = math.comb(n - 1, stratum - 1)
            sampled = counts > 0
            cells += int(sampled.sum())
            total += means
            has_spread = (counts > 1) | (counts == population)
            # a single sample has no spread of its own: that of all samples of the stratum is no smaller
            overall = contributions.var(axis=0, ddof=1) if len(contributions) > 1 else np.nan
            spreads = np.where(has_spread[:, None], spreads, overall)
            left_out = 1.0 - counts / population
            of_mean = np.where(left_out[:, None] > 0, left_out[:, None] * spreads / np.maximum(counts, 1)[:, None], 0.0)
            distance = ((means[sampled] - contributions.mean(axis=0)) ** 2).mean(axis=0)
            degrees = np.where(counts > 1, counts - 1.0, max(1.0, len(contributions) - 1.0))
            parts.append((np.where(sampled[:, None], of_mean, distance), degrees[:, None]))
        empty = n * (n - 1) - cells
        untouched = sum(not drawn for drawn in self._drawn.values())
        if untouched:
            return total / n, np.full_like(total, np.nan), empty
        return total / n, _widened(parts, np.zeros_like(total)) / n, empty


def _widened(parts: list[tuple[FloatArray, FloatArray]], nothing: FloatArray) -> FloatArray:
    """√ of the sum of these variances, each with its degrees of freedom, by Student's factor for them together."""
    variance = sum((part for part, _ in parts), nothing)
    scale = np.where(variance > 0, variance, 1.0)
    inverse = sum(((part / scale) ** 2 / degrees for part, degrees in parts), nothing)
    degrees = 1.0 / np.maximum(inverse, 1e-12)
    return np.asarray(np.sqrt(variance) * small_sample_factor(np.maximum(degrees, _LEAST_DEGREES)))


def stratum_moments(members: BoolArray, contributions: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """(players,) counts, (players, utilities) means (everybody's where empty) and variances (0 where undefined)."""
    taken = members.astype(np.float64)
    counts = members.sum(axis=0)
    centre = contributions.mean(axis=0)  # centred first: a large common offset must not eat the variance's digits
    deviations = contributions - centre
    divisor = np.maximum(counts, 1)[:, None]
    offset = taken.T @ deviations / divisor
    squares = taken.T @ deviations**2 - counts[:, None] * offset**2
    return counts, centre + offset, np.maximum(squares, 0.0) / np.maximum(counts - 1, 1)[:, None]
