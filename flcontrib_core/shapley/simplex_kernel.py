"""Similarity of coalitions by their weights and updates, and the regression built on it.

A sub-model depends on its coalition only through the weights λ(S), a point of a simplex, and its validation logits
move smoothly with that point. The distance that matters is the one between the sub-models themselves, which the
updates' Gram matrix gives: ‖F_S − F_R‖² = (λ(S) − λ(R)) ΔΔᵀ (λ(S) − λ(R))ᵀ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from flcontrib_core.blas import side_by_side, slices
from flcontrib_core.vocabulary import BoolArray, CoalitionWeights, Float32Array, FloatArray

LENGTHS = 2.0 ** np.arange(-2.0, 3.25, 0.5)
NOISES = 10.0 ** np.arange(-8.0, 0.0)
LINEAR = 10.0
"""Prior variance of the part of an output that is linear in λ, in units of the curved part's."""
_ROWS_FOR_CHOICE = 400
"""Evaluated coalitions that take part in the choice of length and noise, spread over all: cubic cost stays small."""
_OVERSHOOT = 0.1
"""Predictions stay within the evaluated range of their column, or this share of it beyond either end: the link's
inverse is exponential far out, and an attacked epoch's loss was overshot ten-thousandfold without."""
_DEGENERATE = 1e-12
_COLUMNS = 1024
"""Outputs corrected at a time"""
_CELLS_IN_CACHE = 1 << 18
"""Predicted outputs (1 MiB) that are bounded at a time: each pass over more than the cache holds waits for memory."""


@dataclass(frozen=True)
class SimplexPoints:
    """Coalitions as points: λ(S), and x(S) = λ(S)A in which distances are those between sub-models."""

    weights: CoalitionWeights
    positions: FloatArray
    """(coalitions, dimensions)"""

    def __len__(self) -> int:
        return len(self.weights)

    @cached_property
    def squares(self) -> FloatArray:
        """(coalitions,) |x(S)|²"""
        return np.asarray((self.positions**2).sum(axis=1))

    def rows(self, which: np.ndarray | slice) -> SimplexPoints:
        """Some of the points."""
        return SimplexPoints(self.weights[which], self.positions[which])

    def self_similarity(self) -> FloatArray:
        """(coalitions,) k(S, S)."""
        return np.asarray(1.0 + LINEAR * (self.weights**2).sum(axis=1))


def points_of(weights: CoalitionWeights, factor: FloatArray) -> SimplexPoints:
    """Where coalitions of these weights lie under a metric."""
    return SimplexPoints(weights, weights @ factor)


def metric_factor(gram: FloatArray, players: BoolArray | None = None) -> FloatArray:
    """Which A turns weights into positions, x = λA, so that a typical pair of players lies √2 apart?

    ``players`` restricts the metric to some of them (the others then lie at the origin). Updates that are all equal,
    all zero or not finite have no geometry of their own: then every player gets its own axis.
    """
    n = len(gram)
    inside = np.ones(n, dtype=bool) if players is None else players
    restricted = gram * np.outer(inside, inside)
    squares = np.diag(restricted)
    # The sum of all squared pair distances is 2(m·tr G − 1ᵀG1).
    count = int(inside.sum())
    pairs = count * (count - 1)
    total = 2.0 * (count * squares.sum() - restricted.sum())
    if not np.isfinite(total) or pairs == 0 or total <= _DEGENERATE * count * max(squares.sum(), 1e-300):
        return np.eye(n)
    values, vectors = np.linalg.eigh(restricted * (2.0 * pairs / total))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def similarity(a: SimplexPoints, b: SimplexPoints, length: float) -> FloatArray:
    """(|a|, |b|) k(S, R) = 1 / (1 + ‖x_S − x_R‖² / 2ℓ²) + 10 λ_S·λ_R.

    Departure: the first term was a Gaussian in the measured design; the rational quadratic, a mixture of Gaussians
    of all lengths, was as good on loss and better on accuracy (see benchmarks/surrogate.py), and is cheaper.
    """
    squared = -2.0 * (a.positions @ b.positions.T)
    squared += a.squares[:, None]
    squared += b.squares[None, :]
    np.maximum(squared, 0.0, out=squared)
    squared *= 0.5 / length**2
    squared += 1.0
    np.reciprocal(squared, out=squared)
    squared += LINEAR * (a.weights @ b.weights.T)
    return np.asarray(squared)


@dataclass(frozen=True)
class Kernel:
    """The smoothness that explains the evaluated outputs best."""

    length: float
    noise: float


def choose_kernel(points: SimplexPoints, outputs: FloatArray) -> Kernel:
    """Which length and noise have the largest marginal likelihood, the scale being estimated along?

    ``outputs`` (coalitions, columns), centred; all columns share the kernel. One eigendecomposition per length
    serves every noise, and only the outputs' Gram matrix is needed. Large sets are thinned out.
    """
    if len(points) > _ROWS_FOR_CHOICE:
        some = np.linspace(0, len(points) - 1, _ROWS_FOR_CHOICE).astype(np.int64)
        points, outputs = points.rows(some), outputs[some]
    rows = len(points)
    products = outputs @ outputs.T
    found: dict[float, tuple[float, float]] = {}

    def fit_noise(length: float) -> None:
        values, vectors = np.linalg.eigh(similarity(points, points, length))
        spectrum = np.maximum(values, 0.0)[None, :] + NOISES[:, None]  # (noises, rows)
        power = np.maximum(np.einsum("ik,ik->k", vectors, products @ vectors), 0.0)
        scale = (power / spectrum).mean(axis=1) + 1e-300
        likelihood = -0.5 * rows * np.log(scale) - 0.5 * np.log(spectrum).sum(axis=1)
        winner = int(likelihood.argmax())
        found[length] = float(likelihood[winner]), float(NOISES[winner])

    lengths = [float(length) for length in LENGTHS]
    side_by_side(fit_noise, lengths)
    best, kernel = -np.inf, Kernel(1.0, float(NOISES[0]))
    for length in lengths:
        likelihood, noise = found[length]
        if likelihood > best:
            best, kernel = likelihood, Kernel(length, noise)
    return kernel


class Regression:
    """Outputs at any coalition as weighted means of the outputs at the evaluated ones."""

    def __init__(self, points: SimplexPoints, outputs: FloatArray, kernel: Kernel | None = None) -> None:
        """``outputs`` (coalitions, columns); the kernel is chosen here unless given."""
        self.points = points
        width = outputs.shape[1]
        self.centre, self._low, self._high = (np.empty(width) for _ in range(3))
        self._centred: FloatArray = np.empty(outputs.shape)
        self._centred32: Float32Array = np.empty(outputs.shape, dtype=np.float32)

        def fill(columns: slice) -> None:
            some = outputs[:, columns]
            self.centre[columns] = some.mean(axis=0)
            self._centred[:, columns] = some - self.centre[columns]
            self._centred32[:, columns] = self._centred[:, columns]
            low, high = some.min(axis=0), some.max(axis=0)
            self._low[columns], self._high[columns] = low - _OVERSHOOT * (high - low), high + _OVERSHOOT * (high - low)

        side_by_side(fill, slices(width, _COLUMNS))
        self.kernel = kernel or choose_kernel(points, self._centred)
        covariance = similarity(points, points, self.kernel.length)
        covariance[np.diag_indices_from(covariance)] += self.kernel.noise
        inverse = np.linalg.inv(covariance)
        self.precision = 0.5 * (inverse + inverse.T)
        """(coalitions, coalitions) (K + noise)⁻¹"""

    def shares(self, points: SimplexPoints) -> FloatArray:
        """(|points|, evaluated) how much each evaluated coalition counts at each point."""
        return np.asarray(similarity(points, self.points, self.kernel.length) @ self.precision)

    def predict(self, points: SimplexPoints) -> Float32Array:
        """(|points|, columns). The shares are formed in float64, the large product in float32."""
        predicted: Float32Array = self.shares(points).astype(np.float32) @ self._centred32
        centre, low, high = self._bounds32
        step = max(1, _CELLS_IN_CACHE // len(centre))
        for start in range(0, len(predicted), step):
            some = predicted[start : start + step]
            some += centre
            np.minimum(np.maximum(some, low, out=some), high, out=some)
        return predicted

    @cached_property
    def _bounds32(self) -> tuple[Float32Array, Float32Array, Float32Array]:
        """(columns,) centre, lowest and highest prediction."""
        return self.centre.astype(np.float32), self._low.astype(np.float32), self._high.astype(np.float32)

    def leave_one_out(self) -> FloatArray:
        """(evaluated, columns) what the regression would say of each evaluated coalition without having seen it."""
        left_out = np.empty_like(self._centred)
        scale = np.diag(self.precision)[:, None]

        def fill(columns: slice) -> None:
            correction = (self.precision @ self._centred[:, columns]) / scale
            predicted = self._centred[:, columns] - correction + self.centre[columns]
            np.clip(predicted, self._low[columns], self._high[columns], out=left_out[:, columns])

        side_by_side(fill, slices(left_out.shape[1], _COLUMNS))
        return np.asarray(left_out)

    def posterior(self, points: SimplexPoints) -> FloatArray:
        """(|points|, |points|) covariance left after the evaluations, in units of the outputs' scale."""
        cross = similarity(points, self.points, self.kernel.length)
        return np.asarray(similarity(points, points, self.kernel.length) - cross @ self.precision @ cross.T)
