"""Places on an SVG sheet: axes, subplots, and numbers, colours and words as SVG spells them.

A sheet is as wide as its reader's window: heights are pixels, widths are shares of the room between the margins. That
is Plotly's own rule, so both draw a picture alike at any width. Where a mark has a size in pixels it stands at a share
(``x="12.5%"``); an outline is drawn in units that are stretched to the room, with strokes that are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape, unescape
from typing import Any

import numpy as np

from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import ISOLATES
from flcontrib_core.words.numbers import visible

STRETCHED = 1000.0
"""Units from the left to the right end of a subplot where its width is not known."""
_AXIS = re.compile(r"([xy])axis(\d*)")
_RGBA = re.compile(r"rgba\((\d+),\s*(\d+),\s*(\d+),\s*([\d.]+)\)")
_TAG = re.compile(r"(</?b>)")


@dataclass(frozen=True)
class Axis:
    """One axis: its range, and the part of the room it stands in."""

    name: str
    low: float
    high: float
    start: float
    end: float
    look: Mapping[str, Any]

    def share(self, values: Any) -> Any:
        """Where values lie between the axis' two ends: 0 to 1."""
        return (np.asarray(values, dtype=float) - self.low) / (self.high - self.low)

    def place(self, value: float) -> float:
        """Where a value lies in the whole room between the margins."""
        return self.start + float(self.share(value)) * (self.end - self.start)


@dataclass(frozen=True)
class Frame:
    """A picture's margins and axes; ``width`` in pixels, or None for as wide as there is room."""

    picture: Picture
    width: float | None

    @cached_property
    def axes(self) -> dict[str, Axis]:
        """By name: x, x2, y …"""
        return {m[1] + m[2]: _axis(m[1] + m[2], v) for k, v in self.layout.items() if (m := _AXIS.fullmatch(k))}

    @property
    def layout(self) -> dict[str, Any]:
        """The picture's layout."""
        return self.picture.layout

    @property
    def margin(self) -> dict[str, float]:
        """Pixels at the left, right, top and bottom."""
        return dict(self.layout["margin"])

    @property
    def inner_width(self) -> float | None:
        """Pixels between the margins, where the sheet has a width."""
        return None if self.width is None else self.width - self.margin["l"] - self.margin["r"]

    @property
    def inner_height(self) -> float:
        """Pixels between the margins."""
        return float(self.layout["height"] - self.margin["t"] - self.margin["b"])

    def subplots(self) -> list[tuple[Axis, Axis]]:
        """The pairs of axes that traces stand on."""
        pairs = dict.fromkeys((t.get("xaxis", "x"), t.get("yaxis", "y")) for t in self.picture.data)
        return [(self.axes[x], self.axes[y]) for x, y in pairs]

    def down(self, share: float) -> float:
        """Pixels from the top of the sheet to a height that is given as a share of the room, from below."""
        return self.margin["t"] + (1 - share) * self.inner_height

    def x(self, reference: str, value: float) -> float:
        """Share of the room, from the left."""
        return self._place(reference, value)

    def y(self, reference: str, value: float) -> float:
        """Pixels from the top."""
        return self.down(self._place(reference, value))

    def _place(self, reference: str, value: float) -> float:
        if reference == "paper":
            return value
        name, _, domain = reference.partition(" ")
        axis = self.axes[name]
        if domain:
            return axis.start + value * (axis.end - axis.start)
        return min(max(axis.place(value), axis.start), axis.end)


def _axis(name: str, look: Mapping[str, Any]) -> Axis:
    if "range" not in look:
        raise ValueError(f"the picture's axis {name} has no range: only Plotly could find one by itself")
    start, end = look.get("domain", (0.0, 1.0))
    return Axis(name, float(look["range"][0]), float(look["range"][1]), start, end, look)


def share(value: float) -> str:
    """12.5%"""
    return f"{100 * value:.2f}".rstrip("0").rstrip(".") + "%"


def pixels(value: float) -> str:
    """A length to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def paint(kind: str, colour: str) -> str:
    """``fill`` or ``stroke`` with a colour; a translucent one as a colour and its opacity."""
    rgba = _RGBA.fullmatch(colour)
    if not rgba:
        return f'{kind}="{colour}"'
    if float(rgba[4]) == 0:
        return f'{kind}="none"'
    solid = "#" + "".join(f"{int(part):02X}" for part in rgba.groups()[:3])
    return f'{kind}="{solid}" {kind}-opacity="{rgba[4]}"'


def dashes(dash: str, width: float) -> str:
    """As Plotly cuts a line."""
    unit = max(width, 3.0)
    pieces = {"solid": (), "dot": (1, 1), "dash": (3, 3), "dashdot": (3, 1, 1, 1)}[dash]
    return f' stroke-dasharray="{" ".join(pixels(n * unit) for n in pieces)}"' if pieces else ""


def stroke(line: Mapping[str, Any], default: str = "none") -> str:
    """A line's colour, width and dashes."""
    width = float(line.get("width", 2))
    if width == 0:
        return 'stroke="none"'
    look = f'{paint("stroke", line.get("color", default))} stroke-width="{pixels(width)}"'
    return look + dashes(line.get("dash", "solid"), width)


def _seen(text: str) -> str:
    """``visible``, but for the signs that ``client_label`` sets a name apart with; a name's own are words by then."""
    return "".join(part if part in ISOLATES else visible(part) for part in re.split(f"([{ISOLATES}])", text) if part)


def words(text: str) -> str:
    """One line of Plotly's markup as SVG: bold is known, everything else is text."""
    bold, pieces = False, []
    for piece in _TAG.split(text):
        if _TAG.fullmatch(piece):
            bold = piece == "<b>"
        elif piece:
            inside = escape(_seen(unescape(piece)))
            pieces.append(f'<tspan font-weight="700">{inside}</tspan>' if bold else inside)
    return "".join(pieces)


def text(
    x: float,
    y: float,
    content: str,
    font: Mapping[str, Any],
    *,
    anchor: str = "start",
    shift: float = 0.0,
    name: str = "",
    ground: str = "",
) -> str:
    """Words at a share of the room and a height; ``shift`` pixels to the right. ``<br>`` begins a new line.

    ``ground``: the colour that keeps what runs behind the letters away from them.
    """
    lines = content.split("<br>")
    look = f'font-size="{font["size"]}" {paint("fill", font["color"])}'
    look += "" if anchor == "start" else f' text-anchor="{anchor}"'
    look += f' dx="{pixels(shift)}"' if shift else ""
    look += f' class="{name}"' if name else ""
    look += (
        f' {paint("stroke", ground)} stroke-width="4" stroke-linejoin="round" paint-order="stroke"' if ground else ""
    )
    first = y - (len(lines) - 1) * 0.65 * font["size"]
    return "".join(
        f'<text x="{share(x)}" y="{pixels(first + 1.3 * n * font["size"])}" {look}>{words(line)}</text>'
        for n, line in enumerate(lines)
    )
