"""Clients that stand apart from their peers during the *whole* run, not only in a window.

A window model cannot see a client that is harmful from the first epoch to the last: there is no outside. Such a
client is compared with its peers instead of with itself. It cannot be told from a client whose data is of low
quality, and the verdict says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.detection.channels import (
    CHANNEL_NAMES,
    MARGIN,
    PEER_DIRECTION,
    SKIPPED_FIRST_EPOCHS,
    VALUE,
    Channels,
    column_median,
    others_quantile,
)
from flcontrib_core.games.raw_channels import RawChannels
from flcontrib_core.vocabulary import BoolArray, FloatArray

LEAST_OBSERVATIONS = 6
HARMFUL_SHARE = 0.6
SHARE_WEIGHT = 2.0
"""What the share of harmful epochs adds to the level: honest clients with a bad level are harmful only by turns."""
CLEARLY = 2.0
"""Standard errors from which a class is helped."""
MOST_CLIENTS = 1 / 3
"""Share of the clients of which, at most, it can be said that they stand apart from the others."""
OPPOSED_SHARE = 0.9
"""Share of epochs in which an update points away from the other participants' (mean cosine below zero)."""


@dataclass(frozen=True)
class Persistence:
    """How each client stands among its peers over the epochs that no window explains."""

    level: FloatArray
    """(m,) median over epochs of the peer-relative level, mean over value, solo margin and peer direction; −inf =
    cannot say"""
    harmful_share: FloatArray
    """(m,) share of the visible computed epochs with harm above zero; NaN where none is computed"""
    mean_harm: FloatArray
    """(m,)"""
    opposed_share: FloatArray
    """(m,) share of visible epochs whose update points away from the others; NaN where unknown"""

    helps_no_class: BoolArray
    """(m,) Is there no class that its steps alone help more than the usual other participant's? False = cannot say."""

    def score(self) -> FloatArray:
        """(m,) level and share of harmful epochs; −inf for clients that are not harmful mostly and on average.

        A client that holds a class nearly alone harms the others' classes and is the only one to help its own; so
        nobody is named without a look at the classes one by one.
        """
        return np.where(self.helps_no_class, self.unchecked_score(), -np.inf)

    def unchecked_score(self) -> FloatArray:
        """(m,) the same without the look at the classes: what the threshold's tail is fitted to."""
        harmful = (self.harmful_share >= HARMFUL_SHARE) & (self.mean_harm > 0)
        return np.where(harmful, self.level + SHARE_WEIGHT * np.nan_to_num(self.harmful_share), -np.inf)

    def opposed(self) -> BoolArray:
        return np.asarray(self.opposed_share >= OPPOSED_SHARE)


def persistence(channels: Channels, raw: RawChannels | None, masked: BoolArray) -> Persistence:
    """Levels among peers over the unmasked epochs; ``raw`` has the rows of the run (T + 1)."""
    medians = [
        _median(np.where(masked, np.nan, channels.levels[CHANNEL_NAMES.index(name)]))
        for name in (VALUE, MARGIN, PEER_DIRECTION)
        if channels.available(name)
    ]
    level = np.mean(medians, axis=0) if medians else np.full(len(channels.client_ids), np.nan)
    harm = np.where(masked, np.nan, channels.harm)
    harm[:SKIPPED_FIRST_EPOCHS] = np.nan
    cosine = np.full(harm.shape, np.nan) if raw is None else np.where(masked, np.nan, raw.peer_cosine[channels.epochs])
    return Persistence(
        np.where(np.isnan(level), -np.inf, level),
        _share(harm > 0, harm),
        _mean(harm),
        _share(cosine < 0, cosine),
        np.zeros(harm.shape[1], dtype=bool) if raw is None else _helps_no_class(channels, raw, masked),
    )


def _helps_no_class(channels: Channels, raw: RawChannels, masked: BoolArray) -> BoolArray:
    """(m,) every class's margin, relative to the other participants' median, is not clearly above zero."""
    known, helped = np.zeros(masked.shape[1], dtype=bool), np.zeros(masked.shape[1], dtype=bool)
    for margin in np.moveaxis(raw.solo_class_margin[channels.epochs], 2, 0):
        cells = np.where(masked | ~channels.participated, np.nan, margin)
        cells[:SKIPPED_FIRST_EPOCHS] = np.nan
        relative = cells - others_quantile(cells, 0.5)
        number = np.isfinite(relative).sum(axis=0)
        enough = number >= LEAST_OBSERVATIONS
        mean = _mean(relative)
        spread = _mean((relative - mean) ** 2)
        with np.errstate(invalid="ignore", divide="ignore"):
            helped |= enough & (mean > CLEARLY * np.sqrt(spread / np.maximum(number, 1)))
        known |= enough
    return known & ~helped


def _median(cells: FloatArray) -> FloatArray:
    """(m,) NaN for a client with fewer than LEAST_OBSERVATIONS cells."""
    enough = np.isfinite(cells).sum(axis=0) >= LEAST_OBSERVATIONS
    return np.where(enough, column_median(cells)[0], np.nan)


def _share(holds: BoolArray, cells: FloatArray) -> FloatArray:
    number = np.isfinite(cells).sum(axis=0)
    return np.where(number >= LEAST_OBSERVATIONS, holds.sum(axis=0) / np.maximum(number, 1), np.nan)


def _mean(cells: FloatArray) -> FloatArray:
    number = np.isfinite(cells).sum(axis=0)
    return np.where(number > 0, np.nansum(cells, axis=0) / np.maximum(number, 1), np.nan)
