"""How far a client's updates turn from its own others, beside what the other participants' do in the same epochs.

A step that flipped labels, noise or a sign made is unlike the client's other steps, in epochs in which the others'
are like theirs. A learning rate that falls, or a model that has converged, turns everybody.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.detection.channels import SKIPPED_FIRST_EPOCHS, others_quantile
from flcontrib_core.games.raw_channels import RawChannels
from flcontrib_core.vocabulary import BoolArray, EpochByClient, FloatArray, IntArray

BORROWED = 4.0
"""Observations that the spread outside counts for inside: few epochs know little of their own spread."""
CLEAREST = 50.0
"""Means are never further from zero than so many standard errors: beyond, only the spread is small."""
FEWEST_FOR_SPREAD = 3


def turns_beside_others(raw: RawChannels, epochs: IntArray) -> EpochByClient:
    """(E, m) the turn of every update from its client's others, less the median of the other participants'."""
    with np.errstate(invalid="ignore"):
        turn = -np.arctanh(np.clip(raw.own_cosine[epochs], -0.999999, 0.999999))
    return np.asarray(turn - others_quantile(turn, 0.5))


def mean_turn(turns: FloatArray, took_part: BoolArray, rows: BoolArray, explained: BoolArray) -> float:
    """The mean of one client's ``turns`` (E,) in the ``rows`` of a window, in standard errors; NaN where not known.

    ``explained``: rows that any window of the client holds; the spread outside is that of the others.
    """
    elsewhere = ~rows & ~explained & took_part
    elsewhere[:SKIPPED_FIRST_EPOCHS] = False
    inside, outside = (cells[np.isfinite(cells)] for cells in (turns[rows & took_part], turns[elsewhere]))
    if not len(inside):
        return float("nan")
    further = len(inside) - 1
    beside = float(outside.var(ddof=1)) if len(outside) >= FEWEST_FOR_SPREAD else float("nan")
    variance = float(inside.var(ddof=1)) if further else beside
    if np.isfinite(beside):
        variance = (further * variance + BORROWED * beside) / (further + BORROWED)
    if not np.isfinite(variance):
        return float("nan")
    return float(np.clip(inside.mean() / np.sqrt(max(variance, 1e-300) / len(inside)), -CLEAREST, CLEAREST))
