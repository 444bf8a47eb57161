"""Whose rank changed between two results? A slope from the baseline's rank to the other one's."""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go

from app import wording
from app.charts.style import base_figure, client_styles, palette, plain
from flcontrib_core import AuditReport, contribution_ranks

MOST_CLIENTS = 30


@dataclass(frozen=True)
class RankFacts:
    names: tuple[str, str]
    rows: tuple[tuple[str, int, int], ...]
    """(client, rank before, rank after), clients of both runs"""
    moved: int
    all_clients: tuple[str, ...]


def rank_facts(baseline: AuditReport, other: AuditReport, utility: str, names: tuple[str, str]) -> RankFacts:
    before, after = (contribution_ranks(r.history, utility) for r in (baseline, other))
    shared = [c for c in before if c in after]
    rows = sorted(((c, before[c], after[c]) for c in shared), key=lambda r: r[1])
    return RankFacts(names, tuple(rows[:MOST_CLIENTS]), sum(a != b for _, a, b in rows), baseline.history.client_ids)


def rank_alt(facts: RankFacts) -> str:
    far = sorted(facts.rows, key=lambda r: -abs(r[1] - r[2]))[:3]
    words = ", ".join(f"{c} from {a} to {b}" for c, a, b in far if a != b)
    return f"{wording.several(facts.moved, 'client')} changed rank" + (f": {words}." if words else ".")


def rank_rows(facts: RankFacts) -> list[dict[str, object]]:
    first, second = facts.names
    return [{"client": c, f"rank in {first}": a, f"rank in {second}": b, "change": a - b} for c, a, b in facts.rows]


def draw_ranks(facts: RankFacts, mode: str, narrow: bool = False) -> go.Figure:
    p = palette(mode)
    styles = client_styles(facts.all_clients, mode)
    count = max((max(a, b) for _, a, b in facts.rows), default=1)
    figure = base_figure(mode, 24 * count + 60, l=110, r=110, t=34, b=10)
    for client, a, b in facts.rows:
        far = abs(a - b) >= 2
        style = styles[client]
        colour = style.colour if far else p.context
        figure.add_scatter(
            x=[0, 1],
            y=[a, b],
            mode="lines+markers",
            line={"color": colour, "width": 2.4 if far else 1.2},
            marker={"size": 7, "color": colour, "symbol": style.marker},
            hovertemplate=f"<b>{plain(client)}</b><br>rank %{{y}}<extra></extra>",
        )
        short = plain(client if len(client) <= 13 else client[:12] + "…")
        for x, y, anchor, shift in ((0, a, "right", -10), (1, b, "left", 10)):
            figure.add_annotation(
                x=x,
                y=y,
                text=f"{y}  {short}" if x else f"{short}  {y}",
                showarrow=False,
                xanchor=anchor,
                xshift=shift,
                font={"size": 12, "color": p.ink if far else p.secondary},
            )
    for x, name in enumerate(facts.names):
        figure.add_annotation(
            x=x,
            y=1,
            yref="paper",
            yanchor="bottom",
            yshift=6,
            showarrow=False,
            font={"size": 13, "color": p.ink},
            text=f"<b>{plain(name if len(name) <= 26 else name[:25] + '…')}</b>",
        )
    figure.update_xaxes(visible=False, range=[-0.05, 1.05])
    figure.update_yaxes(visible=False, range=[count + 0.6, 0.4])
    return figure
