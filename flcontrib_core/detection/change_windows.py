"""What a posterior over change points says of windows: which epochs deviate, from when to when, and who agrees.

Everything here describes. No verdict and no alert reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from flcontrib_core.detection.change_points import mass_in_window
from flcontrib_core.detection.findings import ChangePoints
from flcontrib_core.detection.reasons import Window

DEVIATES = 0.5
"""Probability from which an epoch counts as lying in a deviating segment."""
NEAR = 1
"""Epochs by which two methods may place the same change apart."""


@dataclass(frozen=True)
class DeviatingWindow:
    """Neighbouring epochs of one client that probably deviate, and how sure the two ends are."""

    client: str
    window: Window
    probability: float
    """Mean over its observed epochs of the probability to deviate"""
    first_within: Window | None
    """Credible interval of the first epoch; None where the window begins with the client's first observation"""
    last_within: Window | None
    """Credible interval of the last epoch; None where the window reaches the client's last observation"""


def deviating_windows(points: ChangePoints, least: float = DEVIATES) -> tuple[DeviatingWindow, ...]:
    """Every stretch of epochs with at least this probability of deviating, in the order of clients and epochs.

    Epochs without an observation interrupt nothing. Empty for a series in which no level is usual.
    """
    found = []
    for column, client in enumerate(points.client_ids):
        inside = points.inside[:, column]
        epochs = np.flatnonzero(np.isfinite(inside))
        deviates = inside[epochs] >= least
        edges = np.diff(np.concatenate([[False], deviates, [False]]).astype(np.int8))
        for a, b in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
            after = None if b == len(epochs) else int(epochs[b])
            changes = points.changes.get(client, ())
            found.append(
                DeviatingWindow(
                    client,
                    (int(epochs[a]), int(epochs[b - 1])),
                    float(inside[epochs[a:b]].mean()),
                    None if a == 0 else _interval(changes, int(epochs[a]), 0),
                    None if after is None else _interval(changes, after, 1),
                )
            )
    return tuple(found)


def _interval(changes: Iterable[tuple[int, int, float]], epoch: int, back: int) -> Window:
    """The credible interval of the change that starts a segment at ``epoch``, moved back by so many epochs."""
    for first, last, _ in changes:
        if first - NEAR <= epoch <= last + NEAR:
            return min(first, epoch) - back, max(last, epoch) - back
    return epoch - back, epoch - back


@dataclass(frozen=True)
class Agreement:
    """Changes of the posterior beside those that ruptures' optimal segmentation finds in the same series."""

    both: tuple[tuple[str, Window], ...]
    """(client, credible interval) with a start of ruptures in it or an epoch beside it"""
    posterior_only: tuple[tuple[str, Window], ...]
    ruptures_only: tuple[tuple[str, int], ...]
    """(client, epoch)"""


def agreement(points: ChangePoints, threshold: float = DEVIATES) -> Agreement:
    """Which changes at or above ``threshold`` has ruptures too, which not, and which has ruptures alone?"""
    both: list[tuple[str, Window]] = []
    ours: list[tuple[str, Window]] = []
    theirs: list[tuple[str, int]] = []
    for client in points.client_ids:
        opinions = points.second_opinion.get(client, ())
        strong = [(a, b) for a, b, p in points.changes.get(client, ()) if p >= threshold]
        for a, b in strong:
            (both if any(a - NEAR <= t <= b + NEAR for t in opinions) else ours).append((client, (a, b)))
        theirs += [(client, t) for t in opinions if not any(a - NEAR <= t <= b + NEAR for a, b in strong)]
    return Agreement(tuple(both), tuple(ours), tuple(theirs))


@dataclass(frozen=True)
class MassInWindow:
    """The paper's statistic of one labelled client, beside the same of the clients that nobody labelled."""

    client: str
    window: Window
    mass: float
    """Share of the client's change-point mass inside the window; NaN without any mass"""
    others_mean: float
    others_largest: float
    """Of the unlabelled clients of this run in the same window; NaN without one"""
    others: int


def masses_in_windows(points: ChangePoints, labelled: Iterable[tuple[str, Window]]) -> tuple[MassInWindow, ...]:
    """The share of mass in each labelled window, for the labelled client and for all clients without a label."""
    asked = list(labelled)
    rest = [c for c in points.client_ids if c not in {client for client, _ in asked}]
    rows = []
    for client, window in asked:
        shares = np.array([mass_in_window(points, other, window) for other in rest])
        shares = shares[np.isfinite(shares)]
        mean, largest = (float(shares.mean()), float(shares.max())) if len(shares) else (np.nan, np.nan)
        rows.append(MassInWindow(client, window, mass_in_window(points, client, window), mean, largest, len(shares)))
    return tuple(rows)
