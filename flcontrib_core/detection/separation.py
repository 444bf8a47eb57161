"""Do the clients' cumulative series fall into groups? The paper's K-means view – a view, never an alert.

On honest runs this clustering also forms groups (32–90 % of them would raise an alarm), so nothing here decides an
alert. Where truth is known the Jaccard index is shown beside the value that one single cluster would give and beside
its chance-adjusted form; where it is not, the stability of the grouping under resampled epochs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np

from flcontrib_core.detection.findings import JaccardScore, Separation
from flcontrib_core.errors import SettingsError
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

MOST_CLUSTERS = 8
RELABELLINGS = 2000
RESAMPLES = 20


def separate(
    history: ContributionHistory,
    utility: str = "loss",
    k: int | None = None,
    metric: str = "euclidean",
    dishonest: Iterable[str] | None = None,
    seed: int = 0,
) -> Separation | None:
    """How do the clients' cumulative series group? None with fewer than four clients (2 ≤ k ≤ m/2 has no answer).

    ``dishonest``: the truth of a labelled run, only to score the grouping. ``metric='dtw'`` compares warped series;
    its first fit compiles for about half a minute and each fit costs O(k · m · T²).
    """
    if metric not in ("euclidean", "dtw"):
        raise SettingsError(f"metric {metric!r} is unknown; use 'euclidean' or 'dtw'")
    if history.without_values is not None:
        return None
    series = computed_series(history, utility)
    clients = series.shape[0]
    most = min(clients // 2, MOST_CLUSTERS)
    if clients < 4 or len(np.unique(series, axis=0)) < 2:
        return None
    if k is not None and not 2 <= k <= clients // 2:
        raise SettingsError(f"{k} clusters of {clients} clients; choose between 2 and {clients // 2}")
    scores: dict[int, float] = {}
    fits: dict[int, tuple[IntArray, FloatArray]] = {}
    distinct = len(np.unique(series, axis=0))
    for count in [k] if k is not None else range(2, most + 1):
        if count > distinct:
            continue
        fits[count] = _fit(series, count, metric, seed)
        scores[count] = _silhouette(series, fits[count][0])
    if not fits:
        return None
    best = max(scores, key=lambda c: (scores[c], -c))
    labels, centres = fits[best]
    truth = None if dishonest is None else frozenset(dishonest)
    return Separation(
        k=best,
        labels={client: int(label) for client, label in zip(history.client_ids, labels, strict=True)},
        centres=centres,
        silhouette=scores,
        stability=_stability(history, utility, labels, best, seed) if truth is None else None,
        jaccard=None if truth is None else jaccard(labels, history.client_ids, truth, seed),
        metric=metric,
        epochs_left_out=history.epoch_count + 1 - len(computed_epochs(history, utility)),
        cells_held=int(history.of(utility).missing[computed_epochs(history, utility)].sum()),
    )


def computed_series(history: ContributionHistory, utility: str, epochs: IntArray | None = None) -> FloatArray:
    """(clients, epochs) cumulative values over the computed epochs only: skipped epochs are left out, not filled.

    In an epoch where only some participants have a value (a table with empty cells), the others' series stay level.
    """
    series = history.of(utility)
    rows = computed_epochs(history, utility) if epochs is None else epochs
    return np.asarray(np.cumsum(np.where(series.missing, 0.0, series.values)[rows], axis=0).T)


def computed_epochs(history: ContributionHistory, utility: str) -> IntArray:
    """The rows in which somebody's value of this utility is known, or in which nobody took part; row 0 first."""
    series = history.of(utility)
    return np.flatnonzero(series.computed.any(axis=1) | ~series.missing.any(axis=1))


def jaccard(labels: IntArray, client_ids: tuple[str, ...], dishonest: frozenset[str], seed: int = 0) -> JaccardScore:
    """How well do the clusters keep honest clients apart? The paper's index with its two yardsticks.

    Raw: |H ∩ C| / |H ∪ C| with H the honest clients and C all members of clusters that hold at least one of them.
    Single cluster: (n − d)/n. Adjusted: (raw − E)/(1 − E) with E the mean over random relabellings; None if E = 1.
    """
    honest = np.array([c not in dishonest for c in client_ids])
    if not honest.any():
        return JaccardScore(0.0, 0.0, None)
    rng = np.random.default_rng(seed)
    raw = _jaccard_of(labels, honest)
    expected = float(np.mean([_jaccard_of(rng.permutation(labels), honest) for _ in range(RELABELLINGS)]))
    adjusted = None if expected >= 1.0 - 1e-12 else (raw - expected) / (1.0 - expected)
    return JaccardScore(raw, float(honest.mean()), adjusted)


def _jaccard_of(labels: IntArray, honest: BoolArray) -> float:
    reached = np.isin(labels, labels[honest])
    return float((honest & reached).sum() / (honest | reached).sum())


def _fit(series: FloatArray, k: int, metric: str, seed: int) -> tuple[IntArray, FloatArray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tslearn imports h5py lazily and warns when it is absent
        from tslearn.clustering import TimeSeriesKMeans
    model = TimeSeriesKMeans(n_clusters=k, metric=metric, n_init=3, max_iter=50, random_state=seed)
    labels = np.asarray(model.fit_predict(series[:, :, None]), dtype=np.int64)
    order = np.argsort([-int((labels == c).sum()) for c in range(k)], kind="stable")  # largest group first
    rank = np.empty(k, dtype=np.int64)
    rank[order] = np.arange(k)
    return rank[labels], np.asarray(model.cluster_centers_[order, :, 0])


def _silhouette(series: FloatArray, labels: IntArray) -> float:
    from sklearn.metrics import silhouette_score

    groups = len(np.unique(labels))
    return float(silhouette_score(series, labels)) if 2 <= groups < len(labels) else -1.0


def _stability(history: ContributionHistory, utility: str, labels: IntArray, k: int, seed: int) -> float | None:
    """Mean adjusted Rand index between the grouping and groupings of series rebuilt from 80 % of the epochs."""
    from sklearn.metrics import adjusted_rand_score

    rows = computed_epochs(history, utility)
    if len(rows) < 6:
        return None
    rng = np.random.default_rng(seed)
    scores = []
    for _ in range(RESAMPLES):
        kept = np.sort(rng.choice(rows[1:], size=max(4, int(0.8 * (len(rows) - 1))), replace=False))
        again = computed_series(history, utility, np.concatenate([[0], kept]))
        if len(np.unique(again, axis=0)) >= k:
            scores.append(adjusted_rand_score(labels, _fit(again, k, "euclidean", seed)[0]))
    return float(np.mean(scores)) if scores else None
