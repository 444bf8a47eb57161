"""What the reader follows, a client and epochs, and which of them a clicked mark stands for.

Every mark that can be clicked carries a *pick* as the last cell of its ``customdata``: the client's position, and for
the mark of a window also its epochs. Names never travel through the browser and back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flcontrib_core.charts.palette import CLEAR, palette_for, translucent
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import client_label

_PICK = re.compile(r"(\d{1,9})(?::(\d{1,9})-(\d{1,9}))?")
MOST_CELL_TARGETS = 2000
"""A heat map's cells answer to a click while there are at most so many; rows and totals always do."""
STILL = {"selected": {"marker": {"opacity": 1}}, "unselected": {"marker": {"opacity": 1}}}
"""A click must not fade what was not clicked: the highlight is drawn with the next picture."""
GLASS = {"selected": {"marker": {"opacity": 0}}, "unselected": {"marker": {"opacity": 0}}}


@dataclass(frozen=True)
class Following:
    """What is highlighted on all charts and pages; nothing by default."""

    client: str | None = None
    epochs: tuple[int, int] | None = None


NOTHING = Following()


def pick(position: int, epochs: tuple[int, int] | None = None) -> str:
    """What a mark says when it is clicked: '3', or '3:12-20' for a window."""
    return f"{position}" if epochs is None else f"{position}:{epochs[0]}-{epochs[1]}"


def read_pick(
    selection: Mapping[str, Any], client_ids: Sequence[str], epochs: int, rows: Sequence[str] = ()
) -> Following:
    """What Plotly's selection event stands for; whatever it cannot mean is left out.

    A point names its client (and perhaps a window). A box names the epochs it covers, and a client when it covers
    exactly one of ``rows`` (top row first, drawn at heights len(rows) … 1).
    """
    boxes = selection.get("box") or ()
    if boxes:
        window = _covered(boxes[0].get("x") or (), 1, epochs)
        heights = _covered(boxes[0].get("y") or (), 1, len(rows)) if rows and boxes[0].get("yref") == "y" else None
        one = heights is not None and heights[0] == heights[1]
        return Following(rows[len(rows) - heights[0]] if one and heights else None, window)
    for point in selection.get("points") or ():
        pick = _PICK.fullmatch(str(_last(point.get("customdata"))))
        if pick and int(pick[1]) < len(client_ids):
            window = (int(pick[2]), int(pick[3])) if pick[2] else None
            return Following(client_ids[int(pick[1])], window)
    return NOTHING


def _last(customdata: object) -> object:
    """The last cell, whether the browser sent a cell, a list or a list turned into a numbered mapping."""
    if isinstance(customdata, Mapping):
        return list(customdata.values())[-1] if customdata else ""
    return customdata[-1] if isinstance(customdata, list | tuple) and customdata else customdata


def _covered(edges: Iterable[Any], smallest: int, largest: int) -> tuple[int, int] | None:
    """Whole numbers between two edges, within the bounds; a thin box means the number it stands on."""
    ends = sorted(float(e) for e in edges if isinstance(e, int | float) and math.isfinite(e))
    if len(ends) < 2:
        return None
    first, last = math.ceil(ends[0]), math.floor(ends[-1])
    if first > last:
        first = last = round((ends[0] + ends[-1]) / 2)
    first, last = max(first, smallest), min(last, largest)
    return (first, last) if first <= last else None


def draw_followed_epochs(
    figure: Picture,
    following: Following,
    mode: str,
    yref: str = "paper",
    xref: str = "x",
    heights: tuple[float, float] = (0, 1),
) -> None:
    """Two ink edges and a faint fill between them: unlike a marked window, which has its client's colour."""
    if following.epochs is None:
        return
    p = palette_for(mode)
    first, last = following.epochs[0] - 0.5, following.epochs[1] + 0.5
    fill = {"fillcolor": translucent(p.secondary, 0.10), "line": {"width": 0}, "layer": "below"}
    figure.add_shape(type="rect", x0=first, x1=last, y0=heights[0], y1=heights[1], xref=xref, yref=yref, **fill)
    for edge in (first, last):
        line = {"color": p.ink, "width": 1.4}
        ends = {"x0": edge, "x1": edge, "y0": heights[0], "y1": heights[1], "xref": xref, "yref": yref}
        figure.add_shape(type="line", **ends, line=line, name="followed epochs")


def draw_followed_row(figure: Picture, height: float, mode: str, over: bool = False) -> None:
    """A frame around one client's row; ``over`` the cells of a heat map, otherwise filled and under the marks."""
    p = palette_for(mode)
    figure.add_shape(
        type="rect",
        x0=0,
        x1=1,
        xref="paper",
        y0=height - 0.5,
        y1=height + 0.5,
        line={"color": p.ink, "width": 1.6},
        fillcolor=CLEAR if over else translucent(p.secondary, 0.10),
        layer="above" if over else "below",
        name="followed client",
    )


def add_cell_targets(
    figure: Picture, clients: Sequence[str], position: Mapping[str, int], words: Sequence[Sequence[str]]
) -> None:
    """Makes a heat map's cells clickable, which Plotly's own are not: unseen marks that also carry the hover text.

    ``words`` (clients, T) what each cell says.
    """
    count, epochs = len(words), len(words[0]) if words else 0
    if not 0 < count * epochs <= MOST_CELL_TARGETS:
        return
    names = [client_label(c) for c in clients]
    picks = [pick(position[c]) for c in clients]
    figure.add_scatter(
        x=np.tile(np.arange(1, epochs + 1), count),
        y=np.repeat(np.arange(count, 0, -1), epochs),
        mode="markers",
        marker={"size": 16, "symbol": "square", "opacity": 0},
        customdata=[[names[r], words[r][t], picks[r]] for r in range(count) for t in range(epochs)],
        hovertemplate="<b>%{customdata[0]}</b><br>epoch %{x}<br><b>%{customdata[1]}</b><extra></extra>",
        **GLASS,
    )


def add_row_targets(figure: Picture, clients: Sequence[str], position: Mapping[str, int], mode: str) -> None:
    """A small ring before each row of a chart with one row per client: the place to click, filled when followed."""
    p = palette_for(mode)
    figure.add_scatter(
        x=[0.0] * len(clients),
        y=list(range(len(clients), 0, -1)),
        mode="markers",
        cliponaxis=False,
        marker={"size": 7, "symbol": "circle-open", "color": p.secondary, "line": {"width": 1.2}},
        customdata=[[client_label(c), pick(position[c])] for c in clients],
        hovertemplate="follow <b>%{customdata[0]}</b><extra></extra>",
        **STILL,
    )
