"""What stands beside the cells of a heat map: the model's gain above, every client's total at the right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from flcontrib_core.charts.following import STILL, pick
from flcontrib_core.charts.palette import palette_for
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import client_label
from flcontrib_core.charts.ticks import signed_ticks

if TYPE_CHECKING:
    from flcontrib_core.charts.heat_map import HeatMapFacts


def draw_gain(figure: Picture, facts: HeatMapFacts, mode: str) -> None:
    """What the model gained in each epoch, above the cells on an axis of its own."""
    p = palette_for(mode)
    words = "Change of the model" if facts.harm_up else "Model gain"  # a loss that rises is no gain
    figure.add_bar(
        x=list(range(1, len(facts.gain) + 1)),
        y=facts.gain,
        yaxis="y2",
        marker={"color": [p.harm if h else p.help for h in facts.harms(facts.gain)], "line": {"width": 0}},
        width=0.8,
        hovertemplate=f"{words.lower()} in epoch %{{x}}<br><b>%{{y:+.4f}}</b><extra></extra>",
    )
    figure.add_annotation(
        x=0,
        xref="paper",
        xanchor="left",
        y=1,
        yref="paper",
        yanchor="bottom",
        showarrow=False,
        yshift=-4,
        text=f"<b>{words} per epoch</b> ({facts.axis})",
        font={"size": 12, "color": p.secondary},
    )


def draw_totals(figure: Picture, facts: HeatMapFacts, y: list[int], mode: str, left: float) -> None:
    """A bar with its 95% interval per client, on an axis of its own."""
    p = palette_for(mode)
    colours = [p.harm if h else p.help for h in facts.harms(facts.totals)]
    half_widths = np.where(np.isfinite(facts.half_widths), facts.half_widths, 0.0)
    figure.add_bar(
        x=facts.totals,
        y=y,
        orientation="h",
        xaxis="x2",
        width=0.5,
        marker={"color": colours, "line": {"width": 0}},
        error_x={"type": "data", "array": half_widths, "color": p.ink, "thickness": 1.2, "width": 0},
        customdata=[[client_label(c), pick(facts.position[c])] for c in facts.clients],
        hovertemplate="<b>%{customdata[0]}</b><br>total <b>%{x:+.4f}</b><extra></extra>",
        **STILL,
    )
    figure.update_layout(
        xaxis2={
            "domain": [left + 0.03, 1],
            "anchor": "y",
            "tickangle": 0,
            "showgrid": False,
            "zeroline": True,
            "zerolinecolor": p.axis,
            "fixedrange": True,
            "tickfont": {"size": 11, "color": p.secondary},
        }
        | _outermost(reach(np.concatenate([facts.totals - half_widths, facts.totals + half_widths])))
    )
    figure.add_annotation(
        x=left + 0.03,
        xref="paper",
        xanchor="left",
        y=y[0] + 0.55,
        yref="y",
        yanchor="bottom",
        showarrow=False,
        text="<b>Total</b>",
        font={"size": 12, "color": p.secondary},
    )


def reach(values: np.ndarray) -> dict[str, Any]:
    """A range that holds the values and zero, with about two ticks."""
    low, high = min(0.0, float(np.nanmin(values))), max(0.0, float(np.nanmax(values)))
    room = 0.05 * (high - low or 1.0)
    return {"range": [low - room * (low < 0), high + room]} | signed_ticks(low, high, 2)


def _outermost(axis: dict[str, Any]) -> dict[str, Any]:
    """One label beside the zero line: on a phone the totals have room for one."""
    if not axis["tickvals"]:
        return axis
    value, text = max(zip(axis["tickvals"], axis["ticktext"], strict=True), key=lambda tick: abs(tick[0]))
    return axis | {"tickvals": [value], "ticktext": [text]}
