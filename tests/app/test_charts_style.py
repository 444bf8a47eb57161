"""Do all charts share one look: a client's colour, dash and mark on every page, both palettes, names as text?"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import plotly.graph_objects as go
import pytest

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.change_points import change_point_facts
from flcontrib_core.charts.credit import client_styles
from flcontrib_core.charts.cumulative import cumulative_facts
from flcontrib_core.charts.evidence import evidence_facts
from flcontrib_core.charts.palette import DARK, LIGHT, ClientStyles, palette_for
from flcontrib_core.charts.style import client_label
from flcontrib_core.charts.ticks import epoch_ticks, leading_digit_up, signed_ticks
from tests.app.drawn import (
    draw_change_points,
    draw_cumulative,
    draw_evidence,
    every_figure,
    grouped_report,
    history_with_errors,
)
from tests.app.filled_workspace import HOSTILE
from tests.detection.made_histories import made_history
from tests.reports.made_reports import made_report

MOST_TRACES = 200
TAGS_OF_THE_HOUSE = re.compile(r"</?(b|br|extra)>")


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def test_names_read_from_the_right_stand_apart_and_have_their_room() -> None:
    """Beside an Arabic name 11–18 would be drawn as 18–11; and its letters are wider than Latin ones."""
    name = "مستشفى الملك فيصل التخصصي"
    assert client_label(name) == f"\u2068{name}\u2069"
    assert client_label("hospital-a", 13) == "hospital-a"
    shortened = client_label(name, 14)
    assert shortened.startswith("\u2068مستشفى")
    assert shortened.endswith("…\u2069")
    assert len(shortened) < len(client_label("hospital-of-the-university", 14))
    assert client_label("東京大学病院", 6) == "東京…"


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_lines_and_words_can_be_seen(look: object) -> None:
    p = LIGHT if look is LIGHT else DARK
    for colour in (*p.clients, p.harm, p.help):
        assert contrast(colour, p.page) >= 3, colour
    for words in (p.ink, p.secondary):
        assert contrast(words, p.page) >= 4.5, words


def styles_of(count: int, *alerted: int) -> ClientStyles:
    names = tuple(f"c{i:03d}" for i in range(count))
    return ClientStyles(names, frozenset(names[i] for i in alerted))


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("alerted", [(), (3,), (1, 5, 6), (0, 1, 2, 3, 4, 7)])
def test_nobody_else_has_the_colour_of_a_client_with_an_alert(mode: str, alerted: tuple[int, ...]) -> None:
    given = styles_of(40, *alerted)
    accused = {given.of(c, mode).colour for c in given.alerted}
    others = {given.of(c, mode).colour for c in given.clients if c not in given.alerted}
    assert not accused & others
    assert len(accused) == min(4, len(alerted))


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_eight_followed_clients_have_eight_colours_and_signs(mode: str) -> None:
    given = styles_of(8, 2, 6)
    styles = [given.of(c, mode) for c in given.clients]
    assert len({s.colour for s in styles}) == len({s.marker for s in styles}) == 8
    hard_to_tell = {s.colour for s in styles if s.dash == "solid"} - {*palette_for(mode).clients[:5]}
    assert not hard_to_tell, "the three nearest colours are dashed too"


def test_many_clients_differ_in_colour_dash_or_mark() -> None:
    given = styles_of(180, 7, 8)
    styles = {(s.colour, s.dash, s.marker) for c in given.clients for s in [given.of(c, "light")]}
    assert len(styles) == 180
    turned = ClientStyles(tuple(reversed(given.clients)), given.alerted)
    assert all(turned.of(c, "dark") == given.of(c, "dark") for c in given.clients), "the order of a log does not matter"


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_client_looks_the_same_on_every_page(mode: str) -> None:
    report = grouped_report()
    client = report.history.client_ids[1]
    style = client_styles(report).of(client, mode)
    curve = draw_cumulative(cumulative_facts(report, "loss", (client,)), mode)
    evidence = draw_evidence(evidence_facts(report, client, None), mode)
    changes = draw_change_points(change_point_facts(report, focus=(client,)), mode)
    for figure in (curve, evidence, changes):
        lines = [t for t in figure.data if t.type == "scatter" and "lines" in (t.mode or "") and t.line.color]
        own = [t for t in lines if t.line.color == style.colour]
        assert style.dash in {t.line.dash or "solid" for t in own}
        marks = {t.marker.symbol for t in figure.data if t.type == "scatter" and t.marker.color == style.colour}
        assert style.marker in marks


def colours_in(figure: go.Figure) -> set[str]:
    return {c.upper() for c in re.findall(r"#[0-9a-fA-F]{6}", figure.to_json())}


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_every_chart_uses_only_its_palette(mode: str) -> None:
    own, other = (LIGHT, DARK) if mode == "light" else (DARK, LIGHT)

    def colours(p: object) -> set[str]:
        return {c.upper() for v in vars(p).values() for c in ([v] if isinstance(v, str) else v)}

    for name, figure in every_figure(grouped_report(), mode).items():
        figure.layout.template = None  # Plotly's own defaults, all of them overridden
        stray = colours_in(figure) & (colours(other) - colours(own))
        assert not stray, f"{name} in {mode} uses {stray}"


def texts_of(figure: go.Figure) -> list[str]:
    """Everything Plotly would read as its pseudo-HTML."""
    spec = json.loads(figure.to_json())
    found: list[str] = []

    def walk(node: object, key: str = "") -> None:
        if isinstance(node, dict):
            for k, v in node.items():
                walk(v, k)
        elif isinstance(node, list):
            for v in node:
                walk(v, key)
        elif isinstance(node, str) and key in ("text", "ticktext", "hovertemplate", "customdata", "name", "hovertext"):
            found.append(node)

    walk(spec["data"])
    walk({k: v for k, v in spec["layout"].items() if k != "template"})
    return found


def hostile_report() -> AuditReport:
    history = replace(history_with_errors(), client_ids=HOSTILE)
    return grouped_report(history)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_names_are_text_in_every_chart(mode: str) -> None:
    for name, figure in every_figure(hostile_report(), mode).items():
        for text in texts_of(figure):
            rest = TAGS_OF_THE_HOUSE.sub("", text)
            assert "<" not in rest, f"{name}: {text}"
            assert "\u202e" not in rest, f"{name}: {text}"
    spoken = " ".join(t for f in every_figure(hostile_report(), mode).values() for t in texts_of(f))
    assert "&lt;img src=x" in spoken, "the names are there, as text"


def test_no_chart_gives_each_of_many_clients_a_trace() -> None:
    crowd = made_report(made_history(clients=400, epochs=12, with_channels=False))
    for name, figure in every_figure(crowd, "light").items():
        assert len(figure.data) <= MOST_TRACES, name
        assert len(figure.layout.annotations) <= MOST_TRACES, name


def test_ticks_are_round_signed_and_few() -> None:
    assert signed_ticks(-0.1, 0.35)["ticktext"] == ["−0.1", "0", "+0.1", "+0.2", "+0.3"]
    assert epoch_ticks(30) == [1, 5, 10, 15, 20, 25, 30]
    assert leading_digit_up(0.0523) == pytest.approx(0.06)
    assert leading_digit_up(0.0) == 1.0
