"""The silhouette that chance alone reaches, from Gaussian twins of a run.

The twins have the mean and covariance over clients of the run's own series and no group, as the reference of the gap
statistic (Tibshirani, Walther & Hastie 2001). All of them are clustered at once: one array per step, no loop.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.vocabulary import FloatArray, IntArray

REFERENCES = 40
QUANTILE = 0.95
MOST_CLIENTS = 100
"""Of a larger federation's twin so many clients are drawn: its silhouette hardly depends on more."""
STARTS, STEPS = 3, 12
LEAST_VARIANCE = 1e-12


def chance_silhouette(series: FloatArray, most: int, seed: int) -> float:
    """The best silhouette of 2 … ``most`` groups that twins of ``series`` (clients, T) exceed in one case of twenty."""
    rng = np.random.default_rng([seed, 77])
    clients = min(len(series), MOST_CLIENTS)
    left, lengths, _ = np.linalg.svd(series - series.mean(axis=0), full_matrices=False)
    kept = lengths > LEAST_VARIANCE * lengths.max(initial=0.0)
    scores = left[:, kept] * lengths[kept] / np.sqrt(len(series) - 1)
    twins = rng.standard_normal((REFERENCES, clients, len(series))) @ scores
    distances = _distances(twins, twins)
    best = np.full(REFERENCES, -1.0)
    for k in range(2, min(most, clients // 2) + 1):
        for start in rng.integers(0, clients, STARTS):
            best = np.maximum(best, _silhouettes(distances, _grouped(twins, distances, k, int(start)), k))
    return float(np.quantile(best, QUANTILE))


def _distances(points: FloatArray, centres: FloatArray) -> FloatArray:
    """(B, n, k) Euclidean distances of each batch."""
    squares = (points**2).sum(axis=2)[:, :, None] + (centres**2).sum(axis=2)[:, None, :]
    return np.asarray(np.sqrt(np.maximum(squares - 2.0 * points @ centres.transpose(0, 2, 1), 0.0)))


def _grouped(points: FloatArray, distances: FloatArray, k: int, start: int) -> IntArray:
    """(B, n) labels of Lloyd's k-means, begun from points far from each other."""
    batch = np.arange(len(points))
    chosen = np.full((len(points), 1), start)
    nearest = distances[:, :, start]
    for _ in range(k - 1):
        chosen = np.concatenate([chosen, nearest.argmax(axis=1)[:, None]], axis=1)
        nearest = np.minimum(nearest, distances[batch, :, chosen[:, -1]])
    centres = points[batch[:, None], chosen]
    labels = np.zeros(points.shape[:2], dtype=np.int64)
    for _ in range(STEPS):
        labels = _distances(points, centres).argmin(axis=2)
        members = np.eye(k)[labels]  # (B, n, k)
        sizes = members.sum(axis=1)[:, :, None]
        means = members.transpose(0, 2, 1) @ points / np.maximum(sizes, 1.0)
        centres = np.where(sizes > 0, means, centres)
    return np.asarray(labels)


def _silhouettes(distances: FloatArray, labels: IntArray, k: int) -> FloatArray:
    """(B,) mean silhouette; a client alone in its group counts 0, as in scikit-learn."""
    members = np.eye(k)[labels]
    sizes = members.sum(axis=1)[:, None, :]
    sums = distances @ members  # (B, n, k)
    own = np.take_along_axis(sums, labels[:, :, None], axis=2)[:, :, 0]
    own_size = np.take_along_axis(np.broadcast_to(sizes, sums.shape), labels[:, :, None], axis=2)[:, :, 0]
    within = own / np.maximum(own_size - 1.0, 1.0)
    others = np.where((members > 0) | (sizes == 0), np.inf, sums / np.maximum(sizes, 1.0))
    beyond = others.min(axis=2)
    largest = np.maximum(within, np.where(np.isfinite(beyond), beyond, 0.0))
    usable = (own_size > 1) & (largest > 0) & np.isfinite(beyond)
    gain = np.where(np.isfinite(beyond), beyond, 0.0) - within
    return np.asarray(np.where(usable, gain / np.where(largest > 0, largest, 1.0), 0.0).mean(axis=1))
