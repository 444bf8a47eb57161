"""Values of the loss from its gradient: what hardly grows with the number of participants.

*Fixed weights* (F_S = F_prev + Σ_{i∈S} w_i Δ_i): the Shapley value is close to the Aumann–Shapley value, the integral
of w_i Δ_i·∇loss along the aggregate step, which a Gauss–Legendre rule takes from ``nodes`` gradients, whatever n is.
For a loss that is quadratic along the way both are equal, and one node is enough (one gradient does here what Flirds
needs a gradient and a Hessian product for).

*Adaptive weights* (F_S is a mean over S): the mean of a large coalition is close to everybody's, so the loss is
linearised there with one gradient, ℓ(S) = c + Σ_j λ_j(S) a_j with a_j = Δ_j·∇loss(F_N). What is left, r(S) = u(S) −
ℓ(S), is large for small coalitions only. To second order it is Σ_j λ_j(S)² r({j}) up to a number that depends on the
size alone; the singletons are evaluated, and a ladder of sizes (``per_size`` coalitions each) tells by which factor
that holds above size 1. Both games' Shapley values are means over orders of *weights*: no model is evaluated for them.
n + O(log n) evaluations.

The interval is conservative. Fixed weights: sampled true marginals against predicted ones; their whole difference
counts as error, the part that averages out too. Adaptive: what the ladder's regression leaves unexplained counts as if
every client had its own share in it. Utilities that are no smooth function of the model (accuracy) get no value, and a
remark says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.shapley.base import BaseEstimator
from flcontrib_core.shapley.coalitions import distinct_coalitions, everybody, random_coalitions_of_size
from flcontrib_core.shapley.costs import Cost, refuse_too_few
from flcontrib_core.shapley.estimate import ShapleyEstimate
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.remarks import FromGradients
from flcontrib_core.vocabulary import FloatArray, GradientGame, WeightMode

SMOOTH = "loss"
_CELLS = 1_000_000
"""Marginals of the linear game that are averaged: orders × players × positions."""
_FEWEST_ORDERS = 16
FEWEST_PER_SIZE = 4
"""A regression on fewer coalitions of a size says nothing about its own error."""


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
    """Coalitions of each size of the ladder (adaptive weights)."""

    name = "gradient"

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.nodes, self.checks) < 1 or self.per_size < FEWEST_PER_SIZE:
            raise SettingsError("gradient: nodes and checks are at least 1, per_size at least 4")

    def cost(self, players: int, multiply_adds: float | None) -> Cost:
        """Of adaptive weights, which take more: everybody, the singletons and the ladder."""
        everything = distinct_coalitions(players)
        fitted = self.fitted(players)
        most = max(1 + players + fitted.per_size * len(ladder(players)), 1 + 2 * fitted.checks)
        return Cost(min(everything, most), min(everything, most))

    def fitted(self, players: int) -> Gradient:
        """With as many checks and coalitions per size as the evaluations pay for, where they were given."""
        if self.evaluations is None:
            return self
        rungs = max(1, len(ladder(players)))
        per_size = min(self.per_size, (self.evaluations - 1 - players) // rungs)
        needed = min(1 + players + FEWEST_PER_SIZE * rungs, distinct_coalitions(players))
        refuse_too_few(self.name, self.evaluations, needed, "the singletons and a ladder of sizes")
        checks = max(1, min(self.checks, (self.evaluations - 1) // 2))
        return replace(self, per_size=max(per_size, FEWEST_PER_SIZE), checks=checks)

    def estimate(self, oracle: CoalitionOracle, rng: np.random.Generator) -> ShapleyEstimate:
        """The loss's values with an interval; NaN for every other utility."""
        game = oracle.game
        if not isinstance(game, GradientGame) or SMOOTH not in oracle.utilities:
            raise MissingPart("gradient needs the loss among the utilities, and a model whose gradient can be taken")
        n, column = oracle.players, oracle.utilities.index(SMOOTH)
        fitted = self.fitted(n)
        ledger = Ledger(oracle, distinct_coalitions(n))
        values = np.full((n, len(oracle.utilities)), np.nan)
        errors = np.full_like(values, np.nan)
        if n == 1:
            values[0], errors[0] = ledger.evaluate(everybody(1))[0], 0.0
            return ShapleyEstimate(values, errors, ledger.spent, exact=True, method=self.name)
        fixed = game.weight_mode is not WeightMode.ADAPTIVE
        work = _FixedWeights if fixed else _AdaptiveWeights
        values[:, column], errors[:, column] = work(fitted, game, ledger, column, rng).values()
        others = tuple(u for u in oracle.utilities if u != SMOOTH)
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
        found = self.ledger.evaluate(np.concatenate([without, joined]))[:, self.column]
        degree = min(1, len(self.places) - 1)
        lines = np.polynomial.polynomial.polyfit(self.places, self.slopes, degree)
        predicted = np.polynomial.polynomial.polyval((sizes + 0.5) / n, lines[:, self.checked], tensor=False)
        return np.asarray(found[checks:] - found[:checks] - predicted)


class _AdaptiveWeights:
    """Linear at the aggregate, second order from the singletons, checked on a ladder of sizes."""

    def __init__(
        self, options: Gradient, game: GradientGame, ledger: Ledger, column: int, rng: np.random.Generator
    ) -> None:
        self.game, self.ledger, self.column, self.rng, self.options = game, ledger, column, rng, options
        n = ledger.oracle.players
        self.shares = game.weights(everybody(n))[0]
        self.slopes = game.loss_slopes(self.shares)
        self.total = float(ledger.evaluate(everybody(n))[0, column])
        self.constant = self.total - float(self.shares @ self.slopes)
        self.alone = ledger.evaluate(np.eye(n, dtype=bool))[:, column] - self.constant - self.slopes

    def values(self) -> tuple[FloatArray, FloatArray]:
        """(players,) values that add up to u(N), and their standard errors."""
        n = len(self.shares)
        factor, sizes, left = self._second_order()
        marginals = mean_marginals(self.shares, self.slopes, self.alone, factor, self.rng)
        values = marginals + (self.total - marginals.sum()) / n
        every = np.arange(2, n)
        if not len(sizes) or not len(every):
            return values, np.zeros(n)
        unexplained = np.exp(np.interp(np.log(every), np.log(sizes), np.log(np.maximum(left, 1e-300))))
        error = float((unexplained / np.sqrt(every) / (1 - every / n)).sum()) / n
        return values, np.full(n, error) * (self.shares * n) ** 0.5

    def _second_order(self) -> tuple[float, FloatArray, FloatArray]:
        """The factor of Σ λ_j² r({j}) above size 1; the ladder's sizes and the deviation left unexplained at each."""
        n = len(self.shares)
        sizes, crossed, squared, parts = ladder(n), 0.0, 0.0, []
        for size in sizes:
            some = np.unique(random_coalitions_of_size(self.rng, self.options.per_size, n, size), axis=0)
            weights = self.game.weights(some)
            residual = self.ledger.evaluate(some)[:, self.column] - self.constant - weights @ self.slopes
            predicted = weights**2 @ self.alone
            a, b = residual - residual.mean(), predicted - predicted.mean()
            crossed, squared = crossed + a @ b, squared + b @ b
            parts.append((a, b))
        factor = crossed / squared if squared > 0 else 1.0
        left = [np.sqrt(((a - factor * b) ** 2).sum() / max(len(a) - 1, 1)) for a, b in parts]
        return float(factor), np.array(sizes, dtype=float), np.array(left)


def ladder(players: int) -> list[int]:
    """Sizes from 2 up to n − 1 that grow by about a half: 2, 3, 4, 6, 9, 14 …"""
    sizes: list[int] = []
    size = 2.0
    while size < players:
        if not sizes or int(size) > sizes[-1]:
            sizes.append(int(size))
        size *= 1.5
    return sizes


def mean_marginals(
    shares: FloatArray, slopes: FloatArray, alone: FloatArray, factor: float, rng: np.random.Generator
) -> FloatArray:
    """(players,) Shapley values of Σ_j λ_j a_j + f Σ_j λ_j² r_j with f = 1 for one player and ``factor`` for more.

    Equal weights have a closed form. What unequal ones change is a mean over random orders, each with all its rotations
    so that every player stands once in every place, and minus what equal weights give in the same order.
    """
    n = len(shares)
    equal = np.full(n, 1.0 / n)
    values = _equal_weights(slopes, alone, factor)
    if np.allclose(shares, shares[0], rtol=1e-12):
        return values
    orders = max(_FEWEST_ORDERS, _CELLS // n**2)
    total, done = np.zeros(n), 0
    while done < orders:
        some = min(orders - done, max(1, 1_000_000 // n**2))
        order = np.argsort(rng.random((some, n)), axis=1)
        rotated = order[:, (np.arange(n)[:, None] + np.arange(n)) % n].reshape(-1, n)
        worth = sum(
            sign * _worth(own[rotated], slopes[rotated], alone[rotated], factor)
            for sign, own in ((1.0, shares), (-1.0, equal))
        )
        marginal = np.diff(worth, axis=1, prepend=0.0)
        total += np.bincount(rotated.ravel(), marginal.ravel(), minlength=n)
        done += some
    return values + total / (n * orders)


def _worth(shares: FloatArray, slopes: FloatArray, alone: FloatArray, factor: float) -> FloatArray:
    """(orders, players) the game's value of every prefix."""
    mass = np.cumsum(shares, axis=1)
    second = np.cumsum(shares**2 * alone, axis=1) / mass**2
    second[:, 1:] *= factor
    return np.asarray(np.cumsum(shares * slopes, axis=1) / mass + second)


def _equal_weights(slopes: FloatArray, alone: FloatArray, factor: float) -> FloatArray:
    """(players,) values of the same game where everybody weighs the same."""
    n = len(slopes)
    size = np.arange(n)
    f = np.where(size + 1 == 1, 1.0, factor) / (size + 1.0) ** 2  # of a coalition that a player has just joined
    before = np.concatenate([[0.0], f[:-1]])
    others_slope = (slopes.sum() - slopes) / max(n - 1, 1)
    others_alone = (alone.sum() - alone) / max(n - 1, 1)
    linear = slopes + (slopes - others_slope) * (1.0 / (size[1:] + 1.0)).sum()
    second = f.sum() * alone + others_alone * (size * (f - before)).sum()
    return np.asarray((linear + second) / n)
