"""How small a change could have been seen, and how much sight the budget left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flcontrib_core.detection.channels import CHANNEL_NAMES, MARGIN, SKIPPED_FIRST_EPOCHS, VALUE, Channels
from flcontrib_core.detection.experts import HARM, VALUE_ONLY, score_experts
from flcontrib_core.detection.reading import Reading
from flcontrib_core.vocabulary import IntArray

WINDOW_EPOCHS = 5
SHIFTS = np.array([1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0])
MOST_CLIENTS = 3


def smallest_visible_shift(reading: Reading, quiet: IntArray) -> float | None:
    """Harm per epoch over five participations that would have alerted, median over ``quiet`` clients (no finding).

    A shift is planted into the middle of each client's own series (value and solo margin alike) and the harm expert is
    asked; the smallest one that alerts is turned back into the value's units. None where even the largest stays
    unseen.
    """
    channels = reading.channels
    expert = VALUE_ONLY if channels.values_alone else HARM
    rows = [np.flatnonzero(np.isfinite(channels.of(VALUE)[:, i])) for i in quiet]
    usable = [(i, r) for i, r in zip(quiet, rows, strict=True) if len(r) >= WINDOW_EPOCHS + 2][:MOST_CLIENTS]
    if not usable or not channels.available(VALUE):
        return None
    columns = np.repeat([i for i, _ in usable], len(SHIFTS))
    scores = channels.scores[:, :, columns].copy()
    for position, (_, seen) in enumerate(usable):
        middle = len(seen) // 2
        planted = seen[max(0, middle - WINDOW_EPOCHS // 2) :][:WINDOW_EPOCHS]
        block = slice(position * len(SHIFTS), (position + 1) * len(SHIFTS))
        for name in (VALUE, MARGIN):
            scores[CHANNEL_NAMES.index(name), planted, block] += SHIFTS
    tried = replace(
        channels,
        client_ids=tuple(str(c) for c in range(len(columns))),
        scores=scores,
        extra_variance=channels.extra_variance[:, :, columns],
        class_scores=channels.class_scores[:, :, columns],
        harm=np.full((len(channels.epochs), len(columns)), np.nan),  # a planted shift is harmful by construction
    )
    scored = score_experts(tried, (expert,), reading.model)[0]
    u = reading.calibration.thresholds[expert.name].excess(scored.score, reading.client_count)
    seen_at = (u > reading.threshold).reshape(len(usable), len(SHIFTS))
    smallest = np.where(seen_at.any(axis=1), SHIFTS[np.argmax(seen_at, axis=1)], np.inf)
    shift = float(np.median(smallest))
    if not np.isfinite(shift):
        return None
    return float(channels.value_scale * np.sinh(shift * channels.value_deviation))


def value_coverage(channels: Channels) -> float | None:
    """Share of the participations that are read whose value was computed: the sight the budget left."""
    read = channels.participated[SKIPPED_FIRST_EPOCHS:]
    if not read.any():
        return None
    return float(np.isfinite(channels.harm[SKIPPED_FIRST_EPOCHS:])[read].mean())
