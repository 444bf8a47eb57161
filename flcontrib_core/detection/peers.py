"""What others would say: published and simple rules on the same updates, each as one number per participant and epoch.

All are turned so that up is suspicious and need nothing but the updates of a run. They are peers to compare with; no
verdict of this package rests on them. FLTrust needs a server's own update and speaks only where one is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from flcontrib_core.vocabulary import FloatArray, IntArray

NORM, COSINE = "norm", "cosine"
MULTI_KRUM, FOOLS_GOLD, FL_TRUST = "Multi-Krum", "FoolsGold", "FLTrust"
FLAME, ALIGN_INS, FL_DETECTOR = "FLAME-like", "AlignIns", "FLDetector"
RULES = (NORM, COSINE, MULTI_KRUM, FOOLS_GOLD, FL_TRUST, FLAME, ALIGN_INS, FL_DETECTOR)
TINY = 1e-12
SIGN_SHARE = 0.3
"""AlignIns: share of an update's coordinates, the largest ones, whose signs are compared with the majority's."""
DETECTOR_WINDOW = 10
"""FLDetector: epochs over which its suspicion is averaged."""


@dataclass(frozen=True)
class EpochUpdates:
    """What a rule sees of one epoch."""

    epoch: int
    clients: IntArray
    """(n,) positions of the participants"""
    updates: FloatArray
    """(n, P)"""
    last_step: FloatArray | None = None
    """(P,) the step that the global model has just made"""
    root: FloatArray | None = None
    """(P,) the update a server made on rows of its own; only FLTrust asks for it"""


def peer_scores(epochs: Iterable[EpochUpdates], clients: int, epoch_count: int) -> Mapping[str, FloatArray]:
    """rule -> (T + 1, m) suspicion of each participation; NaN where the client was absent or the rule cannot say."""
    scores = {rule: np.full((epoch_count + 1, clients), np.nan) for rule in RULES}
    memory = _Memory(clients)
    for seen in epochs:
        norm = np.linalg.norm(seen.updates, axis=1)
        cosine = _cosines(seen.updates, norm)
        told: dict[str, FloatArray | None] = {
            NORM: np.log(np.maximum(norm, TINY)) - np.log(max(float(np.median(norm)), TINY)),
            COSINE: _against_mean(cosine),
            MULTI_KRUM: _krum(seen.updates),
            FOOLS_GOLD: memory.fools_gold(seen),
            FL_TRUST: None if seen.root is None else _against(seen.updates, seen.root, norm),
            FLAME: _flame(cosine),
            ALIGN_INS: _align_ins(seen, norm),
            FL_DETECTOR: memory.fl_detector(seen),
        }
        for rule, row in told.items():
            if row is not None:
                scores[rule][seen.epoch, seen.clients] = row
    return scores


def _cosines(updates: FloatArray, norm: FloatArray) -> FloatArray:
    unit = updates / np.maximum(norm, TINY)[:, None]
    return np.clip(unit @ unit.T, -1.0, 1.0)


def _against(updates: FloatArray, direction: FloatArray, norm: FloatArray) -> FloatArray:
    """1 − cosine to one direction."""
    return np.asarray(1.0 - updates @ direction / np.maximum(norm * np.linalg.norm(direction), TINY))


def _against_mean(cosine: FloatArray) -> FloatArray | None:
    """1 − mean cosine to the others."""
    n = len(cosine)
    return None if n < 2 else np.asarray(1.0 - (cosine.sum(axis=1) - np.diag(cosine)) / (n - 1))


def _krum(updates: FloatArray) -> FloatArray | None:
    """Sum of squared distances to the n − f − 2 nearest with f = ⌊(n − 3)/2⌋, relative to the epoch's median.

    Blanchard et al., "Machine learning with adversaries", NeurIPS 2017.
    """
    n = len(updates)
    if n < 3:
        return None
    products = updates @ updates.T
    squares = np.diag(products)
    distances = np.maximum(squares[:, None] + squares[None, :] - 2 * products, 0.0)
    np.fill_diagonal(distances, np.inf)
    nearest = max(1, n - (n - 3) // 2 - 2)
    total = np.sort(distances, axis=1)[:, :nearest].sum(axis=1)
    return np.asarray(np.log(np.maximum(total, TINY)) - np.log(max(float(np.median(total)), TINY)))


def _flame(cosine: FloatArray) -> FloatArray | None:
    """Distance to the cluster that holds more than half, beyond that cluster's own width.

    Nguyen et al., "FLAME: taming backdoors in federated learning", USENIX Security 2022. Departure: in place of
    HDBSCAN the cluster is the half of the participants that lies closest together around one of them.
    """
    n = len(cosine)
    if n < 3:
        return None
    distance = 1.0 - cosine
    half = n // 2 + 1
    reach = np.sort(distance, axis=1)[:, half - 1]
    centre = int(reach.argmin())
    return np.asarray(distance[centre] - reach[centre])


def _align_ins(seen: EpochUpdates, norm: FloatArray) -> FloatArray | None:
    """The larger of two robust z-scores: cosine to the last global step, and agreement with the principal sign.

    Xu et al., "Detecting backdoor attacks in federated learning via direction alignment inspection", CVPR 2025.
    """
    if len(seen.updates) < 3:
        return None
    majority = np.sign(np.sign(seen.updates).sum(axis=0))
    count = max(1, int(SIGN_SHARE * seen.updates.shape[1]))
    largest = np.argpartition(-np.abs(seen.updates), count - 1, axis=1)[:, :count]
    signs = np.take_along_axis(np.sign(seen.updates), largest, axis=1)
    agreement = (signs == majority[largest]).mean(axis=1)
    scores = [_robust_z(agreement)]
    if seen.last_step is not None:
        scores.append(_robust_z(_against(seen.updates, seen.last_step, norm)))
    return np.asarray(np.max(scores, axis=0))


def _robust_z(values: FloatArray) -> FloatArray:
    apart = np.abs(values - np.median(values))
    return np.asarray(apart / max(float(np.median(apart)), 1e-6))


class _Memory:
    """What two of the rules keep from epoch to epoch."""

    def __init__(self, clients: int) -> None:
        self.sums: list[FloatArray | None] = [None] * clients
        self.last: list[FloatArray | None] = [None] * clients
        self.suspicion: list[list[float]] = [[] for _ in range(clients)]

    def fools_gold(self, seen: EpochUpdates) -> FloatArray | None:
        """1 − the weight that FoolsGold would give: low for clients whose summed updates are alike.

        Fung, Yoon and Beschastnikh, "The limitations of federated learning in Sybil settings", RAID 2020.
        """
        rows = []
        for i, update in zip(seen.clients, seen.updates, strict=True):
            total = self.sums[i]
            self.sums[i] = update.copy() if total is None else total + update
            rows.append(self.sums[i])
        if len(rows) < 2:
            return None
        history = np.stack([r for r in rows if r is not None])
        cosine = _cosines(history, np.linalg.norm(history, axis=1))
        np.fill_diagonal(cosine, -1.0)
        highest = cosine.max(axis=1)
        pardon = np.minimum(1.0, highest[:, None] / np.where(np.abs(highest[None, :]) > TINY, highest[None, :], 1.0))
        weight = 1.0 - (cosine * np.where(highest[:, None] < highest[None, :], pardon, 1.0)).max(axis=1)
        return np.asarray(1.0 - np.clip(weight, 0.0, 1.0))

    def fl_detector(self, seen: EpochUpdates) -> FloatArray:
        """Distance to what was predicted, as a share of all participants', averaged over the last epochs.

        Zhang et al., "FLDetector", KDD 2022. Departure: the prediction is the client's own last update; the
        quasi-Newton term needs full participation.
        """
        distance = np.array(
            [
                np.nan if self.last[i] is None else np.linalg.norm(update - self.last[i])
                for i, update in zip(seen.clients, seen.updates, strict=True)
            ]
        )
        share = distance / max(float(np.nansum(distance)), TINY) * max(1, int(np.isfinite(distance).sum()))
        levels = []
        for i, update, mine in zip(seen.clients, seen.updates, share, strict=True):
            self.last[i] = update.copy()
            if np.isfinite(mine):
                self.suspicion[i].append(float(mine))
            recent = self.suspicion[i][-DETECTOR_WINDOW:]
            levels.append(float(np.mean(recent)) if recent else np.nan)
        return np.array(levels)
