"""The numbers behind a window of one client, taken from the history: values, margins, movements, who else was there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flcontrib_core.detection.channels import (
    OWN_DIRECTION,
    PEER_DIRECTION,
    SIZE,
    SKIPPED_FIRST_EPOCHS,
    SPREAD,
    Channels,
    others_quantile,
    value_utility,
)
from flcontrib_core.detection.facts import Unavailable
from flcontrib_core.detection.reasons import ClassSuffers, MarginLowered, StepWorse, Window
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.remarks import NoValues
from flcontrib_core.vocabulary import BoolArray, EpochByClient, FloatArray

INTERVAL = 1.96
MATERIAL = 0.25
"""Share of the others' usual value that a harm must reach."""
NEXT_TO_NOTHING = 0.1
"""Share of the run's usual effect of a step below which, in a model that has converged, a harm is nothing."""
FEW_ROWS = 100
CLEARLY_BELOW = 3.0
"""Standard errors by which a single class must suffer: it is the worst of several."""


@dataclass(frozen=True)
class WindowNumbers:
    """What was measured of one client in one window. Harm is up; words turn it so that help is up."""

    window: Window
    utility: str
    lower_is_better: bool
    computed_inside: tuple[int, ...]
    not_computed_inside: tuple[int, ...]
    mean_inside: float | None
    """Mean harm per computed epoch; None where none is computed."""
    mean_outside: float | None
    half_width: float | None
    """95 % half-width of ``mean_inside``, from the spread over epochs and the values' standard errors."""
    harmful_inside: int
    unreliable_inside: tuple[int, ...]
    helped_by: tuple[tuple[str, int, int], ...]
    """(another utility, computed epochs of the window in which the client helped by it, all computed ones)"""
    margin: MarginLowered | None
    """None unless the solo margin inside is below zero with its whole interval"""
    worst_class: ClassSuffers | None
    """None unless one class clearly suffers inside"""
    epochs_with_participants: int
    participations: int
    """of the client, over the whole run"""
    usual_peers: float
    """Median number of other participants in the window's epochs."""
    touches_start: bool
    touches_end: bool
    better_without: float | None
    """Mean harm that leaving the client out for one step would have saved; None where it was not evaluated."""
    movements: dict[str, tuple[float, float]]
    """channel -> raw mean (inside, outside) of the update's own observations"""
    validation_rows: int | None
    usual_value: float | None
    """Median of the others' values in the window's epochs, in absolute terms; None where none is known."""
    solo_loss: float | None
    """Mean change of the validation loss by the client's own step alone; None where it was not evaluated."""
    run_solo_loss: float
    """Median over the whole run of what any client's step alone does to the validation loss, in absolute terms."""
    classes: bool
    """Whether rows have classes; else the first metric may stand for the loss, and for the margin."""
    solo_half_width: float | None
    solo_excess: float | None
    """Mean over the window of what its own step does to the loss beyond the usual other participant's."""
    solo_excess_half_width: float | None
    mean_margin: float | None
    """Mean solo margin inside; None where it was not evaluated."""
    mean_margin_half_width: float | None
    without_values: NoValues | None = None
    """Why the whole run has no value; None where it has some"""

    @property
    def participated_inside(self) -> int:
        """Epochs of the window in which the client took part."""
        return len(self.computed_inside) + len(self.not_computed_inside)

    @property
    def harm_measured(self) -> bool:
        """Was harm measured inside? Only then may a window be called one of suspected poisoning.

        The values decide where there are two of them: harmful with their whole interval, and material beside the
        others'. Where there are fewer, the client's own step does: clearly worse for the loss than the usual other
        participant's. A small or compressed update dilutes the mean, which the values show as harm; so the own step
        must neither help nor do better than the usual other one. Without values, a few validation rows measure nothing.
        """
        if self.mean_inside is not None and self.half_width is not None:
            measured = self.mean_inside > max(self.half_width, MATERIAL * (self.usual_value or 0.0))
        else:
            measured = self.harmful_once or self.step_worse is not None
        return measured and not self.step_helps and not self.too_few_rows

    @property
    def too_few_rows(self) -> bool:
        """Is there no value, and are there too few validation rows for a step's effect on them to say anything?"""
        return self.mean_inside is None and self.validation_rows is not None and self.validation_rows < FEW_ROWS

    @property
    def step_helps(self) -> bool:
        """Does the client's own step alone measurably help, or do better than the usual other participant's?"""
        if self.solo_loss is None:
            return False
        helps = self.solo_half_width is not None and self.solo_loss + self.solo_half_width < 0
        return helps or (self.solo_excess is not None and self.solo_excess < 0)

    @property
    def step_worse(self) -> StepWorse | None:
        """What its own step alone does to the loss, where it is clearly worse than the usual other one's."""
        excess, half = self.solo_excess, self.solo_excess_half_width
        if self.solo_loss is None or excess is None or half is None:
            return None
        usual = self.solo_loss - excess
        if excess <= max(half, MATERIAL * abs(usual), NEXT_TO_NOTHING * self.run_solo_loss):
            return None
        return StepWorse(self.solo_loss, usual, half, self.classes)

    @property
    def harmful_once(self) -> bool:
        """Of a single participation: do value, loss and margin of its step alone all say harm, and no small one?

        One value has no interval; three measures that agree, and an expert above its threshold, stand in for it.
        """
        if self.participated_inside != 1 or self.mean_inside is None or self.usual_value is None:
            return False
        worse = self.solo_loss is not None and self.solo_loss > 0
        return self.mean_inside > self.usual_value and worse and self.mean_margin is not None and self.mean_margin < 0


def window_numbers(
    history: ContributionHistory,
    channels: Channels,
    client: int,
    rows: BoolArray,
    window: Window,
    explained: BoolArray | None = None,
) -> WindowNumbers:
    """The numbers of a window: ``rows`` (E,) of the channels, ``window`` as it is drawn, in epochs.

    ``explained`` (E,): rows that any window or exact finding of the client holds; they are not "outside" of this one.
    """
    utility = value_utility(history)
    took_part = history.participated[:, client]
    inside = _epochs(channels, rows, len(took_part)) & took_part
    elsewhere = ~rows if explained is None else ~rows & ~explained
    elsewhere[:SKIPPED_FIRST_EPOCHS] = False
    outside = _epochs(channels, elsewhere, len(took_part)) & took_part
    series = history.of(utility)
    known = series.computed[:, client]
    harm = history.harm_sign(utility) * series.values[:, client]
    within, beyond = harm[inside & known], harm[outside & known]
    peers = history.participated[inside].sum(axis=1) - 1
    return WindowNumbers(
        window=window,
        utility=utility,
        lower_is_better=utility in history.lower_is_better,
        computed_inside=tuple(np.flatnonzero(inside & known).tolist()),
        not_computed_inside=tuple(np.flatnonzero(inside & ~known).tolist()),
        mean_inside=float(within.mean()) if len(within) else None,
        mean_outside=float(beyond.mean()) if len(beyond) else None,
        half_width=_half_width(within, np.nan_to_num(series.standard_errors[inside & known, client])),
        harmful_inside=int((within > 0).sum()),
        unreliable_inside=tuple(np.flatnonzero(inside & known & series.unreliable).tolist()),
        helped_by=tuple(_helped(history, u, inside, client) for u in history.utilities if u != utility),
        margin=_margin(history, inside, outside, client),
        worst_class=_worst_class(history, inside, outside, client),
        epochs_with_participants=len(channels.epochs),
        participations=int(took_part.sum()),
        usual_peers=float(np.median(peers)) if len(peers) else 0.0,
        touches_start=bool(window[0] <= channels.epochs[min(SKIPPED_FIRST_EPOCHS, len(channels.epochs) - 1)]),
        touches_end=bool(window[1] >= channels.epochs[-1]),
        better_without=_better_without(history, utility, inside, client),
        movements=_movements(history, channels, inside, outside, client),
        validation_rows=None if history.channels is None else history.channels.validation_rows or None,
        without_values=history.without_values,
        usual_value=_usual_value(history, utility, inside, client),
        **_solo(history, inside, client),
    )


def _usual_value(history: ContributionHistory, utility: str, inside: BoolArray, client: int) -> float | None:
    series = history.of(utility)
    known = series.computed & history.participated & inside[:, None]
    known[:, client] = False
    others = np.abs(series.values[known])
    return float(np.median(others)) if others.size else None


def _solo(history: ContributionHistory, inside: BoolArray, client: int) -> dict[str, Any]:
    """What the client's own step alone does to the validation loss inside, beside the usual other participant's."""
    raw = history.channels
    own = np.full(1, np.nan) if raw is None else raw.solo_loss[inside, client]
    seen = np.isfinite(own)
    if raw is None or not seen.any():
        names = (
            "solo_loss",
            "solo_half_width",
            "solo_excess",
            "solo_excess_half_width",
            "mean_margin",
            "mean_margin_half_width",
        )
        return {**dict.fromkeys(names), "run_solo_loss": 0.0, "classes": True}
    beyond = (own - others_quantile(raw.solo_loss[inside], 0.5)[:, client])[seen]
    beyond = beyond[np.isfinite(beyond)]
    margins = raw.solo_margin[inside, client][seen]
    return {
        "solo_loss": float(own[seen].mean()),
        "solo_half_width": _half_width(own[seen]),
        "solo_excess": float(beyond.mean()) if len(beyond) else None,
        "solo_excess_half_width": _half_width(beyond),
        "run_solo_loss": float(np.nanmedian(np.abs(raw.solo_loss))),
        "classes": raw.has_classes,
        "mean_margin": float(margins.mean()),
        "mean_margin_half_width": _half_width(margins),
    }


def _epochs(channels: Channels, rows: BoolArray, length: int) -> BoolArray:
    """(T + 1,) the epochs of these rows"""
    marked = np.zeros(length, dtype=bool)
    marked[channels.epochs[rows]] = True
    return marked


def _half_width(values: FloatArray, errors: FloatArray | None = None) -> float | None:
    n = len(values)
    if n < 2:
        return None
    measured = 0.0 if errors is None else float((errors**2).sum()) / n**2
    return float(INTERVAL * np.sqrt(values.var(ddof=1) / n + measured))


def _helped(history: ContributionHistory, utility: str, inside: BoolArray, client: int) -> tuple[str, int, int]:
    series = history.of(utility)
    here = inside & series.computed[:, client]
    harm = history.harm_sign(utility) * series.values[here, client]
    return utility, int((harm < 0).sum()), len(harm)


def _margin(history: ContributionHistory, inside: BoolArray, outside: BoolArray, client: int) -> MarginLowered | None:
    if history.channels is None:
        return None
    within, beyond = _finite(history.channels.solo_margin, inside, outside, client)
    half = _half_width(within)
    if half is None or within.mean() + half >= 0:
        return None
    usual = float(beyond.mean()) if len(beyond) else None
    return MarginLowered(float(within.mean()), usual, half, history.channels.has_classes)


def _worst_class(
    history: ContributionHistory, inside: BoolArray, outside: BoolArray, client: int
) -> ClassSuffers | None:
    """The class that fell most, if its margin inside is clearly below zero and below its own rest."""
    if history.channels is None:
        return None
    margins = history.channels.solo_class_margin
    suffering: list[ClassSuffers] = []
    for c in range(margins.shape[2]):
        within, beyond = _finite(margins[:, :, c], inside, outside, client)
        half = _half_width(within)
        if half is None or not len(beyond):
            continue
        clear = CLEARLY_BELOW / INTERVAL * half
        if within.mean() + clear < min(0.0, float(beyond.mean())):
            suffering.append(ClassSuffers(c, float(within.mean()), float(beyond.mean()), half))
    return min(suffering, key=lambda s: s.inside - s.outside, default=None)


def _better_without(history: ContributionHistory, utility: str, inside: BoolArray, client: int) -> float | None:
    saved = -history.harm_sign(utility) * history.of(utility).leave_one_out[inside, client]
    saved = saved[np.isfinite(saved)]
    return float(saved.mean()) if len(saved) else None


def _movements(
    history: ContributionHistory, channels: Channels, inside: BoolArray, outside: BoolArray, client: int
) -> dict[str, tuple[float, float]]:
    raw = history.channels
    if raw is None:
        return {}
    observed: dict[str, EpochByClient] = {
        OWN_DIRECTION: raw.own_cosine,
        PEER_DIRECTION: raw.peer_cosine,
        SIZE: raw.norm,
        SPREAD: raw.spread,
    }
    means = {}
    for name, cells in observed.items():
        if channels.unavailable.get(name) is Unavailable.CONSTANT:
            continue
        within, beyond = _finite(cells, inside, outside, client)
        if len(within) and len(beyond):
            means[name] = float(within.mean()), float(beyond.mean())
    return means


def _finite(cells: EpochByClient, inside: BoolArray, outside: BoolArray, client: int) -> tuple[FloatArray, FloatArray]:
    """The client's observations in the window and beyond it."""
    within, beyond = cells[inside, client], cells[outside, client]
    return within[np.isfinite(within)], beyond[np.isfinite(beyond)]
