"""Clients whose updates are too alike: far closer to one another than participants of the same epoch usually are.

Crafted attacks sit near the mean, where nothing else looks; their vectors give them away by being one vector. A copy of
another client looks the same, and the client that was copied did nothing. Who changed is told by the own direction: an
honest client's updates resemble its own others, whoever copies them; a copier's, inside, do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from flcontrib_core.detection.calibration import Calibration, Threshold
from flcontrib_core.detection.channels import (
    MARGIN,
    OWN_DIRECTION,
    SIZE,
    SPREAD,
    Channels,
    others_quantile,
    own_direction_beside,
)
from flcontrib_core.detection.search import channel_evidence
from flcontrib_core.detection.stretches import Stretch, stretches
from flcontrib_core.detection.windows import WindowModel
from flcontrib_core.games.raw_channels import RawChannels
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

CLOSER, CLOSEST = 4.0, 6.0
"""Alike is e^4 times closer to another participant than is usual in the epoch; more than e^6 counts as e^6."""
NEAREST = 1e-6
"""1 − cosine below which two updates are one, up to rounding."""
FEWEST_MEETINGS = 2
CHANGED, CLEARLY_TURNED = 1.25, 3.0
"""Shift of the own direction, in deviations, from which a client is no longer itself, and from which that is sure."""
STEP_CHANGED = 3.0
"""log Bayes factor from which the margin, size or spread of its own steps says the same."""
THROUGHOUT = 0.8
"""Share of its meetings with the others from which a client is alike all the time: there is no self to compare with."""
DEPARTS = 1.8
"""Factor by which one of two that are alike must depart more from its own rest to be the one that copied."""
CLEARLY = 2.0
"""Standard errors from which a step is worse than anybody's."""
ALIKE = "alike"
"""Name of the threshold."""
LEAST_ALIKE = Threshold(3.5, CLOSEST - CLOSER)
"""More than one participation at full strength; u counts such participations."""


class AlikeRole(StrEnum):
    """What can be told of a member of a group."""

    CHANGED = "changed"
    """Not itself while it is alike."""
    THROUGHOUT = "throughout"
    """Alike whenever it meets the others: of a group, or of a pair whose steps are worse than anybody's."""
    ITSELF = "itself"
    """As ever: it was copied, or nothing can be told."""


@dataclass(frozen=True)
class AlikeFinding:
    """One stretch in which a client's updates were those of others."""

    client: int
    epochs: tuple[int, ...]
    """the epochs in which it met one of the others"""
    others: tuple[int, ...]
    role: AlikeRole
    others_themselves: bool
    """Are the others as ever all the while, so that they were copied?"""
    cosine: float
    """median over the stretch, to the closest other"""
    usual_cosine: float
    score: float
    u: float


def find_alike(
    history: ContributionHistory, channels: Channels, calibration: Calibration, threshold: float
) -> tuple[AlikeFinding, ...]:
    """Every member of every group, also those that are themselves; empty where twins were not recorded."""
    likeness = alike_excess(history)
    if likeness is None:
        return ()
    excess, closest = likeness
    limit = calibration.thresholds[ALIKE]
    found = stretches(excess, limit.level + threshold * limit.scale)
    partners = _partners(excess, closest)
    assert history.channels is not None
    roles = {s: _role(s, excess, channels, history.channels, partners) for s in found}
    roles = {s: _by_departure(s, role, history, channels, excess, partners) for s, role in roles.items()}
    return tuple(_finding(history, s, roles, closest, (s.total - limit.level) / limit.scale) for s in found)


def alike_excess(history: ContributionHistory) -> tuple[FloatArray, IntArray] | None:
    """(T + 1, m) by how much each participation is closer to another than the limit, NaN where nobody that it was ever
    alike with takes part; and (T + 1, m) the position of the closest, −1 where there is none.
    """
    raw = history.channels
    if raw is None or raw.twin_cosine is None or raw.twin_of is None:
        return None
    took_part = history.participated
    closeness = -np.log(np.maximum(1.0 - raw.twin_cosine, NEAREST))
    excess = np.clip(closeness - others_quantile(closeness, 0.5), 0.0, CLOSEST) - CLOSER
    excess = np.where(_bit_equal(raw, took_part), CLOSEST - CLOSER, excess)
    closest = np.where(np.isfinite(excess), raw.twin_of - 1, -1)
    met = np.full(excess.shape, np.nan)
    for i in np.flatnonzero((excess > 0).sum(axis=0) >= FEWEST_MEETINGS):
        partners = np.unique(closest[excess[:, i] > 0, i])
        together = took_part[:, i] & took_part[:, partners].any(axis=1)
        met[together, i] = excess[together, i]
    return met, closest


def _bit_equal(raw: RawChannels, took_part: BoolArray) -> BoolArray:
    """(T + 1, m) updates that another participant sent bit for bit: alike, whatever is usual in the epoch.

    A group that is less than half of the clients is most of the participants now and then, and would then look usual
    itself. Nobody where more than half of the clients send such updates: then the federation is made so.
    """
    equal = (raw.copy_of > 0) & took_part
    some = 0 < 2 * equal.any(axis=0).sum() <= took_part.any(axis=0).sum()
    return equal if some else np.zeros_like(equal)


def alike_maximum(history: ContributionHistory) -> float:
    """The largest total of any client: what the threshold is fitted to."""
    likeness = alike_excess(history)
    return 0.0 if likeness is None else max((s.total for s in stretches(likeness[0], 0.0)), default=0.0)


def _partners(excess: FloatArray, closest: IntArray) -> dict[int, set[int]]:
    """client -> those it was ever alike with"""
    alike = excess > 0
    return {int(i): set(closest[alike[:, i], i].tolist()) for i in np.flatnonzero(alike.any(axis=0))}


def _role(
    stretch: Stretch, excess: FloatArray, channels: Channels, raw: RawChannels, partners: dict[int, set[int]]
) -> AlikeRole:
    i = stretch.client
    meetings = np.isfinite(excess[:, i])
    alike = excess[:, i] > 0
    if alike[meetings].mean() >= THROUGHOUT:
        circle = {i} | partners[i]
        # whoever is alike with others too, by turns, copies them: then this one is only one of those it copied
        copied = all(partners.get(p, set()) - circle for p in partners[i])
        # of two that are alike all through, one may be honest and copied, unless no honest step is as bad
        pair = len(circle) == 2 and not _worse_than_anybody(raw, circle, i, alike)
        return AlikeRole.ITSELF if copied or pair else AlikeRole.THROUGHOUT
    if not channels.available(OWN_DIRECTION):
        return AlikeRole.ITSELF
    turn = _turn(channels, raw, i, partners[i], alike)
    if turn is None:
        return AlikeRole.THROUGHOUT
    return AlikeRole.CHANGED if turn > CHANGED or _step_changed(channels, i, alike, STEP_CHANGED) else AlikeRole.ITSELF


def _turn(channels: Channels, raw: RawChannels, client: int, partners: set[int], alike: BoolArray) -> float | None:
    """Shift of the own direction inside, in deviations; None where there is no outside.

    Beside the participants that it was never alike with: a group that turned as one would hide the turn of each.
    """
    rows = alike[channels.epochs]
    own = own_direction_beside(channels, raw, np.array(sorted(partners - {client})))[:, client]
    if not np.isfinite(own[rows]).any():  # nobody else took part
        own = channels.of(OWN_DIRECTION)[:, client]
    inside, outside = own[rows], own[~rows]
    inside, outside = inside[np.isfinite(inside)], outside[np.isfinite(outside)]
    return float(inside.mean() - np.median(outside)) if len(inside) and len(outside) >= 2 else None


def _by_departure(
    stretch: Stretch,
    role: AlikeRole,
    history: ContributionHistory,
    channels: Channels,
    excess: FloatArray,
    partners: dict[int, set[int]],
) -> AlikeRole:
    """The role once more, by what the members' steps did apart from the stretch: those of the copied one did the same.

    Who departs clearly more than those it is alike with copied them, also where most of its updates are copies and so
    its direction looks steady. Who departs clearly less, turned little and whose steps did not change was copied.
    """
    i = stretch.client
    alike = excess[:, i] > 0
    own = _departure(history, i, alike)
    theirs = [d for p in partners[i] if (d := _departure(history, p, alike)) is not None]
    if own is None or not theirs or role is AlikeRole.THROUGHOUT:
        return role
    if role is AlikeRole.ITSELF:
        return AlikeRole.CHANGED if own > DEPARTS * max(theirs) else role
    assert history.channels is not None
    turn = _turn(channels, history.channels, i, partners[i], alike)
    turned = (turn or 0.0) > CLEARLY_TURNED or _step_changed(channels, i, alike, 0.0)
    return AlikeRole.ITSELF if not turned and DEPARTS * own < float(np.median(theirs)) else role


def _departure(history: ContributionHistory, client: int, alike: BoolArray) -> float | None:
    """How far the effects of a client's steps on the classes, their length and their spread lie from those inside.

    In deviations over the run's participations. None where the classes or one of the sides is not known.
    """
    raw = history.channels
    assert raw is not None
    took_part = history.participated[:, client]
    inside, outside = took_part & alike, took_part & ~alike
    if inside.sum() < 1 or outside.sum() < 2 or not raw.solo_class_margin.shape[2]:
        return None
    with np.errstate(divide="ignore"):
        seen = np.concatenate(
            [raw.solo_class_margin, np.log(raw.norm)[..., None], np.log(raw.spread)[..., None]], axis=2
        )
    cells = np.where(np.isfinite(seen), seen, np.nan)[history.participated]
    known = np.isfinite(cells).all(axis=0)
    deviation = np.maximum(cells[:, known].std(axis=0), 1e-12)
    moved = (seen[inside, client].mean(axis=0) - seen[outside, client].mean(axis=0))[known] / deviation
    return float(np.sqrt((moved**2).mean())) if known.any() and np.isfinite(moved).all() else None


def _worse_than_anybody(raw: RawChannels, pair: set[int], client: int, alike: BoolArray) -> bool:
    """Is the margin of its own step alone clearly below that of every participant outside the pair?"""
    outside = np.delete(raw.solo_margin[alike], sorted(pair), axis=1)
    lowest = np.where(np.isfinite(outside), outside, np.inf).min(axis=1, initial=np.inf)
    below = lowest - raw.solo_margin[alike, client]
    seen = below[np.isfinite(below)]
    if len(seen) < FEWEST_MEETINGS:
        return False
    return bool(seen.mean() > CLEARLY * seen.std(ddof=1) / np.sqrt(len(seen)))


def _step_changed(channels: Channels, client: int, alike: BoolArray, limit: float) -> bool:
    """Did length, spread or effect of the client's own step change inside? Being copied changes none of them."""
    rows = np.flatnonzero(alike[channels.epochs])
    evidence = channel_evidence(channels, client, int(rows[0]), int(rows[-1]), WindowModel())
    return any((evidence[name] or 0.0) > limit for name in (MARGIN, SIZE, SPREAD))


def _finding(
    history: ContributionHistory, stretch: Stretch, roles: dict[Stretch, AlikeRole], closest: IntArray, u: float
) -> AlikeFinding:
    raw = history.channels
    assert raw is not None
    assert raw.twin_cosine is not None
    rows, i = list(stretch.epochs), stretch.client
    partners = set(closest[rows, i].tolist()) | {
        s.client for s in roles if s.client != i and (closest[list(s.epochs), s.client] == i).any()
    }
    partners -= {-1, i}
    role_of = {s.client: role for s, role in roles.items() if set(s.epochs) & set(stretch.epochs)}
    themselves = [p for p in partners if role_of.get(p, AlikeRole.ITSELF) is AlikeRole.ITSELF]
    return AlikeFinding(
        client=i,
        epochs=stretch.epochs,
        others=tuple(sorted(partners)),
        role=roles[stretch],
        others_themselves=len(themselves) == len(partners),
        cosine=float(np.nanmedian(raw.twin_cosine[rows, i])),
        usual_cosine=float(np.nanmedian(others_quantile(raw.twin_cosine, 0.5)[rows, i])),
        score=stretch.total,
        u=u,
    )
