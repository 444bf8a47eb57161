"""Channels: comparable numbers of each participant in each epoch.

Eight named channels, turned so that *up is suspicious* and put on one scale, so that one window model can read them
all. A client is only ever compared with the other participants of the same epoch; absent and not-computed cells are
missing (NaN), never zero; epochs without participants do not exist here.

Departures from the measured design, each found on tuning runs: the peer direction (mean cosine to the others) and the
echo (closeness to an own earlier update, for repeats under a little noise) are channels of their own; the worst class
is followed class by class, so that one class suffering through a whole window counts; sizes and spreads are bent
instead of cut at the far end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from flcontrib_core.detection.facts import Unavailable
from flcontrib_core.errors import SettingsError
from flcontrib_core.games.raw_channels import RawChannels
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

VALUE = "Shapley value"
MARGIN = "solo margin"
WORST_CLASS = "worst class"
OWN_DIRECTION = "own direction"
PEER_DIRECTION = "peer direction"
SIZE = "size"
SPREAD = "spread"
ECHO = "echo"
CHANNEL_NAMES = (VALUE, MARGIN, WORST_CLASS, OWN_DIRECTION, PEER_DIRECTION, SIZE, SPREAD, ECHO)

_OF_UPDATES = frozenset((OWN_DIRECTION, PEER_DIRECTION, SIZE, SPREAD, ECHO))
_ROUNDING = 1e-5
"""Cells of a channel that differ by no more are the same number."""

SKIPPED_FIRST_EPOCHS = 2
"""The first steps of a training are unlike all others, for every client."""
MAD_TO_DEVIATION = 1.4826
CLIP = 8.0
BETWEEN = 0.5
"""Share of the participants' spread that counts as noise, beside what a client changes from one participation to the
next. The spread alone grows with the attack itself where several attack, and hides it among very different clients."""
MOST_CLASSES = 32
"""Classes that the worst-class channel follows one by one; with more it reads the largest rise of a class's loss."""


@dataclass(frozen=True)
class ChannelRecipe:
    """How one channel is put on the common scale."""

    peer_quantile: float
    """Which quantile of the *other* participants is the epoch's origin."""
    squash: bool
    """Divide by the local robust noise and take arcsinh (heavy-tailed losses), or stay in natural units."""
    smallest_deviation: float
    largest_deviation: float
    """Limits of the run-pooled deviation, so that a quiet run does not turn rounding into evidence."""
    curved_null: bool = False
    """Honest clients bend this channel over the run, so its null hypothesis may bend too."""
    soft_limit: float | None = None
    """Large scores are bent (limit·arcsinh(score/limit)) instead of cut: a cut turns an honest slope into a step."""

    def bent(self, scores: FloatArray) -> FloatArray:
        """The scores with their large ones bent; as they are where the recipe has no limit."""
        limit = self.soft_limit
        return scores if limit is None else np.asarray(limit * np.arcsinh(scores / limit))


_LOSS_LIKE = ChannelRecipe(peer_quantile=0.25, squash=True, smallest_deviation=0.7, largest_deviation=1.2)
_NATURAL = ChannelRecipe(peer_quantile=0.5, squash=False, smallest_deviation=0.1, largest_deviation=np.inf)
RECIPES: dict[str, ChannelRecipe] = {
    VALUE: _LOSS_LIKE,
    MARGIN: _LOSS_LIKE,
    WORST_CLASS: _LOSS_LIKE,
    OWN_DIRECTION: _NATURAL,
    PEER_DIRECTION: _NATURAL,
    SIZE: ChannelRecipe(0.5, False, 0.1, np.inf, curved_null=True, soft_limit=4.0),
    SPREAD: ChannelRecipe(0.5, False, 0.08, np.inf, soft_limit=4.0),
    ECHO: ChannelRecipe(0.5, False, 0.4, np.inf, soft_limit=4.0),
}


@dataclass(frozen=True)
class Channels:
    """The standardised channels of a run. E = epochs with participants, m = clients, C = len(CHANNEL_NAMES)."""

    client_ids: tuple[str, ...]
    epochs: IntArray
    """(E,) the run's epoch number of each row."""
    scores: FloatArray
    """(C, E, m) up is suspicious, about unit deviation over honest cells, 0 = the client's own usual; NaN missing."""
    extra_variance: FloatArray
    """(C, E, m) variance added by a value's standard error, in the units of ``scores``; 0 where exact."""
    class_scores: FloatArray
    """(classes, E, m) the solo margin of each class on the same scale; (0, E, m) where unknown or too many."""
    levels: FloatArray
    """(C, E, m) the same before the client's own median is taken off: how it stands among its peers."""
    harm: FloatArray
    """(E, m) the raw value, turned so that up is harm; NaN where absent or not computed."""
    participated: BoolArray
    """(E, m)"""
    unavailable: dict[str, Unavailable]
    """channel -> why this run cannot have it"""
    value_scale: float = 1.0
    """typical local scale of the raw values: one unit before arcsinh"""
    value_deviation: float = 1.0
    """run-pooled deviation of the value channel after arcsinh: one unit of ``scores``"""
    size_deviation: float = 1.0
    """run-pooled deviation of the log sizes: one unit of the size channel before it is bent"""
    values_alone: bool = False
    """Is there nothing but values, as in a table of contributions?"""

    @property
    def updates_alone(self) -> bool:
        """Are there updates, and nothing that says what they did to the model?"""
        return not (self.values_alone or self.available(VALUE) or self.available(MARGIN))

    def available(self, name: str) -> bool:
        return name not in self.unavailable

    def of(self, name: str) -> FloatArray:
        """(E, m) the standardised channel with this name."""
        return np.asarray(self.scores[CHANNEL_NAMES.index(name)])


def value_utility(history: ContributionHistory) -> str:
    """Which utility's values are read? Loss where there is one, else the first."""
    if not history.utilities:
        raise SettingsError("the history has no utility; assess the run with at least one")
    return "loss" if "loss" in history.utilities else history.utilities[0]


def values_alone(history: ContributionHistory) -> bool:
    """Does this history hold values and nothing of the updates? The one place where that is decided."""
    return history.channels is None or not np.isfinite(history.channels.norm).any()


def standardise(history: ContributionHistory, utility: str | None = None) -> Channels:
    """What does every participant show in every epoch, on one scale?

    ``utility`` names whose values fill the value channel (default: loss). Raises SettingsError for an unknown one.
    """
    name = value_utility(history) if utility is None else utility
    if name not in history.utilities:
        raise SettingsError(f"utility {name!r} is not in this history; it has {', '.join(history.utilities)}")
    epochs = 1 + np.flatnonzero(history.participated[1:].any(axis=1))
    took_part: BoolArray = history.participated[epochs]
    series = history.of(name)
    seen = took_part & series.computed[epochs]
    harm = np.where(seen, history.harm_sign(name) * series.values[epochs], np.nan)
    errors = np.where(seen, np.nan_to_num(series.standard_errors[epochs]), 0.0)
    raw, unavailable = _raw_channels(history.channels, harm, epochs, took_part)
    shape = (len(CHANNEL_NAMES), len(epochs), len(history.client_ids))
    scores, levels, extra = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape)
    value_scale = value_deviation = size_deviation = 1.0
    for c, channel in enumerate(CHANNEL_NAMES):
        if channel in unavailable:
            continue
        cells = raw[channel]
        cells[:SKIPPED_FIRST_EPOCHS] = np.nan
        scaled = _on_common_scale(cells, RECIPES[channel], errors if channel == VALUE else np.zeros_like(errors))
        scores[c], levels[c], extra[c] = scaled.scores, scaled.levels, scaled.extra_variance
        if channel == VALUE:
            value_scale, value_deviation = scaled.typical_scale, scaled.deviation
        if channel == SIZE:
            size_deviation = scaled.deviation
        if np.isnan(scores[c]).all():
            unavailable[channel] = Unavailable.NO_PEERS
        elif channel in _OF_UPDATES and np.nanmax(cells) - np.nanmin(cells) <= _ROUNDING:
            # No change could have been seen, so that none was seen must not speak for anybody.
            unavailable[channel] = Unavailable.CONSTANT
            scores[c], levels[c], extra[c] = np.nan, np.nan, 0.0
    return Channels(
        history.client_ids,
        epochs,
        scores,
        extra,
        _class_scores(history.channels, epochs, took_part),
        levels,
        harm,
        took_part,
        unavailable,
        value_scale,
        value_deviation,
        size_deviation,
        values_alone(history),
    )


def _raw_channels(
    raw: RawChannels | None, harm: FloatArray, epochs: IntArray, took_part: BoolArray
) -> tuple[dict[str, FloatArray], dict[str, Unavailable]]:
    """Each channel with up = suspicious, rows = ``epochs``; and why the others are not there."""
    channels = {VALUE: harm.copy()}
    unavailable: dict[str, Unavailable] = {}
    if np.isnan(harm).all():
        unavailable[VALUE] = Unavailable.NO_VALUES
    if raw is None:
        return channels, unavailable | {name: Unavailable.NO_UPDATES for name in CHANNEL_NAMES if name != VALUE}
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = {
            MARGIN: -raw.solo_margin,
            WORST_CLASS: raw.solo_worst_class,
            OWN_DIRECTION: -np.arctanh(np.clip(raw.own_cosine, -0.999999, 0.999999)),
            PEER_DIRECTION: -np.arctanh(np.clip(raw.peer_cosine, -0.999999, 0.999999)),
            SIZE: np.log(raw.norm),
            SPREAD: np.log(raw.spread),
        }
        if raw.closest_own_cosine is not None:
            observed[ECHO] = -np.log(1.0 - np.clip(raw.closest_own_cosine, -1.0, 0.9999))
    for name in CHANNEL_NAMES[1:]:
        cells = observed.get(name, np.full(raw.norm.shape, np.nan))
        rows = np.where(took_part & np.isfinite(cells[epochs]), cells[epochs], np.nan)
        channels[name] = rows
        if np.isnan(rows).all():
            unavailable[name] = _why_empty(name, unavailable)
    return channels, unavailable


def _why_empty(name: str, unavailable: Collection[str]) -> Unavailable:
    """Why nothing was observed of this channel, those before it being looked at."""
    if name == WORST_CLASS and MARGIN not in unavailable:
        return Unavailable.NO_GROUPS
    return Unavailable.NO_MODEL if name in (MARGIN, WORST_CLASS) else Unavailable.NOT_RECORDED


def _class_scores(raw: RawChannels | None, epochs: IntArray, took_part: BoolArray) -> FloatArray:
    """(classes, E, m) each class's margin, up is suspicious; classes without validation rows are left out."""
    nothing = np.zeros((0, *took_part.shape))
    if raw is None or not 2 <= raw.solo_class_margin.shape[2] <= MOST_CLASSES:
        return nothing
    scored = []
    for margin in np.moveaxis(raw.solo_class_margin[epochs], 2, 0):
        cells = np.where(took_part & np.isfinite(margin), -margin, np.nan)
        cells[:SKIPPED_FIRST_EPOCHS] = np.nan
        if np.isfinite(cells).any():
            scored.append(_on_common_scale(cells, RECIPES[WORST_CLASS], np.zeros_like(cells)).scores)
    return np.stack(scored) if scored else nothing


def own_direction_beside(channels: Channels, raw: RawChannels, hidden: IntArray) -> FloatArray:
    """(E, m) the own direction as ``Channels.scores`` has it, with nobody compared with these clients."""
    with np.errstate(invalid="ignore"):
        cells = -np.arctanh(np.clip(raw.own_cosine[channels.epochs], -0.999999, 0.999999))
    cells = np.where(channels.participated & np.isfinite(cells), cells, np.nan)
    cells[:SKIPPED_FIRST_EPOCHS] = np.nan
    cells[:, hidden] = np.nan
    return _on_common_scale(cells, RECIPES[OWN_DIRECTION], np.zeros_like(cells)).scores


@dataclass(frozen=True)
class _Scaled:
    """One channel on the common scale; arrays are (E, m)."""

    scores: FloatArray
    levels: FloatArray
    extra_variance: FloatArray
    typical_scale: float
    deviation: float


def _on_common_scale(cells: FloatArray, recipe: ChannelRecipe, errors: FloatArray) -> _Scaled:
    relative = cells - others_quantile(cells, recipe.peer_quantile)
    slope = np.ones_like(cells)
    scale = np.ones((len(cells), 1))
    if recipe.squash:
        spread = _pooled(np.abs(cells - _row_median(cells)))
        scale = np.hypot(BETWEEN * spread, _pooled(_steps(relative)))[:, None]
        slope = 1.0 / (scale * np.sqrt(1.0 + (relative / scale) ** 2))
        relative = np.arcsinh(relative / scale)
    centred = relative - column_median(relative)
    observed = np.abs(centred[np.isfinite(centred)])
    deviation = MAD_TO_DEVIATION * float(np.median(observed)) if observed.size else 0.0
    deviation = float(np.clip(deviation, recipe.smallest_deviation, recipe.largest_deviation))
    scores = centred / deviation
    scores = np.clip(scores, -CLIP, CLIP) if recipe.soft_limit is None else recipe.bent(scores)
    extra = np.where(np.isfinite(scores), (errors * slope / deviation) ** 2, 0.0)
    return _Scaled(scores, relative / deviation, extra, float(np.median(scale)), deviation)


def others_quantile(cells: FloatArray, quantile: float) -> FloatArray:
    """(E, m) the quantile of the *other* participants of the same epoch; NaN where there is none.

    >>> others_quantile(np.array([[1.0, 2.0, 4.0]]), 0.5)
    array([[3. , 2.5, 1.5]])
    """
    order = np.argsort(cells, axis=1)  # NaN sorts last
    ranked = np.take_along_axis(cells, order, axis=1)
    count = np.isfinite(cells).sum(axis=1, keepdims=True)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(cells.shape[1]), cells.shape), axis=1)
    position = quantile * np.maximum(count - 2, 0)
    low = np.floor(position).astype(np.int64)
    high = np.minimum(low + 1, np.maximum(count - 2, 0))
    last = cells.shape[1] - 1

    def without_self(index: IntArray) -> FloatArray:
        return np.take_along_axis(ranked, np.minimum(index + (index >= rank), last), axis=1)

    below, above = without_self(np.broadcast_to(low, cells.shape)), without_self(np.broadcast_to(high, cells.shape))
    mixed = below + (position - low) * (above - below)
    return np.where((count >= 2) & np.isfinite(cells), mixed, np.nan)


def _steps(relative: FloatArray) -> FloatArray:
    """(E, m) how far each cell is from the client's one before, as the deviation of a single one; NaN for the first."""
    rows = np.arange(len(relative))[:, None]
    latest = np.maximum.accumulate(np.where(np.isfinite(relative), rows, -1), axis=0)  # with something to see, so far
    before = np.vstack([np.full((1, relative.shape[1]), -1), latest[:-1]])
    last = np.where(before >= 0, np.take_along_axis(relative, np.maximum(before, 0), axis=0), np.nan)
    return np.asarray(np.abs(relative - last) / np.sqrt(2.0))


def _pooled(distance: FloatArray, reach: int = 4) -> FloatArray:
    """(E,) robust deviation from the participants' distances (E, m), pooled over ± ``reach`` epochs."""
    beyond = np.full((reach, distance.shape[1]), np.nan)
    near = np.lib.stride_tricks.sliding_window_view(np.vstack([beyond, distance, beyond]), 2 * reach + 1, axis=0)
    pooled = _row_median(near.reshape(len(distance), -1))[:, 0]
    scale = MAD_TO_DEVIATION * np.where(np.isnan(pooled), 0.0, pooled)
    informative = scale[scale > 0]
    typical = float(np.median(informative)) if informative.size else 1.0
    return np.maximum(scale, 0.25 * typical)


def _row_median(cells: FloatArray) -> FloatArray:
    """(E, 1) median over the finite cells of each row; NaN for an empty row."""
    return column_median(cells.T).T


def column_median(cells: FloatArray) -> FloatArray:
    """(1, m) median over the finite cells of each column; NaN for an empty column (np.nanmedian would warn)."""
    ranked = np.sort(cells, axis=0)
    count = np.isfinite(cells).sum(axis=0, keepdims=True)
    low = np.take_along_axis(ranked, np.maximum(count - 1, 0) // 2, axis=0)
    high = np.take_along_axis(ranked, np.minimum(count // 2, len(cells) - 1), axis=0)
    return np.where(count > 0, 0.5 * (low + high), np.nan)
