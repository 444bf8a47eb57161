"""The heat map of clients and epochs: cells of three states, the model's gain above, totals at the right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.credit import total_credit
from flcontrib_core.charts.following import (
    NOTHING,
    Following,
    add_cell_targets,
    add_row_targets,
    draw_followed_epochs,
    draw_followed_row,
)
from flcontrib_core.charts.heat_map_sides import draw_gain, draw_totals, reach
from flcontrib_core.charts.palette import heat_scale, palette_for
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.states import STATE_WORDS, drawn_states
from flcontrib_core.charts.style import (
    KEY_DEPTH,
    KEY_WORDS,
    add_colour_key,
    base_figure,
    client_label,
    epoch_axis,
    hatch_of,
)
from flcontrib_core.charts.ticks import leading_digit_up
from flcontrib_core.vocabulary import CellState, FillPolicy, Orientation
from flcontrib_core.words import numbers

MOST_HEAT_ROWS = 40
LONGEST_NAME = 13
GAIN_GAP = 18
"""Pixels between the cells and the gain above them."""


@dataclass(frozen=True)
class HeatMapFacts:
    """Values and states of clients × epochs, with gain, totals and windows."""

    utility: str
    axis: str
    clients: tuple[str, ...]
    """Top row first."""
    values: np.ndarray
    """(clients, T) NaN where not computed or absent"""
    state: np.ndarray
    """(clients, T) 0 absent, 1 computed, 2 took part but not computed"""
    gain: np.ndarray
    """(T,) the model's gain per epoch"""
    totals: np.ndarray
    half_widths: np.ndarray
    limit: float
    """Colours saturate at ± limit (about the 95th percentile, so that epoch 1 does not flatten the rest)."""
    windows: tuple[tuple[str, int, int], ...]
    alerted: frozenset[str]
    left_out: int
    position: dict[str, int]
    """Of each shown client among the run's."""
    harm_up: bool = False
    """Are values, gain and totals in the paper's orientation of a loss, where up is harm?"""

    def harms(self, values: np.ndarray) -> np.ndarray:
        """Which of these values are harm."""
        return values > 0 if self.harm_up else values < 0


def heat_map_facts(
    report: AuditReport,
    utility: str,
    order: str = "alerts",
    fill: FillPolicy | None = None,
    rows: int = MOST_HEAT_ROWS,
    also: str | None = None,
    orientation: Orientation = Orientation.HELP_UP,
) -> HeatMapFacts:
    """``order``: 'alerts' first, by 'total', or by 'name'; ``also`` the followed client, whatever its place.

    Where not all fit, 'alerts' shows the clients with an alert and those with the largest totals.
    """
    history = report.history
    sign = 1.0 if orientation is Orientation.PAPER else -history.harm_sign(utility)
    totals = total_credit(history, utility, fill)
    alerted = list(dict.fromkeys(a.client for a in report.detection.alerts))
    position = {c: i for i, c in enumerate(history.client_ids)}
    names = numbers.in_order(position)
    if order == "total":
        names = sorted(names, key=lambda c: -totals[position[c]])
    elif order == "alerts":
        marked = set(alerted)
        rest = [c for c in names if c not in marked]
        largest = set(sorted(rest, key=lambda c: -abs(totals[position[c]]))[: max(0, rows - len(alerted))])
        names = [*alerted, *sorted(rest, key=lambda c: c not in largest)]  # those, then the others, each by name
    shown = names[:rows]
    if also in position and also not in shown:
        shown = [*shown[: rows - 1], str(also)]
    picked = [position[c] for c in shown]
    series = history.of(utility)
    state = drawn_states(series.state[1:, picked].T)
    values = np.where(state == CellState.COMPUTED, sign * series.values[1:, picked].T, np.nan)
    magnitudes = np.abs(values[state == CellState.COMPUTED])
    limit = float(np.quantile(magnitudes, 0.95)) if magnitudes.size else 1.0
    return HeatMapFacts(
        utility=utility,
        axis=numbers.credited(utility, utility in history.lower_is_better, orientation),
        clients=tuple(shown),
        values=values,
        state=state,
        gain=sign * series.increments[1:],
        totals=total_credit(history, utility, fill, orientation)[picked],
        half_widths=1.96 * history.total_standard_errors(utility)[picked],
        limit=leading_digit_up(limit),
        windows=tuple((a.client, *a.window) for a in report.detection.alerts if a.window and a.client in shown),
        alerted=frozenset(alerted),
        left_out=len(names) - len(shown),
        position={c: position[c] for c in shown},
        harm_up=sign == history.harm_sign(utility),
    )


def heat_map_alt(facts: HeatMapFacts) -> str:
    """How many cells are computed, harmful and not computed."""
    harmful = int(facts.harms(facts.values).sum())
    computed, skipped = (int((facts.state == s).sum()) for s in (CellState.COMPUTED, CellState.NOT_COMPUTED))
    clients, epochs = numbers.several(len(facts.clients), "client"), numbers.several(facts.values.shape[1], "epoch")
    return (
        f"{facts.axis} of {clients} in {epochs}: "
        f"{computed} computed cells, {harmful} of them harmful, {skipped} not computed."
    )


def heat_map_rows(facts: HeatMapFacts) -> list[dict[str, object]]:
    """One row per client and epoch."""
    return [
        {
            "client": client,
            "epoch": t + 1,
            facts.axis: float(facts.values[i, t]) if facts.state[i, t] == CellState.COMPUTED else None,
            "state": STATE_WORDS[int(facts.state[i, t])],
        }
        for i, client in enumerate(facts.clients)
        for t in range(facts.values.shape[1])
    ]


def draw_heat_map(facts: HeatMapFacts, mode: str, following: Following = NOTHING) -> Picture:
    """Clients × epochs, with the gain per epoch above and (on wide screens) totals at the right."""
    p = palette_for(mode)
    count = len(facts.clients)
    row, top = (26 if count <= 20 else 18), 64 + GAIN_GAP
    inner = top + row * count + KEY_DEPTH
    right = 0.86
    figure = base_figure(mode, inner + 26 + KEY_WORDS, l=104, r=40, t=26, b=KEY_WORDS)
    y = list(range(count, 0, -1))
    _draw_cells(figure, facts, y, mode)
    _mark_states(figure, facts, y, mode)
    draw_gain(figure, facts, mode)
    for client, first, last in facts.windows:
        at = y[facts.clients.index(client)]
        edge = {"color": p.ink, "width": 2}
        figure.add_shape(type="rect", x0=first - 0.5, x1=last + 0.5, y0=at - 0.5, y1=at + 0.5, line=edge)
    add_row_targets(figure, facts.clients, facts.position, mode)
    add_cell_targets(figure, facts.clients, facts.position, _cell_words(facts))
    add_colour_key(figure, facts.limit, mode, inner, facts.harm_up)
    if following.client in facts.clients:
        at = y[facts.clients.index(following.client)]
        draw_followed_row(figure, at, mode, over=True)
        _write_followed(figure, following.client, at, mode)
    cells = (KEY_DEPTH / inner, (KEY_DEPTH + row * count) / inner)
    _lay_out(figure, facts, y, mode, right=right, cells=cells, above=cells[1] + GAIN_GAP / inner)
    draw_totals(figure, facts, y, mode, right)
    draw_followed_epochs(figure, following, mode, heights=(cells[0], 1))
    return figure


def _draw_cells(figure: Picture, facts: HeatMapFacts, y: list[int], mode: str) -> None:
    p = palette_for(mode)
    epochs = facts.values.shape[1]
    figure.add_heatmap(
        x=list(range(1, epochs + 1)),
        y=y,
        z=facts.values,
        zmin=-facts.limit,
        zmax=facts.limit,
        colorscale=heat_scale(p, facts.harm_up),
        xgap=1.5,
        ygap=1.5,
        hoverongaps=False,
        customdata=[[client_label(c)] * epochs for c in facts.clients],
        hovertemplate="<b>%{customdata}</b><br>epoch %{x}<br><b>%{z:+.4f}</b><extra></extra>",
        showscale=False,
    )


def _lay_out(
    figure: Picture,
    facts: HeatMapFacts,
    y: list[int],
    mode: str,
    *,
    right: float,
    cells: tuple[float, float],
    above: float,
) -> None:
    """The cells between two heights and up to ``right`` of the width, the gain from ``above`` on."""
    p = palette_for(mode)
    count, epochs = facts.values.shape
    names = [client_label(c, LONGEST_NAME) for c in facts.clients]
    bold = [c in facts.alerted for c in facts.clients]
    figure.update_layout(
        barmode="overlay",
        xaxis=epoch_axis(mode, epochs, -0.5, epochs + 0.6) | {"domain": [0, right], "showline": False},
        yaxis={
            "domain": list(cells),
            "range": [0.45, count + 0.55],
            "tickvals": y,
            "ticktext": [f"<b>{n}</b>" if b else n for n, b in zip(names, bold, strict=True)],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
            "tickfont": {"size": 12, "color": p.ink},
        },
        yaxis2={
            "domain": [above, 1],
            "showgrid": False,
            "zeroline": True,
            "zerolinecolor": p.axis,
            "fixedrange": True,
            "tickfont": {"size": 11, "color": p.secondary},
        }
        | reach(facts.gain),
    )


def _write_followed(figure: Picture, client: str, height: int, mode: str) -> None:
    """The followed client's name in bold, over the one beside the axis: other labels would mean another picture."""
    p = palette_for(mode)
    figure.add_annotation(
        x=0,
        xref="paper",
        xanchor="right",
        xshift=-4,
        y=height,
        showarrow=False,
        borderpad=0,
        bgcolor=p.page,
        text=f"<b>{client_label(client, LONGEST_NAME)}</b>",
        font={"size": 12, "color": p.ink},
    )


def _cell_words(facts: HeatMapFacts) -> list[list[str]]:
    """What each cell says; the three states in words."""
    digits = max(4, numbers.digits_for(facts.limit))
    return [
        [
            numbers.signed(v, digits) if s == CellState.COMPUTED else STATE_WORDS[s]
            for s, v in zip(row, values, strict=True)
        ]
        for row, values in zip(facts.state.tolist(), facts.values.tolist(), strict=True)
    ]


def _mark_states(figure: Picture, facts: HeatMapFacts, y: list[int], mode: str) -> None:
    """Hatched = took part, not computed; small dot = absent. Zero stays a computed cell in the neutral colour."""
    p = palette_for(mode)
    rows, epochs = np.nonzero(facts.state == CellState.NOT_COMPUTED)
    if len(rows):
        base = [y[r] - 0.42 for r in rows]
        hatch = hatch_of(mode)
        names = [client_label(facts.clients[r]) for r in rows]
        figure.add_bar(
            x=epochs + 1,
            y=[0.84] * len(rows),
            base=base,
            width=0.86,
            marker={"color": p.soft, "pattern": hatch},
            customdata=names,
            hovertemplate="<b>%{customdata}</b><br>epoch %{x}: not computed<extra></extra>",
        )
    rows, epochs = np.nonzero(facts.state == CellState.ABSENT)
    if len(rows):
        dots = {"size": 3, "color": p.absent}
        figure.add_scatter(x=epochs + 1, y=[y[r] for r in rows], mode="markers", marker=dots, hoverinfo="skip")
