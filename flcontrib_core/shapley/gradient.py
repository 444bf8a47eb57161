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
from flcontrib_core.shapley.simplex_features import quadratic_game_values
from flcontrib_core.vocabulary import FloatArray, GradientGame, WeightMode

SMOOTH = "loss"
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
        return self.cost_with(WeightMode.ADAPTIVE, players, multiply_adds)

    def cost_with(self, weights: WeightMode, players: int, multiply_adds: float | None) -> Cost:
        """Fixed weights take everybody and the checks, whatever the number of players."""
        everything = distinct_coalitions(players)
        fitted = self.fitted(players, weights)
        ladders = 1 + players + fitted.per_size * len(ladder(players))
        most = min(everything, ladders if weights is WeightMode.ADAPTIVE else 1 + 2 * fitted.checks)
        return Cost(most, most)

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
        if not isinstance(game, GradientGame) or SMOOTH not in oracle.utilities:
            raise MissingPart("gradient needs the loss among the utilities, and a model whose gradient can be taken")
        n, column = oracle.players, oracle.utilities.index(SMOOTH)
        fitted = self.fitted(n, game.weight_mode)
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
        self.game = game
        n = ledger.oracle.players
        self.shares = game.weights(everybody(n))[0]
        self.slopes = game.loss_slopes(self.shares)
        self.sizes = ladder(n)
        self.rungs = [np.unique(random_coalitions_of_size(rng, options.per_size, n, s), axis=0) for s in self.sizes]
        # One batch: a small model's evaluation costs less than the call.
        found = ledger.evaluate(np.concatenate([everybody(n), np.eye(n, dtype=bool), *self.rungs]))[:, column]
        self.total = float(found[0])
        self.constant = self.total - float(self.shares @ self.slopes)
        self.alone = found[1 : n + 1] - self.constant - self.slopes
        self.on_rungs = np.split(found[n + 1 :], np.cumsum([len(some) for some in self.rungs])[:-1])

    def values(self) -> tuple[FloatArray, FloatArray]:
        """(players,) values that add up to u(N), and their standard errors."""
        n = len(self.shares)
        factor, sizes, left = self._second_order()
        marginals = linearised_values(self.shares, self.slopes, self.alone, factor)
        values = marginals + (self.total - marginals.sum()) / n
        every = np.arange(2, n)
        if not len(sizes) or not len(every):
            return values, np.zeros(n)
        unexplained = np.exp(np.interp(np.log(every), np.log(sizes), np.log(np.maximum(left, 1e-300))))
        error = float((unexplained / np.sqrt(every) / (1 - every / n)).sum()) / n
        return values, np.full(n, error) * (self.shares * n) ** 0.5

    def _second_order(self) -> tuple[float, FloatArray, FloatArray]:
        """The factor of Σ λ_j² r({j}) above size 1; the ladder's sizes and the deviation left unexplained at each."""
        crossed, squared, parts = 0.0, 0.0, []
        for some, found in zip(self.rungs, self.on_rungs, strict=False):  # two players have no rung
            weights = self.game.weights(some)
            residual = found - self.constant - weights @ self.slopes
            predicted = weights**2 @ self.alone
            a, b = residual - residual.mean(), predicted - predicted.mean()
            crossed, squared = crossed + a @ b, squared + b @ b
            parts.append((a, b))
        factor = crossed / squared if squared > 0 else 1.0
        left = [np.sqrt(((a - factor * b) ** 2).sum() / max(len(a) - 1, 1)) for a, b in parts]
        return float(factor), np.array(self.sizes, dtype=float), np.array(left)


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
