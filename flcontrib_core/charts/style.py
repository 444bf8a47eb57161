"""Which colours, marks and margins do all charts share?

Colour is data, the interface is ink. Lines say who, fills say which sign; never both in one mark. Client colours were
chosen for the largest smallest distance under normal, protan, deutan and tritan vision with at least 3:1 contrast:
five hues plus dash and marker is the honest limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from flcontrib_core.charts.picture import Picture
from flcontrib_core.words import numbers

FONT = '"Source Sans", sans-serif'
AXIS = {
    "title": {"standoff": 15},
    "gridcolor": "rgba(0,0,0,0)",
    "zerolinewidth": 1,
    "ticklabeloverflow": "allow",  # our margins hold the labels; measuring each is a third of drawing a heat map
}
BAR = {"marker": {"line": {"width": 0}}}
DASHES = ("solid", "dash", "dot", "dashdot")
MARKERS = ("circle", "square", "diamond", "triangle-up", "hexagon")


@dataclass(frozen=True)
class Palette:
    page: str
    soft: str
    ink: str
    secondary: str
    border: str
    grid: str
    axis: str
    context: str
    absent: str
    hatch: str
    harm: str
    help: str
    clients: tuple[str, ...]
    heat: tuple[str, ...]
    """harm → 0 → help"""


LIGHT = Palette(
    page="#FFFFFF",
    soft="#F5F6F8",
    ink="#171A21",
    secondary="#5B6270",
    border="#E3E6EB",
    grid="#EEF0F3",
    axis="#C9CED6",
    context="#AEB5C0",
    absent="#C3C8D0",
    hatch="#9AA2AF",
    harm="#B8400A",
    help="#0B62A8",
    clients=("#305396", "#3BA086", "#5A152A", "#8B4F00", "#B661F6"),
    heat=("#8F2E04", "#E08A57", "#F4F5F7", "#6BA8DA", "#0A4B85"),
)
DARK = Palette(
    page="#0F1218",
    soft="#171B23",
    ink="#E8EAF0",
    secondary="#A9B1BF",
    border="#2A303B",
    grid="#1E242E",
    axis="#3A424F",
    context="#5E6776",
    absent="#414957",
    hatch="#6B7484",
    harm="#FF8A4C",
    help="#5CB3F0",
    clients=("#6C84F2", "#5FE3BD", "#F0508A", "#F3A124", "#ADAEF9"),
    heat=("#FF9A5F", "#9C4A20", "#2A303B", "#24618F", "#7CC6FA"),
)


def palette(mode: str) -> Palette:
    """'light' or 'dark', as the browser says."""
    return DARK if mode == "dark" else LIGHT


@dataclass(frozen=True)
class ClientStyle:
    """One client's look on every page: colour, dash and marker by its position in the sorted ids."""

    colour: str
    dash: str
    marker: str


@lru_cache(maxsize=32)
def client_styles(client_ids: tuple[str, ...], mode: str) -> dict[str, ClientStyle]:
    colours = palette(mode).clients
    return {
        client: ClientStyle(colours[i % 5], DASHES[(i // 5) % 4], MARKERS[(i + i // 5) % 5])
        for i, client in enumerate(sorted(client_ids))
    }


def plain(text: str) -> str:
    """A client's name as text in Plotly, which would read <…> and &…; as markup."""
    return numbers.visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def short(text: str, most: int) -> str:
    """A name that fits beside an axis, as text in Plotly."""
    return plain(text if len(text) <= most else text[: most - 1] + "…")


def translucent(colour: str, alpha: float) -> str:
    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({r},{g},{b},{alpha})"


def base_figure(mode: str, height: int, **margins: int) -> Picture:
    """An empty figure in the house style: transparent, horizontal grid only, no legend, no dragging."""
    p = palette(mode)
    layout = dict(
        height=height,
        margin={"l": 54, "r": 16, "t": 12, "b": 46} | margins,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
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
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": p.secondary, "activecolor": p.ink},
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
        textfont={"size": 12, "color": palette(mode).secondary},
        cliponaxis=False,
        hoverinfo="skip",
    )


def hatch_of(mode: str) -> dict[str, Any]:
    """The hatch that says: not computed."""
    p = palette(mode)
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
    p = palette(mode)
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


def y_axis(mode: str) -> dict[str, Any]:
    p = palette(mode)
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


def epoch_ticks(epochs: int) -> list[int]:
    """1, 5, 10 … – at most about ten labels."""
    step = next(s for s in (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 10**9) if epochs / s <= 9)
    return sorted({1, *range(step, epochs + 1, step)}) if epochs else [0]


def signed_ticks(low: float, high: float, about: int = 5) -> dict[str, Any]:
    """Round tick positions with explicit signs, a real minus and a plain 0."""
    span = high - low
    if not span > 0:
        return {}
    raw = span / about
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 2.5, 5, 10) if m * size >= raw)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    digits += 1 if abs(step * 10**digits - round(step * 10**digits)) > 1e-9 else 0
    values = [n * step for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    return {"tickvals": values, "ticktext": [_signed(v, digits) for v in values]}


def leading_digit_up(value: float) -> float:
    """To one leading digit, upwards, so that a colour scale ends at a readable number; 1 for nothing."""
    if not value > 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return float(math.ceil(value / size) * size)


def _signed(value: float, digits: int) -> str:
    text = f"{abs(value):.{digits}f}"
    return "0" if float(text) == 0 else ("+" if value > 0 else "−") + text


def spread_labels(positions: list[float], smallest_gap: float) -> list[float]:
    """Moves label positions apart so that neighbours keep the gap, staying as near as possible to their lines."""
    order = sorted(range(len(positions)), key=positions.__getitem__)
    groups: list[tuple[float, list[int]]] = []
    for i in order:
        groups.append((positions[i], [i]))
        while len(groups) > 1:
            (c1, m1), (c2, m2) = groups[-2], groups[-1]
            if c2 - c1 >= smallest_gap * (len(m1) + len(m2)) / 2:
                break
            merged = m1 + m2
            centre = sum(positions[k] for k in merged) / len(merged)
            groups[-2:] = [(centre, merged)]
    placed = list(positions)
    for centre, members in groups:
        first = centre - smallest_gap * (len(members) - 1) / 2
        for n, i in enumerate(members):
            placed[i] = first + n * smallest_gap
    return placed


def last_known(series: Sequence[np.ndarray], epochs: int) -> int:
    """The epoch at which running sums end: the run's last one, or the last that a job at work has finished.

    Behind the first unknown epoch every sum is unknown, and an outline with gaps would be filled across them.
    """
    if not series:
        return epochs
    return int(np.flatnonzero(np.isfinite(series).all(axis=0)).max(initial=0))
