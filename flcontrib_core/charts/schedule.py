"""Which epochs does a budget buy, how evenly are the clients seen, and what would another budget cost?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.charts.following import NOTHING, STILL, Following, draw_followed_epochs, draw_followed_row, pick
from flcontrib_core.charts.palette import CLEAR, palette
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import (
    add_cells,
    base_figure,
    epoch_axis,
    hatch_of,
    plain,
    short,
    write_column,
    x_axis,
    y_axis,
)
from flcontrib_core.charts.ticks import percent_ticks, plain_ticks
from flcontrib_core.scheduling.frontier import Frontier
from flcontrib_core.scheduling.schedule import Schedule

MOST_BARS = 24
BAR_WIDTH = 0.72
LABEL_SHARE = 0.1
"""Of the chart's width that a label takes; a phone's is wider, but a second group of tall bars is rare."""
RING = 7
"""Half of the ring around the reader's budget, in pixels."""


@dataclass(frozen=True)
class ScheduleFacts:
    epochs: int
    share: np.ndarray
    """(T,) of all movement"""
    chosen: np.ndarray
    """(T,)"""
    ceiling: float
    """Where tall bars are cut, so that epoch 1 does not flatten the rest; their value is written on them."""

    @property
    def cut_off(self) -> list[tuple[int, int]]:
        """First and last epoch of each group of bars that are cut; those too near for a label each are one group."""
        groups: list[tuple[int, int]] = []
        for t in (np.flatnonzero(self.share > self.ceiling) + 1).tolist():
            near = groups and t - groups[-1][1] <= max(1.0, LABEL_SHARE * self.epochs)
            groups[-1:] = [(groups[-1][0], t)] if near else [*groups[-1:], (t, t)]
        return groups


def schedule_facts(schedule: Schedule) -> ScheduleFacts:
    weights = np.array(schedule.epoch_weights)
    share = weights / weights.sum() if weights.sum() > 0 else weights
    chosen = np.zeros(len(share), dtype=bool)
    chosen[[t - 1 for t in schedule.chosen]] = True
    ordered = np.sort(share)[::-1]
    tall = ordered[0] > 2.2 * ordered[min(len(ordered) - 1, max(1, len(ordered) // 12))] if len(ordered) > 4 else False
    ceiling = float(ordered[max(1, len(ordered) // 12)] * 1.25) if tall else float(ordered[0] * 1.05 or 1.0)
    return ScheduleFacts(len(share), share, chosen, ceiling)


def schedule_alt(facts: ScheduleFacts) -> str:
    covered = float(facts.share[facts.chosen].sum())
    return (
        f"{int(facts.chosen.sum())} of {facts.epochs} epochs are chosen; they hold {covered:.0%} of the movement. "
        f"Skipped: {', '.join(map(str, np.flatnonzero(~facts.chosen) + 1)) or 'none'}."
    )


def schedule_rows(facts: ScheduleFacts) -> list[dict[str, object]]:
    return [
        {"epoch": t + 1, "share of movement": float(facts.share[t]), "computed": bool(facts.chosen[t])}
        for t in range(facts.epochs)
    ]


def draw_schedule(facts: ScheduleFacts, mode: str, following: Following = NOTHING) -> Picture:
    """Filled = computed, hatched = skipped; a strip of cells below repeats the choice."""
    p = palette(mode)
    figure = base_figure(mode, 260, l=52, r=12, t=22, b=46)
    draw_followed_epochs(figure, following, mode, "y domain")
    x = np.arange(1, facts.epochs + 1)
    height = np.minimum(facts.share, facts.ceiling)
    skipped = ~facts.chosen
    ground = np.zeros(facts.epochs)
    add_cells(figure, x[skipped], ground[skipped], height[skipped], BAR_WIDTH, p.soft, pattern=hatch_of(mode))
    figure.add_bar(
        x=x,
        y=height,
        width=BAR_WIDTH,
        marker={"color": [p.ink if chosen else CLEAR for chosen in facts.chosen], "line": {"width": 0}},
        customdata=facts.share,
        hovertemplate="epoch %{x}<br><b>%{customdata:.1%}</b> of the movement<extra></extra>",
    )
    for first, last in facts.cut_off:
        tall = facts.share[first - 1 : last]
        tall = tall[tall > facts.ceiling]
        least, most = f"{tall.min():.0%}", f"{tall.max():.0%}"
        figure.add_annotation(
            x=(first + last) / 2,
            y=facts.ceiling,
            text=f"↑ {most}" if least == most else f"↑ {least} to {most}",
            showarrow=False,
            yanchor="bottom",
            font={"size": 11, "color": p.secondary},
        )
    strip = -facts.ceiling * 0.075
    for mask, fill, edge in ((facts.chosen, p.ink, None), (skipped, p.page, p.context)):
        below, above = np.full((2, int(mask.sum())), strip) * [[1.45], [0.55]]
        add_cells(figure, x[mask], below, above, BAR_WIDTH, fill, edge=edge)
    figure.update_layout(
        barmode="overlay",
        xaxis=epoch_axis(mode, facts.epochs, 0.3, facts.epochs + 0.7),
        yaxis=y_axis(mode) | {"range": [strip * 1.9, facts.ceiling * 1.12]} | percent_ticks(0, facts.ceiling, 4),
    )
    return figure


@dataclass(frozen=True)
class ExposureFacts:
    rows: tuple[tuple[str, float, int], ...]
    """(client, share of its epochs that is computed, position among the run's clients), most exposed first"""
    mean: float
    never: tuple[str, ...]
    left_out: int


def exposure_facts(schedule: Schedule, also: str | None = None) -> ExposureFacts:
    """The most and the least seen clients, and ``also`` the followed one."""
    known = [(c, e, i) for i, (c, e) in enumerate(schedule.exposure.items()) if e is not None]
    rows = sorted(known, key=lambda r: (-r[1], r[0]))
    shown = rows
    if len(rows) > MOST_BARS:
        half = MOST_BARS // 2
        shown = [r for n, r in enumerate(rows) if n < half or n >= len(rows) - half or r[0] == also]
    mean = float(np.mean([r[1] for r in known])) if known else 0.0
    never = tuple(c for c, e in schedule.exposure.items() if e is None)
    return ExposureFacts(tuple(shown), mean, never, len(rows) - len(shown))


def exposure_alt(facts: ExposureFacts) -> str:
    if not facts.rows:
        return "No client took part."
    return (
        f"Share of each client's epochs that is computed: {facts.rows[0][0]} {facts.rows[0][1]:.0%} to "
        f"{facts.rows[-1][0]} {facts.rows[-1][1]:.0%}, mean {facts.mean:.0%}."
    )


def exposure_rows(facts: ExposureFacts) -> list[dict[str, object]]:
    return [{"client": c, "share of its epochs computed": e} for c, e, _ in facts.rows]


def draw_exposure(facts: ExposureFacts, mode: str, following: Following = NOTHING) -> Picture:
    p = palette(mode)
    rows = facts.rows
    figure = base_figure(mode, (26 if len(rows) <= 14 else 19) * max(len(rows), 1) + 58, l=96, r=46, t=6, b=46)
    y = list(range(len(rows), 0, -1))
    figure.add_bar(
        x=[e for _, e, _ in rows],
        y=y,
        orientation="h",
        width=0.62,
        marker={
            "color": [p.ink if c == following.client else p.context for c, _, _ in rows],
            "line": {"width": 0},
        },
        customdata=[[plain(c), pick(i)] for c, _, i in rows],
        hovertemplate="<b>%{customdata[0]}</b><br><b>%{x:.0%}</b> of its epochs<extra></extra>",
        **STILL,
    )
    for place, (client, _, _) in zip(y, rows, strict=True):
        if client == following.client:
            draw_followed_row(figure, place, mode)
    write_column(figure, 1.0, y, [f"{e:.0%}" for _, e, _ in rows], mode)
    figure.add_shape(
        type="line",
        x0=facts.mean,
        x1=facts.mean,
        y0=0,
        y1=1,
        yref="y domain",
        line={"color": p.ink, "width": 1.6, "dash": "dot"},
    )
    names = [f"<b>{short(c, 13)}</b>" if c == following.client else short(c, 13) for c, _, _ in rows]
    title = {"text": "Share of its epochs that is computed", "font": {"size": 12, "color": p.secondary}}
    figure.update_layout(
        xaxis=x_axis(mode) | {"range": [0, 1], "title": title} | percent_ticks(0, 1, 2),
        yaxis={
            "tickvals": y,
            "ticktext": names,
            "range": [0.4, len(rows) + 0.6],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
            "tickfont": {"size": 12, "color": p.ink},
        },
    )
    return figure


@dataclass(frozen=True)
class FrontierFacts:
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
    at = facts.current - 1
    return (
        f"Exposure gap of every budget. Now: k = {facts.current}, {facts.x[at]:.0%} of the cost, "
        f"gap {facts.gap[at]:.2f}. "
        "Budgets below 75% weaken detection."
    )


def frontier_rows(facts: FrontierFacts) -> list[dict[str, object]]:
    return [
        {"k": k + 1, "share of evaluations": float(facts.x[k]), "exposure gap": float(facts.gap[k])}
        for k in range(len(facts.x))
    ]


def _mark_current(figure: Picture, facts: FrontierFacts, top_gap: float, mode: str) -> None:
    """A ring where the reader's budget stands, with its name above or below."""
    p, at = palette(mode), facts.current - 1
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
    p = palette(mode)
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
        figure.add_scatter(
            x=facts.compared[:, 0],
            y=facts.compared[:, 1],
            mode="lines",
            line={"color": p.context, "width": 1.8, "dash": "dash"},
            hovertemplate="one-sided, k = %{pointNumber}<br>gap %{y:.3f}<extra></extra>",
        )
        top = int(np.argmax(facts.compared[:, 1]))
        if facts.compared[top, 1] > 0:
            figure.add_annotation(
                x=float(facts.compared[top, 0]),
                y=float(facts.compared[top, 1]),
                text="one-sided",
                yanchor="bottom",
                showarrow=False,
                font={"size": 11, "color": p.secondary},
            )
    budgets = np.arange(1, len(facts.x) + 1)
    figure.add_scatter(
        x=facts.x,
        y=facts.gap,
        mode="lines",
        line={"color": p.ink, "width": 2.2},
        customdata=budgets,
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
