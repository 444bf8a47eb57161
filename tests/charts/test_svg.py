"""Does the SVG of a picture show what the picture says, safely, alone, in light and dark?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from flcontrib_core.charts.of_report import report_charts
from flcontrib_core.charts.palette import DARK, LIGHT, colour_scales
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import base_figure, hatch_of
from flcontrib_core.charts.svg import dark_rules, inline_svg, svg_body, svg_file
from flcontrib_core.charts.svg_marks import level_colours
from tests.app.drawn import every_picture, grouped_report, history_with_errors
from tests.app.filled_workspace import HOSTILE
from tests.detection.made_histories import made_history
from tests.reports.made_reports import made_report, with_names

DRAWN_WITH = {
    *("svg", "title", "desc", "style", "defs", "path", "pattern", "clipPath"),
    *("rect", "line", "circle", "use", "text", "tspan"),
}
SVG = "{http://www.w3.org/2000/svg}"
READ: dict[str, tuple[str, ...]] = {
    "data": (
        *("type", "x", "y", "z", "zmin", "zmax", "mode", "fill", "fillcolor", "base", "width", "orientation"),
        *("colorscale", "xgap", "ygap", "text", "cliponaxis", "xaxis", "yaxis"),
    ),
    "data.textfont": ("size", "color"),
    "data.line": ("color", "width", "dash"),
    "data.marker": ("color", "size", "symbol", "opacity"),
    "data.marker.line": ("color", "width"),
    "data.marker.pattern": ("fgcolor", "bgcolor", "size", "solidity"),
    "data.fillpattern": ("fgcolor", "bgcolor", "size", "solidity"),
    "data.error_x": ("array", "color", "thickness"),
    "data.error_y": ("array", "color", "thickness"),
    "layout": ("height",),
    "layout.margin": ("l", "r", "t", "b"),
    "layout.font": ("size",),
    "axis": (
        *("range", "domain", "anchor", "position", "visible", "tickvals", "ticktext", "ticklen", "ticks", "tickcolor"),
        *("showgrid", "gridcolor", "zeroline", "zerolinecolor", "showline", "linecolor", "showticklabels"),
        "ticklabelstandoff",
    ),
    "axis.tickfont": ("size", "color"),
    "axis.title": ("text",),
    "axis.title.font": ("size", "color"),
    "shape": ("type", "xref", "yref", "x0", "x1", "y0", "y1", "xanchor", "yanchor", "layer", "fillcolor"),
    "shape.line": ("color", "width", "dash"),
    "note": ("x", "y", "xref", "yref", "xanchor", "yanchor", "xshift", "yshift", "text", "bgcolor"),
    "note.font": ("size", "color"),
}
"""What the renderer looks at."""
FIXED = {
    "data.fillpattern.shape": "/",
    "data.marker.pattern.shape": "/",
    "data.textposition": ("middle right", "outside"),
    "data.connectgaps": False,
    "data.showscale": False,
    "data.error_x.type": "data",
    "data.error_y.type": "data",
    "data.error_x.width": 0,
    "data.error_y.width": 0,
    "layout.barmode": "overlay",
    "layout.barcornerradius": 0,
    "layout.showlegend": False,
    "layout.paper_bgcolor": "rgba(0,0,0,0)",
    "layout.plot_bgcolor": "rgba(0,0,0,0)",
    "axis.zerolinewidth": 1,
    "axis.tickangle": 0,
    "axis.title.standoff": 9,
    "axis.ticklabeloverflow": "allow",
    "shape.xsizemode": "pixel",
    "shape.ysizemode": "pixel",
    "note.showarrow": False,
}
"""What it takes for granted: the only values our pictures have."""
UNSEEN = re.compile(
    r"data\.(hover\w+|customdata|name|(un)?selected\..*)|layout\.(hoverlabel\..*|modebar\..*|dragmode|autotypenumbers|"
    r"font\.(family|color))|axis\.(fixedrange|matches|minallowed|maxallowed)|(shape|note)\.name|note\.borderpad"
)
"""What answers to a mouse, or is laid over something equal."""


def properties(picture: Picture) -> Iterator[tuple[str, object]]:
    """(place, value) of everything a picture says; axes, shapes and notes each under one name."""

    def walk(node: object, place: str) -> Iterator[tuple[str, object]]:
        if isinstance(node, dict):
            for key, value in node.items():
                yield from walk(value, f"{place}.{key}")
        else:
            yield place, node

    for trace in picture.data:
        yield from walk(trace, "data")
    for key, value in picture.layout.items():
        if re.fullmatch(r"[xy]axis\d*", key):
            yield from walk(value, "axis")
        elif key in ("shapes", "annotations"):
            for one in value:
                yield from walk(one, {"shapes": "shape", "annotations": "note"}[key])
        else:
            yield from walk(value, f"layout.{key}")


def test_no_picture_says_anything_that_the_renderer_does_not_know() -> None:
    for name, picture in every_picture(grouped_report(), "light").items():
        for place, value in properties(picture):
            if place in FIXED:
                known = FIXED[place]
                assert value in (known if isinstance(known, tuple) else (known,)), f"{name}: {place} = {value}"
            else:
                group, _, last = place.rpartition(".")
                assert last in READ.get(group, ()) or UNSEEN.fullmatch(place), f"{name}: {place}"


def parsed(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(svg_file(picture, "A title", "What it shows"))


def everything(report: object = None, mode: str = "light") -> dict[str, Picture]:
    return every_picture(grouped_report() if report is None else report, mode)  # type: ignore[arg-type]


def test_every_chart_stands_alone_and_is_named() -> None:
    for picture in everything().values():
        root = parsed(picture)
        assert (root.get("role"), root.findtext(f"{SVG}title")) == ("img", "A title")
        assert root.findtext(f"{SVG}desc") == "What it shows"
        drawing = svg_file(picture, "t", "d")
        assert "http" not in drawing.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"<(script|image|a|foreignObject|iframe)\b|\son\w+=|style=", drawing)


def test_names_refer_to_what_is_defined_and_only_once() -> None:
    pictures = everything(grouped_report(history_with_errors(computed=(1, 2, 3, 5, 9, 10, 11, 12, 20))))
    together = "".join(inline_svg(p, "t", "d") for p in pictures.values())
    defined = re.findall(r' id="([^"]+)"', together)
    used = set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', together))
    assert {a or b for a, b in used} == set(defined)
    assert len(defined) == len(set(defined))


def test_hostile_names_are_text() -> None:
    report = grouped_report(replace(history_with_errors(), client_ids=HOSTILE))
    said = ""
    for name, picture in everything(report).items():
        tags = {e.tag.removeprefix(SVG) for e in parsed(picture).iter()}
        assert tags <= DRAWN_WITH, name
        said += "".join(parsed(picture).itertext())
    assert "<img src=x" in said
    assert "\u202e" not in said
    title = ElementTree.fromstring(svg_file(everything()["ranking"], HOSTILE[4], "a\x00b"))
    assert title.findtext(f"{SVG}title") == HOSTILE[4]


def test_a_name_read_from_the_right_is_set_apart_and_not_spelled_out() -> None:
    """A first name brings its own signs, which are shown; those around the second one only do their work."""
    report = with_names(made_report(), ("a\u2068b", "مستشفى الملك", *(f"c-{n}" for n in range(6))))
    drawn = "".join(chart.as_file() for chart in report_charts(report).values())
    assert "\u2068مستشفى" in drawn
    assert "[U+2068]مستشفى" not in drawn
    assert "a[U+2068]b" in drawn
    assert "a\u2068b" not in drawn


@pytest.mark.parametrize("width", [None, 960.0])
def test_lines_go_through_their_points_and_stop_at_gaps(width: float | None) -> None:
    figure = base_figure("light", 126, l=10, r=10, t=13, b=13)
    figure.update_layout(xaxis={"range": [0, 4], "visible": False}, yaxis={"range": [0, 1], "visible": False})
    line = {"color": "#305396", "width": 2, "dash": "dot"}
    figure.add_scatter(x=[0, 1, 2, 3, 4], y=np.array([0, 0.5, np.nan, 1, 0]), mode="lines", line=line)
    steps = re.findall(r'<path d="([^"]+)"[^>]*stroke-dasharray="3 3"', svg_body(figure, width))
    far = 1000 if width is None else 940
    assert steps == [f"M0 100L{far / 4:g} 50M{far * 3 / 4:g} 0L{far:g} 100"]


def test_bars_are_as_long_as_their_values_and_carry_their_interval() -> None:
    figure = base_figure("light", 126, l=0, r=0, t=13, b=13)
    figure.update_layout(xaxis={"range": [0.5, 2.5], "visible": False}, yaxis={"range": [-1, 1], "visible": False})
    error = {"type": "data", "array": [0.5, 0.0], "color": "#171A21", "thickness": 1, "width": 0}
    figure.add_bar(x=[1, 2], y=[0.5, -1], width=1, marker={"color": ["#0B62A8", "#B8400A"]}, error_y=error)
    drawn = svg_body(figure, 200)
    assert '<path d="M0 25h100v25h-100z" fill="#0B62A8"' in drawn
    assert '<path d="M100 100h100v-50h-100z" fill="#B8400A"' in drawn
    assert '<path d="M50 50L50 0" stroke="#171A21"' in drawn


def test_hatches_show_through_the_cells_they_belong_to() -> None:
    figure = base_figure("light", 126, l=0, r=0, t=13, b=13)
    figure.update_layout(xaxis={"range": [0.5, 2.5], "visible": False}, yaxis={"range": [0, 1], "visible": False})
    figure.add_bar(x=[2], y=[1], width=1, marker={"color": "#F5F6F8", "pattern": hatch_of("light")})
    drawn = svg_body(figure)
    assert 'd="M500 0h500v1000h-500z"' in drawn, "in thousandths of the plot, at any width"
    assert re.search(r'fill="url\(#(\w+)\)" clip-path="url\(#\w+\)"', drawn)


def test_a_picture_without_ranges_is_refused() -> None:
    figure = base_figure("light", 100)
    figure.add_scatter(x=[1], y=[1], mode="lines")
    with pytest.raises(ValueError, match="no range"):
        svg_body(figure)


def test_every_light_colour_has_one_dark_twin() -> None:
    rules = dark_rules()
    assert rules.startswith("@media screen and (prefers-color-scheme:dark)"), "paper stays light"
    pairs = re.findall(r'\[fill="([^"]+)"\]\{fill:([^}]+)\}', rules)
    assert len(pairs) == len({light for light, _ in pairs}), "two dark colours for one light one"
    assert dict(pairs)[LIGHT.ink] == DARK.ink
    assert dict(pairs)[LIGHT.clients[2]] == DARK.clients[2]
    levels = [level_colours(scale) for p in (LIGHT, DARK) for scale in colour_scales(p)[:1]]
    assert [dict(pairs)[c] for c in levels[0]] == levels[1]
    assert levels[0][20] == LIGHT.heat[2], "zero is the neutral colour"


@pytest.mark.parametrize("computed", [None, (1, 2, 3, 5, 9, 10, 11, 12, 20)])
def test_a_light_drawing_turned_dark_is_the_dark_drawing(computed: tuple[int, ...] | None) -> None:
    report = grouped_report(history_with_errors() if computed is None else history_with_errors(computed=computed))
    pairs = dict(re.findall(r'\[fill="([^"]+)"\]\{fill:([^}]+)\}', dark_rules()))
    for name, (light, dark) in {
        n: (p, everything(report, "dark")[n]) for n, p in everything(report, "light").items()
    }.items():
        turned = re.sub(r"#[0-9A-F]{6}(?=\")", lambda m: pairs[m[0]], svg_body(light))
        names = re.compile(r"(?<=[#\"])p[0-9a-f]{8}(?=\d)")
        assert names.sub("", turned) == names.sub("", svg_body(dark)), name


def test_large_runs_stay_small_drawings() -> None:
    crowd = made_report(made_history(clients=64, epochs=100, poisoned=[(1, 8, 12)], computed=tuple(range(1, 101, 2))))
    for name, picture in everything(crowd).items():
        assert len(svg_body(picture)) < 200_000, name
