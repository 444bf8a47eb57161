"""Who stands apart from its peers during the *whole* run, not only in a window?

A window model cannot see a client that is harmful from the first epoch to the last: there is no outside. Such a
client is compared with its peers instead of with itself. It cannot be told from a client whose data is of low
quality, and the verdict says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.detection.channels import CHANNEL_NAMES, MARGIN, VALUE, Channels
from flcontrib_core.vocabulary import BoolArray, EpochByClient, FloatArray

LEAST_OBSERVATIONS = 6
LOW_QUANTILE = 0.3
"""Persistent means: even the client's better epochs stand above its peers."""
HARMFUL_SHARE = 0.6
OPPOSED_SHARE = 0.9
"""Share of epochs in which an update points away from the other participants' (mean cosine below zero)."""


@dataclass(frozen=True)
class Persistence:
    """How each client stands among its peers over the epochs that no window explains."""

    level: FloatArray
    """(m,) lower quantile of the peer-relative level, mean over value and solo margin; −inf = cannot say"""
    harmful_share: FloatArray
    """(m,) share of the visible computed epochs with harm above zero; NaN where none is computed"""
    mean_harm: FloatArray
    """(m,)"""
    opposed_share: FloatArray
    """(m,) share of visible epochs whose update points away from the others; NaN where unknown"""

    def harmful(self) -> BoolArray:
        """(m,) clients whose raw values are harmful in most epochs and on average."""
        return np.asarray((self.harmful_share >= HARMFUL_SHARE) & (self.mean_harm > 0))

    def opposed(self) -> BoolArray:
        return np.asarray(self.opposed_share >= OPPOSED_SHARE)


def persistence(channels: Channels, peer_cosine: EpochByClient | None, masked: BoolArray) -> Persistence:
    """Levels among peers over the unmasked epochs; ``peer_cosine`` has the rows of the run (T + 1)."""
    lows = [
        _low_quantile(np.where(masked, np.nan, channels.levels[CHANNEL_NAMES.index(name)]))
        for name in (VALUE, MARGIN)
        if channels.available(name)
    ]
    clients = len(channels.client_ids)
    level = np.mean(lows, axis=0) if lows else np.full(clients, -np.inf)
    harm = np.where(masked, np.nan, channels.harm)
    harm[:2] = np.nan
    cosine = (
        np.full(harm.shape, np.nan) if peer_cosine is None else np.where(masked, np.nan, peer_cosine[channels.epochs])
    )
    return Persistence(
        np.where(np.isnan(level), -np.inf, level), _share(harm > 0, harm), _mean(harm), _share(cosine < 0, cosine)
    )


def _low_quantile(cells: FloatArray) -> FloatArray:
    """(m,) NaN for a client with fewer than LEAST_OBSERVATIONS cells."""
    low = np.full(cells.shape[1], np.nan)
    for i in range(cells.shape[1]):
        seen = cells[np.isfinite(cells[:, i]), i]
        if len(seen) >= LEAST_OBSERVATIONS:
            low[i] = np.quantile(seen, LOW_QUANTILE)
    return low


def _share(holds: BoolArray, cells: FloatArray) -> FloatArray:
    number = np.isfinite(cells).sum(axis=0)
    return np.where(number >= LEAST_OBSERVATIONS, holds.sum(axis=0) / np.maximum(number, 1), np.nan)


def _mean(cells: FloatArray) -> FloatArray:
    number = np.isfinite(cells).sum(axis=0)
    return np.where(number > 0, np.nansum(cells, axis=0) / np.maximum(number, 1), np.nan)
