"""Who contributed most over the whole run? A dot and its 95 % bar per client, sorted."""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go

from app import wording
from app.charts.style import base_figure, palette, plain, signed_ticks, translucent, x_axis
from flcontrib_core import AuditReport, FillPolicy

MOST_ROWS = 24


@dataclass(frozen=True)
class RankedClient:
    client: str
    total: float
    """Credit without the initial model's share, help up."""
    half_width: float
    """95 %; 0 = exact, NaN = the method gives none"""
    alerted: bool

    @property
    def clear(self) -> bool:
        """The interval excludes zero."""
        return abs(self.total) > (self.half_width if self.half_width == self.half_width else float("inf"))


@dataclass(frozen=True)
class RankingFacts:
    utility: str
    axis: str
    rows: tuple[RankedClient, ...]
    """Best first."""
    left_out: int
    """Clients between the best and the worst that have no row of their own."""


def ranking_facts(report: AuditReport, utility: str, fill: FillPolicy = FillPolicy.EQUAL) -> RankingFacts:
    history = report.history
    sign = -history.harm_sign(utility)
    totals = sign * (history.totals(utility, fill) - history.values[utility][0])
    half = 1.96 * history.total_standard_errors(utility)
    alerted = {a.client for a in report.detection.alerts}
    active = [i for i in range(len(history.client_ids)) if history.participated[:, i].any()]
    rows = [
        RankedClient(history.client_ids[i], float(totals[i]), float(half[i]), history.client_ids[i] in alerted)
        for i in sorted(active, key=lambda i: (-totals[i], history.client_ids[i]))
    ]
    shown = rows
    if len(rows) > MOST_ROWS:  # the top and the bottom of both signs, and whoever has an alert
        ends = {r.client for r in [*rows[: MOST_ROWS // 2], *rows[-MOST_ROWS // 2 :]]}
        marked = [r for r in rows if r.alerted][:8]
        shown = [r for r in rows if r.client in ends or r in marked]
    return RankingFacts(
        utility,
        wording.credited(utility, utility in history.lower_is_better),
        tuple(shown),
        len(rows) - len(shown),
    )


def ranking_alt(facts: RankingFacts) -> str:
    if not facts.rows:
        return "No client took part."
    best, worst = facts.rows[0], facts.rows[-1]
    digits = wording.digits_for(best.total, worst.total)
    return (
        f"Total {facts.axis} per client, best first: {best.client} {wording.signed(best.total, digits)} to "
        f"{worst.client} {wording.signed(worst.total, digits)}."
    )


def ranking_rows(facts: RankingFacts) -> list[dict[str, object]]:
    return [
        {
            "client": r.client,
            f"total {facts.axis}": r.total,
            "± 95 %": None if r.half_width != r.half_width else r.half_width,
            "excludes zero": r.clear,
            "alert": r.alerted,
        }
        for r in facts.rows
    ]


def draw_ranking(facts: RankingFacts, mode: str, narrow: bool = False) -> go.Figure:
    """Filled when the interval excludes zero, open otherwise; the number stands in a right-hand column."""
    p = palette(mode)
    rows = facts.rows
    row_height = 30 if len(rows) <= 12 else 22
    figure = base_figure(mode, row_height * max(len(rows), 1) + 62, l=104, r=60, t=6, b=48)
    places = list(range(len(rows), 0, -1))
    reach = [v for r in rows for v in (r.total - _width(r), r.total + _width(r))] + [0.0]
    room = (max(reach) - min(reach) or 1.0) * 0.07
    low, high = min(reach) - room, max(reach) + room
    digits = wording.digits_for(*(r.total for r in rows))
    for place, r in zip(places, rows, strict=True):
        colour = (p.help if r.total > 0 else p.harm) if r.clear else p.secondary
        if r.half_width > 0:
            bar = {"color": translucent(colour, 0.4), "width": 6}
            span = [r.total - r.half_width, r.total + r.half_width]
            figure.add_scatter(x=span, y=[place, place], mode="lines", line=bar, hoverinfo="skip")
        marker = {"size": 11, "color": colour if r.clear else p.page, "line": {"color": colour, "width": 1.6}}
        status = (
            "exact"
            if r.half_width == 0
            else ("no interval" if r.half_width != r.half_width else f"± {r.half_width:.3f}")
        )
        figure.add_scatter(
            x=[r.total],
            y=[place],
            mode="markers",
            marker=marker,
            customdata=[[plain(r.client), status]],
            hovertemplate="<b>%{customdata[0]}</b><br><b>%{x:+.3f}</b> %{customdata[1]}<extra></extra>",
        )
        figure.add_annotation(
            x=1,
            xref="paper",
            y=place,
            text=wording.signed(r.total, digits),
            showarrow=False,
            xanchor="left",
            xshift=12,
            font={"size": 12, "color": p.secondary},
        )
    names = [plain(r.client if len(r.client) <= 14 else r.client[:13] + "…") for r in rows]
    figure.update_layout(
        xaxis=x_axis(mode)
        | {
            "showgrid": True,
            "gridcolor": p.grid,
            "zeroline": True,
            "zerolinecolor": p.axis,
            "range": [low, high],
            "title": {"text": f"Total contribution ({facts.axis})", "font": {"size": 12, "color": p.secondary}},
        }
        | signed_ticks(low, high, 4),
        yaxis={
            "tickvals": places,
            "ticktext": [f"<b>{n}</b>" if r.alerted else n for n, r in zip(names, rows, strict=True)],
            "range": [0.4, len(rows) + 0.6],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
            "tickfont": {"size": 13, "color": p.ink},
        },
    )
    return figure


def _width(row: RankedClient) -> float:
    return row.half_width if row.half_width == row.half_width else 0.0
