"""Do the curves show the given numbers: windows at their epochs, bands as wide as the errors, gaps where unknown?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.cumulative import MOST_IN_FOCUS, cumulative_alt, cumulative_facts, cumulative_rows
from flcontrib_core.charts.evidence import evidence_alt, evidence_facts, evidence_rows
from flcontrib_core.charts.palette import palette_for
from flcontrib_core.charts.sparkline import sparkline_alt
from flcontrib_core.vocabulary import CellState
from flcontrib_core.words import numbers
from tests.app.drawn import (
    HARMFUL_WINDOW,
    draw_cumulative,
    draw_evidence,
    draw_sparkline,
    grouped_report,
    history_with_errors,
)
from tests.detection.made_histories import made_history
from tests.reports.made_reports import made_report


def spans(figure: go.Figure, kind: str = "rect") -> list[tuple[float, float]]:
    return [(s.x0, s.x1) for s in figure.layout.shapes if s.type == kind and s.xref in (None, "x")]


def polygon(figure: go.Figure, name: str) -> np.ndarray:
    """Half the height of a closed band at each epoch."""
    trace = next(t for t in figure.data if t.name == name)
    y = np.array(trace.y, dtype=float)
    return np.asarray((y[: len(y) // 2] - y[len(y) // 2 :][::-1]) / 2)


def test_credit_is_the_running_sum_with_help_up() -> None:
    report = made_report(history_with_errors())
    client = report.history.client_ids[1]
    facts = cumulative_facts(report, "loss", (client,))
    expected = -np.cumsum(report.history.of("loss").values[1:, 1])
    assert facts.focus[0].credit[0] == 0.0
    np.testing.assert_allclose(facts.focus[0].credit[1:], expected)
    assert facts.axis == "loss reduction"
    gain = cumulative_facts(report, "accuracy", (client,))
    np.testing.assert_allclose(gain.focus[0].credit[1:], np.cumsum(report.history.of("accuracy").values[1:, 1]))


def test_interval_grows_as_the_root_of_the_sum_of_squares() -> None:
    report = made_report(history_with_errors())
    facts = cumulative_facts(report, "loss", (report.history.client_ids[1],))
    width = 1.96 * 0.001 * np.sqrt(np.arange(21))
    np.testing.assert_allclose(facts.focus[0].half_width, width)
    np.testing.assert_allclose(polygon(draw_cumulative(facts, "light"), "interval"), width)


def test_exact_values_have_no_interval_drawn() -> None:
    report = made_report()
    facts = cumulative_facts(report, "loss", (report.history.client_ids[1],))
    assert "interval" not in [t.name for t in draw_cumulative(facts, "light").data]


def test_label_of_a_window_stands_where_there_is_room_and_is_short() -> None:
    """A narrow screen cuts what goes beyond the axis: a late window's label stands before it."""
    report = made_report()
    long = "A hospital with a name that is longer than a telephone is wide"
    names = tuple(long if i == 1 else c for i, c in enumerate(report.history.client_ids))
    facts = cumulative_facts(made_report(replace(report.history, client_ids=names)), "loss", (long,))
    for window, anchor, x in (((2, 5), "left", 5.5), ((15, 19), "right", 14.5)):
        curve = replace(facts.focus[0], windows=(window,))
        drawn = draw_cumulative(replace(facts, focus=(curve,)), "light")
        (label,) = [a for a in drawn.layout.annotations if numbers.window(*window) in (a.text or "")]
        assert (label.xanchor, label.x) == (anchor, x)
        assert label.text == f"<b>A hospital w…</b> {numbers.window(*window)}"


def test_window_is_shaded_from_its_first_to_its_last_epoch() -> None:
    report = made_report()
    first, second = report.history.client_ids[1:3]
    facts = cumulative_facts(report, "loss", (first, second))
    assert [c.windows for c in facts.focus] == [((8, 12),), ((5, 5),)]
    figure = draw_cumulative(facts, "light")
    assert (7.5, 12.5) in spans(figure)
    assert {(4.5, 4.5), (5.5, 5.5)} <= set(spans(figure, "line"))
    assert (7.5, 12.5) in spans(draw_sparkline(facts, first, (8, 12), "light"))
    assert "marked window: epochs 8–12" in sparkline_alt(facts, first, (8, 12))


def test_others_are_a_band_of_their_quantiles() -> None:
    report = made_report(history_with_errors())
    facts = cumulative_facts(report, "loss", report.history.client_ids[:2])
    rest = -np.cumsum(report.history.of("loss").values[1:, 2:], axis=0)
    np.testing.assert_allclose(facts.quantiles[:, -1], np.quantile(rest[-1], [0.1, 0.25, 0.5, 0.75, 0.9]))
    assert facts.others == 6
    everybody = cumulative_facts(report, "loss", report.history.client_ids)
    assert everybody.others == 0
    assert "others" not in [t.name for t in draw_cumulative(everybody, "light").data]


def test_at_most_eight_clients_have_a_line_of_their_own() -> None:
    report = made_report(made_history(clients=30, epochs=6, with_channels=False))
    facts = cumulative_facts(report, "loss", report.history.client_ids)
    assert [c.client for c in facts.focus] == list(report.history.client_ids[:MOST_IN_FOCUS])
    assert facts.others == 30 - MOST_IN_FOCUS


def test_skipped_epochs_break_the_line_and_absent_ones_do_not_mark_it() -> None:
    report = made_report()  # epochs 4, 6, 7 … were not computed; some participations are missing
    history = report.history
    facts = cumulative_facts(report, "loss", (history.client_ids[1],))
    curve = facts.focus[0]
    took_part = history.participated[:, 1]
    np.testing.assert_array_equal(curve.skipped, took_part & ~history.computed)
    figure = draw_cumulative(facts, "light")
    solid = next(t for t in figure.data if t.type == "scatter" and t.mode == "lines" and t.connectgaps is False)
    assert np.isnan(np.array(solid.y, dtype=float))[curve.skipped].all()
    marks = next(
        t
        for t in figure.data
        if t.type == "scatter"
        and t.mode == "markers"
        and t.customdata is not None
        and len(t.x) == int(curve.computed.sum())
    )
    assert set(marks.x) == set(np.flatnonzero(curve.computed))
    states = dict(facts.strip)[history.client_ids[1]]
    assert set(states[1:][~took_part[1:]]) <= {0}


def test_alt_text_says_who_ends_where_and_the_table_has_the_numbers() -> None:
    report = made_report()
    client = report.history.client_ids[1]
    facts = cumulative_facts(report, "loss", (client,))
    alt = cumulative_alt(facts)
    assert client in alt
    assert "marked window 8–12" in alt
    assert "The middle 80% of the 7 others end between" in alt
    rows = cumulative_rows(facts)
    assert [r["epoch"] for r in rows] == list(range(21))
    assert rows[-1][f"{client}, loss reduction"] == pytest.approx(float(facts.focus[0].credit[-1]))


def test_evidence_stacks_three_rows_on_one_epoch_axis() -> None:
    report = grouped_report()
    client = report.history.client_ids[1]
    facts = evidence_facts(report, client, HARMFUL_WINDOW)
    figure = draw_evidence(facts, "light")
    assert {t.yaxis or "y" for t in figure.data} == {"y", "y2", "y3"}
    assert {t.xaxis for t in figure.data} == {None}, "the curve, the probability and the values share the axis"
    shades = [(s.x0, s.x1, s.yref) for s in figure.layout.shapes if s.type == "rect"]
    assert (7.5, 12.5, "paper") in shades, "shaded through all three rows"
    change = next(t for t in figure.data if t.type == "bar" and t.yaxis == "y2")
    np.testing.assert_allclose(change.y, report.detection.change_points.probability[1:, 1])
    assert change.x[0] == 1


def test_evidence_bars_carry_the_given_errors_and_signs() -> None:
    report = grouped_report()
    client = report.history.client_ids[1]
    facts = evidence_facts(report, client, HARMFUL_WINDOW)
    figure = draw_evidence(facts, "light")
    bars = next(t for t in figure.data if t.type == "bar" and t.yaxis == "y3")
    np.testing.assert_allclose(bars.y, -report.history.of("loss").values[1:, 1])
    np.testing.assert_allclose(bars.error_y.array, 1.96 * 0.001)
    p = palette_for("light")
    assert set(bars.x) == set(range(1, 21))
    assert list(bars.marker.color) == [p.harm if y < 0 else p.help for y in bars.y]
    assert all(y < 0 for x, y in zip(bars.x, bars.y, strict=True) if 8 <= x <= 12)


def test_evidence_of_unknown_probability_is_a_gap() -> None:
    report = grouped_report()
    report.detection.change_points.probability[15, 1] = np.nan
    facts = evidence_facts(report, report.history.client_ids[1], None)
    change = next(t for t in draw_evidence(facts, "light").data if t.type == "bar" and t.yaxis == "y2")
    assert np.isnan(change.y[14])
    assert evidence_rows(facts)[14]["probability of a change"] is None


def test_summed_probability_is_never_certain() -> None:
    report = grouped_report()
    client = report.history.client_ids[1]
    report.detection.change_points.probability[8:11, 1] = 0.5
    report.detection.change_points.changes[client] = ((8, 10, 1.0),)
    facts = evidence_facts(report, client, HARMFUL_WINDOW)
    assert facts.groups == ((8, 10, 1.0),)
    said = [a.text for a in draw_evidence(facts, "light").layout.annotations]
    assert "8–10: 0.99" in said
    assert "8–10 (0.99)" in evidence_alt(facts)
    assert numbers.probability(1.0) == "0.99"


def half_done(epochs: int) -> AuditReport:
    """A report as a job leaves it on its way: behind these epochs not even the model's gain is known."""
    history = made_history(clients=6, epochs=20, poisoned=[(1, *HARMFUL_WINDOW)])
    known = np.arange(21) <= epochs
    values = np.where(known[:, None, None], history.values, np.nan)
    gains = np.where(known[:, None], history.increments, np.nan)
    state = np.where(known[:, None, None], history.state, np.int8(CellState.PENDING))
    how = tuple(e if k else "pending" for e, k in zip(history.estimator, known, strict=True))
    return made_report(replace(history, values=values, increments=gains, state=state, estimator=how))


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_curves_of_a_job_at_work_end_where_it_is(mode: str) -> None:
    report = half_done(13)
    client = report.history.client_ids[1]
    facts = cumulative_facts(report, "loss", (client,))
    alone = evidence_facts(report, client, HARMFUL_WINDOW)
    assert facts.last_known == alone.last_known == 13
    for figure in (draw_cumulative(facts, mode), draw_evidence(alone, mode), draw_sparkline(facts, client, None, mode)):
        outlines = [t for t in figure.data if t.type == "scatter" and t.fill == "toself"]
        assert outlines
        for outline in outlines:
            assert outline.mode == "lines", "a short outline would be drawn with a mark at every corner"
            assert max(outline.x) == 13
            assert np.isfinite(np.array(outline.y, dtype=float)).all(), "a gap would be filled across"
    labels = [a for a in draw_cumulative(facts, mode).layout.annotations if a.text in (f"<b>{client}</b>", "5 others")]
    assert len(labels) == 2
    assert all(np.isfinite(a.y) and a.x < 14 for a in labels)
    assert "Known up to epoch 13." in cumulative_alt(facts)
    assert "not computed" not in cumulative_alt(facts) + evidence_alt(alone) + sparkline_alt(facts, client, None)


def test_curves_of_a_result_end_with_the_run() -> None:
    report = made_report(history_with_errors())
    assert cumulative_facts(report, "loss", ()).last_known == report.history.epoch_count
