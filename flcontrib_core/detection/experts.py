"""Experts: combinations of channels that speak for the same window, and how strongly they do.

An expert is a tempered sum of the channels' log Bayes factors over the *same* window: honest fluctuations of
different channels do not line up in time, an attack's do. Its score S is the log of the mean over all windows of
exp(sum); its window is the one with the largest sum. Thresholds and scales come from the calibration, never from here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from flcontrib_core.detection.channels import (
    CHANNEL_NAMES,
    ECHO,
    MARGIN,
    OWN_DIRECTION,
    PEER_DIRECTION,
    RECIPES,
    SIZE,
    SKIPPED_FIRST_EPOCHS,
    SPREAD,
    VALUE,
    WORST_CLASS,
    Channels,
)
from flcontrib_core.detection.windows import (
    SeriesSums,
    WindowGrid,
    WindowModel,
    mean_inside,
    number_inside,
    window_grid,
)
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

CELLS_AT_ONCE = 400_000
"""Windows × channels × clients that are judged together: few enough to stay near the processor."""
LEAST_WEIGHT = 0.45
"""An expert that has lost more than this share of its weight to missing channels gives no verdict."""


SIZE_JUMP = "size jump"
"""Not a channel of its own: the size channel against a null that does not bend, for changes of JUMP_FACTOR and more.
Honest sizes bend slowly over a run, but not by such a factor."""
JUMP_FACTOR = 3.0
CONCENTRATION = "concentration"
"""Not a channel of its own either: the spread turned round. A trigger's few columns and its one label move few
parameters much, so an update that teaches it is carried by fewer of them than before."""
_DERIVED = {SIZE_JUMP: SIZE, CONCENTRATION: SPREAD}
"""What is not a channel of its own -> the channel it is read from."""


@dataclass(frozen=True)
class Expert:
    """One tempered sum of channels."""

    name: str
    weights: dict[str, float]
    needs_harm: bool
    """Only windows whose mean raw harm is above zero count (where values were computed in them)."""
    catches: str
    fewest: int = 2
    """Participations of the client that a window must hold. One alone may be an outlier; only where several kinds of
    observation agree on harm, or a size jumps by a factor, is one enough (on tuning runs these raise no alarm then)."""


HARM = Expert("harm", {VALUE: 0.4, MARGIN: 0.4, PEER_DIRECTION: 0.2}, True, "label flips", fewest=1)
CONSENSUS = Expert(
    "consensus",
    {OWN_DIRECTION: 0.3, PEER_DIRECTION: 0.23, VALUE: 0.23, MARGIN: 0.23},
    False,
    "sign flips, flips among very different clients",
)
ONE_CLASS = Expert(
    "one class", {WORST_CLASS: 0.5, OWN_DIRECTION: 0.2, PEER_DIRECTION: 0.2}, False, "targeted flips, non-iid flips"
)
SIZE_AND_HARM = Expert("size and harm", {SIZE: 0.6, WORST_CLASS: 0.3, VALUE: 0.3}, True, "harmful scaled updates")
SIZE_ALONE = Expert("size", {SIZE_JUMP: 1.0}, False, "scaled updates that do no harm yet", fewest=1)
TRIGGER = Expert(
    "concentrated harm",
    {CONCENTRATION: 0.3, PEER_DIRECTION: 0.3, VALUE: 0.2, MARGIN: 0.2, SIZE: 0.2},
    True,
    "backdoors: a few parameters moved much, away from the others, and to the model's harm",
)
NOISE = Expert("noise", {SPREAD: 0.5, OWN_DIRECTION: 0.3, PEER_DIRECTION: 0.3}, False, "added and pure noise")
REPETITION = Expert("repetition", {ECHO: 1.0}, False, "own updates sent again under a little noise")
VALUE_ONLY = Expert("value-only", {VALUE: 1.0}, True, "what a table of contributions can show")
EXPERTS = (HARM, CONSENSUS, ONE_CLASS, SIZE_AND_HARM, SIZE_ALONE, TRIGGER, NOISE, REPETITION)
"""Departure: the measured design has four experts that do not know the peer direction. On tuning runs of the simulator
these eight found more at the same rate of false alarms, most of all scaled updates that help, added noise, noisy
repeats and flips from the first epoch."""

UPDATE_EXPERTS = (CONSENSUS, SIZE_ALONE, NOISE, REPETITION)
"""For logs without a model or a validation set: experts of the updates themselves."""


@dataclass(frozen=True)
class ExpertReading:
    """What one expert says about every client."""

    expert: Expert
    score: FloatArray
    """(m,) S = log mean over windows of exp(weighted sum of log Bayes factors); −inf where it cannot say."""
    starts: IntArray
    ends: IntArray
    """(m,) rows of the strongest window, inclusive"""
    scored: BoolArray
    """(m,) False where too much of the expert's weight is missing"""


def score_experts(
    channels: Channels,
    experts: Sequence[Expert],
    model: WindowModel,
    masked: BoolArray | None = None,
    clients: IntArray | None = None,
) -> tuple[ExpertReading, ...]:
    """What does each expert say about each client (or about ``clients`` alone)?

    ``masked`` (E, m) hides cells that an earlier window already explains, so that a second one can be found.
    """
    positions = np.arange(len(channels.client_ids)) if clients is None else clients
    grid = window_grid(len(channels.epochs), model, SKIPPED_FIRST_EPOCHS)
    asked = {_DERIVED.get(name, name) for e in experts for name in e.weights}
    names = [name for name in CHANNEL_NAMES if name in asked and channels.available(name)]
    if not len(grid) or not len(positions) or not names:
        nothing = np.zeros(len(positions), dtype=np.int64)
        mute = np.zeros(len(positions), dtype=bool)
        return tuple(ExpertReading(e, np.full(len(positions), -np.inf), nothing, nothing, mute) for e in experts)
    pieces: list[list[ExpertReading]] = [[] for _ in experts]
    columns = len(names) + (len(channels.class_scores) if WORST_CLASS in names else 0)
    for first in range(0, len(positions), step := max(1, CELLS_AT_ONCE // (len(grid) * columns))):
        table = Cells.of(channels, names, masked, positions[first : first + step], model)
        evidence = table.evidence(grid.starts, grid.ends)
        for e, expert in enumerate(experts):
            sums = table.weighted_sums(expert, evidence, grid.starts, grid.ends)
            pieces[e].append(_strongest(expert, sums, grid, table, model))
    return tuple(_joined(parts) for parts in pieces)


@dataclass(frozen=True)
class _Series:
    """Channels that are judged in one go, side by side."""

    names: tuple[str, ...]
    """One per block of columns; ``WORST_CLASS`` once for each class"""
    sums: SeriesSums
    model: WindowModel

    def evidence(self, starts: IntArray, ends: IntArray, asked: Collection[str] | None) -> dict[str, FloatArray]:
        """channel -> (W, m); only of channels that were ``asked`` for."""
        parts = [part for part, name in enumerate(self.names) if asked is None or name in asked]
        if not parts:
            return {}
        names, sums = [self.names[part] for part in parts], self.sums
        if len(parts) < len(self.names):
            width = len(sums.squares) // len(self.names)
            sums = sums.only(np.concatenate([np.arange(part * width, (part + 1) * width) for part in parts]))
        a, b = (starts, ends) if starts.ndim == 1 else (np.tile(starts, len(parts)), np.tile(ends, len(parts)))
        pieces = np.split(sums.evidence(a, b, self.model), len(parts), axis=1)
        factors = {name: piece for name, piece in zip(names, pieces, strict=True) if name != WORST_CLASS}
        worst = [piece for name, piece in zip(names, pieces, strict=True) if name == WORST_CLASS]
        if worst:  # one series that stands for all classes speaks for itself
            factors[WORST_CLASS] = worst[0] if self.names.count(WORST_CLASS) == 1 else _one_of_them(np.stack(worst))
        return factors


@dataclass(frozen=True)
class Cells:
    """The standardised cells of some clients: everything a window can be judged by."""

    series: tuple[_Series, ...]
    harm: FloatArray
    observed: BoolArray
    """(E, m) where any channel has an observation"""

    @classmethod
    def of(
        cls,
        channels: Channels,
        names: Sequence[str],
        masked: BoolArray | None,
        clients: IntArray,
        model: WindowModel,
    ) -> Cells:
        """``masked`` (E, m) hides cells; ``clients`` are positions in ``channels``."""
        hidden = np.zeros((len(channels.epochs), len(clients)), bool) if masked is None else masked[:, clients]
        places = {name: CHANNEL_NAMES.index(name) for name in names}
        scores = {name: np.where(hidden, np.nan, channels.scores[c][:, clients]) for name, c in places.items()}
        extra = {name: channels.extra_variance[c][:, clients] for name, c in places.items()}
        classes = np.where(hidden, np.nan, channels.class_scores[:, :, clients])
        return cls(
            tuple(_series(scores, extra, classes, model, channels.size_deviation)),
            np.where(hidden, np.nan, channels.harm[:, clients]),
            np.isfinite(np.stack(list(scores.values()))).any(axis=0),
        )

    def evidence(self, starts: IntArray, ends: IntArray, asked: Collection[str] | None = None) -> dict[str, FloatArray]:
        """channel -> (W, m) log Bayes factor of each window, of all channels or of those that are ``asked`` for."""
        factors: dict[str, FloatArray] = {}
        for series in self.series:
            factors |= series.evidence(starts, ends, asked)
        return factors

    def weighted_sums(
        self, expert: Expert, evidence: dict[str, FloatArray], starts: IntArray, ends: IntArray
    ) -> FloatArray:
        """(W, m) the expert's sum for each window; NaN where it cannot say, −inf where the harm gate is shut.

        A missing channel hands its weight on to the expert's others in proportion.
        """
        total = sum(expert.weights.values())
        shape = (len(starts), self.harm.shape[1])
        summed, weight = np.zeros(shape), np.zeros(shape)
        for name, share in expert.weights.items():
            if name in evidence:
                known = np.isfinite(evidence[name])
                summed += np.where(known, share * evidence[name], 0.0)
                weight += share * known
        scored = weight >= LEAST_WEIGHT * total
        if expert.fewest > 1:
            scored &= number_inside(self.observed, starts, ends) >= expert.fewest
        sums = np.where(scored, summed * total / np.where(scored, weight, 1.0), np.nan)
        if expert.needs_harm:
            harm, known = mean_inside(self.harm, starts, ends)
            sums = np.where(scored & known & (harm <= 0), -np.inf, sums)
        return sums


def _series(
    scores: dict[str, FloatArray],
    extra: dict[str, FloatArray],
    classes: FloatArray,
    model: WindowModel,
    size_deviation: float,
) -> Iterator[_Series]:
    """All channels with one null side by side, then those that are read from others."""
    by_class = WORST_CLASS in scores and len(classes) > 0
    names = [name for name in scores if not (by_class and name == WORST_CLASS)]
    for curved in (False, True):
        mine = [name for name in names if RECIPES[name].curved_null == curved]
        beside = [] if curved or not by_class else list(classes)
        if not mine and not beside:
            continue
        cells = np.concatenate([*(scores[name] for name in mine), *beside], axis=1)
        exact = np.zeros((len(cells), len(beside) * classes.shape[2]))
        variance = np.concatenate([*(extra[name] for name in mine), exact], axis=1)
        sums = SeriesSums.of(cells, variance, model, curved)
        yield _Series((*mine, *[WORST_CLASS] * len(beside)), sums, model)
    if SIZE in scores:
        jump = float(RECIPES[SIZE].bent(np.log(JUMP_FACTOR) / size_deviation))
        large = replace(model, smallest_shift=jump)
        yield _Series((SIZE_JUMP,), SeriesSums.of(scores[SIZE], extra[SIZE], large), large)
    if SPREAD in scores:
        yield _Series((CONCENTRATION,), SeriesSums.of(-scores[SPREAD], extra[SPREAD], model), model)


def _one_of_them(of_class: FloatArray) -> FloatArray:
    """(W, m) "one of the classes is shifted": the mean of the classes' Bayes factors, in logs like ``of_class``."""
    known = np.isfinite(of_class)
    highest = np.max(of_class, axis=0, where=known, initial=-np.inf)
    safe = np.where(np.isfinite(highest), highest, 0.0)
    total = np.exp(np.where(known, of_class - safe, -np.inf)).sum(axis=0)
    with np.errstate(divide="ignore"):
        return np.where(known.any(axis=0), safe + np.log(total / len(of_class)), np.nan)


def _log_sum(logs: FloatArray) -> FloatArray:
    """(m,) log Σ exp over windows; −inf where every window is. Several times quicker than np.logaddexp.reduce."""
    highest = logs.max(axis=0)
    safe = np.where(np.isfinite(highest), highest, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(safe + np.log(np.exp(logs - safe).sum(axis=0)))


def _strongest(expert: Expert, sums: FloatArray, grid: WindowGrid, table: Cells, model: WindowModel) -> ExpertReading:
    """Score and strongest window of each client; on a coarse grid the best candidate is moved to its exact place."""
    scored = ~np.isnan(sums)
    stands_for = grid.stands_for[:, None]
    number = np.maximum((scored * stands_for).sum(axis=0), 1.0)
    finite = np.where(scored, sums, -np.inf)
    best = np.argmax(finite, axis=0)
    starts, ends = grid.starts[best], grid.ends[best]
    score = _log_sum(finite + np.log(stands_for)) - np.log(number)
    if (grid.stands_for > 1).any():
        starts, ends, peak = _placed_exactly(expert, table, starts, ends, model)
        # a peak narrower than the grid's spacing was missed by the mean: its own window is a lower bound
        score = np.maximum(score, peak - np.log(number))
    return ExpertReading(expert, score, starts, ends, np.asarray(scored.any(axis=0)))


def _placed_exactly(
    expert: Expert, table: Cells, starts: IntArray, ends: IntArray, model: WindowModel
) -> tuple[IntArray, IntArray, FloatArray]:
    """Move both ends of each client's window in ever smaller steps to the largest sum nearby; (starts, ends, sum)."""
    rows, column = len(table.harm), np.arange(len(starts))
    longest = int(model.longest_share * rows)
    step = max(1, int((ends - starts + 1).max()) // 12)
    offsets = np.arange(-3, 4)
    while True:
        a = starts + step * np.repeat(offsets, len(offsets))[:, None]
        b = ends + step * np.tile(offsets, len(offsets))[:, None]
        allowed = (a >= SKIPPED_FIRST_EPOCHS) & (b < rows) & (b - a >= 1) & (b - a < longest)
        a, b = np.where(allowed, a, starts), np.where(allowed, b, ends)
        sums = table.weighted_sums(expert, table.evidence(a, b, expert.weights), a, b)
        sums = np.where(np.isnan(sums), -np.inf, sums)
        inner = np.argmax(sums, axis=0)
        starts, ends = a[inner, column], b[inner, column]
        if step == 1:
            return starts, ends, sums[inner, column]
        step = max(1, step // 3)


def _joined(parts: list[ExpertReading]) -> ExpertReading:
    return ExpertReading(
        parts[0].expert,
        np.concatenate([p.score for p in parts]),
        np.concatenate([p.starts for p in parts]),
        np.concatenate([p.ends for p in parts]),
        np.concatenate([p.scored for p in parts]),
    )
