"""Aggregation: how the server makes one model of many updates.

FedAvg takes the data-size-weighted mean of all, eq. (fl_naive). Greedy aggregation takes it over the subset whose
model has the lowest validation loss (the appendix's S*): all subsets are tried up to a limit, a local search above.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flcontrib_core.vocabulary import CoalitionMatrix, Float32Array, FloatArray, IntArray

TRY_ALL_SUBSETS = 10
"""Participants up to which every subset is evaluated."""

Losses = Callable[[Float32Array], FloatArray]
"""Validation losses of flat models (models, P)."""


def fedavg(start: Float32Array, updates: Float32Array, sizes: IntArray) -> Float32Array:
    """F + Σ λ_i Δ_i with λ_i = |D_i| / Σ|D_j|, eq. (fl_naive); unchanged where nobody took part."""
    everybody = np.ones((1, len(sizes)), dtype=bool)
    model: Float32Array = subset_models(start, updates, sizes, everybody)[0]
    return model


def subset_models(
    start: Float32Array, updates: Float32Array, sizes: IntArray, subsets: CoalitionMatrix
) -> Float32Array:
    """F_S of each subset (subsets, P), eq. (fl_sub_model); the empty subset's is F itself."""
    held = subsets * sizes.astype(np.float64)[None]
    weights = held / np.maximum(held.sum(axis=1, keepdims=True), 1.0)
    models: Float32Array = (start.astype(np.float64) + weights @ updates.astype(np.float64)).astype(np.float32)
    return models


def best_subset(start: Float32Array, updates: Float32Array, sizes: IntArray, losses: Losses) -> CoalitionMatrix:
    """S* as one row of participants (1, n): the subset whose model has the lowest validation loss.

    Exact up to ``TRY_ALL_SUBSETS`` participants. Above, a steepest-descent search that adds or removes one
    participant at a time, from everybody and from the best single participant, takes the better of its two ends;
    it may miss the best subset.

    Departure: the empty subset counts. Where every update does harm, the server keeps its model.
    """
    n = len(sizes)

    def loss_of(subsets: CoalitionMatrix) -> FloatArray:
        values = losses(subset_models(start, updates, sizes, subsets))
        return np.where(np.isfinite(values), values, np.inf)

    if n <= TRY_ALL_SUBSETS:
        subsets: CoalitionMatrix = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1
        best = int(np.argmin(loss_of(subsets)))
        return np.asarray(subsets[best])[None]
    singles = np.eye(n, dtype=bool)
    starts = np.stack([np.ones(n, dtype=bool), singles[int(np.argmin(loss_of(singles)))]])
    ends = [_descend(begin, loss_of) for begin in starts]
    return min(ends, key=lambda end: end[1])[0][None]


def _descend(subset: np.ndarray, loss_of: Callable[[CoalitionMatrix], FloatArray]) -> tuple[np.ndarray, float]:
    """The local optimum reached from one subset, and its loss."""
    best = float(loss_of(subset[None])[0])
    while True:
        neighbours = subset[None] ^ np.eye(len(subset), dtype=bool)
        values = loss_of(neighbours)
        step = int(np.argmin(values))
        if not values[step] < best:
            return subset, best
        subset, best = neighbours[step], float(values[step])
