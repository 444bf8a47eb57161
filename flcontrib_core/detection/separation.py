"""Groups of the clients' cumulative series: the paper's K-means view – a view, never an alert.

On honest runs this clustering also forms groups (32–90 % of them would raise an alarm), so nothing here decides an
alert. One group is an answer: the silhouette must beat what series without groups, but of the same mean and covariance
over clients, reach by chance (a Gaussian reference, as in the gap statistic of Tibshirani et al. 2001). Where truth is
known the Jaccard index is shown beside the value that one single cluster would give and beside its chance-adjusted
form; where it is not, the stability of the grouping under resampled epochs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from flcontrib_core.detection.chance_groups import chance_silhouette
from flcontrib_core.detection.findings import JaccardScore, Separation
from flcontrib_core.errors import SettingsError
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

MOST_CLUSTERS = 8
RELABELLINGS = 2000
RESAMPLES = 20
METRICS = ("euclidean", "dtw", "softdtw")


@dataclass(frozen=True)
class GroupingSettings:
    """How the clients' series are grouped. ``k`` None: the calibrated silhouette decides, and may say one group."""

    k: int | None = None
    metric: str = "euclidean"
    """'dtw' and 'softdtw' compare warped series: O(k · m · T²) per fit, and half a minute of compiling at first"""

    calibrated: bool = True
    """May the answer be one group? False: the best silhouette counts, however low, as in the paper."""

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise SettingsError(f"metric {self.metric!r} is unknown; choose from {', '.join(METRICS)}")

    def record(self) -> dict[str, object]:
        """As plain JSON values."""
        return {"k": self.k, "metric": self.metric, "calibrated": self.calibrated}

    @classmethod
    def from_record(cls, record: Mapping[str, object]) -> GroupingSettings:
        """The inverse of ``record``; raises SettingsError for what does not exist."""
        k, metric = record.get("k"), record.get("metric", "euclidean")
        if not isinstance(k, int | None) or isinstance(k, bool) or set(record) - {"k", "metric", "calibrated"}:
            raise SettingsError(f"groups cannot be made so: {dict(record)!r}; expected a number k and a metric")
        return cls(k, str(metric), bool(record.get("calibrated", True)))


def separate(
    history: ContributionHistory,
    utility: str = "loss",
    settings: GroupingSettings | None = None,
    dishonest: Iterable[str] | None = None,
    seed: int = 0,
) -> Separation | None:
    """How do the clients' cumulative series group? None with fewer than four clients or without two that differ.

    ``dishonest``: the truth of a labelled run, or an operator's marking, only to score the grouping. The number of
    groups is decided by Euclidean distances; the metric forms the groups.
    """
    settings = settings or GroupingSettings()
    k, metric = settings.k, settings.metric
    if history.without_values is not None:
        return None
    series = computed_series(history, utility)
    clients = series.shape[0]
    most = min(clients // 2, MOST_CLUSTERS)
    if clients < 4 or len(np.unique(series, axis=0)) < 2:
        return None
    if k is not None and not 1 <= k <= clients // 2:
        raise SettingsError(f"{k} groups of {clients} clients; choose between 1 and {clients // 2}")
    scores = _scores(series, most, seed)
    chance = chance_silhouette(series, most, seed) if settings.calibrated else None
    best = k or _number_of_groups(scores, chance)
    labels, centres = _fit(series, best, metric, seed)
    truth = None if dishonest is None else frozenset(dishonest)
    return Separation(
        k=best,
        labels={client: int(label) for client, label in zip(history.client_ids, labels, strict=True)},
        centres=centres,
        silhouette=scores,
        stability=_stability(history, utility, labels, best, seed) if truth is None and best > 1 else None,
        jaccard=None if truth is None else jaccard(labels, history.client_ids, truth, seed),
        metric=metric,
        chance_silhouette=chance,
        asked=k is not None,
        epochs_left_out=history.epoch_count + 1 - len(computed_epochs(history, utility)),
        cells_held=int(history.of(utility).missing[computed_epochs(history, utility)].sum()),
    )


def _scores(series: FloatArray, most: int, seed: int) -> dict[int, float]:
    """The silhouette of each number of groups, by Euclidean distances."""
    distinct = len(np.unique(series, axis=0))
    return {
        count: _silhouette(series, _fit(series, count, "euclidean", seed)[0])
        for count in range(2, min(most, distinct) + 1)
    }


def _number_of_groups(scores: dict[int, float], chance: float | None) -> int:
    """The number with the best silhouette, if that is better than chance (or chance was not asked); else one."""
    best = max(scores, key=lambda c: (scores[c], -c), default=1)
    return best if best > 1 and (chance is None or scores[best] > chance) else 1


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


def jaccard_of_marked(separation: Separation, honest: Iterable[str], dishonest: Iterable[str]) -> JaccardScore | None:
    """The index over the clients that an operator marked, and no others; None without at least one of each."""
    good, bad = frozenset(honest), frozenset(dishonest)
    if not good or not bad:
        return None
    ids = tuple(c for c in separation.labels if c in good | bad)
    return jaccard(np.array([separation.labels[c] for c in ids], dtype=np.int64), ids, bad)


def _jaccard_of(labels: IntArray, honest: BoolArray) -> float:
    reached = np.isin(labels, labels[honest])
    return float((honest & reached).sum() / (honest | reached).sum())


def _fit(series: FloatArray, k: int, metric: str, seed: int) -> tuple[IntArray, FloatArray]:
    """Labels and centres of k-means, the largest group first."""
    if metric == "euclidean":
        from sklearn.cluster import KMeans

        plain = KMeans(n_clusters=k, n_init=3, max_iter=50, random_state=seed).fit(series)
        labels, centres = np.asarray(plain.labels_, dtype=np.int64), plain.cluster_centers_
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tslearn imports h5py lazily and warns when it is absent
            from tslearn.clustering import TimeSeriesKMeans
        warped = TimeSeriesKMeans(n_clusters=k, metric=metric, n_init=1, max_iter=20, random_state=seed)
        labels = np.asarray(warped.fit_predict(series[:, :, None]), dtype=np.int64)
        centres = warped.cluster_centers_[:, :, 0]
    order = np.argsort([-int((labels == c).sum()) for c in range(k)], kind="stable")  # largest group first
    rank = np.empty(k, dtype=np.int64)
    rank[order] = np.arange(k)
    return rank[labels], np.asarray(centres[order])


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
