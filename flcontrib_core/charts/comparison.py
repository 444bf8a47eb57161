"""Two or more results compared: curves on one axis over the pinned baseline, and ranks from result to result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.credit import client_styles, fill_of, running_credit
from flcontrib_core.charts.following import NOTHING, STILL, Following, draw_followed_epochs, pick
from flcontrib_core.charts.palette import DASHES, ClientStyles, palette_for, translucent
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import base_figure, client_label, epoch_axis, plain, short, y_axis
from flcontrib_core.charts.ticks import signed_ticks, value_range
from flcontrib_core.words import numbers
from flcontrib_core.words.comparing import moved_words

MOST_CLIENTS = 30
MOST_PANELS = 4


@dataclass(frozen=True)
class AlignedFacts:
    """The same clients' curves in two or more results."""

    names: tuple[str, ...]
    """Baseline first."""
    axis: str
    clients: tuple[str, ...]
    """Clients with a panel: the followed one, then those whose totals differ most."""
    curves: tuple[tuple[np.ndarray | None, ...], ...]
    """[client][result] running credit; None where a result does not have the client"""
    epochs: int
    differences: bool
    """Each curve minus the baseline's, over the epochs both have"""
    styles: ClientStyles


def aligned_facts(
    reports: list[AuditReport],
    utility: str,
    names: tuple[str, ...],
    followed: str | None = None,
    differences: bool = False,
) -> AlignedFacts:
    """The clients whose totals differ most, and the followed one."""
    running = [running_credit(r.history, utility) for r in reports]
    places = [{c: i for i, c in enumerate(r.history.client_ids)} for r in reports]
    shared = [c for c in places[0] if any(c in p for p in places[1:])]

    def distance(client: str) -> float:
        ends = [run[-1, p[client]] for run, p in zip(running, places, strict=True) if client in p]
        return float(max(ends) - min(ends))

    order = sorted(shared, key=lambda c: (c != followed, -distance(c), c))[:MOST_PANELS]
    curves: list[tuple[np.ndarray | None, ...]] = []
    for client in order:
        own = [run[:, p[client]] if client in p else None for run, p in zip(running, places, strict=True)]
        base = own[0]
        if differences and base is not None:
            own = [None if c is None else c[: len(base)] - base[: len(c)] for c in own]
        curves.append(tuple(own))
    lower = utility in reports[0].history.lower_is_better
    return AlignedFacts(
        names,
        numbers.credited(utility, lower),
        tuple(order),
        tuple(curves),
        max((len(c) - 1 for own in curves for c in own if c is not None), default=0),
        differences,
        client_styles(reports[0]),
    )


def aligned_alt(facts: AlignedFacts) -> str:
    """Where each client's curve ends in each result."""
    lines = []
    for client, own in zip(facts.clients, facts.curves, strict=True):
        ends = [
            f"{name} {numbers.signed(float(c[-1]), max(3, numbers.digits_for(float(c[-1]))))}"
            for name, c in zip(facts.names, own, strict=True)
            if c is not None
        ]
        lines.append(f"{numbers.named(client)} ends at {', '.join(ends)}.")
    what = "difference to the baseline" if facts.differences else "running credit"
    return f"{what.capitalize()} ({facts.axis}) of the same clients in {len(facts.names)} results. {' '.join(lines)}"


def aligned_rows(facts: AlignedFacts) -> list[dict[str, object]]:
    """One row per client and epoch."""
    return [
        {
            "client": client,
            "epoch": t,
            **{n: None if c is None or t >= len(c) else float(c[t]) for n, c in zip(facts.names, own, strict=True)},
        }
        for client, own in zip(facts.clients, facts.curves, strict=True)
        for t in range(facts.epochs + 1)
    ]


def draw_aligned(facts: AlignedFacts, mode: str, following: Following = NOTHING) -> Picture:
    """One panel per client on shared axes: the baseline wide and grey, the others in the client's colour."""
    count = max(1, len(facts.clients))
    columns = min(2, count)
    rows = -(-count // columns)
    figure = base_figure(mode, 230 * rows + 70, l=60, r=14, t=28, b=50)
    low, high = value_range([c for own in facts.curves for c in own if c is not None], 0.08)
    layout: dict[str, Any] = {}
    for n, (client, own) in enumerate(zip(facts.clients, facts.curves, strict=True)):
        column, line = n % columns, n // columns
        suffix = "" if n == 0 else str(n + 1)
        left, width = column / columns + (0.03 if column else 0), 1 / columns - 0.04
        top, bottom = 1 - line / rows, 1 - (line + 1) / rows
        last = line == rows - 1 or n + columns >= count
        layout |= {
            f"xaxis{suffix}": epoch_axis(mode, facts.epochs, 0, facts.epochs + 0.6, "Epoch" if last else "")
            | {"domain": [left, left + width], "anchor": f"y{suffix}"}
            | ({"matches": "x"} if suffix else {}),
            f"yaxis{suffix}": y_axis(mode)
            | {
                "domain": [bottom + (0.3 / rows if line < rows - 1 else 0), top - 0.04 / rows],
                "anchor": f"x{suffix}",
                "range": [low, high],
                "showticklabels": column == 0,
            }
            | signed_ticks(low, high),
        }
        axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        draw_followed_epochs(figure, following, mode, f"y{suffix} domain", f"x{suffix}")
        _draw_results(figure, facts, own, facts.styles.of(client, mode).colour, mode, axes)
        figure.add_annotation(
            x=left,
            xref="paper",
            xanchor="left",
            y=top - 0.04 / rows,
            yref="paper",
            yanchor="bottom",
            yshift=3,
            text=f"<b>{client_label(client, 26)}</b>",
            showarrow=False,
            font={"size": 13, "color": facts.styles.of(client, mode).colour},
        )
    figure.update_layout(**layout)
    return figure


def _draw_results(
    figure: Picture,
    facts: AlignedFacts,
    own: tuple[np.ndarray | None, ...],
    colour: str,
    mode: str,
    axes: dict[str, str],
) -> None:
    for place, (name, curve) in enumerate(zip(facts.names, own, strict=True)):
        if curve is None:
            continue
        line = {"color": translucent(palette_for(mode).context, 0.7), "width": 7}
        if place:
            line = {"color": colour, "width": 2.2, "dash": DASHES[(place - 1) % len(DASHES)]}
        figure.add_scatter(
            x=list(range(len(curve))),
            y=curve,
            mode="lines",
            line=line,
            name=plain(name),
            hovertemplate=f"{plain(name)}<br>epoch %{{x}}<br><b>%{{y:+.3f}}</b><extra></extra>",
            **axes,
        )


@dataclass(frozen=True)
class RankFacts:
    """Each client's rank in two or more results."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]
    """(client, its rank in each result), clients of all results, the baseline's order"""
    moved: int
    """Clients whose rank is not the same in all results"""
    left_out: int
    styles: ClientStyles


def rank_facts(reports: list[AuditReport], utility: str, names: tuple[str, ...], also: str | None = None) -> RankFacts:
    """Of many clients those that moved most, and ``also`` the followed one."""
    each = [r.history.ranks(utility, fill_of(r.history)) for r in reports]
    common = [c for c in each[0] if all(c in r for r in each)]
    ranks = [_among(common, r) for r in each]
    shared = [(c, tuple(r[c] for r in ranks)) for c in common]
    moved = sum(len(set(places)) > 1 for _, places in shared)
    far = sorted(shared, key=lambda row: (row[0] != also, min(row[1]) - max(row[1]), row[1][0]))[:MOST_CLIENTS]
    rows = sorted(far, key=lambda row: row[1][0])
    return RankFacts(names, tuple(rows), moved, len(shared) - len(rows), client_styles(reports[0]))


def _among(clients: list[str], ranks: Mapping[str, int]) -> dict[str, int]:
    """Places among these alone: of two runs with other clients beside them, places in each would not compare."""
    places = np.sort([ranks[c] for c in clients])
    return {c: 1 + int(np.searchsorted(places, ranks[c])) for c in clients}


def rank_alt(facts: RankFacts) -> str:
    """How many changed rank, and who moved farthest."""
    far = sorted(facts.rows, key=lambda r: min(r[1]) - max(r[1]))[:3]
    moved = [(numbers.named(c), places) for c, places in far if len(set(places)) > 1]
    words = ", ".join(f"{client} from {places[0]} to {places[-1]}" for client, places in moved)
    return moved_words(facts.moved) + (f": {words}." if words else ".")


def rank_rows(facts: RankFacts) -> list[dict[str, object]]:
    """One row per client."""
    return [
        {
            "client": client,
            **{f"rank in {name}": rank for name, rank in zip(facts.names, places, strict=True)},
            "change": places[0] - places[-1],
        }
        for client, places in facts.rows
    ]


def draw_ranks(facts: RankFacts, mode: str, following: Following = NOTHING) -> Picture:
    """A line per client from rank to rank; coloured where it moves by two places or more, or is followed."""
    p = palette_for(mode)
    position = facts.styles.position
    # Ranks are drawn as places among the shown rows: of 10 000 clients thirty still stand one below the other.
    heights = [
        {rank: n + 1 for n, rank in enumerate(sorted({places[k] for _, places in facts.rows}))}
        for k in range(len(facts.names))
    ]
    notes: list[dict[str, Any]] = []
    figure = base_figure(mode, 24 * max(1, len(facts.rows)) + 60, l=116, r=116, t=34, b=10)
    for client, places in facts.rows:
        followed = client == following.client
        stands_out = followed or max(places) - min(places) >= 2
        style = facts.styles.of(client, mode)
        colour = style.colour if stands_out else p.context
        y = [heights[k][rank] for k, rank in enumerate(places)]
        figure.add_scatter(
            x=list(range(len(places))),
            y=y,
            mode="lines+markers",
            line={
                "color": colour,
                "width": 3.6 if followed else (2.2 if stands_out else 1.2),
                "dash": style.dash if stands_out else "solid",
            },
            marker={"size": 9 if followed else 7, "color": colour, "symbol": style.marker},
            customdata=[[rank, pick(position[client])] for rank in places],
            hovertemplate=f"<b>{client_label(client)}</b><br>rank %{{customdata[0]}}<extra></extra>",
            **STILL,
        )
        for x, anchor, shift in ((0, "right", -10), (len(places) - 1, "left", 10)):
            name = f"<b>{client_label(client, 13)}</b>" if followed else client_label(client, 13)
            notes.append(
                {
                    "x": x,
                    "y": y[x],
                    "text": f"{places[x]}\u2002{name}" if x else f"{name}\u2002{places[x]}",
                    "xanchor": anchor,
                    "xshift": shift,
                    "font": {"size": 12, "color": p.ink if stands_out else p.secondary},
                }
            )
    above = {"y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 6, "font": {"size": 13, "color": p.ink}}
    notes += [above | {"x": x, "text": f"<b>{short(name, 18)}</b>"} for x, name in enumerate(facts.names)]
    for note in notes:
        figure.add_annotation(showarrow=False, **note)
    figure.update_layout(
        xaxis={"visible": False, "range": [-0.05, len(facts.names) - 0.95]},
        yaxis={"visible": False, "range": [len(facts.rows) + 0.6, 0.4]},
    )
    return figure
