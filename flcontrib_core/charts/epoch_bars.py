"""Bars of one client on an epoch axis: its value in every epoch by state, and the probability of a change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flcontrib_core.charts.palette import CLEAR, palette_for
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import hatch_of, y_axis
from flcontrib_core.charts.ticks import signed_ticks
from flcontrib_core.vocabulary import CellState, FloatArray, IntArray
from flcontrib_core.words import numbers


def draw_value_bars(
    figure: Picture,
    values: FloatArray,
    half_widths: FloatArray,
    state: IntArray,
    mode: str,
    *,
    axis: str,
    domain: tuple[float, float],
    band: tuple[FloatArray, FloatArray] | None = None,
) -> None:
    """Bars with 95% intervals where computed, hatches where not, a dot where the client was absent.

    All (T + 1,), help up. ``band``: the low and the high end of the others in each epoch, NaN where nothing is said.
    """
    p = palette_for(mode)
    at = np.flatnonzero(state == CellState.COMPUTED)
    half = np.nan_to_num(half_widths[at])
    ends = [*(values[at] - half), *(values[at] + half), *(np.ravel(band) if band is not None else ())]
    low, high = (float(f([0.0, *(v for v in ends if v == v)])) for f in (min, max))
    high = high or 1e-9
    low, high = 1.1 * low - 0.15 * high * (low == 0), 1.1 * high
    figure.update_layout(
        **{
            f"yaxis{axis.removeprefix('y')}": y_axis(mode)
            | {"domain": list(domain), "anchor": "x", "range": [low, high]}
            | signed_ticks(low, high, 3)
        }
    )
    figure.add_bar(
        x=at,
        y=values[at],
        yaxis=axis,
        width=0.7,
        marker={"color": [p.help if v >= 0 else p.harm for v in values[at]], "line": {"width": 0}},
        error_y={"type": "data", "array": half, "color": p.ink, "thickness": 1, "width": 0},
        hovertemplate="epoch %{x}<br><b>%{y:+.4f}</b><extra></extra>",
    )
    skipped = np.flatnonzero(state == CellState.NOT_COMPUTED)
    if len(skipped):
        figure.add_bar(
            x=skipped,
            y=[high - low] * len(skipped),
            base=low,
            yaxis=axis,
            width=0.8,
            marker={"color": CLEAR, "pattern": hatch_of(mode) | {"bgcolor": CLEAR}},
            hovertemplate="epoch %{x}: took part, not computed<extra></extra>",
        )
    absent = np.flatnonzero(state[1:] == CellState.ABSENT) + 1
    dots = {"size": 3, "color": p.absent}
    figure.add_scatter(x=absent, y=[0] * len(absent), mode="markers", yaxis=axis, marker=dots, hoverinfo="skip")


def draw_change_bars(
    figure: Picture,
    change: FloatArray,
    groups: Sequence[tuple[int, int, float]],
    colour: str,
    mode: str,
    *,
    axis: str,
    domain: tuple[float, float],
) -> None:
    """The probability that a new level begins at each epoch; neighbours that share one change are summed in words."""
    figure.update_layout(
        **{
            f"yaxis{axis.removeprefix('y')}": y_axis(mode)
            | {"domain": list(domain), "range": [0, 1.12], "tickvals": [0, 0.5, 1], "anchor": "x"}
        }
    )
    figure.add_bar(
        x=list(range(1, len(change))),
        y=change[1:],  # a gap where there is no series, never a zero
        yaxis=axis,
        width=0.7,
        marker={"color": colour, "line": {"width": 0}},
        hovertemplate="epoch %{x}<br>probability of a change <b>%{y:.2f}</b><extra></extra>",
    )
    for first, last, mass in groups:
        figure.add_annotation(
            x=(first + last) / 2,
            y=float(np.nanmax(change[first : last + 1])),
            yref=axis,
            yanchor="bottom",
            showarrow=False,
            text=f"{numbers.window(first, last)}: {numbers.probability(mass)}",
            font={"size": 11, "color": palette_for(mode).secondary},
        )


def write_heading(figure: Picture, height: float, text: str, mode: str) -> None:
    """What one row of a picture shows, above it."""
    figure.add_annotation(
        x=0,
        xref="paper",
        xanchor="left",
        y=height,
        yref="paper",
        yanchor="bottom",
        yshift=4,
        xshift=-40,
        text=text,
        showarrow=False,
        font={"size": 13, "color": palette_for(mode).ink},
    )
