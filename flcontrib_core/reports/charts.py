"""What does the whole run look like? Running contributions with participation, and the ranking."""

from __future__ import annotations

import numpy as np

from flcontrib_core.reports.chart_facts import STATE_ABSENT, STATE_COMPUTED, STATE_SKIPPED, RunFacts
from flcontrib_core.reports.drawing import (
    Chart,
    Scale,
    area,
    box,
    boxes,
    client_classes,
    curve,
    dot,
    epoch_ticks,
    line,
    marker,
    shortened,
    spread_apart,
    text,
    value_ticks,
)
from flcontrib_core.words.numbers import signed
from flcontrib_core.words.report_words import total_status

WIDTH, LEFT = 960.0, 118.0
MOST_ROWS = 40
"""Rows of the strip, the heat map and the ranking; a larger run says how many are shown, the data holds all."""


def rows_of(facts: RunFacts) -> list[int]:
    """Which clients get a row of their own: alerted first, then by name; the largest totals where not all fit."""
    alerted = [facts.position(c) for c in facts.windows][:MOST_ROWS]
    rest = sorted(set(range(len(facts.client_ids))) - set(alerted), key=lambda i: -abs(facts.totals[i]))
    chosen = rest[: MOST_ROWS - len(alerted)]
    return alerted + sorted(chosen, key=lambda i: facts.client_ids[i])


def cumulative_chart(facts: RunFacts) -> Chart:
    """Alerted clients over the band of the others, their windows, and who took part when, on one epoch axis."""
    right, top, height = WIDTH - 150, 16.0, 290.0
    quantiles, others = facts.band(facts.focus)
    looks = client_classes(facts.client_ids)
    rails = [(c, w) for c in facts.focus for w in facts.windows[c]]
    x = Scale(0, facts.epochs + 0.5, LEFT, right)
    shown = [facts.credit[:, facts.position(c)] for c in facts.focus] + [np.append(quantiles.ravel(), 0.0)]
    low, high = float(min(s.min() for s in shown)), float(max(s.max() for s in shown))
    y = Scale(low, high + (high - low) * 0.03, top + height, top + 18.0 * len(rails))
    marks = _value_axis(y, low, high, right)
    for n, (client, window) in enumerate(rails):
        marks += _window(x, window, looks[client], n == 0, top, top + height)
    xs = [x(t) for t in range(facts.epochs + 1)]
    if others:
        rows = [[y(v) for v in q] for q in quantiles]
        marks += [area(xs, rows[0], rows[4], "band"), area(xs, rows[1], rows[3], "band")]
        marks.append(curve(zip(xs, rows[2], strict=True), "median"))
    for client in facts.focus:
        marks += client_curve(facts, client, x, y, looks[client])
    for n, (client, window) in enumerate(rails):
        height_of_rail = top + 18.0 * n + 6
        marks.append(
            line(x(window[0] - 0.5), height_of_rail, x(window[1] + 0.5), height_of_rail, f"rail {looks[client]}")
        )
        label = f"{shortened(client)} {span_short(window)}"
        marks.append(text(x(window[1] + 0.5) + 6, height_of_rail + 4, label, f"who small {looks[client]}"))
    marks += _end_labels(facts, y, right, quantiles, others, looks, (top, top + height))
    bottom = top + height
    rows_shown = rows_of(facts) if len(facts.client_ids) <= MOST_ROWS else []
    if rows_shown:
        marks.append(text(LEFT, bottom + 26, "Who took part", "small strong"))
        marks += _strip(facts, rows_shown, x, bottom + 34, looks)
        bottom += 34 + 15.0 * len(rows_shown)
    marks += epoch_axis(x, facts.epochs, bottom + 4)
    return Chart(
        "cumulative",
        f"Running {facts.axis} per client",
        _cumulative_alt(facts, quantiles, others),
        WIDTH,
        bottom + 52,
        "".join(marks),
    )


def client_curve(facts: RunFacts, client: str, x: Scale, y: Scale, look: str) -> list[str]:
    """Solid where the value is known, thin and dotted where it was filled in; a sign at every computed epoch."""
    i = facts.position(client)
    credit, state = facts.credit[:, i], facts.state[:, i]
    xs = [x(t) for t in range(facts.epochs + 1)]
    known = [y(v) if state[t] != STATE_SKIPPED else np.nan for t, v in enumerate(credit)]
    marks = []
    errors = np.where(state == STATE_COMPUTED, facts.half_widths[:, i], 0.0)
    if np.isfinite(errors).all() and errors.any():
        running = np.sqrt(np.cumsum(errors**2))
        lower, upper = [y(v) for v in credit - running], [y(v) for v in credit + running]
        marks.append(area(xs, lower, upper, f"range {look.split()[0]}"))
    marks.append(curve(((a, y(v)) for a, v in zip(xs, credit, strict=True)), f"filled-in {look.split()[0]}"))
    marks.append(curve(zip(xs, known, strict=True), f"line {look}"))
    if facts.epochs <= 80:
        marks += [marker(xs[t], y(credit[t]), look) for t in range(1, facts.epochs + 1) if state[t] == STATE_COMPUTED]
    return marks


def ranking_chart(facts: RunFacts) -> Chart:
    """Totals with their 95% interval, sorted; filled where the interval excludes zero, open otherwise."""
    order = facts.ranking()
    if len(order) > MOST_ROWS:
        order = order[: MOST_ROWS // 2] + order[-MOST_ROWS // 2 :]
    right, top, height = WIDTH - 170, 14.0, 24.0
    half = 1.96 * np.nan_to_num(facts.total_errors)
    low = float(min([0.0, *(facts.totals[i] - half[i] for i in order)]))
    high = float(max([0.0, *(facts.totals[i] + half[i] for i in order)]))
    x = Scale(low - 0.03 * (high - low), high + 0.03 * (high - low), LEFT, right)
    bottom = top + height * len(order)
    marks = [line(x(v), top, x(v), bottom, "axis" if v == 0 else "grid") for v in value_ticks(low, high)]
    marks += [text(x(v), bottom + 18, signed(v, 2), "middle small second") for v in value_ticks(low, high)]
    marks.append(text((LEFT + right) / 2, bottom + 38, f"{facts.axis} credited over the run", "middle small second"))
    for row, i in enumerate(order):
        y, total, name = top + row * height + height / 2, float(facts.totals[i]), facts.client_ids[i]
        alerted = " strong" if name in facts.windows else ""
        marks.append(text(LEFT - 8, y + 4, shortened(name), "end small" + alerted))
        marks.append(line(x(total - half[i]), y, x(total + half[i]), y, "bar"))
        sign = "help" if total > 0 else "harm"
        marks.append(dot(x(total), y, 5, sign if abs(total) > half[i] else "open"))
        note = total_status(float(facts.total_errors[i]), int((facts.state[1:, i] == STATE_SKIPPED).sum()))
        marks.append(text(right + 14, y + 4, f"{signed(total)}  {note}", "small"))
    alt = "Total per client, most helpful first: " + "; ".join(
        f"{facts.client_ids[i]} {signed(float(facts.totals[i]), 2)}" for i in order[:12]
    )
    return Chart("ranking", f"Total {facts.axis} per client", alt, WIDTH, bottom + 50, "".join(marks))


def epoch_axis(x: Scale, epochs: int, y: float) -> list[str]:
    marks = [line(x.first, y, x.last, y, "axis")]
    for t in epoch_ticks(epochs):
        marks += [line(x(t), y, x(t), y + 4, "axis"), text(x(t), y + 18, str(t), "middle small second")]
    return [*marks, text((x.first + x.last) / 2, y + 36, "Epoch", "middle small second")]


def span_short(window: tuple[int, int]) -> str:
    return str(window[0]) if window[0] == window[1] else f"{window[0]}–{window[1]}"


def _value_axis(y: Scale, low: float, high: float, right: float) -> list[str]:
    marks = []
    for v in value_ticks(low, high):
        marks += [line(LEFT, y(v), right, y(v), "axis" if v == 0 else "grid")]
        marks.append(text(LEFT - 8, y(v) + 4, signed(v, 2), "end small second"))
    return marks


def _window(x: Scale, window: tuple[int, int], look: str, strongest: bool, top: float, bottom: float) -> list[str]:
    """Strongest: a light fill under the data. Further ones: dotted edges (two fills would mix to a third colour)."""
    first, last = x(window[0] - 0.5), x(window[1] + 0.5)
    colour = look.split()[0]
    if strongest:
        return [box(first, top, last - first, bottom - top, f"window {colour}")]
    return [line(edge, top, edge, bottom, f"edge {colour}") for edge in (first, last)]


def _end_labels(
    facts: RunFacts,
    y: Scale,
    right: float,
    quantiles: np.ndarray,
    others: int,
    looks: dict[str, str],
    bounds: tuple[float, float],
) -> list[str]:
    ends = [(f"{shortened(c)}", y(facts.credit[-1, facts.position(c)]), f"who small {looks[c]}") for c in facts.focus]
    if others:
        label = f"{others} {'other' if others == 1 else 'others'}" if facts.focus else f"all {others}"
        ends.append((f"median of {label}", y(quantiles[2, -1]), "small second"))
    places = spread_apart([e[1] for e in ends], 15.0, *bounds)
    return [text(right + 8, place + 4, e[0], e[2]) for e, place in zip(ends, places, strict=True)]


def _strip(facts: RunFacts, rows: list[int], x: Scale, top: float, looks: dict[str, str]) -> list[str]:
    step = x(2) - x(1)
    marks: list[str] = []
    full: list[tuple[float, float, float, float]] = []
    hatched: list[tuple[float, float, float, float]] = []
    dots: list[tuple[float, float, float, float]] = []
    for row, i in enumerate(rows):
        y, name = top + 15.0 * row, facts.client_ids[i]
        look = f"who {looks[name]}" if name in facts.windows else "second"
        marks.append(text(LEFT - 8, y + 11, shortened(name), f"end small {look}"))
        for t in range(1, facts.epochs + 1):
            cell = (x(t) - 0.4 * step, y + 2, 0.8 * step, 10.0)
            if facts.state[t, i] == STATE_ABSENT:
                dots.append((x(t) - 1, y + 6, 2.0, 2.0))
            else:
                (full if facts.state[t, i] == STATE_COMPUTED else hatched).append(cell)
    return [*marks, boxes(full, "ink"), boxes(hatched, "hatched"), boxes(dots, "absent")]


def _cumulative_alt(facts: RunFacts, quantiles: np.ndarray, others: int) -> str:
    lines = [f"Running {facts.axis} per client over {facts.epochs} epochs."]
    for client in facts.focus:
        ends = signed(float(facts.credit[-1, facts.position(client)]), 2)
        marked = ", ".join(span_short(w) for w in facts.windows[client])
        lines.append(f"{client} ends at {ends}" + (f", marked window {marked}." if marked else "."))
    if others:
        between = f"{signed(float(quantiles[0, -1]), 2)} and {signed(float(quantiles[-1, -1]), 2)}"
        lines.append(f"The middle 80% of the {others} others end between {between}.")
    return " ".join(lines)
