"""Why was this client marked? Its curve against the others, the probability of a change, and every epoch's value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.following import NOTHING, Following, draw_followed_epochs
from flcontrib_core.charts.palette import client_styles, palette, translucent
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.states import drawn_states
from flcontrib_core.charts.style import base_figure, last_known, plain, x_axis, y_axis
from flcontrib_core.charts.ticks import epoch_ticks, signed_ticks, value_range
from flcontrib_core.vocabulary import CellState, FillPolicy
from flcontrib_core.words import numbers
from flcontrib_core.words import page_words as wording


@dataclass(frozen=True)
class EvidenceFacts:
    client: str
    utility: str
    axis: str
    epochs: int
    window: tuple[int, int] | None
    credit: np.ndarray
    """(T + 1,) running credit, help up"""
    quantiles: np.ndarray
    """(5, T + 1) of the others"""
    others: int
    change: np.ndarray
    """(T + 1,) probability that a new segment starts; NaN where missing"""
    groups: tuple[tuple[int, int, float], ...]
    """(first, last, summed probability) of neighbouring epochs that share a change"""
    values: np.ndarray
    """(T + 1,) per epoch, help up; NaN where not computed"""
    half_widths: np.ndarray
    state: np.ndarray
    """(T + 1,) 0 absent, 1 computed, 2 not computed"""
    all_clients: tuple[str, ...]

    @property
    def last_known(self) -> int:
        return last_known([self.credit, *self.quantiles], self.epochs)


def evidence_facts(
    report: AuditReport,
    client: str,
    window: tuple[int, int] | None,
    utility: str = "loss",
    fill: FillPolicy = FillPolicy.EQUAL,
) -> EvidenceFacts:
    history = report.history
    sign = -history.harm_sign(utility)
    i = history.client_ids.index(client)
    filled = history.filled(utility, fill) * sign
    filled[0] = 0.0
    credit = np.cumsum(filled, axis=0)
    rest = [j for j in range(len(history.client_ids)) if j != i]
    change = report.detection.change_points.probability[:, i]
    series = history.of(utility)
    state = drawn_states(series.state[:, i])
    state[0] = CellState.ABSENT
    values = np.where(state == 1, sign * series.values[:, i], np.nan)
    return EvidenceFacts(
        client=client,
        utility=utility,
        axis=numbers.credited(utility, utility in history.lower_is_better),
        epochs=history.epoch_count,
        window=window,
        credit=credit[:, i],
        quantiles=np.quantile(credit[:, rest], [0.1, 0.25, 0.5, 0.75, 0.9], axis=1) if rest else np.empty((0, 0)),
        others=len(rest),
        change=change,
        groups=report.detection.change_points.changes.get(client, ()),
        values=values,
        half_widths=1.96 * np.where(state == 1, series.standard_errors[:, i], 0.0),
        state=state,
        all_clients=history.client_ids,
    )


def evidence_alt(facts: EvidenceFacts) -> str:
    where = "" if facts.window is None else f" Marked window: epochs {numbers.window(*facts.window)}."
    changes = ", ".join(f"{numbers.window(a, b)} ({numbers.probability(p)})" for a, b, p in facts.groups) or "none"
    harmful = int((facts.values[1:] < 0).sum())
    end = float(facts.credit[facts.last_known])
    return (
        f"{facts.client}: running {facts.axis} ends at {numbers.signed(end, numbers.digits_for(end))}.{where} "
        f"Probable changes at {changes}. {harmful} of {int((facts.state[1:] == 1).sum())} computed epochs are harmful."
    )


def evidence_rows(facts: EvidenceFacts) -> list[dict[str, object]]:
    words = {0: wording.ABSENT, 1: "computed", 2: wording.NOT_COMPUTED}

    def number(x: float) -> float | None:
        return None if np.isnan(x) else float(x)

    return [
        {
            "epoch": t,
            facts.axis: number(facts.values[t]),
            "± 95%": number(facts.half_widths[t]),
            "running": float(facts.credit[t]),
            "probability of a change": number(facts.change[t]),
            "state": words[int(facts.state[t])],
        }
        for t in range(1, facts.epochs + 1)
    ]


def draw_evidence(facts: EvidenceFacts, mode: str, following: Following = NOTHING) -> Picture:
    """Three rows on one epoch axis, the window shaded through all of them."""
    p = palette(mode)
    style = client_styles(facts.all_clients, mode)[facts.client]
    figure = base_figure(mode, 640, l=62, r=86, t=26, b=46)
    title = {"font": {"size": 12, "color": p.secondary}, "text": "Epoch"}
    figure.update_layout(
        xaxis=x_axis(mode)
        | {"range": [0.3, facts.epochs + 0.7], "tickvals": epoch_ticks(facts.epochs), "title": title, "anchor": "y3"},
        yaxis=y_axis(mode) | {"domain": [0.60, 1.0]} | _curve_ticks(facts),
        yaxis2=y_axis(mode) | {"domain": [0.345, 0.51], "range": [0, 1.12], "tickvals": [0, 0.5, 1], "anchor": "x"},
        yaxis3=y_axis(mode) | {"domain": [0.0, 0.255], "anchor": "x"},
        barmode="overlay",
    )
    for top, text in (
        (1.0, f"<b>Cumulative contribution</b> ({facts.axis})"),
        (0.51, "<b>Probability of a change</b> at this epoch"),
        (0.255, "<b>Contribution per epoch</b> ± 95%"),
    ):
        figure.add_annotation(
            x=0,
            xref="paper",
            xanchor="left",
            y=top,
            yref="paper",
            yanchor="bottom",
            yshift=4,
            xshift=-40,
            text=text,
            showarrow=False,
            font={"size": 13, "color": p.ink},
        )
    if facts.window is not None:
        shade = {"fillcolor": translucent(style.colour, 0.12), "line": {"width": 0}, "layer": "below"}
        first, last = facts.window[0] - 0.5, facts.window[1] + 0.5
        figure.add_shape(type="rect", x0=first, x1=last, y0=0, y1=1, yref="paper", **shade)
    if following.epochs != facts.window:
        draw_followed_epochs(figure, following, mode)
    _draw_curve(figure, facts, mode)
    figure.add_bar(
        x=list(range(1, facts.epochs + 1)),
        y=facts.change[1:],  # a gap where there is no series, never a zero
        yaxis="y2",
        width=0.7,
        marker={"color": style.colour, "line": {"width": 0}},
        hovertemplate="epoch %{x}<br>probability of a change <b>%{y:.2f}</b><extra></extra>",
    )
    for first_epoch, last_epoch, mass in facts.groups:
        height = float(np.nanmax(facts.change[first_epoch : last_epoch + 1]))
        figure.add_annotation(
            x=(first_epoch + last_epoch) / 2,
            y=height,
            yref="y2",
            yanchor="bottom",
            showarrow=False,
            text=f"{numbers.window(first_epoch, last_epoch)}: {numbers.probability(mass)}",
            font={"size": 11, "color": p.secondary},
        )
    _draw_bars(figure, facts, mode)
    return figure


def _curve_ticks(facts: EvidenceFacts) -> dict[str, object]:
    low, high = value_range([facts.credit, facts.quantiles])
    return {"range": [low, high]} | signed_ticks(low, high)


def _draw_curve(figure: Picture, facts: EvidenceFacts, mode: str) -> None:
    p = palette(mode)
    style = client_styles(facts.all_clients, mode)[facts.client]
    epochs = np.arange(facts.epochs + 1)
    last = facts.last_known
    if facts.others:
        there, quantiles = epochs[: last + 1], facts.quantiles[:, : last + 1]
        for lower, upper, alpha in ((0, 4, 0.18), (1, 3, 0.28)):
            figure.add_scatter(
                x=[*there, *there[::-1]],
                y=[*quantiles[upper], *quantiles[lower][::-1]],
                mode="lines",
                fill="toself",
                fillcolor=translucent(p.context, alpha),
                line={"width": 0},
                hoverinfo="skip",
            )
        median = {"color": p.context, "width": 1.5}
        figure.add_scatter(x=there, y=quantiles[2], mode="lines", line=median, hoverinfo="skip")
    known = np.where(facts.state == 2, np.nan, facts.credit)
    dotted = {"color": style.colour, "width": 1.2, "dash": "dot"}
    figure.add_scatter(x=epochs, y=facts.credit, mode="lines", line=dotted, hoverinfo="skip")
    figure.add_scatter(
        x=epochs,
        y=known,
        mode="lines",
        line={"color": style.colour, "width": 2.5, "dash": style.dash},
        hovertemplate=f"<b>{plain(facts.client)}</b><br>epoch %{{x}}<br><b>%{{y:+.3f}}</b><extra></extra>",
    )
    at = facts.state == 1
    marker = {"color": style.colour, "symbol": style.marker, "size": 7 if facts.epochs <= 60 else 4}
    figure.add_scatter(x=epochs[at], y=facts.credit[at], mode="markers", marker=marker, hoverinfo="skip")
    ends = [(facts.client, float(facts.credit[last]), style.colour)]
    if facts.others:
        ends.append((f"{facts.others} others", float(facts.quantiles[2, last]), p.secondary))
    reach = float(np.ptp(facts.credit[: last + 1]) or 1.0)
    if len(ends) == 2 and abs(ends[0][1] - ends[1][1]) < 0.06 * reach:
        ends[1] = (ends[1][0], ends[0][1] - 0.08 * reach, ends[1][2])
    for name, y, colour in ends:
        short = name if len(name) <= 12 else name[:11] + "…"
        figure.add_annotation(
            x=last + (0.7 if last == facts.epochs else 0.1),
            y=y,
            text=plain(short),
            showarrow=False,
            xanchor="left",
            xshift=4,
            font={"size": 12, "color": colour},
        )


def _draw_bars(figure: Picture, facts: EvidenceFacts, mode: str) -> None:
    p = palette(mode)
    at = np.flatnonzero(facts.state == 1)
    values = facts.values[at]
    half = np.nan_to_num(facts.half_widths[at])
    figure.add_bar(
        x=at,
        y=values,
        yaxis="y3",
        width=0.7,
        marker={"color": [p.help if v >= 0 else p.harm for v in values], "line": {"width": 0}},
        error_y={"type": "data", "array": half, "color": p.ink, "thickness": 1, "width": 0},
        hovertemplate="epoch %{x}<br><b>%{y:+.4f}</b><extra></extra>",
    )
    known = np.concatenate([np.abs(values) + half, [1e-9]])
    reach = float(known.max()) * 1.1
    low = -reach if (values < 0).any() else -reach * 0.15
    figure.update_layout(yaxis3={"range": [low, reach]} | signed_ticks(low, reach, 3))
    skipped = np.flatnonzero(facts.state == 2)
    if len(skipped):
        hatch = {"shape": "/", "fgcolor": p.hatch, "bgcolor": "rgba(0,0,0,0)", "size": 6, "solidity": 0.2}
        figure.add_bar(
            x=skipped,
            y=[2 * reach] * len(skipped),
            base=-reach,
            yaxis="y3",
            width=0.8,
            marker={"color": "rgba(0,0,0,0)", "pattern": hatch},
            hovertemplate="epoch %{x}: took part, not computed<extra></extra>",
        )
    absent = np.flatnonzero(facts.state[1:] == 0) + 1
    dots = {"size": 3, "color": p.absent}
    figure.add_scatter(x=absent, y=[0] * len(absent), mode="markers", yaxis="y3", marker=dots, hoverinfo="skip")
