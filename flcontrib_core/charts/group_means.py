"""A heat map for thousands of clients: twenty equal groups by total, the mean of each group and epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.credit import total_credit
from flcontrib_core.charts.following import NOTHING, Following, draw_followed_epochs, draw_followed_row
from flcontrib_core.charts.palette import heat_scale, palette_for
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.states import STATE_WORDS
from flcontrib_core.charts.style import KEY_DEPTH, KEY_WORDS, add_colour_key, base_figure, epoch_axis, hatch_of
from flcontrib_core.charts.ticks import leading_digit_up
from flcontrib_core.vocabulary import CellState
from flcontrib_core.words import numbers

MANY_CLIENTS = 200
"""Above this, no chart gives every client a mark of its own."""
GROUPS = 20


@dataclass(frozen=True)
class GroupMeansFacts:
    """Mean credit per epoch of equal groups of clients."""

    axis: str
    labels: tuple[str, ...]
    """Best group first."""
    sizes: tuple[int, ...]
    means: np.ndarray
    """(groups, T) mean credit per computed participation, help up; NaN without one"""
    state: np.ndarray
    """(groups, T) computed where a member's value is known, not computed where members took part, else absent"""
    limit: float
    members: tuple[frozenset[str], ...]


def group_means_facts(report: AuditReport, utility: str) -> GroupMeansFacts:
    """Groups by total, the best first."""
    history = report.history
    sign = -history.harm_sign(utility)
    totals = total_credit(history, utility)
    order = np.argsort(-totals, kind="stable")
    parts = np.array_split(order, min(GROUPS, len(order)))
    series = history.of(utility)
    computed = (history.participated & series.computed)[1:]
    values = np.where(computed, sign * series.values[1:], 0.0)
    counts = np.stack([computed[:, part].sum(axis=1) for part in parts])
    sums = np.stack([values[:, part].sum(axis=1) for part in parts])
    means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    missing = np.stack([series.missing[1:, part].any(axis=1) for part in parts])
    size = np.abs(means[counts > 0])
    step = 100 / len(parts)
    return GroupMeansFacts(
        axis=numbers.credited(utility, utility in history.lower_is_better),
        labels=tuple(f"{g * step:.0f}–{(g + 1) * step:.0f}%" for g in range(len(parts))),
        sizes=tuple(len(part) for part in parts),
        means=means,
        state=np.where(counts > 0, CellState.COMPUTED, np.where(missing, CellState.NOT_COMPUTED, CellState.ABSENT)),
        limit=leading_digit_up(float(np.quantile(size, 0.95)) if size.size else 1.0),
        members=tuple(frozenset(history.client_ids[i] for i in part) for part in parts),
    )


def group_means_alt(facts: GroupMeansFacts) -> str:
    """What the best and the last group contributed per epoch."""
    with_values = np.where(facts.state == CellState.COMPUTED, facts.means, 0.0).mean(axis=1)
    digits = numbers.digits_for(*with_values.tolist())
    return (
        f"{sum(facts.sizes)} clients in {len(facts.sizes)} equal groups by total {facts.axis}. Mean per epoch: best "
        f"group {numbers.signed(float(with_values[0]), digits)}, "
        f"last group {numbers.signed(float(with_values[-1]), digits)}."
    )


def group_means_rows(facts: GroupMeansFacts) -> list[dict[str, object]]:
    """One row per group and epoch."""
    return [
        {
            "group by total": label,
            "clients": size,
            "epoch": t + 1,
            f"mean {facts.axis}": float(value) if state == CellState.COMPUTED else None,
            "state": STATE_WORDS[int(state)],
        }
        for label, size, means, states in zip(facts.labels, facts.sizes, facts.means, facts.state, strict=True)
        for t, (value, state) in enumerate(zip(means, states, strict=True))
    ]


def draw_group_means(facts: GroupMeansFacts, mode: str, following: Following = NOTHING) -> Picture:
    """A heat map with one row per group; the followed client's group is framed."""
    p = palette_for(mode)
    count, epochs = facts.means.shape
    inner = 15 * count + KEY_DEPTH
    figure = base_figure(mode, inner + 12 + KEY_WORDS, l=84, r=12, t=12, b=KEY_WORDS)
    y = list(range(count, 0, -1))
    figure.add_heatmap(
        x=list(range(1, epochs + 1)),
        y=y,
        z=facts.means,
        zmin=-facts.limit,
        zmax=facts.limit,
        colorscale=heat_scale(p),
        hoverongaps=False,
        customdata=[[label] * epochs for label in facts.labels],
        hovertemplate="clients %{customdata} by total<br>epoch %{x}<br>mean <b>%{z:+.4f}</b><extra></extra>",
        showscale=False,
    )
    rows, at = np.nonzero(facts.state == CellState.NOT_COMPUTED)
    if len(rows):
        hatch = hatch_of(mode)
        figure.add_bar(
            x=at + 1,
            y=[1.0] * len(rows),
            base=[y[r] - 0.5 for r in rows],
            width=1.0,
            marker={"color": p.soft, "pattern": hatch, "line": {"width": 0}},
            hovertemplate="epoch %{x}: not computed<extra></extra>",
        )
    add_colour_key(figure, facts.limit, mode, inner)
    draw_followed_epochs(figure, following, mode, "y domain")
    for height, members in zip(y, facts.members, strict=True):
        if following.client in members:
            draw_followed_row(figure, height, mode, over=True)
    figure.update_layout(
        barmode="overlay",
        xaxis=epoch_axis(mode, epochs, 0.4, epochs + 0.6) | {"showline": False},
        yaxis={
            "domain": [KEY_DEPTH / inner, 1],
            "range": [0.45, count + 0.55],
            "tickvals": y[::2],
            "ticktext": list(facts.labels)[::2],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
            "tickfont": {"size": 11, "color": p.secondary},
        },
    )
    return figure
