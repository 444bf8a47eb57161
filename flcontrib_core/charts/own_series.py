"""One client's own values in every epoch over an anonymous band: the chart of an extract, made of nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.charts.epoch_bars import draw_change_bars, draw_value_bars, write_heading
from flcontrib_core.charts.palette import palette_for, translucent
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import add_cells, base_figure, epoch_axis, plain
from flcontrib_core.vocabulary import CellState, EpochVector, IntArray
from flcontrib_core.words import numbers


@dataclass(frozen=True)
class OwnSeriesFacts:
    """What the extract says of its client; all (T + 1,), help up. Nothing of anybody else but the band."""

    client: str
    axis: str
    values: EpochVector
    half_widths: EpochVector
    state: IntArray
    low: EpochVector
    """Of the others in each epoch; NaN where too few took part"""
    high: EpochVector
    change: EpochVector
    """Probability that a new level begins; NaN where missing"""
    windows: tuple[tuple[int, int], ...]


def own_series_alt(facts: OwnSeriesFacts) -> str:
    """How many of the client's epochs are harmful, and its windows."""
    computed = facts.state[1:] == CellState.COMPUTED
    harmful = int((facts.values[1:][computed] < 0).sum())
    marked = ", ".join(numbers.window(*w) for w in facts.windows)
    return (
        f"{numbers.named(facts.client)}: {facts.axis} per epoch over the anonymous band of the others. {harmful} of "
        f"{int(computed.sum())} computed epochs are harmful." + (f" Marked window: epochs {marked}." if marked else "")
    )


def draw_own_series(facts: OwnSeriesFacts, mode: str) -> Picture:
    """Values over the band, and the probability of a change below, on one epoch axis."""
    p = palette_for(mode)
    epochs = len(facts.values) - 1
    figure = base_figure(mode, 440, l=62, r=16, t=26, b=46)
    figure.update_layout(xaxis=epoch_axis(mode, epochs, 0.3, epochs + 0.7) | {"anchor": "y2"}, barmode="overlay")
    write_heading(figure, 1.0, f"<b>Contribution per epoch</b> ({plain(facts.axis)}) ± 95%", mode)
    write_heading(figure, 0.3, "<b>Probability of a change</b> at this epoch", mode)
    for first, last in facts.windows:
        shade = {"fillcolor": translucent(p.clients[0], 0.12), "line": {"width": 0}, "layer": "below"}
        figure.add_shape(type="rect", x0=first - 0.5, x1=last + 0.5, y0=0, y1=1, yref="paper", **shade)
    there = np.flatnonzero(np.isfinite(facts.low))
    fill = translucent(p.context, 0.35)
    add_cells(figure, there.astype(float), facts.low[there], facts.high[there], 1.0, fill, edge=p.secondary)
    draw_value_bars(
        figure,
        facts.values,
        facts.half_widths,
        facts.state,
        mode,
        axis="y",
        domain=(0.42, 1.0),
        band=(facts.low, facts.high),
    )
    draw_change_bars(figure, facts.change, (), p.clients[0], mode, axis="y2", domain=(0.0, 0.3))
    return figure
