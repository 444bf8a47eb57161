"""Traces as SVG marks: lines, areas, signs, words, bars with intervals and hatches, cells of a heat map.

One outline holds all marks of one look: a heat map of thousands of cells stays a small drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from flcontrib_core.charts.svg_frame import STRETCHED, Axis, Frame, paint, pixels, share, stroke, text

LEVELS = 40
"""Steps of a colour scale, so that a light drawing and its dark twin have the same number of colours."""
GAP_ROOM = 640.0
"""How wide a chart is thought to be where nobody knows: the gaps between cells are given in pixels."""
_LAYERS = ("heatmap", "bar", "scatter")
"""From below, as Plotly stacks them, whatever the order of the traces."""
Mark = tuple[bool, str]
"""(stretched to the room?, SVG)"""


@dataclass
class Plot:
    """One subplot while it is drawn: where values lie in it, and what its marks refer to by name."""

    x: Axis
    y: Axis
    frame: Frame
    prefix: str
    """Of names: several drawings stand in one page."""
    definitions: dict[str, str] = field(default_factory=dict)

    @property
    def height(self) -> float:
        """Pixels from the lower to the upper end."""
        return (self.y.end - self.y.start) * self.frame.inner_height

    @property
    def width(self) -> float:
        """Units of a stretched outline; pixels where the sheet has a width."""
        inner = self.frame.inner_width
        return STRETCHED if inner is None else inner * (self.x.end - self.x.start)

    def across(self, values: Any) -> np.ndarray:
        """Units from the left."""
        return np.asarray(self.x.share(_numbers(values)) * self.width)

    def down(self, values: Any) -> np.ndarray:
        """Pixels from the top."""
        return np.asarray((1 - self.y.share(_numbers(values))) * self.height)

    def define(self, content: str) -> str:
        """The name of a definition with ``{name}`` in it; the same content has one name."""
        if content not in self.definitions:
            self.definitions[content] = f"{self.prefix}{len(self.definitions)}"
        return self.definitions[content]


def draw_subplot(plot: Plot, traces: Sequence[Mapping[str, Any]]) -> str:
    """The traces of one pair of axes, cut off at its edges except where a trace says otherwise."""
    draw: dict[str, Callable[[Mapping[str, Any], Plot], list[Mark]]] = {
        "heatmap": _heatmap,
        "bar": _bar,
        "scatter": _scatter,
    }
    parts = []
    for kind in _LAYERS:
        for clipped, group in groupby(
            (t for t in traces if t["type"] == kind), key=lambda t: bool(t.get("cliponaxis", True))
        ):
            marks = [mark for trace in group for mark in draw[kind](trace, plot)]
            parts.append(_placed(plot, marks, clipped))
    return "".join(parts)


def _placed(plot: Plot, marks: Iterable[Mark], clipped: bool) -> str:
    inside = []
    for stretched, group in groupby(marks, key=lambda mark: mark[0]):
        body = "".join(mark for _, mark in group if mark)
        if body and stretched:
            box = f'viewBox="0 0 {pixels(plot.width)} {pixels(plot.height)}" preserveAspectRatio="none"'
            body = f"<svg {box}{'' if clipped else _OPEN}>{body}</svg>"
        inside.append(body)
    if not any(inside):
        return ""
    x, y = plot.x, plot.frame.down(plot.y.end)
    place = f'x="{share(x.start)}" y="{pixels(y)}" width="{share(x.end - x.start)}" height="{pixels(plot.height)}"'
    return f"<svg {place}{'' if clipped else _OPEN}>{''.join(inside)}</svg>"


_OPEN = ' overflow="visible"'


def _numbers(values: Any) -> np.ndarray:
    return np.array([np.nan if v is None else v for v in values] if isinstance(values, list | tuple) else values, float)


def _each(value: Any, count: int) -> list[Any]:
    """A property of every mark: one for all, or a list."""
    return list(value) if isinstance(value, list | tuple | np.ndarray) else [value] * count


# Lines, areas, signs and words


def _scatter(trace: Mapping[str, Any], plot: Plot) -> list[Mark]:
    mode = trace["mode"]
    x, y = plot.across(trace["x"]), plot.down(trace["y"])
    marks: list[Mark] = []
    line = trace.get("line", {})
    if trace.get("fill") == "toself":
        marks += _area(x, y, trace, plot)
    if "lines" in mode and line.get("width", 2) > 0:
        look = f'fill="none" {stroke(line)} stroke-linejoin="round" {_UNSTRETCHED}'
        marks.append((True, _path(_polyline(x, y), look)))
    if "markers" in mode and trace["marker"].get("opacity", 1) > 0:
        marks += _signs(x, y, trace["marker"], plot)
    if "text" in mode:
        marks += _words(trace, plot)
    return marks


_UNSTRETCHED = 'vector-effect="non-scaling-stroke"'


def _path(steps: str, look: str) -> str:
    return f'<path d="{steps}" {look}/>' if steps else ""


def _polyline(x: np.ndarray, y: np.ndarray, close: str = "") -> str:
    """A line through the points, interrupted where one has no number."""
    there = np.isfinite(x) & np.isfinite(y)
    runs = np.split(np.arange(len(x)), np.flatnonzero(np.diff(there.astype(int))) + 1)
    pieces = []
    for run in runs:
        if len(run) and there[run[0]]:
            points = "L".join(f"{pixels(a)} {pixels(b)}" for a, b in zip(x[run], y[run], strict=True))
            pieces.append(f"M{points}{close}")
    return "".join(pieces)


def _area(x: np.ndarray, y: np.ndarray, trace: Mapping[str, Any], plot: Plot) -> list[Mark]:
    pattern = trace.get("fillpattern")
    if pattern is None:
        return [(True, _path(_polyline(x, y, "z"), paint("fill", trace["fillcolor"])))]
    return [(False, _hatched(_polyline(x / plot.width * STRETCHED, y / plot.height * STRETCHED, "z"), pattern, plot))]


def _signs(x: np.ndarray, y: np.ndarray, marker: Mapping[str, Any], plot: Plot) -> list[Mark]:
    count = len(x)
    symbols = _each(marker.get("symbol", "circle"), count)
    sizes = _each(marker.get("size", 6), count)
    colours = _each(marker["color"], count)
    line = marker.get("line", {})
    edges, edge = _each(line.get("color", "none"), count), float(line.get("width", 0))
    there = np.isfinite(x) & np.isfinite(y)
    if edge == 0 and symbols == ["circle"] * count and len({*sizes}) == len({*colours}) == 1:
        dots = "".join(f"M{pixels(a)} {pixels(b)}h0" for a, b in zip(x[there], y[there], strict=True))
        look = f'{paint("stroke", colours[0])} stroke-width="{pixels(sizes[0])}" stroke-linecap="round" {_UNSTRETCHED}'
        return [(True, _path(dots, look))]
    marks = []
    for i in np.flatnonzero(there):
        solid = symbols[i].removesuffix("-open")
        name = plot.define(f'<path id="{{name}}" d="{_outline(solid, sizes[i] / 2)}"/>')
        is_open = solid != symbols[i]
        fill = 'fill="none"' if is_open else paint("fill", colours[i])
        rim = f' {paint("stroke", colours[i] if is_open else edges[i])} stroke-width="{edge}"' if edge else ""
        marks.append(f'<use href="#{name}" x="{share(x[i] / plot.width)}" y="{pixels(y[i])}" {fill}{rim}/>')
    return [(False, "".join(marks))]


def _outline(symbol: str, r: float) -> str:
    if symbol == "circle":
        return f"M{-r:g} 0a{r:g} {r:g} 0 1 1 {2 * r:g} 0a{r:g} {r:g} 0 1 1 {-2 * r:g} 0z"
    corners = _CORNERS[symbol]
    return "M" + "L".join(f"{a * r:.2f} {b * r:.2f}" for a, b in corners) + "z"


_CORNERS: dict[str, Sequence[tuple[float, float]]] = {
    "square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
    "diamond": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
    "triangle-up": [(0, -1), (1.155, 0.5), (-1.155, 0.5)],
    "triangle-down": [(0, 1), (1.155, -0.5), (-1.155, -0.5)],
    "hexagon": [(0, -1), (0.866, -0.5), (0.866, 0.5), (0, 1), (-0.866, 0.5), (-0.866, -0.5)],
    "cross": [
        *((-1.2, -0.4), (-0.4, -0.4), (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4)),
        *((1.2, 0.4), (0.4, 0.4), (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4)),
    ],
    "x": [
        *((0, 0.566), (0.566, 1.131), (1.131, 0.566), (0.566, 0), (1.131, -0.566), (0.566, -1.131)),
        *((0, -0.566), (-0.566, -1.131), (-1.131, -0.566), (-0.566, 0), (-1.131, 0.566), (-0.566, 1.131)),
    ],
}
"""Of Plotly's signs, in half sizes."""


def _words(trace: Mapping[str, Any], plot: Plot) -> list[Mark]:
    """Plotly's text trace; ours stands to the right of its point."""
    font = trace["textfont"]
    x, y = plot.x.share(_numbers(trace["x"])), plot.down(trace["y"])
    return [(False, text(a, b + 0.25 * font["size"], w, font)) for a, b, w in zip(x, y, trace["text"], strict=True)]


# Bars


def _bar(trace: Mapping[str, Any], plot: Plot) -> list[Mark]:
    """Bars of one colour are one outline; intervals and words stand above them."""
    lying = trace.get("orientation") == "h"
    at, length = _numbers(trace["y" if lying else "x"]), _numbers(trace["x" if lying else "y"])
    base = np.broadcast_to(_numbers(trace.get("base", 0.0)), length.shape)
    half = trace["width"] / 2
    ends = (base, base + length, at - half, at + half) if lying else (at - half, at + half, base, base + length)
    left, right, bottom, top = plot.across(ends[0]), plot.across(ends[1]), plot.down(ends[2]), plot.down(ends[3])
    marker = trace["marker"]
    colours = np.array(_each(marker["color"], len(at)))
    there = np.isfinite(length)
    marks: list[Mark] = []
    for colour in dict.fromkeys(colours.tolist()):
        own = there & (colours == colour)
        if "pattern" in marker:
            wide, high = STRETCHED / plot.width, STRETCHED / plot.height
            cells = _boxes(left[own] * wide, right[own] * wide, bottom[own] * high, top[own] * high)
            marks.append((False, _hatched(cells, marker["pattern"], plot)))
        elif paint("fill", colour) != 'fill="none"':
            marks.append((True, _path(_boxes(left[own], right[own], bottom[own], top[own]), paint("fill", colour))))
    return [*marks, *_intervals(trace, at, base + length, plot), *_bar_words(trace, plot)]


def _boxes(left: np.ndarray, right: np.ndarray, bottom: np.ndarray, top: np.ndarray) -> str:
    cells = zip(left, top, right - left, bottom - top, strict=True)
    return "".join(f"M{pixels(x)} {pixels(y)}h{pixels(w)}v{pixels(h)}h{pixels(-w)}z" for x, y, w, h in cells)


def _intervals(trace: Mapping[str, Any], at: np.ndarray, ends: np.ndarray, plot: Plot) -> list[Mark]:
    error = trace.get("error_x") or trace.get("error_y")
    if error is None:
        return []
    size = np.nan_to_num(_numbers(error["array"]))
    low, high = ends - size, ends + size
    if "error_x" in trace:
        pieces = zip(plot.across(low), plot.down(at), plot.across(high), plot.down(at), strict=True)
    else:
        pieces = zip(plot.across(at), plot.down(low), plot.across(at), plot.down(high), strict=True)
    steps = "".join(
        f"M{pixels(a)} {pixels(b)}L{pixels(c)} {pixels(d)}"
        for (a, b, c, d), width in zip(pieces, size, strict=True)
        if width > 0 and np.isfinite([a, b, c, d]).all()
    )
    look = f'{paint("stroke", error["color"])} stroke-width="{error["thickness"]}" {_UNSTRETCHED}'
    return [(True, _path(steps, look))]


def _bar_words(trace: Mapping[str, Any], plot: Plot) -> list[Mark]:
    if "text" not in trace:
        return []
    font = trace["textfont"]
    x, y = plot.x.share(_numbers(trace["x"])), plot.down(np.maximum(_numbers(trace["y"]), 0.0))
    return [
        (False, text(a, b - 3 - 0.25 * font["size"], w, font, anchor="middle"))
        for a, b, w in zip(x, y, trace["text"], strict=True)
    ]


def _hatched(steps: str, pattern: Mapping[str, Any], plot: Plot) -> str:
    """Cells of a hatch that stays as it is when they are stretched: the whole plot, seen through the cells."""
    if not steps:
        return ""
    size, thick = pattern["size"], pattern["solidity"] * pattern["size"]
    ground = paint("fill", pattern["bgcolor"])
    hatch = plot.define(
        f'<pattern id="{{name}}" width="{size}" height="{size}" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="{size}" height="{size}" {ground}/>'
        f'<rect width="{thick:.2f}" height="{size}" {paint("fill", pattern["fgcolor"])}/></pattern>'
    )
    small = f'transform="scale({1 / STRETCHED:g})"'
    cells = plot.define(
        f'<clipPath id="{{name}}" clipPathUnits="objectBoundingBox"><path {small} d="{steps}"/></clipPath>'
    )
    return f'<rect width="100%" height="100%" fill="url(#{hatch})" clip-path="url(#{cells})"/>'


# Cells


def _heatmap(trace: Mapping[str, Any], plot: Plot) -> list[Mark]:
    values = np.asarray(trace["z"], dtype=float)
    rows, columns = np.nonzero(np.isfinite(values))
    share_of_scale = (values[rows, columns] - trace["zmin"]) / (trace["zmax"] - trace["zmin"])
    levels = np.rint(np.clip(share_of_scale, 0, 1) * LEVELS).astype(int)
    wide, high = _spacing(trace["x"]) / 2, _spacing(trace["y"]) / 2
    across, up = _numbers(trace["x"])[columns], _numbers(trace["y"])[rows]
    stretch = 1.0 if plot.frame.width is not None else STRETCHED / GAP_ROOM
    gap_x, gap_y = trace.get("xgap", 0) / 2 * stretch, trace.get("ygap", 0) / 2
    left, right = plot.across(across - wide) + gap_x, plot.across(across + wide) - gap_x
    bottom, top = plot.down(up - high) - gap_y, plot.down(up + high) + gap_y
    colours = level_colours(trace["colorscale"])
    return [
        (
            True,
            _path(
                _boxes(left[own], right[own], bottom[own], top[own]),
                f'fill="{colours[level]}" shape-rendering="crispEdges"',
            ),
        )
        for level in np.unique(levels)
        if (own := levels == level) is not None
    ]


def _spacing(places: Sequence[float]) -> float:
    return abs(float(places[1]) - float(places[0])) if len(places) > 1 else 1.0


def level_colours(scale: Sequence[Sequence[Any]]) -> list[str]:
    """The steps of a colour scale that is given as [place from 0 to 1, colour]."""
    places = [float(place) for place, _ in scale]
    parts = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for _, colour in scale])
    at = np.linspace(0, 1, LEVELS + 1)
    mixed = np.stack([np.interp(at, places, parts[:, c]) for c in range(3)], axis=1)
    return ["#" + "".join(f"{round(v):02X}" for v in colour) for colour in mixed.tolist()]
