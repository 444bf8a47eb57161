"""Is a click on a mark read as the client and the epochs it stands for, and nothing else?"""

from __future__ import annotations

import json
from typing import Any

import plotly.graph_objects as go
import pytest

from flcontrib_core.charts.change_points import change_point_facts
from flcontrib_core.charts.clusters import cluster_facts
from flcontrib_core.charts.cumulative import cumulative_facts
from flcontrib_core.charts.following import (
    MOST_CELL_TARGETS,
    NOTHING,
    Following,
    add_cell_targets,
    draw_followed_epochs,
    pick,
    read_pick,
)
from flcontrib_core.charts.heat_map import heat_map_facts
from flcontrib_core.charts.ranking import ranking_facts
from flcontrib_core.charts.style import base_figure
from tests.app.drawn import (
    draw_change_points,
    draw_clusters,
    draw_cumulative,
    draw_heat_map,
    draw_ranking,
    grouped_report,
)
from tests.reports.made_reports import made_report

CLIENTS = ("a", "b", "c", "d")


def clicked(customdata: object) -> dict[str, Any]:
    return {"points": [{"customdata": customdata, "x": 3}], "box": []}


def boxed(x: list[float], y: list[float], yref: str = "y") -> dict[str, Any]:
    return {"points": [], "box": [{"x": x, "y": y, "xref": "x", "yref": yref}]}


@pytest.mark.parametrize("customdata", [["<b>name</b>", pick(2)], [pick(2)], pick(2), {"0": "name", "1": pick(2)}])
def test_click_names_its_client(customdata: object) -> None:
    assert read_pick(clicked(customdata), CLIENTS, 30) == Following("c")


def test_click_on_a_window_names_both() -> None:
    assert read_pick(clicked(["c", pick(2, (12, 20))]), CLIENTS, 30) == Following("c", (12, 20))


@pytest.mark.parametrize("customdata", [None, [], "", "4", "-1", "2;", ["2:1"], ["c"], [None], {"0": "x"}])
def test_what_no_mark_can_say_is_nothing(customdata: object) -> None:
    assert read_pick(clicked(customdata), CLIENTS, 30) == NOTHING


@pytest.mark.parametrize(
    ("edges", "epochs"),
    [
        ([11.6, 20.3], (12, 20)),
        ([20.3, 11.6], (12, 20)),
        ([-5.0, 3.2], (1, 3)),
        ([28.5, 99.0], (29, 30)),
        ([7.2, 7.4], (7, 7)),
        ([40.0, 50.0], None),
        ([1.0], None),
    ],
)
def test_box_names_the_epochs_it_covers(edges: list[float], epochs: tuple[int, int] | None) -> None:
    assert read_pick(boxed(edges, [0.0, 1.0]), CLIENTS, 30).epochs == epochs


@pytest.mark.parametrize(
    ("heights", "client"), [([3.6, 4.4], "a"), ([0.6, 1.4], "d"), ([1.6, 3.4], None), ([0.45, 4.55], None)]
)
def test_box_over_one_row_names_its_client(heights: list[float], client: str | None) -> None:
    assert read_pick(boxed([2.0, 5.0], heights), CLIENTS, 30, rows=CLIENTS).client == client
    assert read_pick(boxed([2.0, 5.0], heights, "y2"), CLIENTS, 30, rows=CLIENTS).client is None


def picks_of(figure: go.Figure) -> set[str]:
    """All picks a click on this figure can send."""
    return {
        str(row[-1]) if isinstance(row, list) else str(row)
        for trace in json.loads(figure.to_json())["data"]
        if trace.get("type") in ("scatter", "bar") and trace.get("selected")
        for row in trace.get("customdata", ())
    }


def test_every_client_can_be_clicked() -> None:
    report = made_report()
    clients = report.history.client_ids
    everybody = {pick(i) for i in range(len(clients))}
    changes = change_point_facts(report, focus=clients[:2])
    assert picks_of(draw_ranking(ranking_facts(report, "loss"), "light")) == everybody
    assert picks_of(draw_heat_map(heat_map_facts(report, "loss"), "light")) == everybody
    assert picks_of(draw_change_points(changes, "light")) == everybody
    curves = picks_of(draw_cumulative(cumulative_facts(report, "loss", clients[1:3]), "light"))
    assert everybody | {pick(1, (8, 12)), pick(2, (5, 5))} == curves
    grouped = grouped_report()
    groups = cluster_facts(grouped, "loss")
    assert groups is not None
    assert picks_of(draw_clusters(groups, "light")) == {pick(i) for i in range(len(grouped.history.client_ids))}


def test_followed_epochs_have_edges_half_an_epoch_outside() -> None:
    figure = base_figure("light", 200)
    draw_followed_epochs(figure, Following(None, (12, 20)), "light")
    assert [s["x0"] for s in figure.layout["shapes"] if s.get("name") == "followed epochs"] == [11.5, 20.5]
    before = len(figure.layout["shapes"])
    draw_followed_epochs(figure, NOTHING, "light")
    assert len(figure.layout["shapes"]) == before


def test_large_heat_maps_have_no_target_per_cell() -> None:
    figure = base_figure("light", 200)
    names = tuple(f"c{i}" for i in range(40))
    position = {c: i for i, c in enumerate(names)}
    add_cell_targets(figure, names, position, [["0"] * (MOST_CELL_TARGETS // 40 + 1)] * 40)
    assert not figure.data
    add_cell_targets(figure, names, position, [["0"] * (MOST_CELL_TARGETS // 40)] * 40)
    assert len(figure.data[0]["x"]) == MOST_CELL_TARGETS


def test_followed_client_stands_out_where_it_is_drawn() -> None:
    report = made_report()
    quiet = report.history.client_ids[5]
    following = Following(quiet)
    facts = cumulative_facts(report, "loss", (quiet, report.history.client_ids[1]))
    widths = {
        t.hovertemplate.split("</b>")[0].removeprefix("<b>"): t.line.width
        for t in draw_cumulative(facts, "light", following=following).data
        if t.type == "scatter" and t.mode == "lines" and (t.hovertemplate or "").startswith("<b>")
    }
    assert widths[quiet] > widths[report.history.client_ids[1]]
    ranking = draw_ranking(ranking_facts(report, "loss", also=quiet), "light", following=following)
    assert f"<b>{quiet}</b>" in ranking.layout.yaxis.ticktext
    assert [s.name for s in ranking.layout.shapes] == ["followed client"]
    heat = draw_heat_map(heat_map_facts(report, "loss", rows=3, also=quiet), "light", following=following)
    assert f"<b>{quiet}</b>" in [note.text for note in heat.layout.annotations]
