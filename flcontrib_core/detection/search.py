"""Which windows of which clients rise above what honest runs show?

The strongest window of each client is compared with the calibrated threshold; a window above it is masked and the
client is looked at again, so that several windows of one client come apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from flcontrib_core.detection.calibration import Calibration
from flcontrib_core.detection.channels import CHANNEL_NAMES, VALUE, Channels
from flcontrib_core.detection.experts import EXPERTS, VALUE_ONLY, Expert, hear_experts
from flcontrib_core.detection.windows import WindowModel, window_evidence
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

MOST_WINDOWS = 4
"""Looks per client; further windows would each need more observations than a client has left."""


@dataclass(frozen=True)
class FoundWindow:
    """One window of one client, in rows of ``Channels`` (inclusive)."""

    client: int
    start: int
    end: int
    u: float
    expert: Expert
    score: float
    """the expert's S, to be read against its threshold"""
    threshold: float
    """the S at which u is 0 in this run"""


@dataclass(frozen=True)
class Search:
    """What the search saw: every client's loudest window, and those above the threshold."""

    loudest: tuple[FoundWindow | None, ...]
    """One per client; None where no expert could say anything."""
    windows: tuple[FoundWindow, ...]
    heard: BoolArray
    """(m,) clients that at least one expert could judge"""
    explained: BoolArray
    """(E, m) cells inside a found window or an exact finding"""


def experts_for(channels: Channels) -> tuple[Expert, ...]:
    """All experts, or the value-only one where nothing but values is known (a table of contributions)."""
    only_values = all(not channels.available(name) for name in CHANNEL_NAMES if name != VALUE)
    return (VALUE_ONLY,) if only_values else EXPERTS


def search_windows(
    channels: Channels,
    calibration: Calibration,
    threshold: float,
    model: WindowModel,
    masked: BoolArray,
    experts: Sequence[Expert] | None = None,
    clients: IntArray | None = None,
    crowd: int | None = None,
) -> Search:
    """Look at every client (or ``clients``), mask what is found, look again.

    ``crowd`` is the number of clients among which a loud one was found (default: those heard), which the
    run-level control corrects for; it is given when only some clients are looked at again.
    """
    team = experts_for(channels) if experts is None else experts
    chosen = np.arange(len(channels.client_ids)) if clients is None else clients
    explained = masked.copy()
    first, heard = _loudest(channels, team, calibration, model, explained, chosen, crowd)
    number = int(heard.sum()) if crowd is None else crowd
    found: list[FoundWindow] = []
    pending = [w for w in first if w is not None and w.u > threshold]
    for _ in range(MOST_WINDOWS):
        for window in pending:
            explained[window.start : window.end + 1, window.client] = True
        found.extend(pending)
        if not pending:
            break
        again = np.array([w.client for w in pending])
        looked, _ = _loudest(channels, team, calibration, model, explained, again, number)
        pending = [w for w in looked if w is not None and w.u > threshold]
    return Search(first, _merged(found, channels), heard, explained)


def _loudest(
    channels: Channels,
    experts: Sequence[Expert],
    calibration: Calibration,
    model: WindowModel,
    masked: BoolArray,
    clients: IntArray,
    crowd: int | None,
) -> tuple[tuple[FoundWindow | None, ...], BoolArray]:
    readings = hear_experts(channels, experts, model, masked, clients)
    heard = np.any([r.heard for r in readings], axis=0)
    number = int(heard.sum()) if crowd is None else crowd
    limits = [calibration.thresholds[r.expert.name] for r in readings]
    excess: FloatArray = np.stack([t.excess(r.score, number) for t, r in zip(limits, readings, strict=True)])
    best = np.argmax(excess, axis=0)
    loudest: list[FoundWindow | None] = []
    for position, client in enumerate(clients):
        reading, limit = readings[best[position]], limits[best[position]]
        u = float(excess[best[position], position])
        if not np.isfinite(u):
            loudest.append(None)
            continue
        score = float(reading.score[position])
        where = int(reading.starts[position]), int(reading.ends[position])
        loudest.append(FoundWindow(int(client), *where, u, reading.expert, score, score - u * limit.scale))
    return tuple(loudest), heard


def _merged(found: list[FoundWindow], channels: Channels) -> tuple[FoundWindow, ...]:
    """Windows of one client with none of its observations between them are one window; the loudest speaks for it."""
    merged: list[FoundWindow] = []
    for window in sorted(found, key=lambda w: (w.client, w.start)):
        last = merged[-1] if merged else None
        if last is not None and last.client == window.client:
            between = channels.participated[last.end + 1 : window.start, window.client]
            if not between.any():
                loud = max(last, window, key=lambda w: w.u)
                merged[-1] = replace(loud, start=last.start, end=max(last.end, window.end))
                continue
        merged.append(window)
    return tuple(sorted(merged, key=lambda w: (-w.u, w.client, w.start)))


def channel_evidence(channels: Channels, window: FoundWindow, model: WindowModel) -> dict[str, float | None]:
    """log Bayes factor of each channel for this window of this client; None where the channel is unavailable."""
    start, end = np.array([window.start]), np.array([window.end])
    column = slice(window.client, window.client + 1)
    scores: dict[str, float | None] = {}
    for c, name in enumerate(CHANNEL_NAMES):
        evidence = window_evidence(
            channels.scores[c][:, column], channels.extra_variance[c][:, column], start, end, model
        )
        value = float(evidence[0, 0])
        scores[name] = value if channels.available(name) and np.isfinite(value) else None
    return scores


def drawn_window(channels: Channels, window: FoundWindow) -> tuple[int, int]:
    """The window in epochs of the run, its ends drawn to the middle of the gap to the client's next participation.

    Departure: windows that differ only in epochs in which the client was absent are equally likely; the middle of
    the gap is the best guess of where the change happened.
    """
    rows = np.flatnonzero(channels.participated[:, window.client])
    within = rows[(rows >= window.start) & (rows <= window.end)]
    if not len(within):
        return int(channels.epochs[window.start]), int(channels.epochs[window.end])
    first, last = int(within[0]), int(within[-1])
    before, after = rows[rows < first], rows[rows > last]
    start = first - (first - int(before[-1]) - 1) // 2 if len(before) else first
    end = last + (int(after[0]) - last - 1) // 2 if len(after) else last
    return int(channels.epochs[start]), int(channels.epochs[end])
