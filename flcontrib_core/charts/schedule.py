"""The schedule charts: the epochs a budget buys, how evenly clients are seen, and what another budget would cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flcontrib_core.charts.following import NOTHING, STILL, Following, draw_followed_epochs, draw_followed_row, pick
from flcontrib_core.charts.palette import CLEAR, palette_for
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import (
    add_cells,
    base_figure,
    client_label,
    epoch_axis,
    hatch_of,
    write_column,
    x_axis,
    y_axis,
)
from flcontrib_core.charts.ticks import percent_ticks
from flcontrib_core.scheduling.schedule import Schedule
from flcontrib_core.words import numbers

MOST_BARS = 24
BAR_WIDTH = 0.72
MOST_ALERT_RAILS, MOST_BLIND_RAILS = 4, 2
"""Alert windows, and blind spots, that get a line over the bars."""
RAIL = 0.17
"""Height of such a line with its name, as a share of the bars' ceiling."""
LABEL_SHARE = 0.1
"""Of the chart's width that a label takes; a phone's is wider, but a second group of tall bars is rare."""


@dataclass(frozen=True)
class ScheduleFacts:
    """Each epoch's share of the movement, and which epochs are chosen."""

    epochs: int
    share: np.ndarray
    """(T,) of all movement"""
    chosen: np.ndarray
    """(T,)"""
    ceiling: float
    """Where tall bars are cut, so that epoch 1 does not flatten the rest; their value is written on them."""
    alerts: tuple[tuple[str, int, int], ...] = ()
    """(client, first, last) windows of known alerts: a budget should not leave them out unknowingly"""
    blind: tuple[tuple[str, int, int], ...] = ()
    """(client, first, last) longest runs of a client's epochs of which none is computed"""
    undrawn: int = 0
    """Alert windows without a line of their own"""

    @property
    def cut_off(self) -> list[tuple[int, int]]:
        """First and last epoch of each group of bars that are cut; those too near for a label each are one group."""
        groups: list[tuple[int, int]] = []
        for t in (np.flatnonzero(self.share > self.ceiling) + 1).tolist():
            near = groups and t - groups[-1][1] <= max(1.0, LABEL_SHARE * self.epochs)
            groups[-1:] = [(groups[-1][0], t)] if near else [*groups[-1:], (t, t)]
        return groups


def schedule_facts(schedule: Schedule, alerts: Sequence[tuple[str, int, int]] = ()) -> ScheduleFacts:
    """What the picture of a schedule shows, with the windows of known ``alerts``."""
    weights = np.array(schedule.epoch_weights)
    share = weights / weights.sum() if weights.sum() > 0 else weights
    chosen = np.zeros(len(share), dtype=bool)
    chosen[[t - 1 for t in schedule.chosen]] = True
    ordered = np.sort(share)[::-1]
    tall = ordered[0] > 2.2 * ordered[min(len(ordered) - 1, max(1, len(ordered) // 12))] if len(ordered) > 4 else False
    ceiling = float(ordered[max(1, len(ordered) // 12)] * 1.25) if tall else float(ordered[0] * 1.05 or 1.0)
    blind = tuple((spot.client, spot.first, spot.last) for spot in schedule.blind_spots[:MOST_BLIND_RAILS])
    drawn = tuple(alerts)[:MOST_ALERT_RAILS]
    return ScheduleFacts(len(share), share, chosen, ceiling, drawn, blind, len(alerts) - len(drawn))


def schedule_alt(facts: ScheduleFacts) -> str:
    """How many epochs are chosen, what they hold, and which are skipped."""
    covered = float(facts.share[facts.chosen].sum())
    text = (
        f"{int(facts.chosen.sum())} of {facts.epochs} epochs are chosen; "
        f"they hold {numbers.share(covered)} of the movement. "
        f"Skipped: {', '.join(map(str, np.flatnonzero(~facts.chosen) + 1)) or 'none'}."
    )
    for what, rails in (("Alert", facts.alerts), ("Blind", facts.blind)):
        for client, first, last in rails:
            text += f" {what}: {numbers.named(client)}, epochs {first} to {last}."
    return text + (f" {numbers.several(facts.undrawn, 'more alert')} without a line here." if facts.undrawn else "")


def schedule_rows(facts: ScheduleFacts) -> list[dict[str, object]]:
    """One row per epoch."""
    return [
        {"epoch": t + 1, "share of movement": float(facts.share[t]), "computed": bool(facts.chosen[t])}
        for t in range(facts.epochs)
    ]


def draw_schedule(facts: ScheduleFacts, mode: str, following: Following = NOTHING) -> Picture:
    """Filled = computed, hatched = skipped; a strip of cells below repeats the choice."""
    p = palette_for(mode)
    figure = base_figure(mode, 260 + 24 * len(facts.alerts + facts.blind), l=52, r=12, t=22, b=46)
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
    rails = [(*rail, "alert", p.harm) for rail in facts.alerts] + [
        (*rail, "blind", p.secondary) for rail in facts.blind
    ]
    top = facts.ceiling * 1.12
    for place, (client, first, last, what, colour) in enumerate(rails):
        _draw_rail(
            figure,
            top + (place + 0.5) * RAIL * facts.ceiling,
            (first, last),
            f"{what}: {client_label(client, 16)}",
            colour,
        )
    figure.update_layout(
        barmode="overlay",
        xaxis=epoch_axis(mode, facts.epochs, 0.3, facts.epochs + 0.7),
        yaxis=y_axis(mode)
        | {"range": [strip * 1.9, top + len(rails) * RAIL * facts.ceiling]}
        | percent_ticks(0, facts.ceiling, 4),
    )
    return figure


def _draw_rail(figure: Picture, height: float, epochs: tuple[int, int], text: str, colour: str) -> None:
    """A line over the epochs it is about, with its name on it."""
    first, last = epochs
    figure.add_shape(
        type="line", x0=first - 0.45, x1=last + 0.45, y0=height, y1=height, line={"color": colour, "width": 4}
    )
    figure.add_annotation(
        x=first - 0.45,
        y=height,
        text=text,
        showarrow=False,
        xanchor="left",
        yanchor="bottom",
        font={"size": 11, "color": colour},
    )


@dataclass(frozen=True)
class ExposureFacts:
    """How much of each client is seen."""

    rows: tuple[tuple[str, float, int], ...]
    """(client, share of its epochs that is computed, position among the run's clients), most exposed first"""
    mean: float
    never: tuple[str, ...]
    left_out: int


def exposure_facts(schedule: Schedule, also: str | None = None) -> ExposureFacts:
    """The most and the least seen clients, and ``also`` the followed one."""
    exposed = [(c, e, i) for i, (c, e) in enumerate(schedule.exposure.items()) if e is not None]
    rows = sorted(exposed, key=lambda r: (-r[1], numbers.place_of(r[0])))
    shown = rows
    if len(rows) > MOST_BARS:
        half = MOST_BARS // 2
        shown = [r for n, r in enumerate(rows) if n < half or n >= len(rows) - half or r[0] == also]
    mean = float(np.mean([r[1] for r in exposed])) if exposed else 0.0
    never = tuple(c for c, e in schedule.exposure.items() if e is None)
    return ExposureFacts(tuple(shown), mean, never, len(rows) - len(shown))


def exposure_alt(facts: ExposureFacts) -> str:
    """The most and the least seen client, and the mean."""
    if not facts.rows:
        return "No client took part."
    (most, highest, _), (least, lowest, _) = facts.rows[0], facts.rows[-1]
    return (
        f"Share of each client's epochs that is computed: {numbers.named(most)} {numbers.share(highest)} to "
        f"{numbers.named(least)} {numbers.share(lowest)}, mean {numbers.share(facts.mean)}."
    )


def exposure_rows(facts: ExposureFacts) -> list[dict[str, object]]:
    """One row per client."""
    return [{"client": c, "share of its epochs computed": e} for c, e, _ in facts.rows]


def draw_exposure(facts: ExposureFacts, mode: str, following: Following = NOTHING) -> Picture:
    """A lying bar per client, the mean dotted."""
    p = palette_for(mode)
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
        customdata=[[client_label(c), pick(i)] for c, _, i in rows],
        hovertemplate="<b>%{customdata[0]}</b><br><b>%{x:.0%}</b> of its epochs<extra></extra>",
        **STILL,
    )
    for place, (client, _, _) in zip(y, rows, strict=True):
        if client == following.client:
            draw_followed_row(figure, place, mode)
    write_column(figure, 1.0, y, [numbers.share(e) for _, e, _ in rows], mode)
    figure.add_shape(
        type="line",
        x0=facts.mean,
        x1=facts.mean,
        y0=0,
        y1=1,
        yref="y domain",
        line={"color": p.ink, "width": 1.6, "dash": "dot"},
    )
    names = [f"<b>{client_label(c, 13)}</b>" if c == following.client else client_label(c, 13) for c, _, _ in rows]
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
