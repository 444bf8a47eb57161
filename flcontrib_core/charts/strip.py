"""Who took part when: one row per client, filled = computed, hatched = took part but not computed, dot = absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from flcontrib_core.charts.following import STILL, pick
from flcontrib_core.charts.palette import palette_for
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import client_label, hatch_of
from flcontrib_core.vocabulary import CellState, IntArray
from flcontrib_core.words import wording

ROW = 15
"""Pixels per client."""


def strip_room(rows: int) -> int:
    """Pixels that a strip of so many clients takes below the curves."""
    return ROW * rows + 24 if rows else 0


def draw_strip(
    figure: Picture,
    rows: Sequence[tuple[str, IntArray]],
    colours: Mapping[str, str],
    position: Mapping[str, int],
    floor: float,
    mode: str,
    followed: str | None,
) -> None:
    """Below ``floor`` of the figure's height; clients without a colour of their own are grey."""
    p = palette_for(mode)
    for row, (client, state) in enumerate(rows):
        y = len(rows) - row
        hatch = {"color": p.soft, "pattern": hatch_of(mode) | {"size": 5, "solidity": 0.25}}
        filled = {"color": colours.get(client, p.context), "line": {"width": 0}}
        for code, marker, said in (
            (CellState.COMPUTED, filled, wording.TAKEN_PART),
            (CellState.NOT_COMPUTED, hatch, wording.NOT_COMPUTED),
        ):
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
                hovertemplate=f"{client_label(client)}<br>epoch %{{x}}: {said}<extra></extra>",
            )
        absent = np.flatnonzero(state[1:] == CellState.ABSENT) + 1
        dot = {"size": 3, "color": p.absent}
        figure.add_scatter(x=absent, y=[y] * len(absent), mode="markers", marker=dot, yaxis="y2", hoverinfo="skip")
    labels = [f"<b>{client_label(c, 11)}</b>" if c == followed else client_label(c, 11) for c, _ in rows]
    figure.update_layout(
        barmode="overlay",
        yaxis2={
            "domain": [0, floor - 0.02],
            "range": [0.3, len(rows) + 0.7],
            "tickvals": [len(rows) - r for r in range(len(rows))],
            "ticktext": labels,
            "tickfont": {"size": 11, "color": p.secondary},
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
            "ticks": "",
        },
    )
