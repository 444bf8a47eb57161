"""One alert at a glance: the client's curve over the band of the others, its window shaded."""

from __future__ import annotations

import numpy as np

from flcontrib_core.charts.cumulative import CumulativeFacts
from flcontrib_core.charts.curves import draw_area
from flcontrib_core.charts.palette import palette_for, translucent
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import base_figure
from flcontrib_core.charts.ticks import value_range
from flcontrib_core.words import numbers


def sparkline_alt(facts: CumulativeFacts, client: str, window: tuple[int, int] | None) -> str:
    """Where the curve ends, and the marked window."""
    curve = next(c for c in facts.focus if c.client == client)
    end = float(curve.credit[facts.last_known])
    ends = numbers.signed(end, numbers.digits_for(end))
    where = "" if window is None else f"; marked window: epochs {numbers.window(*window)}"
    return f"{numbers.named(client)}: running {facts.axis} ends at {ends}{where}."


def draw_sparkline(facts: CumulativeFacts, client: str, window: tuple[int, int] | None, mode: str) -> Picture:
    """A small picture without axes; the facts are those of the large one."""
    curve = next(c for c in facts.focus if c.client == client)
    style = facts.styles.of(client, mode)
    figure = base_figure(mode, 64, l=0, r=0, t=2, b=2)
    low, high = value_range([curve.credit, facts.quantiles[[0, 4]]] if facts.others else [curve.credit])
    figure.update_layout(
        xaxis={"visible": False, "range": [0, facts.epochs]}, yaxis={"visible": False, "range": [low, high]}
    )
    epochs = np.arange(facts.last_known + 1)
    if facts.others:
        lower, upper = facts.quantiles[[0, 4], : len(epochs)]
        draw_area(figure, epochs, lower, upper, translucent(palette_for(mode).context, 0.3), "others")
    if window is not None:
        shade = {"fillcolor": translucent(style.colour, 0.13), "line": {"width": 0}, "layer": "below"}
        figure.add_shape(type="rect", x0=window[0] - 0.5, x1=window[1] + 0.5, y0=0, y1=1, yref="y domain", **shade)
    line = {"color": style.colour, "width": 2, "dash": style.dash}
    figure.add_scatter(x=epochs, y=curve.credit[: len(epochs)], mode="lines", line=line, hoverinfo="skip")
    return figure
