"""Windows in which a client's updates look large only because of what others did.

Sizes are read relative to the other participants of the epoch. Where those shrink (free riders) honest clients jump;
where one attacks, the others react, an epoch late, to the model it left behind. A window of size is the client's own
only if its own updates grew, and one without harm beside a louder window is that one's reflection.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flcontrib_core.detection.channels import Channels
from flcontrib_core.detection.evidence import window_numbers
from flcontrib_core.detection.experts import SIZE_ALONE, SIZE_AND_HARM
from flcontrib_core.detection.search import LAG, FoundWindow, Search, drawn_window
from flcontrib_core.history.contribution_history import ContributionHistory

LEAST_GROWTH = 1.5
NEIGHBOURS = 3
"""Participations before and after the window that it is compared with: sizes fall over a training."""


def without_size_reflections(history: ContributionHistory, channels: Channels, search: Search) -> Search:
    """The same search with such windows among the reflected ones."""
    kept: list[FoundWindow] = []
    reflected = list(search.reflected)
    for window in search.windows:
        (reflected if is_size_reflection(history, channels, search, window) else kept).append(window)
    return replace(search, windows=tuple(kept), reflected=tuple(reflected))


def is_size_reflection(history: ContributionHistory, channels: Channels, search: Search, window: FoundWindow) -> bool:
    """Is this a window of size that the client's own updates do not explain, or a harmless one beside a louder one?"""
    if window.expert not in (SIZE_ALONE, SIZE_AND_HARM) or history.channels is None:
        return False
    if _growth(history, channels, search, window) < LEAST_GROWTH:
        return True
    stronger = any(
        w.client != window.client and w.u > window.u and w.start <= window.end and window.start <= w.end + LAG
        for w in search.windows
    )
    if not stronger:
        return False
    rows = np.zeros(len(channels.epochs), dtype=bool)
    rows[window.start : window.end + 1] = True
    explained = search.explained[:, window.client]
    drawn = drawn_window(channels, window)
    return not window_numbers(history, channels, window.client, rows, drawn, explained).harm_measured


def _growth(history: ContributionHistory, channels: Channels, search: Search, window: FoundWindow) -> float:
    """The client's own updates inside / in the participations next to the window; inf where there are none."""
    raw = history.channels
    assert raw is not None
    norm = raw.norm[channels.epochs, window.client]
    rows = np.flatnonzero(np.isfinite(norm) & (norm > 0))
    inside = rows[(rows >= window.start) & (rows <= window.end)]
    free = rows[~search.explained[rows, window.client]]
    beside = [*free[free < window.start][-NEIGHBOURS:], *free[free > window.end][:NEIGHBOURS]]
    if not len(inside) or not beside:
        return np.inf
    return float(np.exp(np.log(norm[inside]).mean() - np.log(norm[beside]).mean()))
