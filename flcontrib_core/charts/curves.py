"""A client's running credit over the band of the others: the marks that all charts of curves share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flcontrib_core.charts.following import STILL
from flcontrib_core.charts.palette import ClientStyle, palette_for, translucent
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import client_label
from flcontrib_core.charts.ticks import spread_labels
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import BoolArray, CellState, EpochByClient, EpochVector, FloatArray
from flcontrib_core.words import numbers

FILLED_IN = 1.2
"""Width of the thin dotted line where a value is filled in: not computed must not look computed."""


@dataclass(frozen=True)
class Curve:
    """One client's running credit, help up, the initial model's share left out."""

    client: str
    credit: EpochVector
    """(T + 1,)"""
    half_width: EpochVector
    """(T + 1,) 95% of the running total; 0 = exact, NaN = none"""
    computed: BoolArray
    """(T + 1,) took part and computed: a marker stands there"""
    skipped: BoolArray
    """(T + 1,) took part, not computed: the credit is the fill policy's, drawn thin and dotted"""
    windows: tuple[tuple[int, int], ...] = ()

    @property
    def epochs(self) -> int:
        """The run's epochs, the initial model not counted."""
        return len(self.credit) - 1

    @property
    def known(self) -> EpochVector:
        """(T + 1,) the credit with a gap where it is filled in"""
        return np.where(self.skipped, np.nan, self.credit)


def curve_of(
    history: ContributionHistory,
    utility: str,
    client: str,
    credit: EpochByClient,
    windows: Sequence[tuple[int, int]] = (),
) -> Curve:
    """One client's curve out of everybody's running credit."""
    i = history.client_ids.index(client)
    series = history.of(utility)
    computed = history.participated[:, i] & series.computed[:, i]
    errors = np.where(computed, series.standard_errors[:, i], 0.0)
    return Curve(
        client=client,
        credit=credit[:, i],
        half_width=1.96 * np.sqrt(np.cumsum(errors**2)),
        computed=computed,
        skipped=series.state[:, i] >= CellState.NOT_COMPUTED,
        windows=tuple(windows),
    )


def draw_band(figure: Picture, quantiles: FloatArray, last: int, others: int, mode: str) -> None:
    """The others up to epoch ``last``: their middle 80% and 50%, and the median."""
    if not others:
        return
    grey = palette_for(mode).context
    epochs = np.arange(last + 1)
    upto = quantiles[:, : last + 1]  # an outline with gaps would be filled across them
    for lower, upper, alpha in ((0, 4, 0.18), (1, 3, 0.28)):
        draw_area(figure, epochs, upto[lower], upto[upper], translucent(grey, alpha), "others")
    figure.add_scatter(
        x=epochs,
        y=upto[2],
        mode="lines",
        line={"color": grey, "width": 1.5},
        hovertemplate=f"median of {others} others<br>epoch %{{x}}<br><b>%{{y:+.3f}}</b><extra></extra>",
    )


def draw_area(
    figure: Picture, epochs: np.ndarray, lower: EpochVector, upper: EpochVector, fill: str, name: str
) -> None:
    """The area between two series."""
    figure.add_scatter(
        x=[*epochs, *epochs[::-1]],
        y=[*upper, *lower[::-1]],
        mode="lines",
        fill="toself",
        fillcolor=fill,
        line={"width": 0},
        hoverinfo="skip",
        name=name,
    )


def draw_curve(
    figure: Picture, curve: Curve, style: ClientStyle, last: int, picked: str | None = None, thickness: float = 2.5
) -> None:
    """Solid where the value is known, thin and dotted where it is filled in, a marker at every computed epoch."""
    epochs = np.arange(curve.epochs + 1)
    width = curve.half_width
    if np.isfinite(width).all() and width.max(initial=0.0) > 0:
        there = slice(last + 1)
        lower, upper = (curve.credit - width)[there], (curve.credit + width)[there]
        draw_area(figure, epochs[there], lower, upper, translucent(style.colour, 0.13), "interval")
    dotted = {"color": style.colour, "width": FILLED_IN, "dash": "dot"}
    figure.add_scatter(x=epochs, y=curve.credit, mode="lines", line=dotted, hoverinfo="skip")
    digits = max(3, numbers.digits_for(*curve.credit.tolist()))
    interval = [f" ± {w:.{digits}f}" if w > 0 else (" exact" if w == 0 else "") for w in width]
    who = f"<b>{client_label(curve.client)}</b><br>epoch %{{x}}<br><b>%{{y:+.{digits}f}}</b>"
    figure.add_scatter(
        x=epochs,
        y=curve.known,
        mode="lines",
        connectgaps=False,
        line={"color": style.colour, "width": thickness, "dash": style.dash},
        customdata=interval,
        hovertemplate=f"{who}%{{customdata}}<extra></extra>",
    )
    at = epochs[curve.computed]
    figure.add_scatter(
        x=at,
        y=curve.credit[curve.computed],
        mode="markers",
        marker={
            "color": style.colour,
            "symbol": style.marker,
            "size": (7 if curve.epochs <= 60 else 4) + (2 if thickness > 3 else 0),
        },
        customdata=[[interval[t], *([picked] if picked is not None else [])] for t in at],
        hovertemplate=f"{who}%{{customdata[0]}}<extra></extra>",
        **STILL,
    )


def label_ends(figure: Picture, ends: Sequence[tuple[str, float, str, bool]], last: int, epochs: int) -> None:
    """Names beside the ends of lines: (name, height, colour, bold), moved apart where they would overlap.

    They stand beside the plot, wherever the reader zooms; only those of a job at work stand inside it.
    """
    low, high = figure.layout["yaxis"]["range"]
    start, top = figure.layout["yaxis"]["domain"]
    margin = figure.layout["margin"]
    room = (top - start) * (figure.layout["height"] - margin["t"] - margin["b"])
    places = spread_labels([height for _, height, _, _ in ends], 16 / room * (high - low))
    where = {"x": 1, "xref": "paper"} if last == epochs else {"x": last + 0.1}
    for (name, _, colour, bold), y in zip(ends, places, strict=True):
        text = client_label(name, 14)
        figure.add_annotation(
            **where,
            y=y,
            text=f"<b>{text}</b>" if bold else text,
            font={"size": 12, "color": colour},
            showarrow=False,
            xanchor="left",
            xshift=4,
            name="beside",
        )
