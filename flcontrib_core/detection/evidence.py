"""Which numbers stand behind a window of one client?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.detection.channels import (
    OWN_DIRECTION,
    PEER_DIRECTION,
    SIZE,
    SKIPPED_FIRST_EPOCHS,
    SPREAD,
    Channels,
    value_utility,
)
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import BoolArray, EpochByClient, FloatArray

INTERVAL = 1.96


@dataclass(frozen=True)
class WindowFacts:
    """The numbers behind a window of one client. Harm is up; words turn it so that help is up."""

    client: str
    window: tuple[int, int]
    computed_inside: tuple[int, ...]
    not_computed_inside: tuple[int, ...]
    mean_inside: float | None
    """Mean harm per computed epoch; None where none is computed."""
    mean_outside: float | None
    half_width: float | None
    """95 % half-width of ``mean_inside``, from the spread over epochs and the values' standard errors."""
    harmful_inside: int
    unreliable_inside: tuple[int, ...]
    utility: str
    epochs_with_participants: int
    participations: int
    """of the client, over the whole run"""
    usual_peers: float
    """Median number of other participants in the window's epochs."""
    touches_start: bool
    touches_end: bool
    better_without: float | None
    """Mean harm that leaving the client out for one step would have saved; None where it was not evaluated."""
    movements: dict[str, tuple[float, float]]
    """channel -> raw mean (inside, outside) of the update's own observations"""

    @property
    def participated_inside(self) -> int:
        return len(self.computed_inside) + len(self.not_computed_inside)


def window_facts(
    history: ContributionHistory, channels: Channels, client: int, rows: BoolArray, window: tuple[int, int]
) -> WindowFacts:
    """Collect the numbers of a window: ``rows`` (E,) of the channels, ``window`` as it is drawn, in epochs."""
    utility = value_utility(history)
    took_part = history.participated[:, client]
    read = np.zeros(len(took_part), dtype=bool)
    read[channels.epochs[SKIPPED_FIRST_EPOCHS:]] = True
    inside = np.zeros(len(took_part), dtype=bool)
    inside[channels.epochs[rows]] = True
    inside &= took_part
    outside = read & took_part & ~inside
    series = history.of(utility)
    known = series.computed[:, client]
    computed = inside & known
    harm = history.harm_sign(utility) * series.values[:, client]
    within, beyond = harm[computed], harm[outside & known]
    peers = history.participated[inside].sum(axis=1) - 1
    return WindowFacts(
        client=history.client_ids[client],
        window=window,
        computed_inside=tuple(np.flatnonzero(computed).tolist()),
        not_computed_inside=tuple(np.flatnonzero(inside & ~known).tolist()),
        mean_inside=float(within.mean()) if len(within) else None,
        mean_outside=float(beyond.mean()) if len(beyond) else None,
        half_width=_half_width(within, np.nan_to_num(series.standard_errors[computed, client])),
        harmful_inside=int((within > 0).sum()),
        unreliable_inside=tuple(np.flatnonzero(computed & series.unreliable).tolist()),
        utility=utility,
        epochs_with_participants=len(channels.epochs),
        participations=int(took_part.sum()),
        usual_peers=float(np.median(peers)) if len(peers) else 0.0,
        touches_start=bool(window[0] <= channels.epochs[min(SKIPPED_FIRST_EPOCHS, len(channels.epochs) - 1)]),
        touches_end=bool(window[1] >= channels.epochs[-1]),
        better_without=_better_without(history, utility, inside, client),
        movements=_movements(history, inside, outside, client),
    )


def _half_width(values: FloatArray, errors: FloatArray) -> float | None:
    if len(values) < 2:
        return None
    n = len(values)
    return float(INTERVAL * np.sqrt(values.var(ddof=1) / n + (errors**2).sum() / n**2))


def _better_without(history: ContributionHistory, utility: str, inside: BoolArray, client: int) -> float | None:
    saved = -history.harm_sign(utility) * history.of(utility).leave_one_out[inside, client]
    saved = saved[np.isfinite(saved)]
    return float(saved.mean()) if len(saved) else None


def _movements(
    history: ContributionHistory, inside: BoolArray, outside: BoolArray, client: int
) -> dict[str, tuple[float, float]]:
    raw = history.channels
    if raw is None:
        return {}
    observed: dict[str, EpochByClient] = {
        OWN_DIRECTION: raw.own_cosine,
        PEER_DIRECTION: raw.peer_cosine,
        SIZE: raw.norm,
        SPREAD: raw.spread,
    }
    means = {}
    for name, cells in observed.items():
        within, beyond = cells[inside, client], cells[outside, client]
        within, beyond = within[np.isfinite(within)], beyond[np.isfinite(beyond)]
        if len(within) and len(beyond):
            means[name] = float(within.mean()), float(beyond.mean())
    return means
