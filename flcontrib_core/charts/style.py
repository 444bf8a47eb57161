"""Figures, axes, margins and marks in the house style; names as text."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from flcontrib_core.charts.palette import CLEAR, heat_scale, palette_for
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.ticks import epoch_ticks
from flcontrib_core.words import numbers

FONT = '"Source Sans","Source Sans 3","Source Sans Pro",system-ui,"Segoe UI",Helvetica,Arial,sans-serif'
"""Streamlit brings the first; a report takes what its reader has."""
ISOLATES = "\u2068\u2069"
"""Before and after a name that is read from the right."""
RIGHT_TO_LEFT = ("R", "AL")
"""Unicode's classes of letters that are read from the right."""
AXIS = {
    "title": {"standoff": 9},
    "gridcolor": CLEAR,
    "zerolinewidth": 1,
    "tickangle": 0,  # Plotly turns labels that do not fit
    "ticklabeloverflow": "allow",  # our margins hold the labels; measuring each is a third of drawing a heat map
}
BAR = {"marker": {"line": {"width": 0}}}


def plain(text: str) -> str:
    """A name as text in Plotly, which would read <…> and &…; as markup."""
    return numbers.visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _room(character: str) -> float:
    """What a letter takes, in usual Latin letters of the house's font; other scripts come from wider fonts."""
    if unicodedata.east_asian_width(character) in "WF":
        return 2.0
    return 1.4 if unicodedata.bidirectional(character) in RIGHT_TO_LEFT else 1.0


def short(text: str, most: int) -> str:
    """A name that fits beside an axis, as text in Plotly."""
    ends = list(accumulate(map(_room, text)))
    if not ends or ends[-1] <= most:
        return plain(text)
    return plain(text[: bisect_right(ends, most - 1)] + "…")


def client_label(client: str, most: int | None = None) -> str:
    """A client beside its marks, whole or as far as there is room; a number is never left alone on a chart.

    A name that is read from the right is isolated: else what stands beside it is drawn on its wrong side, and 11–18
    as 18–11.
    """
    name = numbers.named(client)
    label = plain(name) if most is None else short(name, most)
    turned = any(unicodedata.bidirectional(c) in RIGHT_TO_LEFT for c in name)
    return f"{ISOLATES[0]}{label}{ISOLATES[1]}" if turned else label


def base_figure(mode: str, height: int, **margins: int) -> Picture:
    """An empty figure in the house style: transparent, horizontal grid only, no legend, no dragging."""
    p = palette_for(mode)
    layout = dict(
        height=height,
        margin={"l": 54, "r": 16, "t": 12, "b": 46} | margins,
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"family": FONT, "size": 13, "color": p.ink},
        showlegend=False,
        dragmode=False,
        hoverlabel={
            "bgcolor": p.page,
            "bordercolor": p.border,
            "align": "left",
            "font": {"family": FONT, "size": 13, "color": p.ink},
        },
        barcornerradius=0,
        modebar={"bgcolor": CLEAR, "color": p.secondary, "activecolor": p.ink},
        xaxis=x_axis(mode),
        yaxis=y_axis(mode),
        autotypenumbers="strict",  # a client named "7" is a name
    )
    return Picture(layout, axis=AXIS, bar=BAR)


def write_column(figure: Picture, edge: float, places: Sequence[float], words: Sequence[str], mode: str) -> None:
    """Words to the right of a chart with one row per client, whose axis ends at ``edge``.

    One trace: as notes, each of which Plotly lays out by itself, they take longer than the rest of the chart.
    """
    figure.add_scatter(
        x=[edge] * len(places),
        y=list(places),
        mode="text",
        text=[f"\u2002{w}" for w in words],
        textposition="middle right",
        textfont={"size": 12, "color": palette_for(mode).secondary},
        cliponaxis=False,
        hoverinfo="skip",
    )


KEY_DEPTH = 65
"""Pixels from the lowest cells of a heat map to the lower edge of its colour key."""
KEY_WORDS = 22
"""Pixels below the key, for its numbers."""


def add_colour_key(figure: Picture, limit: float, mode: str, inner: float, harm_up: bool = False) -> None:
    """What the colours of a heat map mean, below its cells: a small heat map on axes of its own.

    ``inner``: the figure's height between its margins.
    """
    p = palette_for(mode)
    digits = numbers.digits_for(limit)
    steps = np.linspace(-limit, limit, 41)
    figure.add_heatmap(
        x=steps,
        y=[0],
        z=steps[None, :],
        zmin=-limit,
        zmax=limit,
        colorscale=heat_scale(p, harm_up),
        showscale=False,
        xaxis="x9",
        yaxis="y9",
        hoverinfo="skip",
    )
    words = [f"≤ {numbers.signed(-limit, digits)}", "0", f"≥ {numbers.signed(limit, digits)}"]
    figure.update_layout(
        xaxis9=x_axis(mode)
        | {
            "domain": [0, 0.32],
            "anchor": "y9",
            "range": [-limit, limit],
            "tickvals": [-limit, 0, limit],
            "ticktext": words,
            "tickfont": {"size": 11, "color": p.secondary},
            "showline": False,
            "ticks": "",
        },
        yaxis9={"visible": False, "domain": [0, 9 / inner], "range": [-0.5, 0.5], "anchor": "x9", "fixedrange": True},
    )


def hatch_of(mode: str) -> dict[str, Any]:
    """The hatch that says: not computed."""
    p = palette_for(mode)
    return {"shape": "/", "fgcolor": p.hatch, "bgcolor": p.soft, "size": 6, "solidity": 0.22}


def add_cells(
    figure: Picture,
    centres: np.ndarray,
    bottoms: np.ndarray,
    tops: np.ndarray,
    width: float,
    fill: str,
    *,
    pattern: dict[str, Any] | None = None,
    edge: str | None = None,
    **axes: str,
) -> None:
    """Rectangles of one look, as one outline: the browser draws one path where bars would be one, and a pattern, each.

    They do not answer to the mouse.
    """
    if not len(centres):
        return
    left, right, gap = centres - width / 2, centres + width / 2, np.full(len(centres), np.nan)
    figure.add_scatter(
        x=np.column_stack([left, left, right, right, left, gap]).ravel(),
        y=np.column_stack([bottoms, tops, tops, bottoms, bottoms, gap]).ravel(),
        mode="lines",
        line={"width": 1 if edge else 0, "color": edge or fill},
        fill="toself",
        fillcolor=fill,
        hoverinfo="skip",
        **({"fillpattern": pattern} if pattern else {}),
        **axes,
    )


def x_axis(mode: str) -> dict[str, Any]:
    """A horizontal axis: a line with ticks, no grid."""
    p = palette_for(mode)
    return {
        "showgrid": False,
        "zeroline": False,
        "linecolor": p.axis,
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": p.axis,
        "tickfont": {"size": 12, "color": p.secondary},
        "title": {"font": {"size": 12, "color": p.secondary}},
        "fixedrange": True,
        "ticklabelstandoff": 2,
    }


def epoch_axis(mode: str, epochs: int, low: float, high: float, title: str = "Epoch") -> dict[str, Any]:
    """An axis of epochs, where the reader may zoom and pan; beyond the run there is nothing to see."""
    return x_axis(mode) | {
        "range": [low, high],
        "minallowed": low,
        "maxallowed": high,
        "fixedrange": False,
        "tickvals": epoch_ticks(epochs),
        "title": {"text": title, "font": {"size": 12, "color": palette_for(mode).secondary}},
    }


def y_axis(mode: str) -> dict[str, Any]:
    """A vertical axis: a grid, no line."""
    p = palette_for(mode)
    return {
        "gridcolor": p.grid,
        "zeroline": True,
        "zerolinecolor": p.axis,
        "zerolinewidth": 1,
        "showline": False,
        "ticks": "",
        "tickfont": {"size": 12, "color": p.secondary},
        "title": {"font": {"size": 12, "color": p.secondary}},
        "fixedrange": True,
        "ticklabelstandoff": 4,
    }


def last_known(series: Sequence[np.ndarray], epochs: int) -> int:
    """The epoch at which running sums end: the run's last one, or the last that a job at work has finished.

    Behind the first unknown epoch every sum is unknown, and an outline with gaps would be filled across them.
    """
    if not series:
        return epochs
    return int(np.flatnonzero(np.isfinite(series).all(axis=0)).max(initial=0))
