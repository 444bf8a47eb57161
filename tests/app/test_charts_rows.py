"""Do charts with a row per client keep the states apart, show the given totals, and stay small with many clients?"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from flcontrib_dashboard.client_table import totals_columns

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.following import Following
from flcontrib_core.charts.group_means import GROUPS, group_means_alt, group_means_facts, group_means_rows
from flcontrib_core.charts.heat_map import MOST_HEAT_ROWS, heat_map_alt, heat_map_facts, heat_map_rows
from flcontrib_core.charts.model_curve import draw_model_curve, model_curve_alt, model_curve_facts, model_curve_rows
from flcontrib_core.charts.palette import palette_for
from flcontrib_core.charts.ranking import ranking_alt, ranking_facts, ranking_rows
from flcontrib_core.vocabulary import CellState, FillPolicy, Orientation
from tests.app.drawn import MODEL, checked, draw_group_means, draw_heat_map, draw_ranking, history_with_errors
from tests.detection.made_histories import made_history
from tests.reports.made_reports import made_report


@pytest.fixture(scope="module")
def crowded() -> AuditReport:
    return made_report(
        made_history(clients=1200, epochs=12, participation=0.7, with_channels=False, computed=(1, 2, 5))
    )


def test_three_states_of_a_cell_are_never_mixed() -> None:
    report = made_report()
    history = report.history
    facts = heat_map_facts(report, "loss", "name")
    took_part, computed = history.participated[1:].T, history.computed[1:]
    np.testing.assert_array_equal(facts.state == 0, ~took_part)
    np.testing.assert_array_equal(facts.state == 1, took_part & computed)
    np.testing.assert_array_equal(facts.state == 2, took_part & ~computed)
    np.testing.assert_array_equal(np.isfinite(facts.values), facts.state == 1)


def test_three_states_look_different() -> None:
    facts = heat_map_facts(made_report(), "loss", "name")
    figure = draw_heat_map(facts, "light")
    cells = next(t for t in figure.data if t.type == "heatmap")
    np.testing.assert_array_equal(np.isfinite(np.array(cells.z, dtype=float)), facts.state == 1)
    hatched = next(t for t in figure.data if t.type == "bar" and t.marker.pattern.shape == "/")
    rows, epochs = np.nonzero(facts.state == 2)
    assert sorted(zip(hatched.x, hatched.base, strict=True)) == sorted(
        (int(t) + 1, len(facts.clients) - int(r) - 0.42) for r, t in zip(rows, epochs, strict=True)
    )
    dots = next(t for t in figure.data if t.type == "scatter" and t.marker.size == 3)
    assert len(dots.x) == int((facts.state == 0).sum())
    assert {"absent", "took part, not computed (budget)"} < {
        c[1] for t in figure.data if t.customdata is not None for c in t.customdata if len(c) == 3
    }


def test_zero_is_a_computed_cell() -> None:
    history = history_with_errors()
    history.of("loss").values[4, 3] = 0.0
    facts = heat_map_facts(made_report(history), "loss", "name")
    assert facts.state[3, 3] == 1
    assert facts.values[3, 3] == 0.0
    neutral = palette_for("light").heat[2]
    scale = draw_heat_map(facts, "light").data[0].colorscale
    assert [c for place, c in scale if place == 0.5] == [neutral]


def test_windows_are_outlined_in_the_row_of_their_client() -> None:
    report = made_report()
    facts = heat_map_facts(report, "loss", "name")
    outlines = [(s.x0, s.x1, s.y0, s.y1) for s in draw_heat_map(facts, "light").layout.shapes]
    row = len(facts.clients) - facts.clients.index(report.history.client_ids[1])
    assert (7.5, 12.5, row - 0.5, row + 0.5) in outlines


@pytest.mark.parametrize("order", ["alerts", "total", "name"])
def test_orders(order: str) -> None:
    report = made_report()
    facts = heat_map_facts(report, "loss", order)
    if order == "alerts":
        assert facts.clients[:2] == (report.detection.alerts[0].client, report.detection.alerts[1].client)
    elif order == "total":
        assert list(facts.totals) == sorted(facts.totals, reverse=True)
    else:
        assert list(facts.clients) == sorted(facts.clients)


def test_the_papers_orientation_turns_numbers_and_keeps_the_meaning_of_colours() -> None:
    report = made_report(history_with_errors())
    usual = heat_map_facts(report, "loss", "name")
    turned = heat_map_facts(report, "loss", "name", orientation=Orientation.PAPER)
    for name in ("values", "gain", "totals"):
        np.testing.assert_allclose(getattr(turned, name), -getattr(usual, name), err_msg=name)
    assert turned.axis == "share of the loss (up is harm)"
    assert heat_map_alt(turned).split("epochs:")[1] == heat_map_alt(usual).split("epochs:")[1], "as many are harmful"
    first, other = draw_heat_map(usual, "light"), draw_heat_map(turned, "light")
    assert [c for _, c in other.data[0].colorscale] == [c for _, c in reversed(first.data[0].colorscale)]
    colours = [[t.marker["color"] for t in f.data if t.type == "bar"] for f in (first, other)]
    assert colours[0] == colours[1]
    accuracy = heat_map_facts(report, "accuracy", "name", orientation=Orientation.PAPER)
    assert (accuracy.harm_up, accuracy.axis) == (False, "share of the accuracy (up is help)")


def test_heat_map_of_many_clients_is_cut_and_says_so(crowded: AuditReport) -> None:
    last = crowded.history.client_ids[-1]
    facts = heat_map_facts(crowded, "loss", "name", also=last)
    assert len(facts.clients) == MOST_HEAT_ROWS
    assert facts.clients[-1] == last
    assert facts.left_out == 1200 - MOST_HEAT_ROWS
    assert len(heat_map_rows(facts)) == MOST_HEAT_ROWS * 12
    assert "not computed" in heat_map_alt(facts)


def test_totals_and_intervals_are_the_given_ones() -> None:
    report = made_report(history_with_errors())
    facts = ranking_facts(report, "loss")
    half = 1.96 * 0.001 * np.sqrt(20)
    by_client = {r.client: r for r in facts.rows}
    for i, client in enumerate(report.history.client_ids):
        assert by_client[client].total == pytest.approx(-report.history.of("loss").values[1:, i].sum())
        assert by_client[client].half_width == pytest.approx(half)
    assert [r.total for r in facts.rows] == sorted((r.total for r in facts.rows), reverse=True)
    figure = draw_ranking(facts, "light")
    dots = next(t for t in figure.data if t.mode == "markers")
    np.testing.assert_allclose(dots.x, [r.total for r in facts.rows])
    ends = sorted(x for t in figure.data if t.mode == "lines" for x in t.x if x is not None)
    np.testing.assert_allclose(ends, sorted(v for r in facts.rows for v in (r.total - half, r.total + half)))


def test_the_models_curve_says_where_it_was_better_and_leaves_out_what_is_not_finite() -> None:
    facts = model_curve_facts(MODEL)
    said = model_curve_alt(facts)
    assert "loss 2.300 to 0.900, accuracy 10% to 60% over 3 epochs; best accuracy 72% in epoch 1" in said
    assert model_curve_rows(facts)[2] == {"epoch": 2, "loss": None, "accuracy": None}
    loss, accuracy = checked(draw_model_curve(facts, "light")).data
    np.testing.assert_allclose(loss.y, [2.3, 1.1, np.nan, 0.9])
    assert (loss.yaxis, accuracy.yaxis) == ("y", "y2")


def test_dot_is_open_where_the_interval_holds_zero() -> None:
    history = history_with_errors()
    history.of("loss").standard_errors[:, 4] = 1.0
    facts = ranking_facts(made_report(history), "loss")
    unclear = [r.client for r in facts.rows if not r.clear]
    assert unclear == [history.client_ids[4]]
    dots = next(t for t in draw_ranking(facts, "light").data if t.mode == "markers")
    fills = dict(zip([r.client for r in facts.rows], dots.marker.color, strict=True))
    assert fills[history.client_ids[4]] == palette_for("light").page
    assert fills[facts.rows[0].client] != palette_for("light").page


def test_ranking_of_many_keeps_both_ends_alerts_and_the_followed_client(crowded: AuditReport) -> None:
    middle = crowded.history.client_ids[600]
    facts = ranking_facts(crowded, "loss", also=middle)
    shown = {r.client for r in facts.rows}
    assert {a.client for a in crowded.detection.alerts} | {middle} <= shown
    assert len(facts.rows) + facts.left_out == 1200
    assert len(facts.rows) < 40
    assert "best first" in ranking_alt(facts)
    totals = -(crowded.history.totals("loss") - crowded.history.of("loss").values[0])
    known = ~crowded.history.of("loss").missing.any(axis=0)
    assert len(facts.clearly_below) == int((known & (totals < 0)).sum()), "exact, nothing filled in"
    assert len(ranking_rows(facts)) == len(facts.rows)


def test_group_means_is_the_mean_of_equal_groups(crowded: AuditReport) -> None:
    history = crowded.history
    facts = group_means_facts(crowded, "loss")
    totals = -(history.totals("loss") - history.of("loss").values[0])
    best = np.argsort(-totals, kind="stable")[: 1200 // GROUPS]
    known = history.participated[1, best]
    assert facts.sizes == (1200 // GROUPS,) * GROUPS
    assert facts.means[0, 0] == pytest.approx(-history.of("loss").values[1, best][known].mean())
    assert np.isnan(facts.means[:, 2]).all()
    assert (facts.state[:, 2] == CellState.NOT_COMPUTED).all()
    assert not (facts.state[:, 0] == CellState.NOT_COMPUTED).any(), "a group in which nobody took part is absent"
    assert f"1200 clients in {GROUPS} equal groups" in group_means_alt(facts)
    assert len(group_means_rows(facts)) == GROUPS * 12


def test_group_means_frames_the_group_of_the_followed_client(crowded: AuditReport) -> None:
    totals = -(crowded.history.totals("loss") - crowded.history.of("loss").values[0])
    worst = crowded.history.client_ids[int(np.argmin(totals))]
    facts = group_means_facts(crowded, "loss")
    assert worst in facts.members[-1]
    figure = draw_group_means(facts, "dark", following=Following(worst))
    assert [(s.name, s.y0) for s in figure.layout.shapes] == [("followed client", 0.5)]
    assert len(json.loads(figure.to_json())["data"]) <= 3, "cells, hatches and the colour key"


def test_table_of_totals_shares_the_help_only_among_helpers() -> None:
    columns = totals_columns(made_report(history_with_errors()), "loss", FillPolicy.EQUAL)
    assert sum(columns["Share of the help"]) == pytest.approx(100)
    assert all(s == 0 for s, t in zip(columns["Share of the help"], columns["Total"], strict=True) if t <= 0)
    assert columns["Total"] == sorted(columns["Total"], reverse=True)
    assert set(columns["Took part"]) == {20}


def test_table_says_exact_and_no_interval_in_words() -> None:
    history = history_with_errors()
    history.of("loss").standard_errors[:, 0] = 0.0
    history.of("loss").standard_errors[:, 2] = np.nan
    columns = totals_columns(made_report(replace(history)), "loss", FillPolicy.EQUAL)
    said = dict(zip(columns["Client"], columns["± 95%"], strict=True))
    assert said[history.client_ids[0]] == "exact"
    assert said[history.client_ids[2]] == "no interval"
    worst = dict(zip(columns["Client"], columns["± worst case"], strict=True))
    assert worst[history.client_ids[0]] == "exact"
    other = history.client_ids[1]
    assert float(worst[other]) > float(said[other])  # a linear sum is never below the root of squares
    history.of("loss").standard_errors[:] = 0.0
    assert "± worst case" not in totals_columns(made_report(history), "loss", FillPolicy.EQUAL)
