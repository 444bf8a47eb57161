"""The rebuilt global model's loss and accuracy, or its task's own two, epoch by epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from flcontrib_core.charts.epoch_bars import write_heading
from flcontrib_core.charts.following import NOTHING, Following, draw_followed_epochs
from flcontrib_core.charts.palette import palette_for
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import base_figure, epoch_axis, y_axis
from flcontrib_core.charts.ticks import percent_ticks, plain_ticks
from flcontrib_core.history.meaning import ModelCurve
from flcontrib_core.vocabulary import FloatArray
from flcontrib_core.words import numbers

SHARES = frozenset({"accuracy", "mean-auroc", "dice", "iou"})
CROWDED = 40
"""More points than this are a line without marks."""


@dataclass(frozen=True)
class ModelCurveFacts:
    """The model's quality along the run; NaN where it has no finite value."""

    epochs: tuple[int, ...]
    """Ascending; 0 is the initial model"""
    loss: FloatArray
    accuracy: FloatArray
    names: tuple[str, str] = ("loss", "accuracy")
    """What the two are."""

    @property
    def counts(self) -> bool:
        """Whether the second one is a share of something, from 0 to 1."""
        return self.names[1] in SHARES


def model_curve_facts(curve: ModelCurve) -> ModelCurveFacts:
    """The curve as arrays."""
    loss, accuracy = (np.array(series, dtype=float) for series in (curve.loss, curve.accuracy))
    return ModelCurveFacts(curve.epochs, loss, accuracy, curve.names)


def model_curve_alt(facts: ModelCurveFacts) -> str:
    """Where the model began and where it ended."""
    spell = _share if facts.counts else _value
    loss = f"{facts.names[0]} {_value(facts.loss[0])} to {_value(facts.loss[-1])}"
    accuracy = f"{facts.names[1]} {spell(facts.accuracy[0])} to {spell(facts.accuracy[-1])}"
    run = numbers.several(facts.epochs[-1], "epoch")
    return f"The global model, rebuilt from the log: {loss}, {accuracy} over {run}{_best(facts)}."


def model_curve_rows(facts: ModelCurveFacts) -> list[dict[str, object]]:
    """One row per epoch that was evaluated; epoch 0 is the initial model."""
    return [
        {"epoch": epoch, facts.names[0]: _cell(loss), facts.names[1]: _cell(accuracy)}
        for epoch, loss, accuracy in zip(facts.epochs, facts.loss, facts.accuracy, strict=True)
    ]


def draw_model_curve(facts: ModelCurveFacts, mode: str, following: Following = NOTHING) -> Picture:
    """Loss above accuracy, on one epoch axis."""
    last = facts.epochs[-1]
    figure = base_figure(mode, 320, l=54, r=16, t=28, b=46)
    figure.update_layout(xaxis=epoch_axis(mode, last, -0.5, last + 0.5) | {"anchor": "y2"})
    for place, name in zip((1.0, 0.4), facts.names, strict=True):
        write_heading(figure, place, f"<b>{name[:1].upper()}{name[1:]}</b>", mode)
    losses = facts.loss[np.isfinite(facts.loss)]
    roof = 1.08 * float(losses.max(initial=0.0)) or 1.0
    _line(figure, facts, facts.loss, mode, "y", "%{y:.4f}")
    _line(figure, facts, facts.accuracy, mode, "y2", "%{y:.1%}" if facts.counts else "%{y:.4f}")
    second: dict[str, Any] = {"range": [0, 1.04]} | percent_ticks(0, 1, 2)
    if not facts.counts:
        seen = facts.accuracy[np.isfinite(facts.accuracy)]
        low, high = min(0.0, float(seen.min(initial=0.0))), 1.08 * float(seen.max(initial=0.0)) or 1.0
        second = {"range": [low, high]} | plain_ticks(low, high, 2)
    figure.update_layout(
        yaxis=y_axis(mode) | {"domain": [0.58, 1.0], "range": [0, roof]} | plain_ticks(0, roof, 3),
        yaxis2=y_axis(mode) | {"domain": [0.0, 0.4], "anchor": "x"} | second,
    )
    draw_followed_epochs(figure, following, mode, "paper")
    return figure


def _line(figure: Picture, facts: ModelCurveFacts, values: FloatArray, mode: str, axis: str, form: str) -> None:
    ink = palette_for(mode).ink
    figure.add_scatter(
        x=np.array(facts.epochs, dtype=float),
        y=values,
        mode="lines+markers" if len(facts.epochs) <= CROWDED else "lines",
        line={"color": ink, "width": 2},
        marker={"color": ink, "size": 5},
        hovertemplate=f"epoch %{{x}}<br><b>{form}</b><extra></extra>",
        yaxis=axis,
    )


def _best(facts: ModelCurveFacts) -> str:
    """Said where the model was clearly better than at its end."""
    if not facts.counts or not np.isfinite(facts.accuracy).any():
        return ""
    place = int(np.nanargmax(facts.accuracy))
    end = facts.accuracy[-1]
    if math.isfinite(end) and facts.accuracy[place] < end + 0.05:
        return ""
    return f"; best {facts.names[1]} {_share(facts.accuracy[place])} in epoch {facts.epochs[place]}"


def _value(value: float) -> str:
    return numbers.plain(value, 3) if math.isfinite(value) else "no finite value"


def _share(value: float) -> str:
    return f"{value:.0%}" if math.isfinite(value) else "no finite value"


def _cell(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
