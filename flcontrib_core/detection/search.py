"""The search for windows of clients that rise above what honest runs show.

The strongest window of each client is compared with the calibrated threshold; a window above it is masked and the
client is looked at again, so that several windows of one client come apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from flcontrib_core.detection.calibration import Calibration
from flcontrib_core.detection.channels import (
    CHANNEL_NAMES,
    MARGIN,
    OWN_DIRECTION,
    PEER_DIRECTION,
    SIZE,
    SKIPPED_FIRST_EPOCHS,
    SPREAD,
    Channels,
)
from flcontrib_core.detection.experts import (
    CONCENTRATION,
    EXPERTS,
    SIZE_ALONE,
    SIZE_AND_HARM,
    UPDATE_EXPERTS,
    VALUE_ONLY,
    Cells,
    Expert,
    score_experts,
)
from flcontrib_core.detection.windows import WindowModel
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

MOST_WINDOWS = 4
"""Looks per client; further windows would each need more observations than a client has left."""
REFLECTION_SHARE = 0.5
"""Share of a window's participations that stronger windows must cover for it to be their reflection"""
LAG = 1
"""Epochs by which others react late: they train from the model that the attack left behind."""
OWN_CHANGE = 1.0
"""nats from which a channel of the client's own updates says that they changed"""


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
    """What the search saw: every client's strongest window, and those above the threshold."""

    strongest: tuple[FoundWindow | None, ...]
    """One per client; None where no expert could say anything."""
    windows: tuple[FoundWindow, ...]
    """Above the threshold, strongest first."""
    reflected: tuple[FoundWindow, ...]
    """Above the threshold too, but only the reflection of another client's stronger window: not reported."""
    scored: BoolArray
    """(m,) clients that at least one expert could judge"""
    explained: BoolArray
    """(E, m) cells inside a found window or an exact finding"""


def experts_for(channels: Channels) -> tuple[Expert, ...]:
    """All experts; the value-only one where nothing but values is known (a table of contributions), and those that
    hardly need a value or a margin where the log holds updates alone."""
    if channels.updates_alone:
        return UPDATE_EXPERTS
    return (VALUE_ONLY,) if channels.values_alone else EXPERTS


def search_windows(
    channels: Channels,
    calibration: Calibration,
    threshold: float,
    model: WindowModel,
    masked: BoolArray,
    experts: Sequence[Expert] | None = None,
    clients: IntArray | None = None,
    client_count: int | None = None,
    looks: int = MOST_WINDOWS,
) -> Search:
    """Look at every client (or ``clients``), mask what is found, look again, up to ``looks`` times.

    ``client_count`` is the number of clients among which a strong one was found (default: those scored), which the
    run-level control corrects for; it is given when only some clients are looked at again.
    """
    team = experts_for(channels) if experts is None else experts
    columns = np.arange(len(channels.client_ids)) if clients is None else clients
    explained = masked.copy()
    first, scored = _strongest_windows(channels, team, calibration, model, explained, columns, client_count)
    number = int(scored.sum()) if client_count is None else client_count
    raised: list[FoundWindow] = []
    pending = [w for w in first if w is not None and w.u > threshold]
    for look in range(looks):
        for window in pending:
            explained[window.start : window.end + 1, window.client] = True
        raised.extend(pending)
        if not pending or look == looks - 1:
            break
        once_more = np.array([w.client for w in pending])
        looked, _ = _strongest_windows(channels, team, calibration, model, explained, once_more, number)
        pending = [w for w in looked if w is not None and w.u > threshold]
    rescorer = Rescorer(channels, team, calibration, threshold, model, masked, number)
    windows, reflected = _without_reflections(_merged(raised, channels), rescorer)
    return Search(first, windows, reflected, scored, explained)


def _strongest_windows(
    channels: Channels,
    experts: Sequence[Expert],
    calibration: Calibration,
    model: WindowModel,
    masked: BoolArray,
    clients: IntArray,
    client_count: int | None,
) -> tuple[tuple[FoundWindow | None, ...], BoolArray]:
    readings = score_experts(channels, experts, model, masked, clients)
    scored = np.any([r.scored for r in readings], axis=0)
    number = int(scored.sum()) if client_count is None else client_count
    limits = [calibration.thresholds[r.expert.name] for r in readings]
    excess: FloatArray = np.stack([t.excess(r.score, number) for t, r in zip(limits, readings, strict=True)])
    best = np.argmax(excess, axis=0)
    strongest: list[FoundWindow | None] = []
    for position, client in enumerate(clients):
        reading, limit = readings[best[position]], limits[best[position]]
        u = float(excess[best[position], position])
        if not np.isfinite(u):
            strongest.append(None)
            continue
        score = float(reading.score[position])
        where = int(reading.starts[position]), int(reading.ends[position])
        strongest.append(FoundWindow(int(client), *where, u, reading.expert, score, score - u * limit.scale))
    return tuple(strongest), scored


def _merged(windows: list[FoundWindow], channels: Channels) -> tuple[FoundWindow, ...]:
    """Windows of one client with none of its observations between them are one window; the strongest speaks for it."""
    merged: list[FoundWindow] = []
    for window in sorted(windows, key=lambda w: (w.client, w.start)):
        last = merged[-1] if merged else None
        if last is not None and last.client == window.client:
            between = channels.participated[last.end + 1 : window.start, window.client]
            if not between.any():
                strong = max(last, window, key=lambda w: w.u)
                merged[-1] = replace(strong, start=last.start, end=max(last.end, window.end))
                continue
        merged.append(window)
    return tuple(sorted(merged, key=lambda w: (-w.u, w.client, w.start)))


@dataclass(frozen=True)
class Rescorer:
    """What is needed to look at one client once more."""

    channels: Channels
    experts: Sequence[Expert]
    calibration: Calibration
    threshold: float
    model: WindowModel
    masked: BoolArray
    client_count: int

    def still_there(self, window: FoundWindow, hidden: BoolArray) -> bool:
        """Does the client still have a window over the threshold there when its rows ``hidden`` (E,) are not seen?"""
        masked = self.masked.copy()
        masked[hidden, window.client] = True
        alone = np.array([window.client])
        (seen,), _ = _strongest_windows(
            self.channels, self.experts, self.calibration, self.model, masked, alone, self.client_count
        )
        return seen is not None and seen.u > self.threshold and seen.start <= window.end and window.start <= seen.end


def _without_reflections(
    windows: tuple[FoundWindow, ...], rescorer: Rescorer
) -> tuple[tuple[FoundWindow, ...], tuple[FoundWindow, ...]]:
    """(kept, reflected) windows, strongest first. Values sum to the epoch's change: one client's attack moves others.

    Two reflections are known: a client looks worse *outside* a stronger client's window, because its own rest lies
    inside it; and a client looks worse *during* it, though its own updates did not change.
    """
    kept: list[FoundWindow] = []
    reflected: list[FoundWindow] = []
    for window in windows:
        stronger = [w for w in kept if w.client != window.client and w.u > window.u]
        (reflected if is_reflection(window, stronger, windows, rescorer) else kept).append(window)
    return tuple(kept), tuple(reflected)


def is_reflection(
    window: FoundWindow, stronger: Sequence[FoundWindow], windows: Sequence[FoundWindow], rescorer: Rescorer
) -> bool:
    """Is the window there only because of the ``stronger`` ones of other clients? ``windows`` are everybody's."""
    return bool(stronger) and (
        _beside_stronger(window, stronger, windows, rescorer) or _under_stronger(window, stronger, rescorer)
    )


def _covered(windows: Sequence[FoundWindow], rows: int) -> BoolArray:
    """(E,) rows inside any of the windows"""
    covered = np.zeros(rows, dtype=bool)
    for window in windows:
        covered[window.start : window.end + 1] = True
    return covered


def _beside_stronger(
    window: FoundWindow, stronger: Sequence[FoundWindow], windows: Sequence[FoundWindow], rescorer: Rescorer
) -> bool:
    """Does the window vanish when the epochs of stronger windows, outside of it, are not seen?"""
    rows = len(rescorer.channels.epochs)
    hidden = _covered(stronger, rows) & ~_covered([window], rows)
    if not (hidden & rescorer.channels.participated[:, window.client]).any():
        return False
    own = [w for w in windows if w.client == window.client and w is not window]
    return not rescorer.still_there(window, hidden | _covered(own, rows))


def _under_stronger(window: FoundWindow, stronger: Sequence[FoundWindow], rescorer: Rescorer) -> bool:
    """Lies the window in stronger ones while the client's own updates did not change?

    Their direction, size and spread must have stayed, and either a stronger client sent oversized updates or the
    client's update alone does not lower the margin more than before.
    """
    channels = rescorer.channels
    rows = len(channels.epochs)
    within = channels.participated[:, window.client] & _covered([window], rows)
    under = [w for w in stronger if w.start <= window.end and window.start <= w.end + LAG]
    covered = _covered(under, rows) | np.concatenate([np.zeros(LAG, dtype=bool), _covered(under, rows)[:-LAG]])
    if not under or covered[within].mean() < REFLECTION_SHARE:
        return False
    evidence = channel_evidence(channels, window.client, window.start, window.end, rescorer.model)
    if any((evidence[name] or 0.0) >= OWN_CHANGE for name in (OWN_DIRECTION, PEER_DIRECTION, SIZE, SPREAD)):
        return False
    oversized = any(w.expert in (SIZE_ALONE, SIZE_AND_HARM) for w in under)
    margin = evidence[MARGIN]
    return oversized or (margin is not None and margin < 0)


def channel_evidence(
    channels: Channels, client: int, start: int, end: int, model: WindowModel
) -> dict[str, float | None]:
    """log Bayes factor of each channel, and of concentration, for the rows ``start``..``end`` of a client; None where
    it cannot say."""
    available = [name for name in CHANNEL_NAMES if channels.available(name)]
    cells = Cells.of(channels, available, None, np.array([client]), model)
    evidence = cells.evidence(np.array([start]), np.array([end]))
    scores = {name: float(factor[0, 0]) for name, factor in evidence.items()}
    names = (*CHANNEL_NAMES, CONCENTRATION)
    return {name: scores[name] if np.isfinite(scores.get(name, np.nan)) else None for name in names}


def drawn_window(channels: Channels, window: FoundWindow) -> tuple[int, int]:
    """The window in epochs of the run, its ends drawn to the middle of the gap to the client's next participation.

    Departure: windows that differ only in epochs in which the client was absent are equally likely; the middle of
    the gap is the best guess of where the change happened. A window that begins with the client's first epoch that is
    read is drawn from the run's beginning: the two unread epochs say nothing against it.
    """
    rows = np.flatnonzero(channels.participated[:, window.client])
    rows = rows[rows >= SKIPPED_FIRST_EPOCHS]
    within = rows[(rows >= window.start) & (rows <= window.end)]
    if not len(within):
        return int(channels.epochs[window.start]), int(channels.epochs[window.end])
    first, last = int(within[0]), int(within[-1])
    before, after = rows[rows < first], rows[rows > last]
    start = first - (first - int(before[-1]) - 1) // 2 if len(before) else 0
    end = last + (int(after[0]) - last - 1) // 2 if len(after) else last
    return int(channels.epochs[start]), int(channels.epochs[end])
