"""How do the clients' series group? Small multiples with a shared axis, and how well each number of groups fits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from app import wording
from app.charts.style import (
    base_figure,
    client_styles,
    epoch_ticks,
    palette,
    plain,
    signed_ticks,
    translucent,
    x_axis,
    y_axis,
)
from flcontrib_core import AuditReport

MOST_LINES = 40


@dataclass(frozen=True)
class ClusterFacts:
    axis: str
    epochs: np.ndarray
    """Computed epochs (with 0)"""
    groups: tuple[tuple[str, ...], ...]
    """Members, largest group first"""
    series: dict[str, np.ndarray]
    """Help up, the initial share left out; at most 40 per group"""
    centres: np.ndarray
    """(k, epochs)"""
    silhouette: dict[int, float]
    alerted: frozenset[str]
    all_clients: tuple[str, ...]


def cluster_facts(report: AuditReport, utility: str) -> ClusterFacts | None:
    found = report.detection.separation
    if found is None:
        return None
    history = report.history
    sign = -history.harm_sign(utility)
    rows = np.flatnonzero(history.computed)
    values = sign * history.values[utility][rows]
    values[0] = 0.0
    credit = np.cumsum(np.nan_to_num(values), axis=0)
    position = {c: i for i, c in enumerate(history.client_ids)}
    groups = tuple(tuple(sorted(c for c, label in found.labels.items() if label == g)) for g in range(found.k))
    shown = {c for members in groups for c in members[:MOST_LINES]}
    offset = sign * history.values[utility][0, 0]
    return ClusterFacts(
        axis=wording.credited(utility, utility in history.lower_is_better),
        epochs=rows,
        groups=groups,
        series={c: credit[:, position[c]] for c in shown},
        centres=sign * found.centres - offset,
        silhouette=found.silhouette,
        alerted=frozenset(a.client for a in report.detection.alerts),
        all_clients=history.client_ids,
    )


def cluster_alt(facts: ClusterFacts) -> str:
    sizes = "; ".join(
        f"group {g + 1}: {', '.join(m[:8])}{' …' if len(m) > 8 else ''}" for g, m in enumerate(facts.groups)
    )
    return f"{len(facts.groups)} groups of cumulative series. {sizes}."


def cluster_rows(facts: ClusterFacts) -> list[dict[str, object]]:
    return [
        {"client": c, "group": g + 1, f"final {facts.axis}": float(facts.series[c][-1]) if c in facts.series else None}
        for g, members in enumerate(facts.groups)
        for c in members
    ]


def draw_clusters(facts: ClusterFacts, mode: str, narrow: bool = False) -> go.Figure:
    p = palette(mode)
    k = len(facts.groups)
    columns = 1 if narrow else min(k, 4)
    rows = -(-k // columns)
    figure = base_figure(mode, 250 * rows + 50, l=56, r=12, t=30, b=46)
    styles = client_styles(facts.all_clients, mode)
    everything = np.concatenate([*facts.series.values(), facts.centres.ravel(), [0.0]])
    low, high = float(everything.min()), float(everything.max())
    room = (high - low or 1.0) * 0.06
    for g, members in enumerate(facts.groups):
        column, line = g % columns, g // columns
        n = "" if g == 0 else str(g + 1)
        left, width = column / columns + (0.02 if column else 0), 1 / columns - 0.03
        top = 1 - line / rows
        figure.update_layout(
            {
                f"xaxis{n}": x_axis(mode)
                | {"domain": [left, left + width], "anchor": f"y{n}", "tickvals": epoch_ticks(int(facts.epochs[-1]))},
                f"yaxis{n}": y_axis(mode)
                | {
                    "domain": [top - 1 / rows + 0.12 / rows, top - 0.05 / rows],
                    "anchor": f"x{n}",
                    "range": [low - room, high + room],
                    "showticklabels": column == 0,
                }
                | signed_ticks(low - room, high + room),
            }
        )
        axes = {"xaxis": f"x{n}", "yaxis": f"y{n}"}
        for c in members:
            if c in facts.series:
                focus = c in facts.alerted
                colour = styles[c].colour if focus else translucent(p.context, 0.8)
                dash = styles[c].dash if focus else "solid"
                figure.add_scatter(
                    x=facts.epochs,
                    y=facts.series[c],
                    mode="lines",
                    **axes,
                    line={"color": colour, "width": 2 if focus else 1.2, "dash": dash},
                    hovertemplate=f"<b>{plain(c)}</b><br>epoch %{{x}}<br><b>%{{y:+.3f}}</b><extra></extra>",
                )
        figure.add_scatter(
            x=facts.epochs,
            y=facts.centres[g],
            mode="lines",
            line={"color": p.ink, "width": 3.2},
            **axes,
            hovertemplate="centre<br>epoch %{x}<br><b>%{y:+.3f}</b><extra></extra>",
        )
        figure.add_annotation(
            x=left,
            xref="paper",
            xanchor="left",
            y=top - 0.05 / rows,
            yref="paper",
            yanchor="bottom",
            yshift=4,
            text=f"<b>Group {g + 1}</b> · {wording.several(len(members), 'client')}",
            showarrow=False,
            font={"size": 13, "color": p.ink},
        )
    return figure


def draw_silhouette(facts: ClusterFacts, mode: str) -> go.Figure:
    p = palette(mode)
    figure = base_figure(mode, 190, l=46, r=12, t=10, b=46)
    ks = sorted(facts.silhouette)
    colours = [p.ink if k == len(facts.groups) else p.context for k in ks]
    figure.add_bar(
        x=ks,
        y=[facts.silhouette[k] for k in ks],
        width=0.5,
        marker={"color": colours, "line": {"width": 0}},
        text=[f"{facts.silhouette[k]:.2f}" for k in ks],
        textposition="outside",
        textfont={"size": 12, "color": p.secondary},
        hovertemplate="%{x} groups<br>silhouette <b>%{y:.2f}</b><extra></extra>",
    )
    title = {"text": "Number of groups", "font": {"size": 12, "color": p.secondary}}
    low = min(0.0, *facts.silhouette.values())
    figure.update_layout(
        xaxis=x_axis(mode) | {"tickvals": ks, "title": title}, yaxis=y_axis(mode) | {"range": [low * 1.2, 1.15]}
    )
    return figure
