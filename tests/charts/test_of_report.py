"""Do the report and the page show the same pictures, and the extract nothing but its own client?"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.credit import total_credit
from flcontrib_core.charts.cumulative import cumulative_facts, draw_cumulative
from flcontrib_core.charts.evidence import draw_evidence, evidence_facts
from flcontrib_core.charts.heat_map import draw_heat_map, heat_map_facts, heat_map_rows
from flcontrib_core.charts.of_report import report_charts
from flcontrib_core.charts.palette import LIGHT
from flcontrib_core.charts.ranking import draw_ranking, ranking_facts
from flcontrib_core.charts.svg import svg_body
from flcontrib_core.reports.extract import extract_json
from flcontrib_core.reports.extract_page import own_chart
from flcontrib_core.vocabulary import CellState
from tests.detection.made_histories import made_history
from tests.reports.made_reports import made_report, with_names

KEY = 41
"""Cells of the colour key."""


def test_report_shows_the_pages_pictures() -> None:
    report = made_report()
    charts = report_charts(report)
    first = report.detection.alerts[0]
    alerted = tuple(a.client for a in report.detection.alerts)
    for name, picture in {
        "cumulative": draw_cumulative(cumulative_facts(report, "loss", alerted), "light"),
        "ranking": draw_ranking(ranking_facts(report, "loss"), "light"),
        "heat-map": draw_heat_map(heat_map_facts(report, "loss"), "light"),
        "evidence-1": draw_evidence(evidence_facts(report, first.client, first.window), "light"),
    }.items():
        assert charts[name].picture.to_json() == picture.to_json(), name
    assert list(charts) == ["ranking", "cumulative", "heat-map", "evidence-1", "evidence-2"]


def cells(drawing: str, look: str) -> int:
    """Outlines in the paths of one look."""
    return sum(steps.count("M") for steps in re.findall(rf'<path (?:transform="[^"]+" )?d="([^"]*)"{look}', drawing))


@pytest.fixture
def with_an_empty_cell() -> AuditReport:
    """A table's report: one cell of a computed epoch was left empty."""
    history = made_history(
        clients=8, epochs=20, participation=0.8, computed=(1, 2, 3, 5, 8, 9, 10, 12, 16), with_channels=False
    )
    state, values = history.state.copy(), history.values.copy()
    present = np.flatnonzero(state[3, :, 0] == CellState.COMPUTED)
    state[3, present[0]], values[3, present[0]] = CellState.NOT_COMPUTED, np.nan
    return made_report(replace(history, state=state, values=values))


def test_every_cell_is_drawn_in_its_state(with_an_empty_cell: AuditReport) -> None:
    state = with_an_empty_cell.history.of("loss").state[1:]
    counts = {s: int((state == s).sum()) for s in CellState}
    drawing = svg_body(report_charts(with_an_empty_cell)["heat-map"].picture)
    gains = 20
    coloured = cells(drawing, ' fill="#') - KEY - gains - len(state[0])
    assert coloured == counts[CellState.COMPUTED]
    hatched = re.findall(r'<clipPath[^>]*><path [^>]*d="([^"]+)"', drawing)
    assert sum(steps.count("M") for steps in hatched) == counts[CellState.NOT_COMPUTED] > 0
    assert cells(drawing, f' stroke="{LIGHT.absent}"') == counts[CellState.ABSENT] > 0


def test_the_table_behind_the_heat_map_says_the_same_states(with_an_empty_cell: AuditReport) -> None:
    history = with_an_empty_cell.history
    rows = heat_map_rows(heat_map_facts(with_an_empty_cell, "loss"))
    for row in rows:
        code = history.of("loss").state[row["epoch"], history.client_ids.index(str(row["client"]))]  # type: ignore[index]
        words = str(row["state"])
        assert {0: "absent", 1: "computed", 2: "not computed"}[int(code)] in words
        assert ("not" in words) == (code == CellState.NOT_COMPUTED)


def test_a_total_that_is_partly_filled_in_is_never_certain() -> None:
    whole = ranking_facts(made_report(made_history(clients=8, epochs=20)), "loss")
    assert all(r.clear and not r.filled for r in whole.rows)
    part = made_report(made_history(clients=8, epochs=20, computed=(1, 2, 3)))
    facts = ranking_facts(part, "loss")
    assert all(r.filled == 17 and not r.clear for r in facts.rows)
    assert facts.clearly_below == ()
    dots = draw_ranking(facts, "light").data[-2]
    assert set(dots["marker"]["color"]) == {LIGHT.page}, "open"
    assert "17 epochs filled in" in dots["customdata"][0][1]


def test_large_runs_show_alerts_and_the_largest_totals() -> None:
    report = made_report(made_history(clients=90, epochs=6, with_channels=False))
    facts = heat_map_facts(report, "loss", rows=10)
    alerted = [a.client for a in report.detection.alerts]
    assert list(facts.clients[:2]) == alerted
    totals = dict(zip(report.history.client_ids, np.abs(total_credit(report.history, "loss")), strict=True))
    rest = sorted((c for c in totals if c not in alerted), key=lambda c: -totals[c])[:8]
    assert list(facts.clients[2:]) == sorted(rest)


def test_the_extracts_chart_knows_its_own_client_only() -> None:
    names = ("eve", "client", "epoch", "of", "Σ", "7", "<b>", "مها")
    report = with_names(made_report(), names)
    content = extract_json(report, "client")
    chart = own_chart(content, "loss")
    said = re.sub(r"<[^>]+>", " ", chart.inline()) + chart.alt + chart.picture.to_json()
    for other in ("eve", "Σ", "مها", "&lt;b&gt;"):
        assert other not in said
    series = report.history.of("loss")
    own = series.computed[:, 1] & report.history.participated[:, 1]
    bars = [t for t in chart.picture.data if t["type"] == "bar"]
    np.testing.assert_allclose(bars[0]["y"], -series.values[own, 1])
    numbers = {float(v) for t in chart.picture.data for v in np.ravel(t["y"])}
    for other in (0, *range(2, 8)):
        assert not numbers & {*(-series.values[1:, other]), *series.values[1:, other]} - {0.0}, "nobody else's value"
