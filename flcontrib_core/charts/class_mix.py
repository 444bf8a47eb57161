"""The class-mix chart: classes that gained and lost in the window. Two-sided for a changed mix, one-sided for harm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.palette import palette_for
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.style import base_figure, x_axis, y_axis
from flcontrib_core.charts.ticks import signed_ticks
from flcontrib_core.detection.class_evidence import class_margins
from flcontrib_core.words import numbers

MOST_CLASSES = 40


@dataclass(frozen=True)
class ClassMixFacts:
    """How a client's margin per class moved inside a window."""

    client: str
    window: tuple[int, int]
    classes: tuple[int, ...]
    moves: np.ndarray
    """(classes,) margin inside − outside, relative to the peers"""
    share_up: float
    left_out: int


def class_mix_facts(report: AuditReport, client: str, window: tuple[int, int] | None) -> ClassMixFacts | None:
    """None where the log has no per-class margins; of many classes those that moved most."""
    if window is None:
        return None
    elsewhere = [a.window for a in report.detection.alerts if a.client == client and a.window not in (None, window)]
    margins = class_margins(report.history, client, window, [w for w in elsewhere if w is not None])
    if margins is None:
        return None
    strongest = np.sort(np.argsort(-np.abs(margins.moves), kind="stable")[:MOST_CLASSES])
    return ClassMixFacts(
        client,
        window,
        tuple(margins.classes[i] for i in strongest),
        margins.moves[strongest],
        margins.share_up,
        len(margins.classes) - len(strongest),
    )


def class_mix_alt(facts: ClassMixFacts) -> str:
    """How many classes went up and down, and which lost most."""
    up, down = int((facts.moves > 0).sum()), int((facts.moves < 0).sum())
    least = facts.classes[int(np.argmin(facts.moves))]
    return (
        f"Change of {numbers.named(facts.client)}'s margin per class in epochs {numbers.window(*facts.window)}: "
        f"{numbers.several(up, 'class', 'classes')} up, {down} down, {facts.share_up:.0%} of the movement is upward; "
        f"class {least} lost most."
    )


def class_mix_rows(facts: ClassMixFacts) -> list[dict[str, object]]:
    """One row per class."""
    return [
        {"class": c, "margin inside minus outside": float(m)} for c, m in zip(facts.classes, facts.moves, strict=True)
    ]


def draw_class_mix(facts: ClassMixFacts, mode: str) -> Picture:
    """A bar per class, help up."""
    p = palette_for(mode)
    figure = base_figure(mode, 220, l=62, r=16, t=12, b=46)
    places = list(range(len(facts.classes)))
    figure.add_bar(
        x=places,
        y=facts.moves,
        width=0.62,
        marker={"color": [p.help if m >= 0 else p.harm for m in facts.moves], "line": {"width": 0}},
        customdata=list(facts.classes),
        hovertemplate="class %{customdata}<br><b>%{y:+.3f}</b><extra></extra>",
    )
    low, high = min(0.0, float(facts.moves.min())), max(0.0, float(facts.moves.max()))
    room = (high - low or 1.0) * 0.08
    low, high = low - room * (low < 0), high + room
    figure.update_layout(
        xaxis=x_axis(mode)
        | {
            "tickvals": places,
            "ticktext": [str(c) for c in facts.classes],
            "range": [-0.6, len(places) - 0.4],
            "title": {"text": "Class", "font": {"size": 12, "color": p.secondary}},
        },
        yaxis=y_axis(mode) | {"range": [low, high]} | signed_ticks(low, high, 4),
    )
    return figure
