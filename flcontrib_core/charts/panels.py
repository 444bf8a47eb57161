"""Small panels side by side: methods or clients as lines with signs, measured points filled, predicted ones open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flcontrib_core.charts.palette import DASHES, FAR_APART, MARKERS, palette_for
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import base_figure, plain, x_axis, y_axis
from flcontrib_core.charts.ticks import plain_ticks
from flcontrib_core.vocabulary import FloatArray

GLYPHS = dict(zip(MARKERS, "●■◆▲⬢✚▼✖", strict=True))
"""What stands for a marker in the key, which is text."""
ROW_HEIGHT, HEAD, KEY_LINE, FOOT = 236, 34, 20, 52
KEY_WIDTH = 118
"""Characters of one line of the key, about."""
GUTTER = 0.075
CROWDED = 40
"""Lines of more points have smaller signs."""


@dataclass(frozen=True)
class Line:
    """One method's or client's points in a panel, in the order they are joined."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    predicted: tuple[bool, ...] = ()
    """Which points were computed from a cost model instead of run; empty: none"""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    """What the upright axis shows, too"""
    x_title: str
    lines: tuple[Line, ...]
    logarithmic: bool = False
    x_values: tuple[float, ...] = ()
    """Where the x axis has ticks; empty: round ones"""
    shaded: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    limit: float | None = None
    """A dashed line across, e.g. a cut-off"""
    logarithmic_x: bool = False
    sign_every: int = 1
    """Long lines side by side have a sign at every so many points"""


@dataclass(frozen=True)
class PanelFacts:
    """What a figure shows, before any drawing."""

    title: str
    take_away: str
    panels: tuple[Panel, ...]
    columns: int = 3
    names: tuple[str, ...] = field(default=())
    """Of the lines, in the order of their looks; empty: as they come"""

    @property
    def series(self) -> tuple[str, ...]:
        """Every name once."""
        drawn = dict.fromkeys(line.name for panel in self.panels for line in panel.lines)
        return tuple(dict.fromkeys([*(n for n in self.names if n in drawn), *drawn]))


def panels_alt(facts: PanelFacts) -> str:
    """The take-away and what the panels show."""
    shown = "; ".join(dict.fromkeys(panel.title for panel in facts.panels))
    return f"{facts.take_away} Panels: {shown}. Lines: {', '.join(facts.series)}."


def panels_rows(facts: PanelFacts) -> list[dict[str, object]]:
    """The numbers behind the picture."""
    return [
        {"panel": panel.title, "line": line.name, panel.x_title: x, "value": y, "predicted": guess}
        for panel in facts.panels
        for line in panel.lines
        for x, y, guess in zip(line.x, line.y, line.predicted or (False,) * len(line.x), strict=True)
    ]


def draw_panels(facts: PanelFacts, mode: str) -> Picture:
    """All panels in rows of ``columns``, with one key above them."""
    key = _key_lines(facts.series)
    rows = -(-len(facts.panels) // facts.columns)
    top = 10 + KEY_LINE * len(key)
    figure = base_figure(mode, top + rows * (ROW_HEIGHT + HEAD), l=52, r=14, t=top, b=FOOT)
    inner = rows * (ROW_HEIGHT + HEAD) - FOOT
    _draw_key(figure, key, facts.series, mode, inner)
    wide = (1 - GUTTER * (facts.columns - 1)) / facts.columns
    for n, panel in enumerate(facts.panels):
        row, column = divmod(n, facts.columns)
        left = column * (wide + GUTTER)
        upper = 1 - (row * (ROW_HEIGHT + HEAD) + HEAD - 8) / inner
        lower = 1 - (row * (ROW_HEIGHT + HEAD) + HEAD + ROW_HEIGHT - FOOT) / inner
        _draw_panel(figure, panel, n + 1, ((left, left + wide), (max(0.0, lower), upper)), facts.series, mode)
    return figure


def _look(name: str, series: Sequence[str], mode: str) -> tuple[str, str, str]:
    """Colour, dash and sign of a line. Where a colour comes again its sign is another: the key shows no dashes."""
    colours = palette_for(mode).clients
    place = series.index(name)
    turn, slot = divmod(place, len(colours))
    return colours[slot], DASHES[(turn + (slot >= FAR_APART)) % len(DASHES)], MARKERS[(place + turn) % len(MARKERS)]


def _key_lines(series: Sequence[str]) -> list[list[str]]:
    lines: list[list[str]] = [[]]
    taken = 0
    for name in series:
        if taken + len(name) + 4 > KEY_WIDTH and lines[-1]:
            lines.append([])
            taken = 0
        lines[-1].append(name)
        taken += len(name) + 4
    return lines


def _draw_key(figure: Picture, key: list[list[str]], series: Sequence[str], mode: str, inner: float) -> None:
    for n, names in enumerate(key):
        places = np.cumsum([0, *(len(name) + 4 for name in names)]) / KEY_WIDTH
        for name, place in zip(names, places[:-1], strict=True):
            colour, _, sign = _look(name, series, mode)
            figure.add_annotation(
                x=float(place),
                y=1 + (KEY_LINE * (len(key) - n) - 6) / inner,
                xref="paper",
                yref="paper",
                xanchor="left",
                yanchor="middle",
                showarrow=False,
                text=f"{GLYPHS[sign]} {plain(name)}",
                font={"size": 12, "color": colour},
            )


def _draw_panel(
    figure: Picture,
    panel: Panel,
    number: int,
    place: tuple[tuple[float, float], tuple[float, float]],
    series: Sequence[str],
    mode: str,
) -> None:
    suffix = "" if number == 1 else str(number)
    x, y = f"x{suffix}", f"y{suffix}"
    p = palette_for(mode)
    low, high, ticks = _upright(panel)
    if panel.shaded is not None:
        figure.add_shape(
            type="rect", x0=panel.shaded[0], x1=panel.shaded[1], xref=x, y0=0, y1=1, yref=f"{y} domain",
            fillcolor=p.border, line={"width": 0}, layer="below",
        )  # fmt: skip
    for line in panel.lines:
        _draw_line(figure, line, panel, (x, y), series, mode)
    if panel.limit is not None:
        height = math.log10(panel.limit) if panel.logarithmic else panel.limit
        figure.add_shape(
            type="line", x0=0, x1=1, xref=f"{x} domain", y0=height, y1=height, yref=y,
            line={"color": p.secondary, "width": 1, "dash": "dot"},
        )  # fmt: skip
    figure.add_annotation(
        x=0, y=1, xref=f"{x} domain", yref=f"{y} domain", xanchor="left", yanchor="bottom", yshift=3, showarrow=False,
        text=f"<b>{plain(panel.title)}</b>", font={"size": 12, "color": p.ink},
    )  # fmt: skip
    title = {"text": panel.x_title, "font": {"size": 12, "color": p.secondary}}
    figure.update_layout(
        **{
            f"xaxis{suffix}": x_axis(mode) | {"domain": list(place[0]), "anchor": y, "title": title} | _across(panel),
            f"yaxis{suffix}": y_axis(mode)
            | {"domain": list(place[1]), "anchor": x, "range": [low, high], "zeroline": not panel.logarithmic}
            | ticks,
        }
    )


def _draw_line(
    figure: Picture, line: Line, panel: Panel, axes: tuple[str, str], series: Sequence[str], mode: str
) -> None:
    colour, dash, sign = _look(line.name, series, mode)
    across, heights = _scaled(line.x, panel.logarithmic_x), _scaled(line.y, panel.logarithmic)
    guessed = np.array(line.predicted or (False,) * len(line.x), dtype=bool)
    signed = np.arange(len(line.x)) % panel.sign_every == 0
    figure.add_scatter(
        x=across, y=heights, xaxis=axes[0], yaxis=axes[1], mode="lines",
        line={"color": colour, "width": 1.8, "dash": dash}, hoverinfo="skip",
    )  # fmt: skip
    size = 7 if len(line.x) <= CROWDED else 4
    for some, symbol in ((signed & ~guessed, sign), (signed & guessed, f"{sign}-open")):
        if some.any():
            figure.add_scatter(
                x=across[some], y=heights[some],
                xaxis=axes[0], yaxis=axes[1], mode="markers",
                marker={"color": colour, "symbol": symbol, "size": size, "line": {"color": colour, "width": 1.2}},
                customdata=[
                    [x, y] for x, y, keep in zip(line.x, line.y, some, strict=True) if keep
                ],
                hovertemplate=(
                    f"{plain(line.name)}<br>%{{customdata[0]:.4g}}: <b>%{{customdata[1]:.3g}}</b><extra></extra>"
                ),
            )  # fmt: skip


def _scaled(values: Sequence[float], logarithmic: bool) -> FloatArray:
    """As drawn: powers of ten where the axis is logarithmic, with a hole for what has none."""
    drawn = np.array(values, dtype=float)
    return np.log10(np.where(drawn > 0, drawn, np.nan)) if logarithmic else drawn


def _upright(panel: Panel) -> tuple[float, float, dict[str, Any]]:
    """The range and the ticks of the upright axis; powers of ten where it is logarithmic."""
    limit = () if panel.limit is None else (panel.limit,)
    values = np.array([*(v for line in panel.lines for v in line.y), *limit], dtype=float)
    values = values[np.isfinite(values) & (values > 0 if panel.logarithmic else True)]
    if panel.y_range is not None:
        low, high = panel.y_range
    elif panel.logarithmic:
        low, high = (np.log10(values.min()), np.log10(values.max())) if len(values) else (-1.0, 1.0)
    else:
        low, high = (min(0.0, float(values.min())), float(values.max())) if len(values) else (0.0, 1.0)
    room = 0.05 * (high - low or 1.0)
    low, high = float(low - room), float(high + room)
    return low, high, _power_ticks(low, high) if panel.logarithmic else plain_ticks(low, high)


def _power_ticks(low: float, high: float) -> dict[str, Any]:
    """Whole powers of ten, six at most; 1, 2 and 5 of each where there are fewer than three."""
    powers = range(math.ceil(low), math.floor(high) + 1)
    if len(powers) < 3:
        values = [n * 10.0**k for k in range(math.floor(low), math.ceil(high) + 1) for n in (1, 2, 5)]
        inside = [value for value in values if low <= math.log10(value) <= high]
        return {"tickvals": [math.log10(value) for value in inside], "ticktext": [f"{value:.3g}" for value in inside]}
    step = max(1, -(-len(powers) // 6))
    shown = [k for k in powers if k % step == 0]
    return {"tickvals": shown, "ticktext": [_power(k) for k in shown]}


def _power(exponent: int) -> str:
    """0.01 … 1000 as they are, beyond as powers of ten."""
    if -2 <= exponent <= 3:
        return f"{10.0**exponent:g}"
    raised = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}"


def _across(panel: Panel) -> dict[str, Any]:
    values = _scaled([v for line in panel.lines for v in line.x] or [0.1, 1.0], panel.logarithmic_x)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    room = 0.04 * (high - low or 1.0)
    ticks = _power_ticks(low, high) if panel.logarithmic_x else plain_ticks(low, high, 4)
    if panel.x_values:
        ticks = {"tickvals": list(panel.x_values), "ticktext": [f"{v:g}" for v in panel.x_values]}
    return {"range": [low - room, high + room], **ticks}
