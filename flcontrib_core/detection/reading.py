"""A reading: all that is seen in a history before anything is said about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.detection.calibration import Calibration
from flcontrib_core.detection.channels import Channels, standardise, value_utility
from flcontrib_core.detection.exact_checks import ExactFinding, find_exact
from flcontrib_core.detection.free_riding import IdleFinding, find_idle
from flcontrib_core.detection.likeness import AlikeFinding, find_alike
from flcontrib_core.detection.objections import FalseAlarmRate
from flcontrib_core.detection.persistence import MOST_CLIENTS, Persistence, persistence
from flcontrib_core.detection.presets import regime_of
from flcontrib_core.detection.search import FoundWindow, Search, search_windows
from flcontrib_core.detection.size_windows import without_size_reflections
from flcontrib_core.detection.windows import WindowModel
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import BoolArray, FloatArray

MOVED_TOO = -1.0
"""u, counted from the threshold, from which another client counts as having moved in the same epochs."""


@dataclass(frozen=True)
class Reading:
    """Everything seen in one history: channels, facts, windows above the threshold, and who stands apart throughout."""

    history: ContributionHistory
    channels: Channels
    search: Search
    exact: tuple[ExactFinding, ...]
    exact_cells: BoolArray
    """(E, m) cells that an exact finding explains; the window search does not see them"""
    persistence: Persistence
    persistent_u: FloatArray
    """(m,) excess of the persistence level over its threshold; −inf where the client is not harmful"""
    idle: tuple[IdleFinding, ...]
    """stretches in which a client contributes nothing of its own"""
    alike: tuple[AlikeFinding, ...]
    """stretches in which the updates of several clients are too alike, with the part of each"""
    calibration: Calibration
    threshold: float
    model: WindowModel
    online: bool = False
    """Is this one of many looks at a growing run?"""

    @property
    def value_known(self) -> BoolArray:
        """(T + 1, m) cells whose value, in terms of the utility that is read, was computed."""
        return self.history.of(value_utility(self.history)).computed

    @property
    def client_count(self) -> int:
        """Clients with a usable series: those the run-level control corrects for."""
        return int(self.search.scored.sum())

    def persistent(self) -> frozenset[int]:
        """Clients that are harmful throughout; nobody where most would be, for then nobody stands apart."""
        standing = np.flatnonzero(self.persistent_u > self.threshold)
        return frozenset() if len(standing) > MOST_CLIENTS * len(self.persistent_u) else frozenset(standing.tolist())

    def reflections(self) -> frozenset[int]:
        """Clients that stand out only because another one did: nothing is said against them."""
        seen = {window.client for window in self.search.windows}
        return frozenset(window.client for window in self.search.reflected) - seen

    def moved_too(self, window: FoundWindow) -> tuple[str, ...]:
        """Other clients whose own strongest window overlaps this one and comes near the threshold."""
        return tuple(
            self.history.client_ids[other.client]
            for other in self.search.strongest
            if other is not None
            and other.client != window.client
            and other.u > self.threshold + MOVED_TOO
            and other.start <= window.end
            and window.start <= other.end
        )

    def false_alarms(self) -> FalseAlarmRate:
        """How many honest runs alert at this threshold: see ``Calibration.false_alarms``."""
        return self.calibration.false_alarms(self.threshold, regime_of(self.history), self.online)


def reading_of(
    history: ContributionHistory,
    calibration: Calibration,
    threshold: float,
    model: WindowModel,
    online: bool = False,
) -> Reading:
    """See everything once: exact findings, windows with u above ``threshold``, persistence outside both."""
    channels = standardise(history)
    if channels.updates_alone:
        if calibration.updates_alone is None:  # not calibrated on such logs: the strict preset is the least asked for
            threshold = max(threshold, calibration.preset("strict"))
        calibration = calibration.of_updates_alone()
    exact = find_exact(history)
    exact_cells = np.zeros(channels.participated.shape, dtype=bool)
    for finding in exact:
        exact_cells[np.isin(channels.epochs, finding.epochs), finding.client] = True
    search = search_windows(channels, calibration, threshold, model, exact_cells)
    search = without_size_reflections(history, channels, search)
    standing = persistence(channels, history.channels, search.explained)
    limit = calibration.thresholds["persistent value-only" if channels.values_alone else "persistent"]
    persistent_u = limit.excess(standing.score(), max(1, int(search.scored.sum())))
    return Reading(
        history=history,
        channels=channels,
        search=search,
        exact=exact,
        exact_cells=exact_cells,
        persistence=standing,
        persistent_u=persistent_u,
        idle=find_idle(history, calibration, threshold),
        alike=find_alike(history, channels, calibration, threshold),
        calibration=calibration,
        threshold=threshold,
        model=model,
        online=online,
    )
