"""The groups of the clients' series as small multiples with shared axes, and how well each number of groups fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.credit import client_styles
from flcontrib_core.charts.following import NOTHING, STILL, Following, draw_followed_epochs, pick
from flcontrib_core.charts.palette import ClientStyles, palette_for, translucent
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import base_figure, client_label, epoch_axis, x_axis, y_axis
from flcontrib_core.charts.ticks import plain_ticks, signed_ticks, value_range
from flcontrib_core.detection.findings import Separation
from flcontrib_core.detection.separation import computed_epochs
from flcontrib_core.words import numbers

MOST_LINES = 40


@dataclass(frozen=True)
class ClusterFacts:
    """Groups of clients by their cumulative series."""

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
    styles: ClientStyles


def cluster_facts(
    report: AuditReport, utility: str, also: str | None = None, separation: Separation | None = None
) -> ClusterFacts | None:
    """Members of each group, those with an alert and ``also`` the followed one first among the drawn lines.

    ``separation``: made in another way than the report's own.
    """
    separated = separation or report.detection.separation
    if separated is None:
        return None
    history = report.history
    sign = -history.harm_sign(utility)
    rows = computed_epochs(history, utility)
    series = history.of(utility)
    values = sign * np.where(series.missing, 0.0, series.values)[rows]
    values[0] = 0.0
    credit = np.cumsum(np.nan_to_num(values), axis=0)
    position = {c: i for i, c in enumerate(history.client_ids)}
    alerted = frozenset(a.client for a in report.detection.alerts)
    groups = tuple(
        tuple(numbers.in_order(c for c, label in separated.labels.items() if label == g)) for g in range(separated.k)
    )
    first = {*alerted, also}
    shown = {c for members in groups for c in sorted(members, key=lambda c: c not in first)[:MOST_LINES]}
    offset = sign * series.values[0, 0]
    return ClusterFacts(
        axis=numbers.credited(utility, utility in history.lower_is_better),
        epochs=rows,
        groups=groups,
        series={c: credit[:, position[c]] for c in shown},
        centres=sign * separated.centres - offset,
        silhouette=separated.silhouette,
        alerted=alerted,
        styles=client_styles(report),
    )


def cluster_alt(facts: ClusterFacts) -> str:
    """Who belongs to which group."""
    sizes = "; ".join(
        f"group {g + 1}: {numbers.listing([numbers.named(c) for c in members], 8)}"
        for g, members in enumerate(facts.groups)
    )
    return f"{numbers.several(len(facts.groups), 'group')} of cumulative series. {sizes}."


def cluster_rows(facts: ClusterFacts) -> list[dict[str, object]]:
    """One row per client."""
    return [
        {"client": c, "group": g + 1, f"final {facts.axis}": float(facts.series[c][-1]) if c in facts.series else None}
        for g, members in enumerate(facts.groups)
        for c in members
    ]


def draw_clusters(facts: ClusterFacts, mode: str, following: Following = NOTHING) -> Picture:
    """One panel per group on shared axes: a wide grey centre under its members."""
    p = palette_for(mode)
    k = len(facts.groups)
    columns = min(k, 4)
    rows = -(-k // columns)
    height = 250 * rows
    figure = base_figure(mode, height + 84, l=56, r=12, t=30, b=54)
    low, high = value_range([*facts.series.values(), facts.centres])
    layout: dict[str, Any] = {}
    for g, members in enumerate(facts.groups):
        column, line = g % columns, g // columns
        n = "" if g == 0 else str(g + 1)
        left, width = column / columns + (0.02 if column else 0), 1 / columns - 0.03
        top, bottom = 1 - line / rows, 1 - (line + 1) / rows
        last = int(facts.epochs[-1])
        layout |= {
            f"xaxis{n}": epoch_axis(mode, last, 0, last + 0.6, "Epoch" if line == rows - 1 else "")
            | {"domain": [left, left + width], "anchor": f"y{n}"}
            | ({"matches": "x"} if n else {}),
            f"yaxis{n}": y_axis(mode)
            | {
                "domain": [bottom + (0.3 / rows if line < rows - 1 else 0), top - 0.05 / rows],
                "anchor": f"x{n}",
                "range": [low, high],
                "showticklabels": column == 0,
            }
            | signed_ticks(low, high),
        }
        _draw_group(figure, facts, g, mode, following, {"xaxis": f"x{n}", "yaxis": f"y{n}"})
        figure.add_annotation(
            x=left,
            xref="paper",
            xanchor="left",
            y=top - 0.05 / rows,
            yref="paper",
            yanchor="bottom",
            yshift=4,
            text=f"<b>Group {g + 1}</b> · {numbers.several(len(members), 'client')}",
            showarrow=False,
            font={"size": 13, "color": p.ink},
        )
    figure.update_layout(**layout)
    return figure


def _draw_group(
    figure: Picture, facts: ClusterFacts, group: int, mode: str, following: Following, axes: dict[str, str]
) -> None:
    p = palette_for(mode)
    position = facts.styles.position
    styles = {c: facts.styles.of(c, mode) for c in facts.groups[group] if c in facts.series}
    figure.add_scatter(
        x=facts.epochs,
        y=facts.centres[group],
        mode="lines",
        line={"color": translucent(p.context, 0.55), "width": 9},
        **axes,
        hovertemplate="centre<br>epoch %{x}<br><b>%{y:+.3f}</b><extra></extra>",
    )
    draw_followed_epochs(figure, following, mode, f"{axes['yaxis']} domain", axes["xaxis"])
    drawn = [c for c in facts.groups[group] if c in facts.series]
    for c in drawn:
        followed = c == following.client
        focus = followed or c in facts.alerted
        figure.add_scatter(
            x=facts.epochs,
            y=facts.series[c],
            mode="lines",
            **axes,
            line={
                "color": styles[c].colour if focus else p.secondary,
                "width": 3.6 if followed else (2.2 if focus else 1),
                "dash": styles[c].dash if focus else "solid",
            },
            hovertemplate=f"<b>{client_label(c)}</b><br>epoch %{{x}}<br><b>%{{y:+.3f}}</b><extra></extra>",
        )
    marked = [c == following.client or c in facts.alerted for c in drawn]
    figure.add_scatter(  # the ends of the lines: where a member can be clicked
        x=[facts.epochs[-1]] * len(drawn),
        y=[facts.series[c][-1] for c in drawn],
        mode="markers",
        cliponaxis=False,
        **axes,
        marker={
            "color": [styles[c].colour if m else p.secondary for c, m in zip(drawn, marked, strict=True)],
            "symbol": [styles[c].marker for c in drawn],
            "size": [10 if m else 7 for m in marked],
            "opacity": 1,  # signs of several sizes would be bubbles: half transparent, with a rim
            "line": {"width": 0},
        },
        customdata=[[client_label(c), pick(position[c])] for c in drawn],
        hovertemplate="<b>%{customdata[0]}</b><br>ends at <b>%{y:+.3f}</b><extra></extra>",
        **STILL,
    )


def silhouette_alt(facts: ClusterFacts) -> str:
    """How well each number of groups fits."""
    best = max(facts.silhouette, key=lambda k: facts.silhouette[k], default=None)
    if best is None:
        return "No number of groups was scored."
    scores = ", ".join(f"{k} groups {s:.2f}" for k, s in sorted(facts.silhouette.items()))
    return f"Silhouette score per number of groups; {best} groups fit best. {scores}."


def silhouette_rows(facts: ClusterFacts) -> list[dict[str, object]]:
    """One row per number of groups."""
    return [{"groups": k, "silhouette": float(s)} for k, s in sorted(facts.silhouette.items())]


def draw_silhouette(facts: ClusterFacts, mode: str) -> Picture:
    """A bar per number of groups, the chosen one in ink."""
    p = palette_for(mode)
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
        xaxis=x_axis(mode) | {"tickvals": ks, "title": title, "range": [min(ks) - 0.5, max(ks) + 0.5]},
        yaxis=y_axis(mode) | {"range": [low * 1.2, 1.15]} | plain_ticks(low, 1.0, 2),
    )
    return figure
