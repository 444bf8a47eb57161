"""Whether a finding survives when the reader is built a little differently.

Ten or so alternative settings: another utility, one channel less, other priors, other epochs. The share under which
an overlapping window of the same client still alerts stands beside every alert.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from flcontrib_core.detection.channels import (
    CHANNEL_NAMES,
    MARGIN,
    OWN_DIRECTION,
    PEER_DIRECTION,
    VALUE,
    Channels,
    standardise,
    value_utility,
)
from flcontrib_core.detection.facts import Unavailable
from flcontrib_core.detection.objections import Alternative
from flcontrib_core.detection.reading import Reading
from flcontrib_core.detection.search import FoundWindow, experts_for, search_windows
from flcontrib_core.detection.windows import WindowModel
from flcontrib_core.history.contribution_history import ContributionHistory


@dataclass(frozen=True)
class Sensitivity:
    """In how many alternative settings a window holds, and under which it vanishes."""

    holds: int
    settings: int
    vanishes: tuple[Alternative, ...]


def sensitivity(reading: Reading, windows: tuple[FoundWindow, ...], threshold: float) -> tuple[Sensitivity, ...]:
    """One answer per window, searched above ``threshold``. All are tried together, so the cost does not grow with
    their number."""
    if not windows:
        return ()
    experts = experts_for(reading.channels)
    clients, each = np.unique([w.client for w in windows], return_counts=True)
    looks = int(each.max())
    survived: list[list[bool]] = [[] for _ in windows]
    names: list[Alternative] = []
    for name, channels, model in _alternatives(reading.history, reading.channels, reading.model):
        names.append(name)
        again = search_windows(
            channels,
            reading.calibration,
            threshold,
            model,
            reading.exact_cells,
            experts=experts,
            clients=clients,
            client_count=reading.client_count,
            looks=looks,
        ).windows
        for holds, window in zip(survived, windows, strict=True):
            holds.append(
                any(f.client == window.client and f.start <= window.end and window.start <= f.end for f in again)
            )
    return tuple(
        Sensitivity(sum(holds), len(holds), tuple(n for n, held in zip(names, holds, strict=True) if not held))
        for holds in survived
    )


def _alternatives(
    history: ContributionHistory, channels: Channels, model: WindowModel
) -> Iterator[tuple[Alternative, Channels, WindowModel]]:
    mine = value_utility(history)
    for utility in history.utilities:
        if utility != mine:
            yield Alternative.OTHER_UTILITY, standardise(history, utility), model
            break
    for name, dropped in (
        (Alternative.WITHOUT_VALUES, (VALUE,)),
        (Alternative.WITHOUT_MARGIN, (MARGIN,)),
        (Alternative.WITHOUT_DIRECTIONS, (OWN_DIRECTION, PEER_DIRECTION)),
    ):
        if any(channels.available(n) for n in CHANNEL_NAMES if n not in dropped) and channels.available(dropped[0]):
            yield name, _without(channels, dropped), model
    yield Alternative.SMALLER_SHIFT, channels, replace(model, smallest_shift=1.0)
    yield Alternative.LARGER_SHIFT, channels, replace(model, smallest_shift=2.0)
    yield Alternative.WIDER_NOISE, channels, replace(model, shape=3.0, rate=3.0)
    yield Alternative.SHORTER_WINDOWS, channels, replace(model, longest_share=0.4)
    thirds = (Alternative.WITHOUT_THIRD_1, Alternative.WITHOUT_THIRD_2, Alternative.WITHOUT_THIRD_3)
    for part, name in enumerate(thirds):
        yield name, _thinned(channels, part), model


def _without(channels: Channels, names: tuple[str, ...]) -> Channels:
    reasons = channels.unavailable | dict.fromkeys(names, Unavailable.LEFT_OUT)
    return replace(channels, unavailable=reasons)


def _thinned(channels: Channels, part: int) -> Channels:
    """The same run with a third of its epochs unread: what another sample of epochs would have shown."""
    scores, by_class = channels.scores.copy(), channels.class_scores.copy()
    scores[:, part::3] = np.nan
    by_class[:, part::3] = np.nan
    return replace(channels, scores=scores, class_scores=by_class)
