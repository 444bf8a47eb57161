"""The evidence chart of one client: its curve against the others, the probability of a change, every epoch's value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.credit import band_of, client_styles, running_credit
from flcontrib_core.charts.curves import Curve, curve_of, draw_band, draw_curve, label_ends
from flcontrib_core.charts.epoch_bars import draw_change_bars, draw_value_bars, write_heading
from flcontrib_core.charts.following import NOTHING, Following, draw_followed_epochs
from flcontrib_core.charts.palette import ClientStyles, palette_for, translucent
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.states import STATE_WORDS, drawn_states
from flcontrib_core.charts.style import base_figure, epoch_axis, last_known, plain, y_axis
from flcontrib_core.charts.ticks import signed_ticks, value_range
from flcontrib_core.vocabulary import CellState, FillPolicy
from flcontrib_core.words import numbers


@dataclass(frozen=True)
class EvidenceFacts:
    """What speaks about one client: its curve against the others, changes, and every epoch's value."""

    client: str
    utility: str
    axis: str
    epochs: int
    window: tuple[int, int] | None
    curve: Curve
    """The client's running credit"""
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
    styles: ClientStyles
    inside: np.ndarray | None = None
    """(T + 1,) probability that the epoch lies in a deviating segment: drawn where the run has no values; else None"""

    @property
    def last_known(self) -> int:
        """The epoch at which the curve and the band end."""
        return last_known([self.curve.credit, *self.quantiles], self.epochs)


def evidence_facts(
    report: AuditReport,
    client: str,
    window: tuple[int, int] | None,
    utility: str = "loss",
    fill: FillPolicy | None = None,
) -> EvidenceFacts:
    """What the picture shows of one client and, if there is one, its marked window."""
    history = report.history
    sign = -history.harm_sign(utility)
    credit = running_credit(history, utility, fill)
    i = history.client_ids.index(client)
    rest = [j for j in range(len(history.client_ids)) if j != i]
    change = report.detection.change_points.probability[:, i]
    series = history.of(utility)
    state = drawn_states(series.state[:, i])
    state[0] = CellState.ABSENT
    values = np.where(state == CellState.COMPUTED, sign * series.values[:, i], np.nan)
    return EvidenceFacts(
        client=client,
        utility=utility,
        axis=numbers.credited(utility, utility in history.lower_is_better),
        epochs=history.epoch_count,
        window=window,
        curve=curve_of(history, utility, client, credit, () if window is None else (window,)),
        quantiles=band_of(credit, rest),
        others=len(rest),
        change=change,
        groups=report.detection.change_points.changes.get(client, ()),
        values=values,
        half_widths=1.96 * np.where(state == CellState.COMPUTED, series.standard_errors[:, i], 0.0),
        state=state,
        styles=client_styles(report),
        inside=None if history.without_values is None else report.detection.change_points.inside[:, i],
    )


def evidence_alt(facts: EvidenceFacts) -> str:
    """Where the curve ends, which changes are probable, and how many epochs are harmful."""
    where = "" if facts.window is None else f" Marked window: epochs {numbers.window(*facts.window)}."
    changes = ", ".join(f"{numbers.window(a, b)} ({numbers.probability(p)})" for a, b, p in facts.groups) or "none"
    who = numbers.named(facts.client)
    if facts.inside is not None:
        within = [t for t in range(1, facts.epochs + 1) if facts.inside[t] >= 0.5]
        return f"{who}, without values.{where} Probable changes at {changes}. Deviating: {_list(within)}."
    harmful, computed = int((facts.values[1:] < 0).sum()), int((facts.state[1:] == CellState.COMPUTED).sum())
    end = float(facts.curve.credit[facts.last_known])
    return (
        f"{who}: running {facts.axis} ends at {numbers.signed(end, numbers.digits_for(end))}.{where} "
        f"Probable changes at {changes}. {harmful} of {computed} computed epochs are harmful."
    )


def _list(epochs: list[int]) -> str:
    return numbers.epoch_list(tuple(epochs)) if epochs else "no epoch"


def evidence_rows(facts: EvidenceFacts) -> list[dict[str, object]]:
    """One row per epoch."""

    def number(x: float) -> float | None:
        return None if np.isnan(x) else float(x)

    if facts.inside is not None:
        return [
            {
                "epoch": t,
                "probability of a change": number(facts.change[t]),
                "probability of a deviating segment": number(facts.inside[t]),
                "state": STATE_WORDS[int(facts.state[t])],
            }
            for t in range(1, facts.epochs + 1)
        ]
    return [
        {
            "epoch": t,
            facts.axis: number(facts.values[t]),
            "± 95%": number(facts.half_widths[t]),
            "running": float(facts.curve.credit[t]),
            "probability of a change": number(facts.change[t]),
            "state": STATE_WORDS[int(facts.state[t])],
        }
        for t in range(1, facts.epochs + 1)
    ]


def draw_evidence(facts: EvidenceFacts, mode: str, following: Following = NOTHING) -> Picture:
    """Three rows on one epoch axis, the window shaded through all of them."""
    if facts.inside is not None:
        return _draw_without_values(facts, facts.inside, mode, following)
    style = facts.styles.of(facts.client, mode)
    figure = base_figure(mode, 640, l=62, r=96, t=26, b=46)
    low, high = value_range([facts.curve.credit, facts.quantiles])
    figure.update_layout(
        xaxis=epoch_axis(mode, facts.epochs, 0.3, facts.epochs + 0.7) | {"anchor": "y3"},
        yaxis=y_axis(mode) | {"domain": [0.60, 1.0], "range": [low, high]} | signed_ticks(low, high),
        barmode="overlay",
    )
    write_heading(figure, 1.0, f"<b>Cumulative contribution</b> ({plain(facts.axis)})", mode)
    write_heading(figure, 0.51, "<b>Probability of a change</b> at this epoch", mode)
    write_heading(figure, 0.255, "<b>Contribution per epoch</b> ± 95%", mode)
    _draw_window(figure, facts, mode, following)
    draw_band(figure, facts.quantiles, facts.last_known, facts.others, mode)
    draw_curve(figure, facts.curve, style, facts.last_known)
    ends = [(facts.client, float(facts.curve.credit[facts.last_known]), style.colour, True)]
    if facts.others:
        median = float(facts.quantiles[2, facts.last_known])
        ends.append((numbers.several(facts.others, "other"), median, palette_for(mode).secondary, False))
    label_ends(figure, ends, facts.last_known, facts.epochs)
    draw_change_bars(figure, facts.change, facts.groups, style.colour, mode, axis="y2", domain=(0.345, 0.51))
    draw_value_bars(
        figure, facts.values, facts.half_widths, facts.state, mode, axis="y3", domain=(0.0, 0.255), band=None
    )
    return figure


def _draw_without_values(facts: EvidenceFacts, inside: np.ndarray, mode: str, following: Following) -> Picture:
    """Two rows on one epoch axis: where a segment starts, and which epochs lie in one that deviates."""
    style = facts.styles.of(facts.client, mode)
    figure = base_figure(mode, 420, l=62, r=24, t=26, b=46)
    figure.update_layout(xaxis=epoch_axis(mode, facts.epochs, 0.3, facts.epochs + 0.7) | {"anchor": "y2"})
    write_heading(figure, 1.0, "<b>Probability of a change</b> at this epoch", mode)
    write_heading(figure, 0.42, "<b>Probability that the epoch deviates</b> from the client's usual", mode)
    _draw_window(figure, facts, mode, following)
    draw_change_bars(figure, facts.change, facts.groups, style.colour, mode, axis="y", domain=(0.58, 1.0))
    draw_change_bars(figure, inside, (), style.colour, mode, axis="y2", domain=(0.0, 0.42))
    return figure


def _draw_window(figure: Picture, facts: EvidenceFacts, mode: str, following: Following) -> None:
    """The marked window through all rows, and the followed epochs where they are others."""
    colour = facts.styles.of(facts.client, mode).colour
    if facts.window is not None:
        shade = {"fillcolor": translucent(colour, 0.12), "line": {"width": 0}, "layer": "below"}
        first, last = facts.window[0] - 0.5, facts.window[1] + 0.5
        figure.add_shape(type="rect", x0=first, x1=last, y0=0, y1=1, yref="paper", **shade)
    if following.epochs != facts.window:
        draw_followed_epochs(figure, following, mode)
