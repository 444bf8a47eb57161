"""Reports and figures for the tests of the charts: every kind of cell, groups, intervals, hostile names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps

import numpy as np
import plotly.graph_objects as go

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts import (
    change_points,
    class_mix,
    clusters,
    comparison,
    cumulative,
    evidence,
    frontier,
    group_means,
    heat_map,
    model_curve,
    ranking,
    schedule,
    sparkline,
)
from flcontrib_core.charts.change_points import change_point_facts
from flcontrib_core.charts.clusters import cluster_facts
from flcontrib_core.charts.comparison import aligned_facts, rank_facts
from flcontrib_core.charts.cumulative import cumulative_facts
from flcontrib_core.charts.evidence import evidence_facts
from flcontrib_core.charts.frontier import frontier_facts
from flcontrib_core.charts.group_means import group_means_facts
from flcontrib_core.charts.heat_map import heat_map_facts
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.ranking import ranking_facts
from flcontrib_core.charts.schedule import exposure_facts, schedule_facts
from flcontrib_core.detection.findings import Separation
from flcontrib_core.history import problem_of_history
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.meaning import ModelCurve
from flcontrib_core.scheduling import BudgetSettings, FairnessMode, ScheduleExplorer
from tests.detection.made_histories import made_history
from tests.reports.made_reports import made_report

HARMFUL_WINDOW = (8, 12)
MODEL = ModelCurve((0, 1, 2, 3), (2.3, 1.1, None, 0.9), (0.1, 0.72, None, 0.6))


def checked(picture: Picture) -> go.Figure:
    """The picture as Plotly's own classes read it; what they refuse or call otherwise is an error."""
    figure = go.Figure(data=picture.data, layout=picture.layout)
    read = figure.to_plotly_json()
    sent = {"data": picture.data, "layout": {k: v for k, v in picture.layout.items() if k != "template"}}
    read["layout"].pop("template", None)  # Plotly adds to it the kind of each trace
    assert sorted(_named(sent)) == sorted(_named({k: read[k] for k in sent}))
    return figure


def _named(node: object, place: str = "") -> Iterator[str]:
    """Where each property stands, down to the leaves."""
    if isinstance(node, dict) and "bdata" not in node:  # packed numbers are one leaf
        for key, value in node.items():
            yield from _named(value, f"{place}.{key}")
    elif isinstance(node, list | tuple) and node and all(isinstance(n, dict) for n in node):
        for i, value in enumerate(node):
            yield from _named(value, f"{place}[{i}]")
    else:
        yield place


def _drawing(draw: Callable[..., Picture]) -> Callable[..., go.Figure]:
    @wraps(draw)
    def drawn(*facts: object, **options: object) -> go.Figure:
        return checked(draw(*facts, **options))

    return drawn


draw_aligned = _drawing(comparison.draw_aligned)
draw_change_points = _drawing(change_points.draw_change_points)
draw_class_mix = _drawing(class_mix.draw_class_mix)
draw_clusters = _drawing(clusters.draw_clusters)
draw_group_means = _drawing(group_means.draw_group_means)
draw_cumulative = _drawing(cumulative.draw_cumulative)
draw_evidence = _drawing(evidence.draw_evidence)
draw_exposure = _drawing(schedule.draw_exposure)
draw_frontier = _drawing(frontier.draw_frontier)
draw_heat_map = _drawing(heat_map.draw_heat_map)
draw_ranking = _drawing(ranking.draw_ranking)
draw_ranks = _drawing(comparison.draw_ranks)
draw_schedule = _drawing(schedule.draw_schedule)
draw_silhouette = _drawing(clusters.draw_silhouette)
draw_sparkline = _drawing(sparkline.draw_sparkline)


def history_with_errors(**options: object) -> ContributionHistory:
    """A made history whose values carry a standard error of 0.001 in each computed epoch."""
    made = made_history(clients=8, epochs=20, poisoned=[(1, *HARMFUL_WINDOW)], seed=5, **options)  # type: ignore[arg-type]
    return replace(made, standard_errors=np.full(made.values.shape, 0.001))


def grouped_report(history: ContributionHistory | None = None) -> AuditReport:
    """Two groups: client 1, which is harmful in its window, and the others."""
    report = made_report(history or history_with_errors())
    made = report.history
    labels = {c: int(i == 1) for i, c in enumerate(made.client_ids)}
    running = np.cumsum(np.nan_to_num(made.of("loss").values[made.computed]), axis=0)
    centres = np.stack([np.delete(running, 1, axis=1).mean(axis=1), running[:, 1]])
    found = Separation(2, labels, centres, {2: 0.8, 3: 0.4}, 0.9, None, "euclidean")
    return replace(report, detection=replace(report.detection, separation=found))


def every_figure(report: AuditReport, mode: str) -> dict[str, go.Figure]:
    """Each chart of the dashboard, as Plotly's own classes read it."""
    return {name: checked(picture) for name, picture in every_picture(report, mode).items()}


def every_picture(report: AuditReport, mode: str) -> dict[str, Picture]:
    """Each chart of the dashboard, drawn from one report."""
    history = report.history
    names, utility = history.client_ids, history.utilities[0]
    alert = report.detection.alerts[0]
    curves = cumulative_facts(report, utility, tuple(dict.fromkeys(a.client for a in report.detection.alerts)))
    plans = ScheduleExplorer(problem_of_history(history))
    settings = BudgetSettings(budget=max(1, history.epoch_count // 2), gamma=0.3, fairness=FairnessMode.TWO_SIDED)
    plan = plans.answer(settings)
    curve = plans.frontier(FairnessMode.TWO_SIDED, 0.3, settings)
    drawn: dict[str, Callable[[], Picture]] = {
        "cumulative": lambda: cumulative.draw_cumulative(curves, mode),
        "sparkline": lambda: sparkline.draw_sparkline(curves, alert.client, alert.window, mode),
        "ranking": lambda: ranking.draw_ranking(ranking_facts(report, utility), mode),
        "heat map": lambda: heat_map.draw_heat_map(heat_map_facts(report, utility), mode),
        "group_means": lambda: group_means.draw_group_means(group_means_facts(report, utility), mode),
        "evidence": lambda: evidence.draw_evidence(evidence_facts(report, alert.client, alert.window, utility), mode),
        "change points": lambda: change_points.draw_change_points(change_point_facts(report, focus=names[:3]), mode),
        "schedule": lambda: schedule.draw_schedule(schedule_facts(plan), mode),
        "exposure": lambda: schedule.draw_exposure(exposure_facts(plan), mode),
        "frontier": lambda: frontier.draw_frontier(frontier_facts(curve, len(plan.chosen)), mode),
        "model": lambda: model_curve.draw_model_curve(model_curve.model_curve_facts(MODEL), mode),
        "aligned": lambda: comparison.draw_aligned(aligned_facts([report, report], utility, ("one", "other")), mode),
        "ranks": lambda: comparison.draw_ranks(rank_facts([report, report], utility, ("one", "other")), mode),
    }
    groups = cluster_facts(report, utility)
    if groups is not None:
        drawn["clusters"] = lambda: clusters.draw_clusters(groups, mode)
        drawn["silhouette"] = lambda: clusters.draw_silhouette(groups, mode)
    return {name: draw() for name, draw in drawn.items()}
