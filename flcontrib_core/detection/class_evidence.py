"""Which classes a client's updates help more, and which less, inside a window than outside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from flcontrib_core.detection.channels import SKIPPED_FIRST_EPOCHS, others_quantile
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import FloatArray


@dataclass(frozen=True)
class ClassMargins:
    """Mean solo margin of each class, relative to the other participants' median of the same epoch."""

    classes: tuple[int, ...]
    inside: FloatArray
    """(classes,)"""
    outside: FloatArray
    """(classes,)"""

    @property
    def moves(self) -> FloatArray:
        return np.asarray(self.inside - self.outside)

    @property
    def share_up(self) -> float:
        """Part of the movement that points up: near 1/2 for a changed mix of classes, near 0 where all suffer."""
        total = float(np.abs(self.moves).sum())
        return float(self.moves[self.moves > 0].sum()) / total if total > 0 else 0.0


def class_margins(
    history: ContributionHistory, client: str, window: tuple[int, int], elsewhere: Iterable[tuple[int, int]] = ()
) -> ClassMargins | None:
    """None where the run has no per-class margins, or the client no participation on both sides of the window.

    ``elsewhere``: the client's other windows, which are not "outside" of this one.
    """
    raw = history.channels
    if raw is None or raw.solo_class_margin.shape[2] == 0:
        return None
    place = history.client_ids.index(client)
    epochs = 1 + np.flatnonzero(history.participated[1:].any(axis=1))
    inside = (epochs >= window[0]) & (epochs <= window[1])
    outside = ~inside
    outside[:SKIPPED_FIRST_EPOCHS] = False
    for first, last in elsewhere:
        outside &= (epochs < first) | (epochs > last)
    kept, within, beyond = [], [], []
    for c in range(raw.solo_class_margin.shape[2]):
        margin = raw.solo_class_margin[epochs, :, c]
        relative = (margin - others_quantile(margin, 0.5))[:, place]
        known = np.isfinite(relative)
        if (inside & known).any() and (outside & known).any():
            kept.append(c)
            within.append(relative[inside & known].mean())
            beyond.append(relative[outside & known].mean())
    return ClassMargins(tuple(kept), np.array(within), np.array(beyond)) if kept else None
