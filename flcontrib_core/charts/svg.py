"""SVG of a picture, without a plotting library, a script or an outside asset.

``inline_svg`` is for a page of ours, as wide as its place; ``svg_file`` stands alone. Both follow the reader's light or
dark and the printer where the page has ``dark_rules``; colours are those of the light picture otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Any

from flcontrib_core.charts.palette import CLEAR, DARK, LIGHT, colour_scales
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import FONT
from flcontrib_core.charts.svg_frame import Axis, Frame, paint, pixels, share, stroke, text
from flcontrib_core.charts.svg_marks import Plot, draw_subplot, level_colours
from flcontrib_core.words.numbers import visible

FILE_WIDTH = 960
BESIDE, NARROW, NARROW_MARGIN = "beside", 420, 16
"""A chart of at most so many pixels has no names beside its plot, and keeps a margin of this width there."""
TITLE_DEPTH = 42
"""Pixels from an axis to the line its title stands on."""


_CRISP = 'shape-rendering="crispEdges"'


def svg_body(picture: Picture, width: float | None = None) -> str:
    """The marks of a picture, in a room whose left and right ends are those of the margins."""
    frame = Frame(picture, width)
    prefix = "p" + hashlib.sha256(picture.to_json().encode()).hexdigest()[:8]
    definitions: dict[str, str] = {}
    subplots = []
    for x, y in frame.subplots():
        traces = [t for t in picture.data if (t.get("xaxis", "x"), t.get("yaxis", "y")) == (x.name, y.name)]
        subplots.append(draw_subplot(Plot(x, y, frame, prefix, definitions), traces))
    shapes = frame.layout.get("shapes", ())
    parts = [
        *(_shape(s, frame) for s in shapes if s.get("layer") == "below"),
        *(_grid(x, y, frame) for x, y in frame.subplots()),
        *subplots,
        *(_axis(axis, frame) for axis in frame.axes.values()),
        *(_shape(s, frame) for s in shapes if s.get("layer") != "below"),
        *(_annotation(note, frame) for note in frame.layout.get("annotations", ())),
    ]
    named = "".join(content.format(name=name) for content, name in definitions.items())
    return (f"<defs>{named}</defs>" if named else "") + "".join(parts)


def inline_svg(picture: Picture, title: str = "", description: str = "") -> str:
    """For a page with ``CHART_RULES``. Its words are read to who does not see it; without a title it is passed over."""
    margin = picture.layout["margin"]
    said = _said(title, description) if title else ""
    room = f'class="room" height="{picture.layout["height"]}" {_font(picture)}'
    room += ' role="img"' if title else ' aria-hidden="true"'
    named = any(note.get("name") == BESIDE for note in picture.layout.get("annotations", ()))
    left, right = (f'width="{margin[side]}" height="1" aria-hidden="true"' for side in "lr")
    right += f' class="{BESIDE}"' if named else ""
    inside = f"<svg {left}></svg><svg {room}>{said}{svg_body(picture)}</svg><svg {right}></svg>"
    return f'<div class="picture"><div>{inside}</div></div>'


def svg_file(picture: Picture, title: str, description: str, lines: Sequence[str] = ()) -> str:
    """A drawing that stands alone; ``lines`` are written above it, the first as its heading."""
    height, margin = picture.layout["height"], picture.layout["margin"]
    inner = FILE_WIDTH - margin["l"] - margin["r"]
    rows: list[tuple[str, dict[str, Any]]] = []
    for line in lines:
        size, colour = (13, LIGHT.secondary) if rows else (17, LIGHT.ink)
        rows += [(row, {"size": size, "color": colour}) for row in wrap(line, 1560 // size)]
    above = 20 + 22 * len(rows) if rows else 0
    head = "".join(text(0, 30 + 22 * n, escape(row), font) for n, (row, font) in enumerate(rows))
    room = f'x="{margin["l"]}" width="{inner}" overflow="visible"'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {FILE_WIDTH} {height + above}" width="{FILE_WIDTH}" '
        f'height="{height + above}" role="img" {_font(picture)}>{_said(title, description)}'
        f'<style>{dark_rules()}</style><rect width="100%" height="100%" fill="{LIGHT.page}"/>'
        f'<svg {room} y="0" height="{above}">{head}</svg>'
        f'<svg {room} y="{above}" height="{height}">{svg_body(picture, FILE_WIDTH)}</svg></svg>\n'
    )


CHART_RULES: str = (
    ".picture{container-type:inline-size}.picture>div{display:flex;align-items:flex-start}"
    ".picture>div>svg{flex:none;display:block}.picture>div>.room{flex:1 1 0;min-width:0;overflow:visible}"
    f"@container (max-width:{NARROW}px){{.picture svg.{BESIDE}{{width:{NARROW_MARGIN}px}}"
    f".picture text.{BESIDE}{{display:none}}}}"
)
"""What a page's style sheet says of ``inline_svg``."""


def dark_rules() -> str:
    """Gives a light drawing its dark colours, on a screen that asks for them; paper stays light."""
    pairs: dict[str, str] = {}
    for one, other in zip(vars(LIGHT).values(), vars(DARK).values(), strict=True):
        pairs |= {one: other} if isinstance(one, str) else dict(zip(one, other, strict=True))
    for one, other in zip(colour_scales(LIGHT), colour_scales(DARK), strict=True):
        pairs |= dict(zip(level_colours(one), level_colours(other), strict=True))
    rules = "".join(f'svg [fill="{a}"]{{fill:{b}}}svg [stroke="{a}"]{{stroke:{b}}}' for a, b in pairs.items())
    return f"@media screen and (prefers-color-scheme:dark){{{rules}}}"


def _font(picture: Picture) -> str:
    return f"font-family='{FONT}' font-size=\"{picture.layout['font']['size']}\""


def _said(title: str, description: str) -> str:
    return f"<title>{escape(visible(title))}</title><desc>{escape(visible(description))}</desc>"


def _grid(x: Axis, y: Axis, frame: Frame) -> str:
    """Lines at the ticks, and the line at zero, behind everything that is drawn."""
    lines = []
    left, right = share(x.start), share(x.end)
    top, bottom = pixels(frame.down(y.end)), pixels(frame.down(y.start))
    for axis in (x, y):
        look = axis.look
        if look.get("visible") is False:
            continue
        inside = [v for v in look.get("tickvals", ()) if 0 <= axis.share(v) <= 1]
        zero = [0.0] if look.get("zeroline") and 0 <= axis.share(0.0) <= 1 else []
        grid = [v for v in inside if v not in zero] if look.get("showgrid", True) else []
        for values, colour in ((grid, look.get("gridcolor", CLEAR)), (zero, look.get("zerolinecolor", CLEAR))):
            for v in values if colour != CLEAR else ():
                if axis is x:
                    at = share(x.place(v))
                    ends = f'x1="{at}" x2="{at}" y1="{top}" y2="{bottom}"'
                else:
                    at = pixels(frame.down(y.place(v)))
                    ends = f'x1="{left}" x2="{right}" y1="{at}" y2="{at}"'
                lines.append(f"<line {ends} {paint('stroke', colour)} {_CRISP}/>")
    return "".join(dict.fromkeys(lines))


def _axis(axis: Axis, frame: Frame) -> str:
    look = axis.look
    if look.get("visible") is False:
        return ""
    return _x_axis(axis, look, frame) if axis.name.startswith("x") else _y_axis(axis, look, frame)


def _tick_words(look: Mapping[str, Any]) -> list[tuple[float, str]]:
    values = look.get("tickvals", ())
    if look.get("showticklabels") is False:
        return []
    return list(zip(values, look.get("ticktext") or [f"{v:g}" for v in values], strict=True))


def _x_axis(axis: Axis, look: Mapping[str, Any], frame: Frame) -> str:
    anchor = look.get("anchor", "y")
    base = frame.down(look["position"] if anchor == "free" else frame.axes[anchor].start)
    outside = look.get("ticks") == "outside"
    font = look["tickfont"]
    parts = []
    if look.get("showline"):
        ends = f'x1="{share(axis.start)}" x2="{share(axis.end)}" y1="{pixels(base)}" y2="{pixels(base)}"'
        parts.append(f"<line {ends} {paint('stroke', look['linecolor'])} {_CRISP}/>")
    drop = 1 + (look["ticklen"] if outside else 0) + (0.2 * font["size"] if outside or look.get("showline") else 0)
    drop += font["size"] + look.get("ticklabelstandoff", 0)
    for value, word in _tick_words(look):
        if not 0 <= axis.share(value) <= 1:
            continue
        at = axis.place(value)
        if outside:
            ends = f'x1="{share(at)}" x2="{share(at)}" y1="{pixels(base)}" y2="{pixels(base + look["ticklen"])}"'
            parts.append(f"<line {ends} {paint('stroke', look['tickcolor'])} {_CRISP}/>")
        parts.append(text(at, base + drop, word, font, anchor="middle"))
    title = look.get("title", {})
    if title.get("text"):
        parts.append(
            text((axis.start + axis.end) / 2, base + TITLE_DEPTH, title["text"], title["font"], anchor="middle")
        )
    return "".join(parts)


def _y_axis(axis: Axis, look: Mapping[str, Any], frame: Frame) -> str:
    font = look.get("tickfont", {})
    left = frame.axes[look.get("anchor", "x")].start
    shift = -1 - look.get("ticklabelstandoff", 0)
    return "".join(
        text(left, frame.down(axis.place(value)) + 0.35 * font["size"], word, font, anchor="end", shift=shift)
        for value, word in _tick_words(look)
        if 0 <= axis.share(value) <= 1
    )


def _shape(shape: Mapping[str, Any], frame: Frame) -> str:
    x, y = shape.get("xref", "x"), shape.get("yref", "y")
    look = stroke(shape["line"])
    if shape["type"] == "circle":  # ours have a size in pixels, whatever the axes say
        centre = f'cx="{share(frame.x(x, shape["xanchor"]))}" cy="{pixels(frame.y(y, shape["yanchor"]))}"'
        return f'<circle {centre} r="{shape["x1"]}" {paint("fill", shape["fillcolor"])} {look}/>'
    left, right = frame.x(x, shape["x0"]), frame.x(x, shape["x1"])
    top, bottom = frame.y(y, shape["y1"]), frame.y(y, shape["y0"])
    if shape["type"] == "line":
        ends = f'x1="{share(left)}" x2="{share(right)}" y1="{pixels(bottom)}" y2="{pixels(top)}"'
        return f"<line {ends} {look}/>"
    place = f'x="{share(left)}" y="{pixels(top)}" width="{share(right - left)}" height="{pixels(bottom - top)}"'
    return f"<rect {place} {paint('fill', shape.get('fillcolor', CLEAR))} {look}/>"


def _annotation(note: Mapping[str, Any], frame: Frame) -> str:
    """Words beside a point. Plotly leaves two pixels around them."""
    font, size = note["font"], note["font"]["size"]
    x, y = frame.x(note.get("xref", "x"), note["x"]), frame.y(note.get("yref", "y"), note["y"])
    side = note.get("xanchor", "center")
    shift = note.get("xshift", 0) + {"left": 2, "right": -2}.get(side, 0)
    line = {"bottom": -2 - 0.25 * size, "top": 2 + 0.95 * size}.get(note.get("yanchor", "middle"), 0.35 * size)
    anchor = {"left": "start", "right": "end"}.get(side, "middle")
    height = y - note.get("yshift", 0) + line
    name, ground = note.get("name", ""), note.get("bgcolor", "")
    return text(x, height, note["text"], font, anchor=anchor, shift=shift, name=name, ground=ground)
