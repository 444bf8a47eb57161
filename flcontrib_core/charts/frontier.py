"""The frontier chart: what another budget would cost, and how evenly it would see the clients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.charts.palette import palette_for
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import base_figure, x_axis, y_axis
from flcontrib_core.charts.ticks import percent_ticks, plain_ticks
from flcontrib_core.scheduling.frontier import Frontier

RING = 7
"""Half of the ring around the reader's budget, in pixels."""


@dataclass(frozen=True)
class FrontierFacts:
    """What every budget costs and how unevenly it sees the clients."""

    x: np.ndarray
    """(T,) share of the evaluations of the full computation (share of epochs where costs are unknown)"""
    gap: np.ndarray
    mode: str
    compared: np.ndarray | None
    """(T, 2) x and gap of one-sided schedules"""
    current: int
    """k"""
    cost_known: bool


def frontier_facts(frontier: Frontier, current: int, one_sided: Frontier | None = None) -> FrontierFacts:
    """The curve of one mode, beside that of one-sided schedules."""
    share = frontier.evaluation_share
    x = share if share is not None else frontier.budgets / len(frontier.budgets)
    compared = None
    if one_sided is not None and str(frontier.fairness) != "one-sided":
        other = one_sided.evaluation_share
        compared = np.column_stack([other if other is not None else x, one_sided.exposure_gap.round(9)])
    return FrontierFacts(
        np.asarray(x),
        np.where(frontier.exposure_gap < 1e-9, 0.0, frontier.exposure_gap),
        str(frontier.fairness),
        compared,
        current,
        share is not None,
    )


def frontier_alt(facts: FrontierFacts) -> str:
    """Where the reader's budget stands."""
    at = facts.current - 1
    return (
        f"Exposure gap of every budget. Now: k = {facts.current}, {facts.x[at]:.0%} of the cost, "
        f"gap {facts.gap[at]:.2f}. "
        "Budgets below 75% weaken detection."
    )


def frontier_rows(facts: FrontierFacts) -> list[dict[str, object]]:
    """One row per budget."""
    return [
        {"k": k + 1, "share of evaluations": float(facts.x[k]), "exposure gap": float(facts.gap[k])}
        for k in range(len(facts.x))
    ]


def _mark_current(figure: Picture, facts: FrontierFacts, top_gap: float, mode: str) -> None:
    """A ring where the reader's budget stands, with its name above or below."""
    p, at = palette_for(mode), facts.current - 1
    figure.add_shape(  # not a trace: the curve need not be computed anew when the budget moves
        type="circle",
        xsizemode="pixel",
        ysizemode="pixel",
        xanchor=float(facts.x[at]),
        yanchor=float(facts.gap[at]),
        x0=-RING,
        x1=RING,
        y0=-RING,
        y1=RING,
        fillcolor=p.page,
        line={"color": p.ink, "width": 2.6},
        name="now",
    )
    figure.add_annotation(
        x=float(facts.x[at]),
        y=float(facts.gap[at]),
        text=f"<b>now</b> k = {facts.current}",
        showarrow=False,
        yshift=20 if facts.gap[at] < 0.3 * top_gap or top_gap == 0 else -18,
        font={"size": 12, "color": p.ink},
    )


def draw_frontier(facts: FrontierFacts, mode: str) -> Picture:
    """Cost against the exposure gap of every budget, a ring at the reader's."""
    p = palette_for(mode)
    figure = base_figure(mode, 320, l=52, r=18, t=10, b=48)
    figure.add_shape(
        type="rect", x0=0, x1=0.75, y0=0, y1=1, yref="y domain", fillcolor=p.soft, line={"width": 0}, layer="below"
    )
    figure.add_annotation(
        x=0.02,
        y=1,
        yref="y domain",
        yanchor="top",
        xanchor="left",
        showarrow=False,
        text="detection weakens below 75%",
        font={"size": 11, "color": p.secondary},
    )
    if facts.compared is not None:
        _draw_compared(figure, facts.compared, mode)
    by_cost = np.argsort(facts.x, kind="stable")  # one more epoch may cost less: other epochs are chosen then
    figure.add_scatter(
        x=facts.x[by_cost],
        y=facts.gap[by_cost],
        mode="lines",
        line={"color": p.ink, "width": 2.2},
        customdata=by_cost + 1,
        hovertemplate="k = %{customdata}<br>%{x:.0%} of the cost<br>gap <b>%{y:.3f}</b><extra></extra>",
    )
    top_gap = max(float(facts.gap.max()), 0.0 if facts.compared is None else float(facts.compared[:, 1].max()))
    if top_gap == 0:
        figure.add_annotation(
            x=0.5,
            xref="x domain",
            y=0.5,
            yref="y domain",
            text="no gap at any budget:<br>all clients take part equally often",
            showarrow=False,
            font={"size": 12, "color": p.secondary},
        )
    _mark_current(figure, facts, top_gap, mode)
    words = "Evaluations, share of the full computation" if facts.cost_known else "Epochs, share of all"
    title = {"text": words, "font": {"size": 12, "color": p.secondary}}
    roof = max(top_gap, 0.05) * 1.18
    figure.update_layout(
        xaxis=x_axis(mode) | {"range": [0, 1.03], "title": title} | percent_ticks(0, 1, 4),
        yaxis=y_axis(mode) | {"range": [-0.003 if top_gap < 0.1 else -0.03 * top_gap, roof]} | plain_ticks(0, roof),
    )
    return figure


def _draw_compared(figure: Picture, compared: np.ndarray, mode: str) -> None:
    """The curve of one-sided schedules, dashed, with its name at its highest point."""
    p = palette_for(mode)
    by_cost = np.argsort(compared[:, 0], kind="stable")
    figure.add_scatter(
        x=compared[by_cost, 0],
        y=compared[by_cost, 1],
        mode="lines",
        line={"color": p.context, "width": 1.8, "dash": "dash"},
        customdata=by_cost + 1,
        hovertemplate="one-sided, k = %{customdata}<br>gap %{y:.3f}<extra></extra>",
    )
    top = int(np.argmax(compared[:, 1]))
    if compared[top, 1] > 0:
        figure.add_annotation(
            x=float(compared[top, 0]),
            y=float(compared[top, 1]),
            text="one-sided",
            yanchor="bottom",
            showarrow=False,
            font={"size": 11, "color": p.secondary},
        )
