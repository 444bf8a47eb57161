"""The change-point chart: at which epochs each client's series starts a new segment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.credit import client_styles
from flcontrib_core.charts.following import (
    NOTHING,
    STILL,
    Following,
    add_cell_targets,
    add_row_targets,
    draw_followed_epochs,
    draw_followed_row,
    pick,
)
from flcontrib_core.charts.palette import CLEAR, ClientStyles, palette_for, probability_scale, translucent
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import base_figure, client_label, epoch_axis, y_axis
from flcontrib_core.detection.findings import ChangePoints
from flcontrib_core.words import numbers

MOST_ROWS = 40


@dataclass(frozen=True)
class ChangePointFacts:
    """The probability of a change per client and epoch, and the changes above a threshold."""

    clients: tuple[str, ...]
    """Highest single probability first."""
    probability: np.ndarray
    """(clients, T) epochs 1..T; NaN where missing"""
    focus: tuple[str, ...]
    threshold: float
    above: tuple[tuple[str, int, int, float], ...]
    """(client, first, last, probability of a change among them) at or above the threshold, strongest first"""
    styles: ClientStyles
    left_out: int
    inside: bool = False
    """Is it the probability that the epoch lies in a deviating segment, and not that one starts there?"""
    known_windows: tuple[tuple[str, int, int], ...] = ()
    """(client, first, last) of the run's truth, where it has one"""


def change_point_facts(
    report: AuditReport,
    threshold: float = 0.5,
    focus: tuple[str, ...] = (),
    points: ChangePoints | None = None,
    inside: bool = False,
) -> ChangePointFacts:
    """The rows with the highest probabilities, and those of the clients in focus.

    ``points``: read in another way than the report's own.
    """
    points = points or report.detection.change_points
    table = (points.inside if inside else points.probability)[1:].T
    peak = np.nan_to_num(table).max(axis=1)
    place = {c: i for i, c in enumerate(points.client_ids)}
    positions = [place[c] for c in focus if c in place]
    highest = np.lexsort((np.arange(len(peak)), -peak))[:MOST_ROWS].tolist()
    rows = dict.fromkeys([*positions, *highest][: max(MOST_ROWS, len(positions))])
    order = sorted(rows, key=lambda i: (-peak[i], numbers.place_of(points.client_ids[i])))
    above = [
        (client, first, last, mass)
        for client in points.client_ids
        for first, last, mass in points.changes.get(client, ())
        if mass >= threshold
    ]
    return ChangePointFacts(
        tuple(points.client_ids[i] for i in order),
        table[order],
        focus,
        threshold,
        tuple(sorted(above, key=lambda a: (-a[3], a[0], a[1]))),
        client_styles(report),
        len(points.client_ids) - len(order),
        inside,
        tuple((d.client, a, b) for d in (report.truth.dishonest if report.truth else ()) for a, b in d.windows),
    )


def change_point_alt(facts: ChangePointFacts) -> str:
    """The strongest changes above the threshold, or where it is shown the epochs that deviate."""
    if facts.inside:
        deviating = [
            f"{numbers.named(client)} in {numbers.epoch_list((np.flatnonzero(row >= facts.threshold) + 1).tolist(), 6)}"
            for client, row in zip(facts.clients, facts.probability, strict=True)
            if (row >= facts.threshold).any()
        ]
        return f"Probably deviating: {'; '.join(deviating[:5]) or 'nobody'}."
    if not facts.above:
        return f"No client has a change with probability {facts.threshold:.2f} or more."
    strongest = ", ".join(
        f"{numbers.named(c)} at {numbers.window(a, b)} ({numbers.probability(p)})" for c, a, b, p in facts.above[:5]
    )
    return f"Changes with probability {facts.threshold:.2f} or more: {strongest}."


def change_words(groups: Iterable[tuple[str, int, int, float]]) -> str:
    """'client-03 at 12–15: 0.99 together; client-01 at 7: 0.61'"""
    return "; ".join(
        f"{numbers.named(client)} at {group_words(first, last, mass)}" for client, first, last, mass in groups
    )


def group_words(first: int, last: int, mass: float) -> str:
    """'12–15: 0.99 together', '7: 0.61'"""
    together = " together" if last > first else ""
    return f"{numbers.window(first, last)}: {numbers.probability(mass)}{together}"


def change_point_rows(facts: ChangePointFacts) -> list[dict[str, object]]:
    """One row per epoch, one column per client."""
    return [
        {
            "epoch": t + 1,
            **{
                c: None if np.isnan(v[t]) else float(v[t])
                for c, v in zip(facts.clients, facts.probability, strict=True)
            },
        }
        for t in range(facts.probability.shape[1])
    ]


def draw_change_points(facts: ChangePointFacts, mode: str, following: Following = NOTHING) -> Picture:
    """Lines of the clients in focus above, heat map of all below, on one axis."""
    p = palette_for(mode)
    count, epochs = facts.probability.shape
    row = 20 if count <= 24 else 14
    lines, gap = 170, 26
    inner = lines + gap + row * count
    floor = row * count / inner
    figure = base_figure(mode, inner + 66, l=104, r=16, t=12, b=54)
    x = list(range(1, epochs + 1))
    y = list(range(count, 0, -1))
    figure.add_heatmap(
        x=x,
        y=y,
        z=facts.probability,
        zmin=0,
        zmax=1,
        showscale=False,
        xgap=1.5,
        ygap=1.5,
        hoverongaps=False,
        colorscale=probability_scale(p),
        customdata=[[client_label(c)] * epochs for c in facts.clients],
        hovertemplate="<b>%{customdata}</b><br>epoch %{x}<br>probability <b>%{z:.2f}</b><extra></extra>",
    )
    position = facts.styles.position
    add_row_targets(figure, facts.clients, position, mode)
    words = [["no series here" if v != v else f"{v:.2f}" for v in row] for row in facts.probability.tolist()]
    add_cell_targets(figure, facts.clients, position, words)
    draw_followed_epochs(figure, following, mode)
    if following.client in facts.clients:
        draw_followed_row(figure, y[facts.clients.index(following.client)], mode, over=True)
    _draw_known_windows(figure, facts, mode)
    _draw_lines(figure, facts, mode, following)
    dashed = {"color": p.secondary, "width": 1.2, "dash": "dash"}
    figure.add_shape(
        type="line", x0=0.5, x1=epochs + 0.5, y0=facts.threshold, y1=facts.threshold, yref="y2", line=dashed
    )
    names = [client_label(c, 13) for c in facts.clients]
    figure.update_layout(
        xaxis=epoch_axis(mode, epochs, -0.5, epochs + 0.6) | {"showline": False},
        yaxis={
            "domain": [0, floor],
            "range": [0.45, count + 0.55],
            "tickvals": y,
            "showgrid": False,
            "zeroline": False,
            "ticktext": [f"<b>{n}</b>" if c in facts.focus else n for n, c in zip(names, facts.clients, strict=True)],
            "fixedrange": True,
            "tickfont": {"size": 12, "color": p.ink},
        },
        yaxis2=y_axis(mode) | {"domain": [floor + gap / inner, 1], "range": [0, 1.05], "tickvals": [0, 0.5, 1]},
    )
    return figure


def _draw_known_windows(figure: Picture, facts: ChangePointFacts, mode: str) -> None:
    """The run's truth: a dashed frame in the client's row, a light fill behind the lines where it has one."""
    p = palette_for(mode)
    for client, first, last in facts.known_windows:
        if client not in facts.clients:
            continue
        height = len(facts.clients) - facts.clients.index(client)
        frame = {"color": p.ink, "width": 1.6, "dash": "dot"}
        ends = {"x0": first - 0.5, "x1": last + 0.5}
        figure.add_shape(
            type="rect", **ends, y0=height - 0.5, y1=height + 0.5, line=frame, fillcolor=CLEAR, name="known window"
        )
        if client in facts.focus:
            shade = {"fillcolor": translucent(facts.styles.of(client, mode).colour, 0.12), "line": {"width": 0}}
            figure.add_shape(type="rect", **ends, y0=0, y1=1.05, yref="y2", layer="below", **shade)


def _draw_lines(figure: Picture, facts: ChangePointFacts, mode: str, following: Following) -> None:
    """A line per client in focus, above the cells."""
    epochs = facts.probability.shape[1]
    for client in facts.focus:
        if client in facts.clients:
            style = facts.styles.of(client, mode)
            figure.add_scatter(
                x=list(range(1, epochs + 1)),
                y=facts.probability[facts.clients.index(client)],
                yaxis="y2",
                mode="lines+markers",
                line={"color": style.colour, "dash": style.dash, "width": 3.6 if client == following.client else 2},
                marker={"symbol": style.marker, "size": 6, "color": style.colour},
                customdata=[[pick(facts.styles.position[client])]] * epochs,
                **STILL,
                hovertemplate=f"<b>{client_label(client)}</b><br>epoch %{{x}}<br><b>%{{y:.2f}}</b><extra></extra>",
            )
