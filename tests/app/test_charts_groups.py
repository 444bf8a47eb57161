"""Do the charts of change points, groups and schedules show the given facts on the axes they claim?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from flcontrib_core.charts.change_points import (
    MOST_ROWS,
    change_point_alt,
    change_point_facts,
    change_point_rows,
    change_words,
)
from flcontrib_core.charts.clusters import (
    MOST_LINES,
    cluster_alt,
    cluster_facts,
    cluster_rows,
    silhouette_alt,
    silhouette_rows,
)
from flcontrib_core.charts.frontier import frontier_alt, frontier_facts, frontier_rows
from flcontrib_core.charts.palette import LIGHT
from flcontrib_core.charts.schedule import (
    MOST_BARS,
    ScheduleFacts,
    exposure_alt,
    exposure_facts,
    exposure_rows,
    schedule_alt,
    schedule_facts,
    schedule_rows,
)
from flcontrib_core.history import problem_of_history
from flcontrib_core.scheduling import BudgetSettings, FairnessMode, Schedule, ScheduleExplorer
from flcontrib_core.words import plan_title
from tests.app.drawn import (
    draw_change_points,
    draw_clusters,
    draw_exposure,
    draw_frontier,
    draw_schedule,
    draw_silhouette,
    grouped_report,
)
from tests.detection.made_histories import made_history
from tests.reports.made_reports import made_report


def test_lines_and_heat_map_of_change_points_share_the_epoch_axis() -> None:
    report = made_report()
    facts = change_point_facts(report, 0.5, report.history.client_ids[1:2])
    figure = draw_change_points(facts, "light")
    assert {t.xaxis for t in figure.data} == {None}
    line = next(t for t in figure.data if t.type == "scatter" and t.yaxis == "y2")
    np.testing.assert_allclose(line.y, report.detection.change_points.probability[1:, 1])
    assert tuple(line.x) == tuple(range(1, 21))
    threshold = next(s for s in figure.layout.shapes if s.yref == "y2")
    assert threshold.y0 == threshold.y1 == 0.5


def test_change_points_name_the_client_and_never_certainty() -> None:
    report = made_report()
    client = report.history.client_ids[1]
    report.detection.change_points.probability[8:11, 1] = 0.5
    report.detection.change_points.changes[client] = ((8, 10, 1.0),)
    facts = change_point_facts(report, 0.5)
    assert facts.above == ((client, 8, 10, 1.0),)
    assert change_words(facts.above) == f"{client} at 8–10: 0.99 together"
    assert f"{client} at 8–10 (0.99)" in change_point_alt(facts)
    assert change_point_rows(facts)[7][client] == 0.5
    assert "No client has a change" in change_point_alt(change_point_facts(made_report(alerts=False), 0.99))


def test_change_points_of_many_clients_keep_those_in_focus() -> None:
    report = made_report(made_history(clients=300, epochs=10, with_channels=False))
    quiet = report.history.client_ids[250]
    facts = change_point_facts(report, 0.5, (quiet,))
    assert quiet in facts.clients
    assert len(facts.clients) == MOST_ROWS
    assert facts.left_out == 300 - MOST_ROWS
    assert len(draw_change_points(facts, "light").data) < 20


def test_groups_share_their_vertical_axis_and_show_every_member() -> None:
    report = grouped_report()
    facts = cluster_facts(report, "loss")
    assert facts is not None
    assert sorted(c for g in facts.groups for c in g) == sorted(report.history.client_ids)
    figure = draw_clusters(facts, "light")
    assert figure.layout.yaxis.range == figure.layout.yaxis2.range
    centres = [t for t in figure.data if t.type == "scatter" and (t.hovertemplate or "").startswith("centre")]
    np.testing.assert_allclose([c.y for c in centres], facts.centres)
    assert "group 2: client-01" in cluster_alt(facts)
    assert {r["client"]: r["group"] for r in cluster_rows(facts)}["client-01"] == 2


def test_groups_of_many_clients_draw_few_lines_and_the_followed_one() -> None:
    report = grouped_report(made_history(clients=500, epochs=8, with_channels=False))
    followed = report.history.client_ids[-1]
    facts = cluster_facts(report, "loss", followed)
    assert facts is not None
    assert followed in facts.series
    assert len(facts.series) <= 2 * MOST_LINES
    assert len(draw_clusters(facts, "light").data) <= 200


def test_silhouette_marks_the_chosen_number() -> None:
    facts = cluster_facts(grouped_report(), "loss")
    assert facts is not None
    bars = draw_silhouette(facts, "light").data[0]
    assert list(bars.x) == [2, 3]
    assert list(bars.y) == [0.8, 0.4]
    assert bars.marker.color[0] != bars.marker.color[1]
    assert "2 groups fit best" in silhouette_alt(facts)
    assert silhouette_rows(facts) == [{"groups": 2, "silhouette": 0.8}, {"groups": 3, "silhouette": 0.4}]


@pytest.fixture(scope="module")
def explorer() -> ScheduleExplorer:
    return ScheduleExplorer(problem_of_history(made_history(clients=40, epochs=20, participation=0.5)))


def plan_of(explorer: ScheduleExplorer, k: int) -> Schedule:
    return explorer.answer(BudgetSettings(budget=k, gamma=0.3, fairness=FairnessMode.TWO_SIDED))


def centres(cells: go.Scatter) -> list[float]:
    """Where the rectangles of one outline stand."""
    corners = cells.x.reshape(-1, 6)
    assert np.isnan(corners[:, 5]).all(), "nothing joins one rectangle to the next"
    return [float(x) for x in corners[:, [0, 2]].mean(axis=1).round(9)]


def test_schedule_fills_the_chosen_epochs_and_hatches_the_rest(explorer: ScheduleExplorer) -> None:
    plan = plan_of(explorer, 12)
    facts = schedule_facts(plan)
    assert tuple(np.flatnonzero(facts.chosen) + 1) == plan.chosen
    assert facts.share.sum() == pytest.approx(1.0)
    figure = draw_schedule(facts, "light")
    (bars,) = (t for t in figure.data if t.type == "bar")
    assert tuple(x for x, colour in zip(bars.x, bars.marker.color, strict=True) if colour == LIGHT.ink) == plan.chosen
    hatched, filled_cells, open_cells = (t for t in figure.data if t.type == "scatter")
    assert hatched.fillpattern.shape == "/"
    skipped = sorted(set(range(1, 21)) - set(plan.chosen))
    assert centres(hatched) == centres(open_cells) == skipped
    assert centres(filled_cells) == list(plan.chosen)
    heights = np.minimum(facts.share, facts.ceiling)[np.array(skipped) - 1]
    assert hatched.y.reshape(-1, 6)[:, 1] == pytest.approx(heights)
    assert schedule_alt(facts).startswith("12 of 20 epochs are chosen")
    assert [r["epoch"] for r in schedule_rows(facts) if r["computed"]] == list(plan.chosen)


def test_alerts_that_get_no_line_are_counted(explorer: ScheduleExplorer) -> None:
    alerts = [(f"client-0{n}", 2 * n, 2 * n + 1) for n in range(1, 7)]
    facts = schedule_facts(plan_of(explorer, 12), alerts)
    assert "Alert: client-04, epochs 8 to 9. Blind: " in schedule_alt(facts)
    assert schedule_alt(facts).endswith(" 2 more alerts without a line here.")
    assert "without a line" not in schedule_alt(schedule_facts(plan_of(explorer, 12), alerts[:4]))


def test_the_least_seen_client_is_named_as_everywhere(explorer: ScheduleExplorer) -> None:
    rows = (("7", 1.0, 0), ("10", 0.999, 1))
    said = exposure_alt(replace(exposure_facts(plan_of(explorer, 12)), rows=rows, mean=0.9995))
    assert said == "Share of each client's epochs that is computed: client 7 100% to client 10 >99%, mean >99%."


def test_cut_bars_that_stand_together_share_one_label() -> None:
    share = np.full(40, 0.01)
    share[[0, 1, 3, 20]] = [0.3, 0.2, 0.1, 0.15]
    facts = ScheduleFacts(40, share, np.ones(40, dtype=bool), 0.05)
    assert facts.cut_off == [(1, 4), (21, 21)]
    notes = draw_schedule(facts, "light").layout.annotations
    assert [(n.x, n.text) for n in notes] == [(2.5, "↑ 10% to 30%"), (21, "↑ 15%")]


def test_exposure_shows_both_ends_and_the_followed_client(explorer: ScheduleExplorer) -> None:
    plan = plan_of(explorer, 9)
    everybody = sorted((e for e in plan.exposure.values() if e is not None), reverse=True)
    facts = exposure_facts(plan)
    assert len(facts.rows) == MOST_BARS
    assert facts.left_out == 40 - MOST_BARS
    assert facts.rows[0][1] == everybody[0]
    assert facts.rows[-1][1] == everybody[-1]
    assert facts.mean == pytest.approx(np.mean(everybody))
    hidden = next(c for c in plan.exposure if c not in {r[0] for r in facts.rows})
    assert hidden in {r[0] for r in exposure_facts(plan, hidden).rows}
    names = list(made_history(clients=40).client_ids)
    assert all(names[i] == client for client, _, i in facts.rows), "a pick names the client's place in the run"
    figure = draw_exposure(facts, "light")
    assert list(figure.data[0].x) == [r[1] for r in facts.rows]
    assert next(s.x0 for s in figure.layout.shapes if s.type == "line") == pytest.approx(facts.mean)
    assert "mean" in exposure_alt(facts)
    assert len(exposure_rows(facts)) == len(facts.rows)


def test_frontier_marks_where_the_reader_stands(explorer: ScheduleExplorer) -> None:
    settings = BudgetSettings(budget=9, gamma=0.3, fairness=FairnessMode.TWO_SIDED)
    facts = frontier_facts(explorer.frontier(FairnessMode.TWO_SIDED, 0.3, settings), 9)
    figure = draw_frontier(facts, "light")
    (ring,) = (s for s in figure.layout.shapes if s.name == "now")
    assert (ring.xanchor, ring.yanchor) == (facts.x[8], facts.gap[8])
    assert any("k = 9" in a.text for a in figure.layout.annotations)
    assert "k = 9" in frontier_alt(facts)
    assert [r["k"] for r in frontier_rows(facts)] == list(range(1, 21))


def test_frontier_never_runs_backwards(explorer: ScheduleExplorer) -> None:
    """One more epoch may cost less, because other epochs are chosen then: the line goes on in order of cost."""
    settings = BudgetSettings(budget=9, gamma=0.3, fairness=FairnessMode.TWO_SIDED)
    frontier = explorer.frontier(FairnessMode.TWO_SIDED, 0.3, settings)
    costs = np.array([900, 300, 700, 100, 800, *[100] * 15], dtype=np.int64)[: len(frontier.budgets)]
    turned = replace(frontier, evaluations=costs, full_evaluations=int(costs.max()))
    figure = draw_frontier(frontier_facts(turned, 9, turned), "light")
    for trace in figure.data:
        assert list(trace.x) == sorted(trace.x)
        assert trace.customdata[-1] == 1, "the dearest budget keeps its own k"


def test_who_is_seen_in_all_epochs_is_not_seen_in_at_least_100_percent(explorer: ScheduleExplorer) -> None:
    """Shares are sums: one of them may end a rounding short of one."""
    plan = explorer.answer(BudgetSettings(budget=20, gamma=0.3, fairness=FairnessMode.TWO_SIDED))
    rounded = replace(plan, exposure=dict.fromkeys(plan.exposure, 1 - 2**-53))
    assert plan_title(rounded).endswith("every client is seen in all its epochs")


def test_report_without_groups_has_no_group_chart() -> None:
    report = made_report()
    assert cluster_facts(replace(report, detection=replace(report.detection, separation=None)), "loss") is None
