"""Running credit of the clients in focus over a band of the others, and who took part when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.credit import asked_fill, band_of, client_styles, running_credit, windows_of
from flcontrib_core.charts.curves import Curve, curve_of, draw_band, draw_curve, label_ends
from flcontrib_core.charts.following import NOTHING, STILL, Following, draw_followed_epochs, pick
from flcontrib_core.charts.palette import ClientStyle, ClientStyles, palette_for, translucent
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.states import drawn_states
from flcontrib_core.charts.strip import draw_strip, strip_room
from flcontrib_core.charts.style import base_figure, client_label, epoch_axis, last_known, y_axis
from flcontrib_core.charts.ticks import signed_ticks, value_range
from flcontrib_core.vocabulary import CellState, FillPolicy, Orientation
from flcontrib_core.words import numbers

MOST_IN_FOCUS = 8
MOST_IN_RAIL = 13
"""Letters of a client beside its window; its name is whole at the rail's mark, in the table and in the words."""


@dataclass(frozen=True)
class CumulativeFacts:
    """Curves of the clients in focus, the band of the others, and who took part when."""

    utility: str
    axis: str
    epochs: int
    focus: tuple[Curve, ...]
    """Alerted clients strongest first, then the pinned ones."""
    others: int
    quantiles: np.ndarray
    """(5, T + 1): 10, 25, 50, 75, 90% of the other clients; empty without others"""
    strip: tuple[tuple[str, np.ndarray], ...]
    """(client, (T + 1,) 0 absent, 1 computed, 2 not computed), focus first; only where it is readable"""
    styles: ClientStyles
    fill: str

    @property
    def last_known(self) -> int:
        """The epoch at which curves and band end."""
        return last_known([*(c.credit for c in self.focus), *self.quantiles], self.epochs)


def cumulative_facts(
    report: AuditReport,
    utility: str,
    focus: tuple[str, ...],
    fill: FillPolicy | None = None,
    strip_rows: int = 16,
    orientation: Orientation = Orientation.HELP_UP,
    initial: bool = False,
) -> CumulativeFacts:
    """What the picture shows, before any drawing; ``initial`` starts the curves at v(F⁰)/m. Skipped epochs count as the
    result was asked to count them, where no ``fill`` is given."""
    history = report.history
    fill = fill or asked_fill(history)
    styles = client_styles(report)
    position = styles.position
    credit = running_credit(history, utility, fill, orientation, initial)
    shown = [c for c in focus if c in position][:MOST_IN_FOCUS]
    rest = [i for c, i in position.items() if c not in shown]
    state = drawn_states(history.of(utility).state)
    state[0] = CellState.ABSENT
    order = [*shown, *numbers.in_order(c for c in position if c not in shown)]
    strip = order if len(order) <= strip_rows else []
    return CumulativeFacts(
        utility=utility,
        axis=numbers.credited(utility, utility in history.lower_is_better, orientation, initial),
        epochs=history.epoch_count,
        focus=tuple(curve_of(history, utility, c, credit, windows_of(report, c)) for c in shown),
        others=len(rest),
        quantiles=band_of(credit, rest),
        strip=tuple((c, state[:, position[c]]) for c in strip),
        styles=styles,
        fill=str(fill),
    )


def cumulative_alt(facts: CumulativeFacts) -> str:
    """The take-away for a reader who does not see the picture."""
    lines = [f"Running {facts.axis} per client over {facts.epochs} epochs."]
    last = facts.last_known
    if last < facts.epochs:
        lines.append(f"Known up to epoch {last}.")
    for curve in facts.focus:
        marked = ", ".join(numbers.window(*w) for w in curve.windows)
        lines.append(
            f"{numbers.named(curve.client)} ends at {_end_words(float(curve.credit[last]))}"
            + (f", marked window {marked}." if marked else ".")
        )
    if facts.others:
        ends = facts.quantiles[:, last]
        digits = numbers.digits_for(*ends)
        lines.append(
            f"The middle 80% of the {facts.others} others end between {numbers.signed(float(ends[0]), digits)} "
            f"and {numbers.signed(float(ends[-1]), digits)}."
        )
    return " ".join(lines)


def _end_words(end: float) -> str:
    return numbers.signed(end, numbers.digits_for(end))


def cumulative_rows(facts: CumulativeFacts) -> list[dict[str, object]]:
    """The numbers behind the picture, for 'show as table' and CSV."""
    rows = []
    for t in range(facts.epochs + 1):
        row: dict[str, object] = {"epoch": t}
        for curve in facts.focus:
            row[f"{numbers.named(curve.client)}, {facts.axis}"] = float(curve.credit[t])
        if facts.others:
            for q, name in ((0, "10%"), (2, "median"), (4, "90%")):
                row[f"others {name}, {facts.axis}"] = float(facts.quantiles[q, t])
        rows.append(row)
    return rows


def draw_cumulative(facts: CumulativeFacts, mode: str, following: Following = NOTHING) -> Picture:
    """Curves above, participation strip below, on one epoch axis; the followed client's line is the thickest."""
    strip_height = strip_room(len(facts.strip))
    curve_height = 300
    figure = base_figure(mode, curve_height + strip_height + 56, l=72, r=92, t=10, b=46)
    floor = strip_height / (curve_height + strip_height)
    rails = sum(len(c.windows) for c in facts.focus)
    low, high = value_range([*(c.credit for c in facts.focus), facts.quantiles])
    top = high + (high - low) * 0.08 * rails
    figure.update_layout(
        xaxis=epoch_axis(mode, facts.epochs, 0, facts.epochs + 0.6) | {"anchor": "free", "position": 0},
        yaxis=y_axis(mode)
        | {"domain": [floor + 0.03 * bool(strip_height), 1], "range": [low, top]}
        | signed_ticks(low, high),
    )
    draw_band(figure, facts.quantiles, facts.last_known, facts.others, mode)
    draw_followed_epochs(figure, following, mode, "y domain")
    rail = 0
    for curve in facts.focus:
        style = facts.styles.of(curve.client, mode)
        for window in curve.windows:
            rail += 1
            height = high + (top - high) * (rails - rail + 0.5) / rails
            _draw_window(figure, window, curve.client, style, rail == 1, height, facts.epochs, palette_for(mode).page)
            _mark_rail(figure, window, curve.client, style, height, facts.styles.position[curve.client])
    for curve in facts.focus:
        width = 4.0 if curve.client == following.client else 2.5
        picked = pick(facts.styles.position[curve.client])
        draw_curve(figure, curve, facts.styles.of(curve.client, mode), facts.last_known, picked, width)
    label_ends(figure, _ends(facts, mode), facts.last_known, facts.epochs)
    if strip_height:
        colours = {c.client: facts.styles.of(c.client, mode).colour for c in facts.focus}
        draw_strip(figure, facts.strip, colours, facts.styles.position, floor, mode, following.client)
    return figure


def _ends(facts: CumulativeFacts, mode: str) -> list[tuple[str, float, str, bool]]:
    last = facts.last_known
    names = [(c.client, float(c.credit[last]), facts.styles.of(c.client, mode).colour, True) for c in facts.focus]
    if facts.others:
        who = f"{numbers.count(facts.others)} {'others' if facts.focus else 'clients'}"
        names.append((who, float(facts.quantiles[2, last]), palette_for(mode).secondary, False))
    return names


def _draw_window(
    figure: Picture,
    window: tuple[int, int],
    client: str,
    style: ClientStyle,
    strongest: bool,
    height: float,
    epochs: int,
    ground: str,
) -> None:
    """Strongest: a light fill under the data. Further ones: dotted edges (two fills would mix to a third colour)."""
    first, last = window[0] - 0.5, window[1] + 0.5
    if strongest:
        fill = {"fillcolor": translucent(style.colour, 0.09), "line": {"width": 0}, "layer": "below"}
        figure.add_shape(type="rect", x0=first, x1=last, y0=0, y1=1, yref="y domain", **fill)
    else:
        for edge in (first, last):
            line = {"color": style.colour, "width": 1.2, "dash": "dot"}
            figure.add_shape(type="line", x0=edge, x1=edge, y0=0, y1=1, yref="y domain", line=line, layer="below")
    figure.add_shape(type="line", x0=first, x1=last, y0=height, y1=height, line={"color": style.colour, "width": 4})
    leftwards = first > epochs - last  # where more room is: a narrow screen cuts what goes beyond the axis
    figure.add_annotation(
        x=first if leftwards else last,
        y=height,
        text=f"<b>{client_label(client, MOST_IN_RAIL)}</b> {numbers.window(*window)}",
        font={"size": 12, "color": style.colour},
        showarrow=False,
        bgcolor=translucent(ground, 0.85),  # the edges of other windows run behind it
        borderpad=0,
        xanchor="right" if leftwards else "left",
        xshift=-6 if leftwards else 6,
    )


def _mark_rail(
    figure: Picture, window: tuple[int, int], client: str, style: ClientStyle, height: float, position: int
) -> None:
    """The place to click for this window: a mark on its rail."""
    figure.add_scatter(
        x=[(window[0] + window[1]) / 2],
        y=[height],
        mode="markers",
        marker={"color": style.colour, "symbol": style.marker, "size": 10},
        customdata=[[client_label(client), numbers.window(*window), pick(position, window)]],
        hovertemplate="<b>%{customdata[0]}</b>, epochs %{customdata[1]}<br>click to follow both<extra></extra>",
        **STILL,
    )
