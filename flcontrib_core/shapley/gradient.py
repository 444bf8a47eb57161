"""Values of the loss from its gradient: what hardly grows with the number of participants.

*Fixed weights* (F_S = F_prev + Σ_{i∈S} w_i Δ_i): the Shapley value is close to the Aumann–Shapley value, the integral
of w_i Δ_i·∇loss along the aggregate step, which a Gauss–Legendre rule takes from ``nodes`` gradients, whatever n is.
For a loss that is quadratic along the way both are equal, and one node is enough (one gradient does here what Flirds
needs a gradient and a Hessian product for).

*Adaptive weights* (F_S is a mean over S): the mean of a large coalition is close to everybody's, so the loss is
linearised there with one gradient, ℓ(S) = c + Σ_j λ_j(S) a_j with a_j = Δ_j·∇loss(F_N). What is left, r(S) = u(S) −
ℓ(S), is large for small coalitions only. To second order it is Σ_j λ_j(S)² r({j}) up to a number that depends on the
size alone; the singletons are evaluated, and a ladder of sizes (``per_size`` coalitions each) tells by which factor
that holds above size 1. Both games' Shapley values have a closed form (``simplex_features``). n + O(log n) evaluations.
Up to ``MOST_PAIRED`` participants every pair is evaluated too: what a pair shows beyond its members alone is the second
order's other half, Σ_{i≠j} λ_i λ_j q_ij, and the game so described is read as a table.

The interval is conservative. Fixed weights: sampled true marginals against predicted ones; their whole difference
counts as error, the part that averages out too. Adaptive: what the regression leaves unexplained in the larger
coalitions counts as if every client had its own share in it. Utilities that are no smooth function of the model
(accuracy) get no value, and a remark says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb

import numpy as np

from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.shapley.base import BaseEstimator
from flcontrib_core.shapley.coalitions import (
    coalitions_of_masks,
    coalitions_of_size,
    distinct_coalitions,
    everybody,
    random_coalitions_of_size,
)
from flcontrib_core.shapley.costs import Cost, refuse_too_few
from flcontrib_core.shapley.estimate import ShapleyEstimate
from flcontrib_core.shapley.exact_values import shapley_from_table
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.remarks import FromGradients
from flcontrib_core.shapley.simplex_features import quadratic_game_values
from flcontrib_core.vocabulary import CoalitionMatrix, FloatArray, GradientGame, WeightMode

FEWEST_PER_SIZE = 4
"""A regression on fewer coalitions of a size says nothing about its own error."""
MOST_PAIRED = 14
"""Participants up to which all pairs are evaluated (adaptive weights): 91, and a table of 16 384 predictions."""


@dataclass(frozen=True, kw_only=True)
class Gradient(BaseEstimator):
    """Aumann–Shapley values for fixed weights, linearised coalitions for adaptive ones; of the loss alone.

    ``evaluations`` is a ceiling that lowers ``checks`` and ``per_size``.
    """

    nodes: int = 2
    """Gradients along the aggregate step (fixed weights); adaptive weights take one."""
    checks: int = 24
    """Sampled marginals behind the interval (fixed weights), two evaluations each."""
    per_size: int = 12
    """Coalitions of each size of the ladder (adaptive weights); a third of it above every pair."""

    name = "gradient"

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.nodes, self.checks) < 1 or self.per_size < FEWEST_PER_SIZE:
            raise SettingsError("gradient: nodes and checks are at least 1, per_size at least 4")

    def cost(self, players: int, multiply_adds: float | None) -> Cost:
        """Of adaptive weights, which take more: everybody, the singletons and the ladder."""
        return self.cost_with(WeightMode.ADAPTIVE, players, multiply_adds)

    def cost_with(self, weights: WeightMode, players: int, multiply_adds: float | None) -> Cost:
        """Fixed weights take everybody and the checks, whatever the number of players."""
        everything = distinct_coalitions(players)
        if weights is WeightMode.ADAPTIVE and self.takes_pairs(players):
            return Cost(self.of_pairs(players), self.of_pairs(players))
        fitted = self.fitted(players, weights)
        ladders = 1 + players + fitted.per_size * len(ladder(players))
        most = min(everything, ladders if weights is WeightMode.ADAPTIVE else 1 + 2 * fitted.checks)
        return Cost(most, most)

    def of_pairs(self, players: int) -> int:
        """Evaluations with every pair: everybody, each alone, the pairs, and some of every larger size."""
        larger = self.per_larger_size * max(0, players - 3)
        return min(1 + players + players * (players - 1) // 2 + larger, distinct_coalitions(players))

    @property
    def per_larger_size(self) -> int:
        """Coalitions of each size above two where every pair is evaluated."""
        return max(FEWEST_PER_SIZE, self.per_size // 3)

    def takes_pairs(self, players: int) -> bool:
        """Are there few enough players for all pairs, and evaluations for them?"""
        return players <= MOST_PAIRED and (self.evaluations is None or self.evaluations >= self.of_pairs(players))

    def fitted(self, players: int, weights: WeightMode) -> Gradient:
        """With as many checks and coalitions per size as the evaluations pay for, where they were given."""
        if self.evaluations is None:
            return self
        if weights is not WeightMode.ADAPTIVE:
            refuse_too_few(self.name, self.evaluations, min(3, distinct_coalitions(players)), "u(N) and one marginal")
            return replace(self, checks=max(1, min(self.checks, (self.evaluations - 1) // 2)))
        rungs = max(1, len(ladder(players)))
        per_size = min(self.per_size, (self.evaluations - 1 - players) // rungs)
        needed = min(1 + players + FEWEST_PER_SIZE * rungs, distinct_coalitions(players))
        refuse_too_few(self.name, self.evaluations, needed, "the singletons and a ladder of sizes")
        return replace(self, per_size=max(per_size, FEWEST_PER_SIZE))

    def estimate(self, oracle: CoalitionOracle, rng: np.random.Generator) -> ShapleyEstimate:
        """The loss's values with an interval; NaN for every other utility."""
        game = oracle.game
        smooth = getattr(game, "smooth_utility", "loss")  # what another task has in the loss's place
        if not isinstance(game, GradientGame) or smooth not in oracle.utilities:
            raise MissingPart("gradient needs the loss among the utilities, and a model whose gradient can be taken")
        n, column = oracle.players, oracle.utilities.index(smooth)
        fixed = game.weight_mode is not WeightMode.ADAPTIVE
        fitted = self if self.takes_pairs(n) and not fixed else self.fitted(n, game.weight_mode)
        ledger = Ledger(oracle, distinct_coalitions(n))
        values = np.full((n, len(oracle.utilities)), np.nan)
        errors = np.full_like(values, np.nan)
        if n == 1:
            values[0], errors[0] = ledger.evaluate(everybody(1))[0], 0.0
            return ShapleyEstimate(values, errors, ledger.spent, exact=True, method=self.name)
        adaptive = _EveryPair if self.takes_pairs(n) else _AdaptiveWeights
        values[:, column], errors[:, column] = (_FixedWeights if fixed else adaptive)(
            fitted, game, ledger, column, rng
        ).values()
        others = tuple(u for u in oracle.utilities if u != smooth)
        remark = FromGradients(self.nodes if fixed else 1, others)
        return ShapleyEstimate(values, errors, ledger.spent, exact=False, method=self.name, remarks=(remark,))


class _FixedWeights:
    """Gauss–Legendre along the aggregate step."""

    def __init__(
        self, options: Gradient, game: GradientGame, ledger: Ledger, column: int, rng: np.random.Generator
    ) -> None:
        self.ledger, self.column, self.rng, self.options = ledger, column, rng, options
        n = ledger.oracle.players
        self.shares = game.weights(everybody(n))[0]
        roots, weights = np.polynomial.legendre.leggauss(options.nodes)
        self.places, self.parts = 0.5 * (roots + 1), 0.5 * weights
        self.slopes = np.array([self.shares * game.loss_slopes(place * self.shares) for place in self.places])

    def values(self) -> tuple[FloatArray, FloatArray]:
        """(players,) values that add up to u(N), and their standard errors."""
        n = len(self.shares)
        values = self.parts @ self.slopes
        gap = float(self.ledger.evaluate(everybody(n))[0, self.column] - values.sum())
        relative = self._misses() / self.shares[self.checked]
        spread = float(np.sqrt(np.mean(relative**2)))
        return values + gap / n, np.sqrt((self.shares * spread) ** 2 + (gap / n) ** 2)

    def _misses(self) -> FloatArray:
        """(checks,) true marginals of random players, minus those read from the slopes."""
        n, checks = len(self.shares), self.options.checks
        self.checked = self.rng.integers(n, size=checks)
        sizes = self.rng.integers(n, size=checks)
        without = np.zeros((checks, n), dtype=bool)
        for row, (player, size) in enumerate(zip(self.checked, sizes, strict=True)):
            others = np.delete(np.arange(n), player)
            without[row, self.rng.choice(others, size=size, replace=False)] = True
        joined = without.copy()
        joined[np.arange(checks), self.checked] = True
        utilities = self.ledger.evaluate(np.concatenate([without, joined]))[:, self.column]
        degree = min(1, len(self.places) - 1)
        lines = np.polynomial.polynomial.polyfit(self.places, self.slopes, degree)
        predicted = np.polynomial.polynomial.polyval((sizes + 0.5) / n, lines[:, self.checked], tensor=False)
        return np.asarray(utilities[checks:] - utilities[:checks] - predicted)


class _Linearised:
    """Adaptive weights: what is evaluated, the game linear at the aggregate, and what each player alone adds."""

    def __init__(self, game: GradientGame, ledger: Ledger, column: int, larger: Sequence[CoalitionMatrix]) -> None:
        self.game = game
        n = ledger.oracle.players
        self.shares = game.weights(everybody(n))[0]
        self.slopes = game.loss_slopes(self.shares)
        self.coalitions = np.concatenate([everybody(n), np.eye(n, dtype=bool), *larger])
        # One batch: a small model's evaluation costs less than the call.
        self.utilities = ledger.evaluate(self.coalitions)[:, column]
        self.total = float(self.utilities[0])
        self.constant = self.total - float(self.shares @ self.slopes)
        self.alone = self.utilities[1 : n + 1] - self.constant - self.slopes
        self.of_larger = np.split(self.utilities[n + 1 :], np.cumsum([len(some) for some in larger])[:-1])
        """the utilities of each of ``larger``"""


class _AdaptiveWeights(_Linearised):
    """Linear at the aggregate, second order from the singletons, checked on a ladder of sizes."""

    def __init__(
        self, options: Gradient, game: GradientGame, ledger: Ledger, column: int, rng: np.random.Generator
    ) -> None:
        n = ledger.oracle.players
        self.sizes = ladder(n)
        self.rungs = [np.unique(random_coalitions_of_size(rng, options.per_size, n, s), axis=0) for s in self.sizes]
        super().__init__(game, ledger, column, self.rungs)

    def values(self) -> tuple[FloatArray, FloatArray]:
        """(players,) values that add up to u(N), and their standard errors."""
        n = len(self.shares)
        factor, sizes, left = self._second_order()
        marginals = linearised_values(self.shares, self.slopes, self.alone, factor)
        values = marginals + (self.total - marginals.sum()) / n
        return values, client_errors(self.shares, sizes, left) if len(sizes) else np.zeros(n)

    def _second_order(self) -> tuple[float, FloatArray, FloatArray]:
        """The factor of Σ λ_j² r({j}) above size 1; the ladder's sizes and the deviation left unexplained at each."""
        crossed, squared, parts = 0.0, 0.0, []
        for some, utilities in zip(self.rungs, self.of_larger, strict=False):  # two players have no rung
            weights = self.game.weights(some)
            residual = utilities - self.constant - weights @ self.slopes
            predicted = weights**2 @ self.alone
            a, b = residual - residual.mean(), predicted - predicted.mean()
            crossed, squared = crossed + a @ b, squared + b @ b
            parts.append((a, b))
        factor = crossed / squared if squared > 0 else 1.0
        left = [np.sqrt(((a - factor * b) ** 2).sum() / max(len(a) - 1, 1)) for a, b in parts]
        return float(factor), np.array(self.sizes, dtype=float), np.array(left)


class _EveryPair(_Linearised):
    """Few players with adaptive weights: second order from the players alone and from every pair."""

    def __init__(
        self, options: Gradient, game: GradientGame, ledger: Ledger, column: int, rng: np.random.Generator
    ) -> None:
        n = ledger.oracle.players
        draw, count = random_coalitions_of_size, options.per_larger_size
        self.pairs = coalitions_of_size(n, 2)
        self.larger = np.concatenate(
            [np.zeros((0, n), dtype=bool), *(np.unique(draw(rng, count, n, s), axis=0) for s in range(3, n))]
        )
        super().__init__(game, ledger, column, [self.pairs, self.larger])
        self.of_pairs, self.of_sampled = self.of_larger
        self.joint = self._joint()

    def _joint(self) -> FloatArray:
        """(n, n) q_ij: what the pair {i, j} shows beyond its members alone."""
        n = len(self.shares)
        weights = self.game.weights(self.pairs)
        residual = self.of_pairs - self.constant - weights @ self.slopes
        i, j = np.nonzero(self.pairs)[1].reshape(-1, 2).T
        rows = np.arange(len(self.pairs))
        joint = np.zeros((n, n))
        joint[i, j] = (residual - weights**2 @ self.alone) / (2 * weights[rows, i] * weights[rows, j])
        return np.asarray(joint + joint.T)

    def _orders(self, coalitions: CoalitionMatrix) -> tuple[FloatArray, FloatArray]:
        """The linear part of every coalition, and the two halves of its second order."""
        weights = self.game.weights(coalitions)
        halves = np.stack([weights**2 @ self.alone, ((weights @ self.joint) * weights).sum(axis=1)], axis=1)
        return self.constant + weights @ self.slopes, halves

    def values(self) -> tuple[FloatArray, FloatArray]:
        """(players,) values of the table that the evaluated coalitions and the model fill; their standard errors."""
        n, count = len(self.shares), len(self.larger)
        linear, halves = self._orders(self.larger) if count else (np.zeros(0), np.zeros((0, 2)))
        residual = self.of_sampled - linear
        factors = np.linalg.lstsq(halves, residual)[0]
        masks = np.arange(1, 1 << n)
        predicted, second = self._orders(coalitions_of_masks(masks, n))
        table = np.concatenate([[0.0], predicted + second @ factors])
        table[self.coalitions @ (1 << np.arange(n))] = self.utilities
        values = shapley_from_table(table[:, None])[:, 0]
        if not count:
            return values, np.zeros(n)
        sizes = self.larger.sum(axis=1)
        missed = (residual - halves @ factors) ** 2 * count / max(count - 2, 1)
        every = np.arange(3, n)
        left = [np.sqrt(missed[sizes == s].mean() * (1 - (sizes == s).sum() / comb(n, int(s)))) for s in every]
        return values, client_errors(self.shares, every.astype(float), np.array(left))


def client_errors(shares: FloatArray, sizes: FloatArray, left: FloatArray) -> FloatArray:
    """(players,) standard errors, had every client its own share in what is ``left`` unexplained at these sizes."""
    n = len(shares)
    every = np.arange(int(sizes[0]), n)
    unexplained = np.exp(np.interp(np.log(every), np.log(sizes), np.log(np.maximum(left, 1e-300))))
    error = float((unexplained / np.sqrt(every) / (1 - every / n)).sum()) / n
    return np.full(n, error) * (shares * n) ** 0.5


def ladder(players: int) -> list[int]:
    """Sizes from 2 up to n − 1 that grow by about a half: 2, 3, 4, 6, 9, 14 …"""
    sizes: list[int] = []
    size = 2.0
    while size < players:
        if not sizes or int(size) > sizes[-1]:
            sizes.append(int(size))
        size *= 1.5
    return sizes


def linearised_values(shares: FloatArray, slopes: FloatArray, alone: FloatArray, factor: float) -> FloatArray:
    """(players,) Shapley values of Σ_j λ_j a_j + f Σ_j λ_j² r_j with f = 1 for one player and ``factor`` for more."""
    n = len(shares)
    above = (1.0 - factor) * alone  # what a player alone has beyond the same factor: gone when a second one joins
    lost = (above.sum() - above) / (n - 1)
    return np.asarray(quadratic_game_values(shares, slopes, factor * alone) + (above - lost) / n)
