"""Clients that contribute nothing of their own: copies of the last global step, noise, or next to nothing.

Three observations, each against the other participants of the same epoch, so that a federation in which everybody is
alike (one large batch, converged, compressed, private) tells nobody apart. A free rider harms nobody, so harm is not
asked for; a client whose updates measurably help is never named for noise or for small updates.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from flcontrib_core.detection.calibration import Calibration, Threshold
from flcontrib_core.detection.channels import SKIPPED_FIRST_EPOCHS, others_quantile
from flcontrib_core.detection.reasons import CopiesLastStep, IdleFact, TinyUpdates, WithoutDirection
from flcontrib_core.detection.stretches import Stretch, stretches
from flcontrib_core.games.raw_channels import RawChannels
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import BoolArray, FloatArray

CLOSER, CLOSEST = 1.5, 4.0
"""A copy is e^1.5 times closer to the last step than all others but one; more than e^4 counts as e^4."""
LEAST_COPY_COSINE = 0.95
CLOSER_THAN_OWN = 0.5
"""A copy is closer to the last global step than to any own update: who dominates the mean is close to both."""
WEAKER, WEAKEST = 1.5, 3.0
"""Without direction: the cosine to the own other updates is e^1.5 times smaller than usual, or more."""
NO_COSINE = 0.01
"""Cosines below this are those of noise."""
OWN_COSINE = 0.03
"""Median cosine to the own other updates from which they have a direction: privacy noise leaves a rest of it."""
PEER_SHARE, LEAST_PEER_COSINE = 0.25, 0.05
"""… and the cosine to the others is below a quarter of the usual, or .05."""
SMALLER, SMALLEST = 3.4, 6.0
"""Tiny: shorter than a thirtieth of the usual participant's."""
LOUD = 0.9
"""Noise e^.9 times as long as the usual update is no disguise; privacy noise is that loud. Its harm is asked for."""
FADED = 1.7
"""A client that has learned its rows by heart fades: its updates are small already before the stretch, or the stretch
goes on to its last participation."""
RESEMBLES = 0.5
"""Share of the others' usual closest cosine to an own earlier update from which updates have a direction: after a
change of data an honest client's point away from its old ones and are like each other; noise is like nothing."""
TEST = 3.0
"""Standard errors from which a direction or a help is measured."""
NEGLIGIBLE_HELP = 0.05
"""Share of the others' usual help below which a help is nothing."""


class IdleKind(StrEnum):
    """In which way a client contributes nothing; also the name of its threshold."""

    COPIED_STEP = "copied step"
    NO_DIRECTION = "no direction"
    TINY = "tiny"


LEAST_IDLE = {
    IdleKind.COPIED_STEP: Threshold(3.0, CLOSEST - CLOSER),
    IdleKind.NO_DIRECTION: Threshold(4.0, WEAKEST - WEAKER),
    IdleKind.TINY: Threshold(3.0, SMALLEST - SMALLER),
}
"""More than one participation (without direction: more than two) at full strength; u counts such participations."""


@dataclass(frozen=True)
class IdleFinding:
    """One stretch in which a client contributed nothing of its own."""

    client: int
    kind: IdleKind
    epochs: tuple[int, ...]
    score: float
    """the stretch's total, to be read against its threshold"""
    u: float
    fact: IdleFact


def find_idle(history: ContributionHistory, calibration: Calibration, threshold: float) -> tuple[IdleFinding, ...]:
    """Every stretch above the threshold, at most one kind for the same epochs of a client."""
    raw = history.channels
    if raw is None:
        return ()
    found: list[IdleFinding] = []
    for kind, excess in idle_excess(history).items():
        limit = calibration.thresholds[kind.value]
        for stretch in stretches(excess, limit.level + threshold * limit.scale):
            if not _excused(kind, raw, history.participated, stretch) and not _told(found, stretch):
                u = (stretch.total - limit.level) / limit.scale
                fact = _fact(kind, raw, stretch)
                found.append(IdleFinding(stretch.client, kind, stretch.epochs, stretch.total, u, fact))
    return tuple(found)


def idle_excess(history: ContributionHistory) -> dict[IdleKind, FloatArray]:
    """kind -> (T + 1, m) by how much each participation is beyond the kind's limit; NaN where it cannot say."""
    raw = history.channels
    assert raw is not None
    cells = {
        IdleKind.COPIED_STEP: _copied(raw),
        IdleKind.NO_DIRECTION: _without_direction(raw),
        IdleKind.TINY: _tiny(raw),
    }
    unread = np.ones(len(history.participated), dtype=bool)
    unread[1 + np.flatnonzero(history.participated[1:].any(axis=1))[SKIPPED_FIRST_EPOCHS:]] = False
    for excess in cells.values():
        excess[unread] = np.nan
        excess[~history.participated] = np.nan
    return cells


def idle_maxima(history: ContributionHistory) -> dict[IdleKind, float]:
    """kind -> the largest total of any client that nothing excuses: what the thresholds are fitted to."""
    raw = history.channels
    if raw is None:
        return dict.fromkeys(IdleKind, 0.0)
    return {
        kind: max(
            (s.total for s in stretches(excess, 0.0) if not _excused(kind, raw, history.participated, s)), default=0.0
        )
        for kind, excess in idle_excess(history).items()
    }


def _copied(raw: RawChannels) -> FloatArray:
    distance = np.maximum(1.0 - raw.last_step_cosine, 1e-4)
    closer = -np.log(distance)
    excess = np.clip(closer - _second_of_others(closer), -3.0, CLOSEST) - CLOSER
    ordinary = raw.last_step_cosine < LEAST_COPY_COSINE
    if raw.closest_own_cosine is not None:
        ordinary |= distance > CLOSER_THAN_OWN * np.maximum(1.0 - raw.closest_own_cosine, 0.0)
    return np.where(ordinary & np.isfinite(excess), np.minimum(excess, -1.0), excess)


def _second_of_others(cells: FloatArray) -> FloatArray:
    """(T + 1, m) the second largest among the *other* participants of the epoch; NaN where there is none.

    Not their median: where participants pull two ways, half of them point away from any step. Not the largest: two
    free riders would hide one another.
    """
    known = np.where(np.isfinite(cells), cells, -np.inf)
    ranked = -np.sort(-np.pad(known, ((0, 0), (0, 3)), constant_values=-np.inf), axis=1)
    second = np.where(known >= ranked[:, 1:2], ranked[:, 2:3], ranked[:, 1:2])
    return np.where(np.isfinite(second) & np.isfinite(cells), second, np.nan)


def _without_direction(raw: RawChannels) -> FloatArray:
    own, peer = np.abs(raw.own_cosine), np.abs(raw.peer_cosine)
    usual = np.maximum(others_quantile(raw.own_cosine, 0.5), NO_COSINE)
    excess = np.clip(np.log(usual / np.maximum(own, NO_COSINE)), -3.0, WEAKEST) - WEAKER
    small = np.maximum(PEER_SHARE * np.abs(others_quantile(raw.peer_cosine, 0.5)), LEAST_PEER_COSINE)
    return np.where(~(peer <= small) & np.isfinite(excess), np.minimum(excess, -1.0), excess)


def _tiny(raw: RawChannels) -> FloatArray:
    size = _log_size(raw)
    return np.asarray(np.clip(others_quantile(size, 0.5) - size, -1.0, SMALLEST) - SMALLER)


def _log_size(raw: RawChannels) -> FloatArray:
    with np.errstate(divide="ignore"):
        size = np.log(raw.norm)
    return np.where(np.isfinite(size), size, np.nan)


def _excused(kind: IdleKind, raw: RawChannels, participated: BoolArray, stretch: Stretch) -> bool:
    """Is the stretch ordinary all the same: a direction or a help is measured, or the client only fades?"""
    rows, i = list(stretch.epochs), stretch.client
    if kind is IdleKind.COPIED_STEP:
        return False
    if _helps(raw, rows, i):
        return True
    size = _log_size(raw)
    smaller = (others_quantile(size, 0.5) - size)[:, i]
    if kind is IdleKind.NO_DIRECTION:
        peer, own = raw.peer_cosine[rows, i], raw.own_cosine[rows, i]
        directed = float(np.mean(peer)) > NO_COSINE and _standard_errors(peer) > TEST
        directed |= float(np.median(own)) > OWN_COSINE and _standard_errors(own) > TEST
        return directed or _resembles_itself(raw, rows, i) or float(np.nanmedian(smaller[rows])) < -LOUD
    took_part = np.flatnonzero(participated[:, i] & np.isfinite(smaller))
    before, after = took_part[took_part < rows[0]], took_part[took_part > rows[-1]]
    fades_out = bool(len(before)) and not len(after)
    return fades_out or bool((smaller[before[-1:]] > FADED).any())


def _resembles_itself(raw: RawChannels, rows: list[int], client: int) -> bool:
    """Are the stretch's updates, from the second on, like an earlier one, about as much as the others' are?"""
    if raw.closest_own_cosine is None:
        return False
    own = raw.closest_own_cosine[rows[1:], client]
    usual = others_quantile(raw.closest_own_cosine, 0.5)[rows[1:], client]
    known = np.isfinite(own) & np.isfinite(usual)
    return bool(known.any()) and float(np.median(own[known])) > RESEMBLES * float(np.median(usual[known]))


def _helps(raw: RawChannels, rows: list[int], client: int) -> bool:
    """Does its own step alone lower the validation loss, measurably and by more than next to nothing?"""
    loss = raw.solo_loss[rows]
    own = -loss[:, client]
    known = np.isfinite(own)
    if known.sum() < 2:
        return False
    others = -others_quantile(loss, 0.5)[known, client]
    usual = float(np.nanmean(np.abs(others))) if np.isfinite(others).any() else 0.0
    return _standard_errors(own[known]) > TEST and float(own[known].mean()) > NEGLIGIBLE_HELP * usual


def _standard_errors(values: FloatArray) -> float:
    """The mean in units of its standard error; 0 for fewer than two values."""
    seen = values[np.isfinite(values)]
    if len(seen) < 2:
        return 0.0
    error = float(seen.std(ddof=1)) / np.sqrt(len(seen))
    return float(seen.mean()) / error if error > 0 else 0.0


def _told(found: list[IdleFinding], stretch: Stretch) -> bool:
    """Does an earlier kind explain most of these epochs already?"""
    mine = set(stretch.epochs)
    return any(f.client == stretch.client and 2 * len(mine & set(f.epochs)) > len(mine) for f in found)


def _fact(kind: IdleKind, raw: RawChannels, stretch: Stretch) -> IdleFact:
    rows, i = list(stretch.epochs), stretch.client

    def typical(cells: FloatArray) -> tuple[float, float]:
        """Median over the stretch of the client's, and of the usual other participant's."""
        return float(np.nanmedian(cells[rows, i])), float(np.nanmedian(others_quantile(cells, 0.5)[rows, i]))

    match kind:
        case IdleKind.COPIED_STEP:
            return CopiesLastStep(stretch.epochs, *typical(raw.last_step_cosine))
        case IdleKind.NO_DIRECTION:
            return WithoutDirection(stretch.epochs, *typical(raw.own_cosine), *typical(raw.peer_cosine))
        case IdleKind.TINY:
            own, others = typical(_log_size(raw))
            return TinyUpdates(stretch.epochs, float(np.exp(own - others)))
