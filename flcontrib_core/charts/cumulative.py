"""Who gained and who lost credit as the run went on? Curves of the clients in focus over a band of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.following import NOTHING, STILL, Following, draw_followed_epochs, pick
from flcontrib_core.charts.palette import ClientStyle, client_styles, palette, translucent
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.states import drawn_states
from flcontrib_core.charts.style import base_figure, last_known, plain, short, x_axis, y_axis
from flcontrib_core.charts.ticks import epoch_ticks, signed_ticks, spread_labels, value_range
from flcontrib_core.vocabulary import CellState, FillPolicy
from flcontrib_core.words import numbers
from flcontrib_core.words import page_words as wording

MOST_IN_FOCUS = 8


@dataclass(frozen=True)
class FocusCurve:
    """One client's running credit, help up, the initial model's share left out."""

    client: str
    credit: np.ndarray
    """(T + 1,)"""
    half_width: np.ndarray
    """(T + 1,) 95% of the running total; 0 = exact, NaN = none"""
    computed: np.ndarray
    """(T + 1,) took part and computed: a marker stands there"""
    skipped: np.ndarray
    """(T + 1,) took part, not computed: the credit is the fill policy's, drawn thin and dotted"""
    windows: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class CumulativeFacts:
    utility: str
    axis: str
    epochs: int
    focus: tuple[FocusCurve, ...]
    """Alerted clients strongest first, then the pinned ones."""
    others: int
    quantiles: np.ndarray
    """(5, T + 1): 10, 25, 50, 75, 90% of the other clients; empty without others"""
    strip: tuple[tuple[str, np.ndarray], ...]
    """(client, (T + 1,) 0 absent, 1 computed, 2 not computed), focus first; only where it is readable"""
    all_clients: tuple[str, ...]
    fill: str

    @property
    def last_known(self) -> int:
        return last_known([*(c.credit for c in self.focus), *self.quantiles], self.epochs)


def cumulative_facts(
    report: AuditReport,
    utility: str,
    focus: tuple[str, ...],
    fill: FillPolicy = FillPolicy.EQUAL,
    strip_rows: int = 16,
) -> CumulativeFacts:
    """What the picture shows, before any drawing."""
    history = report.history
    sign = -history.harm_sign(utility)
    values = history.filled(utility, fill) * sign
    values[0] = 0.0  # the initial model belongs to nobody in particular
    credit = np.cumsum(values, axis=0)
    series = history.of(utility)
    errors = np.where(history.participated & series.computed, series.standard_errors, 0.0)
    half = 1.96 * np.sqrt(np.cumsum(errors**2, axis=0))
    position = {c: i for i, c in enumerate(history.client_ids)}
    windows: dict[str, list[tuple[int, int]]] = {}
    for alert in report.detection.alerts:
        if alert.window is not None and alert.window not in windows.setdefault(alert.client, []):
            windows[alert.client].append(alert.window)
    shown = [c for c in focus if c in position][:MOST_IN_FOCUS]
    curves = tuple(
        FocusCurve(
            client=c,
            credit=credit[:, position[c]],
            half_width=half[:, position[c]],
            computed=history.participated[:, position[c]] & series.computed[:, position[c]],
            skipped=series.missing[:, position[c]],
            windows=tuple(windows.get(c, ())),
        )
        for c in shown
    )
    rest = [i for c, i in position.items() if c not in shown]
    state = drawn_states(series.state)
    state[0] = CellState.ABSENT
    order = [*shown, *sorted(c for c in position if c not in shown)]
    return CumulativeFacts(
        utility=utility,
        axis=numbers.credited(utility, utility in history.lower_is_better),
        epochs=history.epoch_count,
        focus=curves,
        others=len(rest),
        quantiles=np.quantile(credit[:, rest], [0.1, 0.25, 0.5, 0.75, 0.9], axis=1) if rest else np.empty((0, 0)),
        strip=tuple((c, state[:, position[c]]) for c in order) if len(order) <= strip_rows else (),
        all_clients=history.client_ids,
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
            f"{curve.client} ends at {_end_words(float(curve.credit[last]))}"
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
            row[curve.client] = float(curve.credit[t])
        if facts.others:
            row["others 10%"], row["others median"], row["others 90%"] = (
                float(facts.quantiles[q, t]) for q in (0, 2, 4)
            )
        rows.append(row)
    return rows


def draw_cumulative(facts: CumulativeFacts, mode: str, following: Following = NOTHING) -> Picture:
    """Curves above, participation strip below, on one epoch axis; the followed client's line is the thickest."""
    strip_height = 0 if not facts.strip else 15 * len(facts.strip) + 24
    curve_height = 300
    figure = base_figure(mode, curve_height + strip_height + 56, l=72, r=92, t=10, b=46)
    floor = strip_height / (curve_height + strip_height)
    rails = sum(len(c.windows) for c in facts.focus)
    low, high = value_range([*(c.credit for c in facts.focus), facts.quantiles])
    top = high + (high - low) * 0.08 * rails
    axis = x_axis(mode) | {
        "range": [0, facts.epochs + 0.6],
        "tickvals": epoch_ticks(facts.epochs),
        "title": {"text": "Epoch", "font": {"size": 12, "color": palette(mode).secondary}},
        "anchor": "free",
        "position": 0,
    }
    figure.update_layout(
        xaxis=axis,
        yaxis=y_axis(mode)
        | {"domain": [floor + 0.03 * bool(strip_height), 1], "range": [low, top]}
        | signed_ticks(low, high),
    )
    _draw_band(figure, facts, mode)
    draw_followed_epochs(figure, following, mode, "y domain")
    styles = client_styles(facts.all_clients, mode)
    position = {c: i for i, c in enumerate(facts.all_clients)}
    rail = 0
    for curve in facts.focus:
        for window in curve.windows:
            rail += 1
            height = high + (top - high) * (rails - rail + 0.5) / rails
            _draw_window(figure, window, curve.client, styles[curve.client], rail == 1, height)
            _mark_rail(figure, window, curve.client, styles[curve.client], height, position[curve.client])
    for curve in facts.focus:
        width = 4.0 if curve.client == following.client else 2.5
        _draw_curve(figure, curve, styles[curve.client], facts, width, pick(position[curve.client]))
    _label_ends(figure, facts, styles, mode, (top - low) * 0.052)
    if strip_height:
        _draw_strip(figure, facts, styles, mode, floor, following.client)
    return figure


def _draw_band(figure: Picture, facts: CumulativeFacts, mode: str) -> None:
    if not facts.others:
        return
    grey = palette(mode).context
    epochs = list(range(facts.last_known + 1))
    quantiles = facts.quantiles[:, : len(epochs)]  # an outline with gaps would be filled across them
    for lower, upper, alpha in ((0, 4, 0.18), (1, 3, 0.28)):
        figure.add_scatter(
            x=epochs + epochs[::-1],
            y=[*quantiles[upper], *quantiles[lower][::-1]],
            mode="lines",
            fill="toself",
            fillcolor=translucent(grey, alpha),
            line={"width": 0},
            hoverinfo="skip",
            name="others",
        )
    figure.add_scatter(
        x=epochs,
        y=quantiles[2],
        mode="lines",
        line={"color": grey, "width": 1.5},
        hovertemplate=f"median of {facts.others} others<br>epoch %{{x}}<br><b>%{{y:+.3f}}</b><extra></extra>",
    )


def _draw_window(
    figure: Picture, window: tuple[int, int], client: str, style: ClientStyle, strongest: bool, height: float
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
    figure.add_annotation(
        x=last,
        y=height,
        text=f"<b>{plain(client)}</b> {numbers.window(*window)}",
        font={"size": 12, "color": style.colour},
        showarrow=False,
        xanchor="left",
        xshift=6,
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
        customdata=[[plain(client), numbers.window(*window), pick(position, window)]],
        hovertemplate="<b>%{customdata[0]}</b>, epochs %{customdata[1]}<br>click to follow both<extra></extra>",
        **STILL,
    )


def _draw_curve(
    figure: Picture, curve: FocusCurve, style: ClientStyle, facts: CumulativeFacts, thickness: float, picked: str
) -> None:
    epochs = np.arange(facts.epochs + 1)
    width = curve.half_width
    if np.isfinite(width).all() and width.max(initial=0.0) > 0:
        there = slice(facts.last_known + 1)
        upper, lower = (curve.credit + width)[there], (curve.credit - width)[there]
        figure.add_scatter(
            x=[*epochs[there], *epochs[there][::-1]],
            y=[*upper, *lower[::-1]],
            mode="lines",
            fill="toself",
            fillcolor=translucent(style.colour, 0.13),
            line={"width": 0},
            hoverinfo="skip",
            name="interval",
        )
    digits = max(3, numbers.digits_for(*curve.credit.tolist()))
    interval = [f" ± {w:.{digits}f}" if w > 0 else (" exact" if w == 0 else "") for w in width]
    known = np.where(np.concatenate([[False], curve.skipped[1:]]), np.nan, curve.credit)
    dotted = {"color": style.colour, "width": 1.2, "dash": "dot"}  # not computed must not look computed
    figure.add_scatter(x=epochs, y=curve.credit, mode="lines", line=dotted, hoverinfo="skip")
    who = f"<b>{plain(curve.client)}</b><br>epoch %{{x}}<br>"
    figure.add_scatter(
        x=epochs,
        y=known,
        mode="lines",
        connectgaps=False,
        line={"color": style.colour, "width": thickness, "dash": style.dash},
        customdata=interval,
        hovertemplate=who + f"<b>%{{y:+.{digits}f}}</b>%{{customdata}}<extra></extra>",
    )
    at = epochs[curve.computed]
    size = (7 if facts.epochs <= 60 else 4) + (2 if thickness > 3 else 0)
    figure.add_scatter(
        x=at,
        y=curve.credit[curve.computed],
        mode="markers",
        marker={"color": style.colour, "symbol": style.marker, "size": size},
        customdata=[[interval[t], picked] for t in at],
        hovertemplate=who + f"<b>%{{y:+.{digits}f}}</b>%{{customdata[0]}}<extra></extra>",
        **STILL,
    )


def _label_ends(figure: Picture, facts: CumulativeFacts, styles: dict[str, ClientStyle], mode: str, gap: float) -> None:
    last = facts.last_known
    names = [(c.client, float(c.credit[last]), styles[c.client].colour, True) for c in facts.focus]
    if facts.others:
        who = f"{numbers.count(facts.others)} {'others' if facts.focus else 'clients'}"
        names.append((who, float(facts.quantiles[2, last]), palette(mode).secondary, False))
    places = spread_labels([n[1] for n in names], gap)
    for (name, _, colour, bold), y in zip(names, places, strict=True):
        text = short(name, 14)
        figure.add_annotation(
            x=last + (0.6 if last == facts.epochs else 0.1),
            y=y,
            text=f"<b>{text}</b>" if bold else text,
            font={"size": 12, "color": colour},
            showarrow=False,
            xanchor="left",
            xshift=4,
        )


def _draw_strip(
    figure: Picture,
    facts: CumulativeFacts,
    styles: dict[str, ClientStyle],
    mode: str,
    floor: float,
    followed: str | None,
) -> None:
    """One row per client: filled = computed, hatched = took part but not computed, dot = absent."""
    p = palette(mode)
    rows = len(facts.strip)
    in_focus = {c.client for c in facts.focus}
    hatch = {"shape": "/", "fgcolor": p.hatch, "bgcolor": p.soft, "size": 5, "solidity": 0.25}
    position = {c: i for i, c in enumerate(facts.all_clients)}
    for row, (client, state) in enumerate(facts.strip):
        colour = styles[client].colour if client in in_focus else p.context
        y = rows - row
        for code, marker in ((1, {"color": colour, "line": {"width": 0}}), (2, {"color": p.soft, "pattern": hatch})):
            at = np.flatnonzero(state == code)
            figure.add_bar(
                x=at,
                y=[0.72] * len(at),
                base=[y - 0.36] * len(at),
                width=0.78,
                marker=marker,
                yaxis="y2",
                customdata=[[pick(position[client])]] * len(at),
                **STILL,
                hovertemplate=f"{plain(client)}<br>epoch %{{x}}: "
                + (wording.TAKEN_PART if code == 1 else wording.NOT_COMPUTED)
                + "<extra></extra>",
            )
        absent = np.flatnonzero(state[1:] == 0) + 1
        dot = {"size": 3, "color": p.absent}
        figure.add_scatter(x=absent, y=[y] * len(absent), mode="markers", marker=dot, yaxis="y2", hoverinfo="skip")
    labels = [short(c, 11) for c, _ in facts.strip]
    labels = [f"<b>{n}</b>" if c == followed else n for n, (c, _) in zip(labels, facts.strip, strict=True)]
    figure.update_layout(
        barmode="overlay",
        yaxis2={
            "domain": [0, floor - 0.02],
            "range": [0.3, rows + 0.7],
            "tickvals": [rows - r for r in range(rows)],
            "ticktext": labels,
            "tickfont": {"size": 11, "color": p.secondary},
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
            "ticks": "",
        },
    )
