"""What does one client's evidence look like? Its curve, the probability of a change, and every epoch, on one axis."""

from __future__ import annotations

import numpy as np

from flcontrib_core.reports.chart_facts import STATE_ABSENT, STATE_COMPUTED, STATE_SKIPPED, RunFacts
from flcontrib_core.reports.charts import LEFT, WIDTH, client_curve, epoch_axis, span_short
from flcontrib_core.reports.drawing import (
    Chart,
    Scale,
    area,
    box,
    boxes,
    client_classes,
    curve,
    line,
    shortened,
    spread_apart,
    text,
    value_ticks,
)
from flcontrib_core.vocabulary import FloatArray
from flcontrib_core.words.numbers import signed

RIGHT = WIDTH - 150
WORTH_A_LABEL = 0.15
NEGLIGIBLE = 0.05


def evidence_chart(facts: RunFacts, client: str, window: tuple[int, int] | None, number: int) -> Chart:
    """Three rows: curve against the band of the others, probability of a change, contribution per epoch ± 95%."""
    x = Scale(0, facts.epochs + 0.5, LEFT, RIGHT)
    look = client_classes(facts.client_ids)[client]
    i = facts.position(client)
    tops, heights = (24.0, 266.0, 386.0), (200.0, 80.0, 130.0)
    bottom = tops[2] + heights[2]
    marks = []
    if window is not None:
        first, last = x(window[0] - 0.5), x(window[1] + 0.5)
        marks.append(box(first, tops[0] - 4, last - first, bottom - tops[0] + 4, f"window {look.split()[0]}"))
    quantiles, others = facts.band((client,))
    marks += _curve_row(facts, client, x, look, quantiles, others, tops[0], heights[0])
    marks += change_row(facts.change[:, i], x, look, tops[1], heights[1])
    marks += bars_row(facts.values[:, i], facts.half_widths[:, i], facts.state[:, i], x, tops[2], heights[2])
    marks.append(text(LEFT, tops[2] - 8, "Contribution per epoch ± 95%", "small strong"))
    marks += epoch_axis(x, facts.epochs, bottom + 4)
    return Chart(
        name=f"evidence-{number}",
        title=f"Evidence about {client}",
        alt=_alt(facts, client, window),
        width=WIDTH,
        height=bottom + 48,
        marks="".join(marks),
    )


def _curve_row(
    facts: RunFacts,
    client: str,
    x: Scale,
    look: str,
    quantiles: FloatArray,
    others: int,
    top: float,
    height: float,
) -> list[str]:
    i = facts.position(client)
    shown = np.concatenate([facts.credit[:, i], quantiles.ravel(), [0.0]])
    low, high = float(shown.min()), float(shown.max())
    y = Scale(low, high, top + height, top + 6)
    words = f"Running {facts.axis} credited; band: middle 50% and 80% of the others"
    marks = [text(LEFT, top - 8, words, "small strong"), *value_grid(y, low, high)]
    ends = [(shortened(client), y(float(facts.credit[-1, i])), f"who small {look}")]
    if others:
        xs = [x(t) for t in range(facts.epochs + 1)]
        rows = [[y(v) for v in q] for q in quantiles]
        marks += [area(xs, rows[0], rows[4], "band"), area(xs, rows[1], rows[3], "band")]
        marks.append(curve(zip(xs, rows[2], strict=True), "median"))
        ends.append((f"median of {others} others", rows[2][-1], "small second"))
    marks += client_curve(facts, client, x, y, look)
    places = spread_apart([e[1] for e in ends], 15.0, top, top + height)
    return marks + [text(RIGHT + 8, place + 4, e[0], e[2]) for e, place in zip(ends, places, strict=True)]


def change_row(change: FloatArray, x: Scale, look: str, top: float, height: float) -> list[str]:
    """Bars of the probability; neighbours that share one change are summed in words."""
    y = Scale(0.0, 1.0, top + height, top)
    marks = [text(LEFT, top - 14, "Probability that a new level begins at this epoch", "small strong")]
    marks += [line(LEFT, y(v), RIGHT, y(v), "grid" if v else "axis") for v in (0.0, 0.5, 1.0)]
    marks += [text(LEFT - 8, y(v) + 4, f"{v:g}", "end small second") for v in (0.0, 0.5, 1.0)]
    step = x(2) - x(1)
    known = np.nan_to_num(change)
    tall = [(x(t) - 0.36 * step, y(p), 0.72 * step, y(0) - y(p)) for t, p in enumerate(known) if t and p > 0.004]
    marks.append(boxes(tall, f"mark {look.split()[0]}"))
    for first, last, mass in change_groups(known):
        together = " together" if last > first else ""
        label = f"{span_short((first, last))}: {min(mass, 0.99):.2f}{together}"
        marks.append(
            text(x((first + last) / 2), y(float(known[first : last + 1].max())) - 4, label, "middle small second")
        )
    return marks


def change_groups(known: FloatArray) -> list[tuple[int, int, float]]:
    """Neighbouring epochs share the mass of one change: 20–21 with 0.49 and 0.48 are one change of 0.97."""
    groups: list[tuple[int, int, float]] = []
    for t in range(1, len(known)):
        if known[t] < NEGLIGIBLE:
            continue
        if groups and groups[-1][1] == t - 1:
            first, _, mass = groups[-1]
            groups[-1] = first, t, mass + float(known[t])
        else:
            groups.append((t, t, float(known[t])))
    return [g for g in groups if g[2] >= WORTH_A_LABEL]


def bars_row(
    values: FloatArray,
    half: FloatArray,
    state: np.ndarray,
    x: Scale,
    top: float,
    height: float,
    band: tuple[FloatArray, FloatArray] | None = None,
) -> list[str]:
    """Bars with intervals; hatched where not computed, a dot where absent. ``band``: (T + 1,) low and high, or NaN."""
    step = x(2) - x(1)
    reach = np.nan_to_num(half)
    known = [float(v) for v in np.concatenate([values - reach, values + reach, *(band or ())]) if v == v]
    low, high = min([0.0, *known]), max([0.0, *known]) or 1e-9
    y = Scale(low, high, top + height, top)
    marks = value_grid(y, low, high)
    skipped = [(x(t) - 0.4 * step, top, 0.8 * step, height) for t in np.flatnonzero(state == STATE_SKIPPED).tolist()]
    marks.append(boxes(skipped, "hatched"))
    for sign, look in ((1, "help"), (-1, "harm")):
        cells = [t for t in np.flatnonzero(state == STATE_COMPUTED).tolist() if values[t] * sign > 0]
        marks.append(
            boxes(
                [(x(t) - 0.36 * step, min(y(values[t]), y(0)), 0.72 * step, abs(y(values[t]) - y(0))) for t in cells],
                look,
            )
        )
    for t in np.flatnonzero((state == STATE_COMPUTED) & (reach > 0)).tolist():
        marks.append(line(x(t), y(values[t] - reach[t]), x(t), y(values[t] + reach[t]), "bar"))
    if band is not None:
        pairs = [(t, a, b) for t, (a, b) in enumerate(zip(*band, strict=True)) if a == a]
        marks.append(boxes([(x(t) - 0.5 * step, y(b), step, y(a) - y(b)) for t, a, b in pairs], "others"))
    absent = [(x(t) - 1.1, y(0) - 1.1, 2.2, 2.2) for t in range(1, len(state)) if state[t] == STATE_ABSENT]
    return [*marks, boxes(absent, "absent")]


def value_grid(y: Scale, low: float, high: float) -> list[str]:
    marks = []
    for v in value_ticks(low, high):
        marks += [line(LEFT, y(v), RIGHT, y(v), "axis" if v == 0 else "grid")]
        marks.append(text(LEFT - 8, y(v) + 4, signed(v, 2), "end small second"))
    return marks


def _alt(facts: RunFacts, client: str, window: tuple[int, int] | None) -> str:
    i = facts.position(client)
    where = "" if window is None else f" Marked window: epochs {span_short(window)}."
    groups = change_groups(np.nan_to_num(facts.change[:, i]))
    changes = ", ".join(f"{span_short((a, b))} ({min(p, 0.99):.2f})" for a, b, p in groups) or "none"
    computed = facts.state[1:, i] == STATE_COMPUTED
    harmful = int((facts.values[1:, i][computed] < 0).sum())
    return (
        f"{client}: running {facts.axis} ends at {signed(float(facts.credit[-1, i]), 2)}.{where} Probable changes at "
        f"{changes}. {harmful} of {int(computed.sum())} computed epochs are harmful."
    )
