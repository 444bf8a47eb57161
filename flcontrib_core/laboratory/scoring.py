"""Scores of verdicts where the truth is known: the counting rules of every figure that is reported.

A true positive is an alert of kind 1 or 2 on a client that was dishonest, with a window that overlaps the truth. IoU is
taken over true positives. A run alerts if any client has kind 1 or 2; the questions of kind 4 and "class mix changed"
are counted apart. Only this file, the calibration and the benchmarks look at a run's truth; no verdict does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from flcontrib_core.detection.findings import Alert, Detection, VerdictKind
from flcontrib_core.vocabulary import FloatArray

Window = tuple[int, int]
Truth = Mapping[str, Sequence[Window]]
"""client -> windows in which it was dishonest (inclusive epochs); honest clients are not in it."""
ACCUSING = (VerdictKind.POISONING_WINDOW, VerdictKind.EXACT_FINDING)


@dataclass(frozen=True)
class RunScore:
    """One labelled run, counted."""

    found: tuple[bool, ...]
    """One per dishonest client: is it a true positive?"""
    persistent: tuple[bool, ...]
    """One per dishonest client: was it called persistently harmful?"""
    windows_found: tuple[bool, ...]
    """One per true window of a dishonest client: does an accusing alert of the client overlap it?"""
    ious: tuple[float, ...]
    """Best overlap of each window of a true positive with the truth."""
    false_positives: int
    """Honest clients with kind 1 or 2."""
    honest_persistent: int
    honest_mix: int
    probabilities: tuple[float, ...] = field(default=())
    """One per client with a verdict; with ``labels`` they give the calibration error."""
    labels: tuple[bool, ...] = field(default=())

    @property
    def alerts(self) -> bool:
        """Does an honest client stand accused?"""
        return self.false_positives > 0


def score_run(detection: Detection, truth: Truth) -> RunScore:
    """Count one run by the rules above."""
    found, persistent, windows_found, ious = [], [], [], []
    for client, windows in truth.items():
        mine = [a for a in detection.alerts if a.client == client]
        overlapping = [a for a in mine if a.verdict in ACCUSING and _best_overlap(a, windows) > 0]
        whole = [a for a in mine if a.verdict is VerdictKind.PERSISTENTLY_HARMFUL]
        found.append(bool(overlapping))
        persistent.append(bool(whole))
        windows_found += [any(_overlap(a.window, w) > 0 for a in overlapping) for w in windows]
        ious += [_best_overlap(a, windows) for a in overlapping if a.verdict is VerdictKind.POISONING_WINDOW]
    honest = [a for a in detection.alerts if a.client not in truth]
    decided = [c for c in detection.clients if c.probability is not None or c.verdict is VerdictKind.EXACT_FINDING]
    return RunScore(
        tuple(found),
        tuple(persistent),
        tuple(windows_found),
        tuple(ious),
        len({a.client for a in honest if a.verdict in ACCUSING}),
        len({a.client for a in honest if a.verdict is VerdictKind.PERSISTENTLY_HARMFUL}),
        len({a.client for a in honest if a.verdict is VerdictKind.CLASS_MIX_CHANGED}),
        tuple(1.0 if c.probability is None else c.probability for c in decided),
        tuple(c.client in truth for c in decided),
    )


def _best_overlap(alert: Alert, windows: Sequence[Window]) -> float:
    return max((_overlap(alert.window, w) for w in windows), default=0.0)


def _overlap(window: Window | None, other: Window) -> float:
    """Intersection over union of two inclusive windows.

    >>> _overlap((1, 4), (3, 6))
    0.3333333333333333
    """
    if window is None:
        return 0.0
    shared = min(window[1], other[1]) - max(window[0], other[0]) + 1
    if shared <= 0:
        return 0.0
    return shared / (max(window[1], other[1]) - min(window[0], other[0]) + 1)


def recall(scores: Iterable[RunScore]) -> float:
    found = [f for s in scores for f in s.found]
    return float(np.mean(found)) if found else float("nan")


def precision(scores: Sequence[RunScore]) -> float:
    """True positives / (true positives + honest clients accused) over runs with a dishonest client."""
    true = sum(sum(s.found) for s in scores)
    false = sum(s.false_positives for s in scores)
    return true / (true + false) if true + false else float("nan")


def f1(scores: Sequence[RunScore]) -> float:
    p, r = precision(scores), recall(scores)
    return 2 * p * r / (p + r) if p + r > 0 else 0.0


def mean_iou(scores: Iterable[RunScore]) -> float:
    ious = [x for s in scores for x in s.ious]
    return float(np.mean(ious)) if ious else float("nan")


def alerting_share(scores: Sequence[RunScore]) -> float:
    return float(np.mean([s.alerts for s in scores])) if scores else float("nan")


def calibration_error(probabilities: FloatArray, labels: FloatArray, bins: int = 10) -> float:
    """Expected calibration error: Σ over equal bins of (share of clients)·|mean probability − share that changed|."""
    place = np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    error = 0.0
    for b in range(bins):
        own = place == b
        if own.any():
            error += float(own.mean()) * abs(float(probabilities[own].mean()) - float(labels[own].mean()))
    return error
