"""Exact checks: updates that are zero, repeated, copied or beyond all measure. Facts about the file, not estimates.

Raw cosine near-duplicates are *not* used: most honest runs with skewed data exceed .99.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.detection.reasons import (
    CopiedClient,
    CopiedLastGlobalStep,
    DivergingUpdates,
    ExactFact,
    RepeatedOwnUpdates,
    ZeroUpdates,
)
from flcontrib_core.games.raw_channels import RawChannels
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.tagged import Others
from flcontrib_core.vocabulary import BoolArray, FloatArray

ZERO_SHARE = 1e-6
"""A norm below this share of the epoch's median norm counts as zero.

Departure: the measured rule says 1 %. Honest clients that train with Adam and have learned their rows by heart fall
below that in late epochs; nobody but a free rider sends nothing at all."""
FADING_SHARE = 0.05
SIGN_LIKE_SPREAD = 0.5
"""Spread above which all parameters move by about the same amount, as few steps of Adam make them (± its rate). Honest
clients repeat such updates by chance (equal signs): there only a repeat bit for bit counts."""
STEADY_COSINE = 0.9998
"""Where the usual update of the others is as close as this to one of their own earlier ones, training hardly changes
from epoch to epoch, and a near repeat tells nothing."""
NEIGHBOURS = 6
"""A client's participations around a near repeat by which it is told whether its own training stands still."""
FEW_COORDINATES = 50
"""An update that lives on fewer parameters than this points along the last step by chance now and then; such a copy
must be seen twice in a row."""
COPY_COSINE = 0.997
COPY_AHEAD_OF_PEERS = 0.2
"""A copy of the last global step is this much closer to it than all other participants of the epoch but one."""


@dataclass(frozen=True)
class ExactFinding:
    """One stretch of epochs in which a client's updates were zero, repeated, copied or made the model diverge."""

    client: int
    fact: ExactFact

    @property
    def epochs(self) -> tuple[int, ...]:
        """The epochs concerned, ascending; no participation of the client between them is left out."""
        return self.fact.epochs


def find_exact(history: ContributionHistory) -> tuple[ExactFinding, ...]:
    """Zero or diverging updates, repeats of an own one, copies of the last global step or of another participant."""
    raw = history.channels
    if raw is None:
        return ()
    zero = _zero(raw.norm, history.participated)
    repeat = _true_repeats(raw, history.participated) & ~zero
    same_as_other = (raw.copy_of > 0) & history.participated & ~zero & ~repeat
    last_step = _copies_last_step(raw, history.participated) & ~zero & ~repeat & ~same_as_other
    diverging = _diverging(raw.solo_loss, raw.norm)
    findings: list[ExactFinding] = []
    for i in range(len(history.client_ids)):
        for epochs in _stretches(diverging[:, i], history.participated[:, i]):
            findings.append(ExactFinding(i, DivergingUpdates(epochs)))
        for epochs in _stretches(zero[:, i], history.participated[:, i]):
            findings.append(ExactFinding(i, ZeroUpdates(epochs)))
        for epochs in _stretches(repeat[:, i], history.participated[:, i]):
            sources = tuple(sorted({int(raw.repeat_of[t, i]) for t in epochs}))
            findings.append(ExactFinding(i, RepeatedOwnUpdates(epochs, sources)))
        for epochs in _stretches(last_step[:, i], history.participated[:, i]):
            least = min(float(raw.last_step_cosine[t, i]) for t in epochs)
            findings.append(ExactFinding(i, CopiedLastGlobalStep(epochs, least)))
        for epochs in _stretches(same_as_other[:, i], history.participated[:, i]):
            others = sorted({history.client_ids[int(raw.copy_of[t, i]) - 1] for t in epochs})
            findings.append(ExactFinding(i, CopiedClient(epochs, Others.named(others))))
    return tuple(findings)


def _diverging(solo_loss: FloatArray, norm: FloatArray) -> BoolArray:
    """(T + 1, m) updates after which the model alone has no finite loss, in epochs where another's leaves it one."""
    observed = np.isfinite(norm)
    lost = observed & ~np.isfinite(solo_loss)
    return np.asarray(lost & (observed & ~lost).any(axis=1, keepdims=True))


def _zero(norm: FloatArray, participated: BoolArray) -> BoolArray:
    """(T + 1, m) norms of nothing; an epoch in which every update is zero tells nobody apart.

    A client whose rows are learned by heart has no gradient left: its updates *fade* to zero. Where the participation
    next to a stretch of zeros is small already, the zeros are not a finding.
    """
    zero = np.zeros(norm.shape, dtype=bool)
    fading = np.zeros(norm.shape, dtype=bool)
    for t in range(1, len(norm)):
        members = participated[t] & np.isfinite(norm[t])
        if members.any():
            usual = float(np.median(norm[t, members]))
            zero[t, members] = (norm[t, members] <= ZERO_SHARE * usual) & (usual > 0)
            fading[t, members] = norm[t, members] < FADING_SHARE * usual
    for i in np.flatnonzero(zero.any(axis=0)):
        epochs = np.flatnonzero(participated[:, i])
        for stretch in _stretches(zero[:, i], participated[:, i]):
            first, last = np.searchsorted(epochs, [stretch[0], stretch[-1]])
            beside = [*epochs[max(0, first - 1) : first], *epochs[last + 1 : last + 2]]
            if fading[beside, i].any():
                zero[list(stretch), i] = False
    return zero


def _true_repeats(raw: RawChannels, participated: BoolArray) -> BoolArray:
    """(T + 1, m) repeats, without near ones that honest training produces: sign-like updates, a model at rest.

    Updates with a few magnitudes only were left out before (``games.sketches.few_valued``). An epoch in which more than
    half of the participants repeat themselves tells nobody apart: they were sent an old model to train.
    """
    repeats: BoolArray = (raw.repeat_of > 0) & participated
    repeats &= 2 * repeats.sum(axis=1, keepdims=True) <= participated.sum(axis=1, keepdims=True)
    near = repeats if raw.repeat_bit_equal is None else repeats & ~raw.repeat_bit_equal
    explained = np.nan_to_num(raw.spread) > SIGN_LIKE_SPREAD
    if raw.closest_own_cosine is not None:
        for i in np.flatnonzero(near.any(axis=0)):
            others = np.delete(raw.closest_own_cosine, i, axis=1)
            others = others[np.isfinite(others)]
            explained[:, i] |= bool(len(others)) and float(np.median(others)) >= STEADY_COSINE
            explained[:, i] |= _steady(raw.closest_own_cosine[:, i], repeats[:, i])
    return repeats & ~(near & explained)


def _steady(closest_own: FloatArray, repeats: BoolArray) -> BoolArray:
    """(T + 1,) epochs around which the client's updates that are no repeats are nearly earlier ones all the same: it
    trains without chance on a model that hardly moves any more."""
    others = np.flatnonzero(np.isfinite(closest_own) & ~repeats)
    steady = np.zeros(len(closest_own), dtype=bool)
    for t in np.flatnonzero(repeats) if len(others) else ():
        near = others[np.argsort(np.abs(others - t), kind="stable")[:NEIGHBOURS]]
        steady[t] = float(np.median(closest_own[near])) >= STEADY_COSINE
    return steady


def _copies_last_step(raw: RawChannels, participated: BoolArray) -> BoolArray:
    """(T + 1, m) cosine to the last global step above .997, and far closer to it than the others are.

    Departure: the measured rule is the first half. The second protects honest clients whose updates all point along
    the last step (large batches, small learning rate): there the others are as close. Nor is it a copy where the
    client is as close to an own earlier update: then that one was most of the last step (the others sent nothing).
    """
    cosine = raw.last_step_cosine
    close = np.zeros(cosine.shape, dtype=bool)
    for t in range(2, len(cosine)):
        members = np.flatnonzero(participated[t] & np.isfinite(cosine[t]))
        for i in members[cosine[t, members] > COPY_COSINE]:
            others = cosine[t, members[members != i]]
            typical = 1.0 - float(np.sort(others)[-2:][0]) if len(others) else 0.0
            close[t, i] = 1.0 - cosine[t, i] < COPY_AHEAD_OF_PEERS * typical
    if raw.closest_own_cosine is not None:
        own = np.where(np.isfinite(raw.closest_own_cosine), raw.closest_own_cosine, -1.0)
        with np.errstate(invalid="ignore"):
            close &= cosine > own
    sparse = np.nan_to_num(raw.spread) * raw.sketch_dimensions < FEW_COORDINATES
    for i in np.flatnonzero((close & sparse).any(axis=0)):
        for stretch in _stretches(close[:, i], participated[:, i]):
            if len(stretch) == 1:
                close[stretch[0], i] &= ~sparse[stretch[0], i]
    return close


def _stretches(marked: BoolArray, took_part: BoolArray) -> list[tuple[int, ...]]:
    """Runs of epochs with the finding, in the sequence of the client's own participations."""
    runs: list[tuple[int, ...]] = []
    current: list[int] = []
    for t in np.flatnonzero(took_part):
        if marked[t]:
            current.append(int(t))
        elif current:
            runs.append(tuple(current))
            current = []
    if current:
        runs.append(tuple(current))
    return runs
