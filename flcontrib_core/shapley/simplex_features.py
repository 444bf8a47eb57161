"""Functions of a coalition's weights whose Shapley values have a closed form.

With adaptive weights λ_i(S) = w_i / W_S, W_S = Σ_{j∈S} w_j, and 1/W_S = ∫₀^∞ e^(−tW_S) dt turns λ_i into an integral of
*product games* S ↦ 1[i∈S] Π_{j∈S} e^(−t w_j); 1/W_S² = ∫ t e^(−tW_S) dt does the same for products of two weights. The
Shapley value of a product game is one integral of its multilinear extension along the diagonal, a polynomial that a
Gauss rule integrates exactly. So the Shapley values of all λ_i, λ_i λ_j and (b·λ)² cost one quadrature in t.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from flcontrib_core.blas import side_by_side
from flcontrib_core.vocabulary import CoalitionWeights, FloatArray

_STEP = 0.3
"""In log t. The integrands are Γ-like, so the trapezoid rule's error is about e^(−π²/0.3)."""
_COARSE_STEP, _LOWEST, _DIAGONAL_NODES = 0.5, -18.0, 48
"""Of the quadrature for a single game, where a relative error of 1e-7 is enough."""
_ALL_PAIRS = 32
"""Up to this many players every product λ_i λ_j is a feature; above, squares along the metric's main directions."""
_DIRECTIONS = 24


@dataclass(frozen=True)
class _Nodes:
    """Quadrature nodes (t, q), flattened; columns are players."""

    ratio: FloatArray
    """(nodes, players) h_i = w_i e^(−t w_i) q / p_i, p_j = 1 − q (1 − e^(−t w_j)): 'i is a member' instead of p_i."""
    slope: FloatArray
    """(nodes, players) −(1 − e^(−t w_k)) / p_k: the derivative in k's probability where k is not asked for."""
    member_slope: FloatArray
    """(nodes, 1) 1/q: the same derivative where k is one of the members asked for."""
    first: FloatArray
    """(nodes,) weights for one factor 1/W, times Π_j p_j"""
    second: FloatArray
    """(nodes,) weights for 1/W², times Π_j p_j"""


def _nodes(shares: FloatArray) -> _Nodes:
    players = len(shares)
    low, high = -31.0, np.log(45.0 / shares.min())
    t = np.exp(np.arange(low, high + _STEP, _STEP))
    roots, weights = np.polynomial.legendre.leggauss((players + 1) // 2 + 1)
    q, of_q = 0.5 * (roots + 1.0), 0.5 * weights
    decay = np.exp(-t[:, None] * shares)  # (t, players)
    p = 1.0 - q[None, :, None] * (1.0 - decay[:, None, :])  # (t, q, players)
    product = p.prod(axis=2)
    first = (_STEP * t)[:, None] * of_q * product
    second = (_STEP * t**2)[:, None] * of_q * product
    ratio = (shares * decay)[:, None, :] * q[None, :, None] / p
    slope = -(1.0 - decay[:, None, :]) / p
    member = np.broadcast_to(1.0 / q, product.shape)
    flat = product.size
    columns = (ratio.reshape(flat, players), slope.reshape(flat, players), member.reshape(flat, 1))
    return _Nodes(*columns, first.ravel(), second.ravel())


def quadratic_game_values(shares: FloatArray, linear: FloatArray, square: FloatArray) -> FloatArray:
    """(players,) Shapley values of S ↦ Σ_{j∈S} linear_j λ_j(S) + square_j λ_j(S)² under adaptive weights, u(∅) = 0.

    One sum over the nodes for all players at once, so that its cost grows with n alone. ``shares`` are proportional to
    the data sizes.
    """
    shares = shares / shares.sum()
    roots, of_roots = np.polynomial.legendre.leggauss(_DIAGONAL_NODES)
    root = 0.5 * (roots + 1.0)
    q, of_q = root[:, None] ** 3, 1.5 * root**2 * of_roots  # denser near 0, where the product of many players falls
    values = np.zeros(len(shares))
    for t in np.exp(np.arange(_LOWEST, np.log(45.0 / shares.min()) + _COARSE_STEP, _COARSE_STEP)):
        decay = np.exp(-t * shares)
        p = 1.0 - q * (1.0 - decay)
        weight = (_COARSE_STEP * t) * of_q * p.prod(axis=1)
        member = (shares * (linear + t * shares * square) * decay) / p
        others = (q * member).sum(axis=1, keepdims=True) - q * member
        values += weight @ (member - (1.0 - decay) / p * others)
    return values


class SimplexFeatures(Protocol):
    """Functions of λ(S) and their own Shapley values."""

    def values(self, weights: CoalitionWeights) -> FloatArray:
        """(coalitions, features)"""
        ...

    def shapley(self) -> FloatArray:
        """(features, players)"""
        ...


class AdaptiveFeatures:
    """λ_i, λ_i² and products of two weights under adaptive weights: see the module's text.

    ``shares`` (players,) are proportional to the data sizes; ``directions`` (players, d) are used above 32 players.
    """

    def __init__(self, shares: FloatArray, directions: FloatArray) -> None:
        self.shares = shares / shares.sum()
        players = len(shares)
        self.pairs = np.triu_indices(players, 1) if players <= _ALL_PAIRS else None
        self.directions = directions[:, :_DIRECTIONS]

    def values(self, weights: CoalitionWeights) -> FloatArray:
        """(rows, features) the features of mixtures with these weights."""
        if self.pairs is None:
            return np.concatenate([weights, weights**2, (weights @ self.directions) ** 2], axis=1)
        count, players = weights.shape
        features = np.empty((count, 2 * players + len(self.pairs[0])))
        features[:, :players] = weights
        np.square(weights, out=features[:, players : 2 * players])
        # The pairs of one player with all later ones side by side: gathering columns would take several times as long.
        start = 2 * players
        for player in range(players - 1):
            stop = start + players - 1 - player
            np.multiply(weights[:, player : player + 1], weights[:, player + 1 :], out=features[:, start:stop])
            start = stop
        return features

    @cached_property
    def _at(self) -> _Nodes:
        return _nodes(self.shares)

    def shapley(self) -> FloatArray:
        """(features, players) each feature's own Shapley values."""
        products = self._of_pairs() if self.pairs is not None else self._of_squares(self.directions)
        return np.concatenate([self.of_weights(), self.of_squared_weights(), products])

    def of_weights(self) -> FloatArray:
        """(players, players) row i: the Shapley values of S ↦ λ_i(S)."""
        return self._of_members(self._at.first[:, None] * self._at.ratio)

    def of_squared_weights(self) -> FloatArray:
        """(players, players) row i: the Shapley values of S ↦ λ_i(S)²."""
        return self._of_members(self._at.second[:, None] * self._at.ratio * self.shares)

    def _of_members(self, weighted: FloatArray) -> FloatArray:
        values = weighted.T @ self._at.slope
        np.fill_diagonal(values, (weighted * self._at.member_slope).sum(axis=0))
        return np.asarray(values)

    def _of_pairs(self) -> FloatArray:
        """(pairs, players) the Shapley values of S ↦ λ_i(S) λ_j(S), i < j."""
        assert self.pairs is not None
        i, j = self.pairs
        weighted = self._at.second[:, None] * self._at.ratio[:, i] * self._at.ratio[:, j]
        values = weighted.T @ self._at.slope
        inside = (weighted * self._at.member_slope).sum(axis=0)
        rows = np.arange(len(i))
        values[rows, i] = inside
        values[rows, j] = inside
        return np.asarray(values)

    def _of_squares(self, directions: FloatArray) -> FloatArray:
        """(d, players) the Shapley values of S ↦ (b·λ(S))² for every column b."""
        at = self._at
        values = np.empty((directions.shape[1], len(self.shares)))
        outside = at.second[:, None] * at.slope
        change = at.second[:, None] * at.member_slope - outside

        def fill(row: int) -> None:
            b = directions[:, row]
            pulled = at.ratio * b
            alone = at.ratio * (b**2 * self.shares)
            sums = pulled.sum(axis=1, keepdims=True)
            holding = alone + 2.0 * pulled * (sums - pulled)  # the terms that need player k
            total = alone.sum(axis=1) + sums[:, 0] ** 2 - (pulled**2).sum(axis=1)
            values[row] = total @ outside + np.einsum("tk,tk->k", change, holding)

        side_by_side(fill, range(len(values)))
        return values


class FixedFeatures:
    """λ_i and (b·λ)² under fixed weights, where λ_i(S) = w_i 1[i∈S]: sums and pairwise products of indicators."""

    def __init__(self, shares: FloatArray, directions: FloatArray) -> None:
        self.shares = shares
        self.directions = directions[:, :_DIRECTIONS]

    def values(self, weights: CoalitionWeights) -> FloatArray:
        """(rows, features) the features of mixtures with these weights."""
        return np.concatenate([weights, (weights @ self.directions) ** 2], axis=1)

    def shapley(self) -> FloatArray:
        """(features, players) each feature's own Shapley values."""
        # Two members share their product equally: φ_k = b_k w_k Σ_j b_j w_j.
        pull = self.directions.T * self.shares
        return np.concatenate([np.diag(self.shares), pull * pull.sum(axis=1, keepdims=True)])
