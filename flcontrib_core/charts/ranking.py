"""The ranking of clients over the whole run: a dot and its 95% bar per client, sorted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.credit import total_credit
from flcontrib_core.charts.following import NOTHING, STILL, Following, draw_followed_row, pick
from flcontrib_core.charts.palette import palette_for, translucent
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import base_figure, client_label, write_column, x_axis
from flcontrib_core.charts.ticks import signed_ticks
from flcontrib_core.vocabulary import FillPolicy
from flcontrib_core.words import numbers

MOST_ROWS = 24


@dataclass(frozen=True)
class RankedClient:
    """One client's total and what stands behind it."""

    client: str
    total: float
    """Credit without the initial model's share, help up."""
    half_width: float
    """95%; 0 = exact, NaN = the method gives none"""
    alerted: bool
    position: int = 0
    """Among the run's clients."""
    filled: int = 0
    """Epochs of the client whose value was not computed: their part of the total is filled in."""

    @property
    def clear(self) -> bool:
        """The interval excludes zero; a total that is partly filled in has no interval that could."""
        return not self.filled and abs(self.total) > self.half_width  # no number is above NaN


@dataclass(frozen=True)
class RankingFacts:
    """Totals over the whole run, sorted."""

    utility: str
    axis: str
    rows: tuple[RankedClient, ...]
    """Best first."""
    left_out: int
    """Clients between the best and the worst that have no row of their own."""
    clearly_below: tuple[str, ...]
    """Every client whose interval lies below zero, worst first; also those without a row"""


def ranking_facts(
    report: AuditReport, utility: str, fill: FillPolicy | None = None, also: str | None = None
) -> RankingFacts:
    """The best and the worst, whoever has an alert, and ``also`` the client that is followed."""
    history = report.history
    totals = total_credit(history, utility, fill)
    half = 1.96 * history.total_standard_errors(utility)
    alerted = {a.client for a in report.detection.alerts}
    names = history.client_ids
    active = np.flatnonzero(history.participated.any(axis=0)).tolist()
    order = sorted(active, key=lambda i: (-totals[i], numbers.place_of(names[i])))
    shown = order
    if len(order) > MOST_ROWS:  # the top and the bottom of both signs, and whoever has an alert
        marked = [i for i in order if names[i] in alerted][:8]
        extra = {*order[: MOST_ROWS // 2], *order[-MOST_ROWS // 2 :], *marked}
        shown = [i for i in order if i in extra or names[i] == also]
    filled = history.of(utility).missing.sum(axis=0)
    rows = [
        RankedClient(names[i], float(totals[i]), float(half[i]), names[i] in alerted, i, int(filled[i])) for i in shown
    ]
    return RankingFacts(
        utility,
        numbers.credited(utility, utility in history.lower_is_better),
        tuple(rows),
        len(order) - len(rows),
        tuple(names[i] for i in reversed(order) if -totals[i] > half[i] and not filled[i]),
    )


def ranking_alt(facts: RankingFacts) -> str:
    """The first and the last client."""
    if not facts.rows:
        return "No client took part."
    best, worst = facts.rows[0], facts.rows[-1]
    digits = numbers.digits_for(best.total, worst.total)
    return (
        f"Total {facts.axis} per client, best first: "
        f"{numbers.named(best.client)} {numbers.signed(best.total, digits)} to "
        f"{numbers.named(worst.client)} {numbers.signed(worst.total, digits)}."
    )


def ranking_rows(facts: RankingFacts) -> list[dict[str, object]]:
    """One row per client."""
    return [
        {
            "client": r.client,
            f"total {facts.axis}": r.total,
            "± 95%": None if r.half_width != r.half_width else r.half_width,
            "epochs filled in": r.filled,
            "excludes zero": r.clear,
            "alert": r.alerted,
        }
        for r in facts.rows
    ]


def draw_ranking(facts: RankingFacts, mode: str, following: Following = NOTHING) -> Picture:
    """Filled when the interval excludes zero, open otherwise; the number stands in a right-hand column."""
    p = palette_for(mode)
    rows = facts.rows
    row_height = 30 if len(rows) <= 12 else 22
    figure = base_figure(mode, row_height * max(len(rows), 1) + 82, l=104, r=60, t=26, b=48)
    places = list(range(len(rows), 0, -1))
    reach = [v for r in rows for v in (r.total - _width(r), r.total + _width(r))] + [0.0]
    room = (max(reach) - min(reach) or 1.0) * 0.07
    low, high = min(reach) - room, max(reach) + room
    _draw_dots(figure, facts, places, high, mode)
    names = [client_label(r.client, 14) for r in rows]
    bold = [r.alerted or r.client == following.client for r in rows]
    for place, r in zip(places, rows, strict=True):
        if r.client == following.client:
            draw_followed_row(figure, place, mode)
    figure.update_layout(
        xaxis=x_axis(mode)
        | {
            "showgrid": True,
            "gridcolor": p.grid,
            "zeroline": True,
            "zerolinecolor": p.axis,
            "range": [low, high],
            "title": {"text": f"Total contribution ({facts.axis})", "font": {"size": 12, "color": p.secondary}},
        }
        | signed_ticks(low, high, 3),
        yaxis={
            "tickvals": places,
            "ticktext": [f"<b>{n}</b>" if b else n for n, b in zip(names, bold, strict=True)],
            "range": [0.4, len(rows) + 0.6],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
            "tickfont": {"size": 13, "color": p.ink},
        },
    )
    return figure


def _draw_dots(figure: Picture, facts: RankingFacts, places: list[int], edge: float, mode: str) -> None:
    """Two traces for all clients: the intervals (pieces of one line per colour) and the dots."""
    p = palette_for(mode)
    rows = facts.rows
    digits = max(2 if any(abs(r.total) >= 1 for r in rows) else 3, numbers.digits_for(*(r.total for r in rows)))
    colours = [(p.help if r.total > 0 else p.harm) if r.clear else p.secondary for r in rows]
    for colour in dict.fromkeys(colours):
        pieces = [(r, y) for r, y, c in zip(rows, places, colours, strict=True) if c == colour and r.half_width > 0]
        figure.add_scatter(
            x=[x for r, _ in pieces for x in (r.total - r.half_width, r.total + r.half_width, None)],
            y=[y for _, place in pieces for y in (place, place, None)],
            mode="lines",
            line={"color": translucent(colour, 0.4), "width": 6},
            hoverinfo="skip",
        )
    figure.add_scatter(
        x=[r.total for r in rows],
        y=places,
        mode="markers",
        marker={
            "size": 11,
            "color": [c if r.clear else p.page for c, r in zip(colours, rows, strict=True)],
            "line": {"color": colours, "width": 1.6},
        },
        customdata=[[client_label(r.client), interval_words(r, digits + 1), pick(r.position)] for r in rows],
        hovertemplate=f"<b>%{{customdata[0]}}</b><br><b>%{{x:+.{digits + 1}f}}</b> %{{customdata[1]}}<extra></extra>",
        **STILL,
    )
    write_column(figure, edge, places, [numbers.signed(r.total, digits) for r in rows], mode)


def interval_words(row: RankedClient, digits: int) -> str:
    """What stands behind a total: exact, its 95% interval, or what keeps it from having one."""
    if row.filled:
        return f"{numbers.several(row.filled, 'epoch')} filled in, not computed"
    if row.half_width != row.half_width:
        return "no interval"
    return "exact" if row.half_width == 0 else f"± {row.half_width:.{digits}f}"


def _width(row: RankedClient) -> float:
    return row.half_width if row.half_width == row.half_width else 0.0
