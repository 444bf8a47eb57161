"""In which epochs did whom help or harm? Clients × epochs, the three states of a cell visibly apart."""

from __future__ import annotations

import numpy as np

from flcontrib_core.reports.chart_facts import STATE_ABSENT, STATE_COMPUTED, STATE_SKIPPED, RunFacts
from flcontrib_core.reports.charts import LEFT, WIDTH, epoch_axis, rows_of
from flcontrib_core.reports.drawing import HEAT_LEVELS, Chart, Scale, box, boxes, dot, line, shortened, text
from flcontrib_core.words.numbers import signed


def heat_map_chart(facts: RunFacts) -> Chart:
    """Clients × epochs: filled = computed, hatched = took part but not computed, dot = absent; windows outlined."""
    rows = rows_of(facts)
    right, top, height = WIDTH - 110, 92.0, 22.0
    x = Scale(0.5, facts.epochs + 0.5, LEFT, right)
    limit = heat_limit(facts)
    step = (right - LEFT) / max(facts.epochs, 1)
    levels: dict[str, list[tuple[float, float, float, float]]] = {}
    dots: list[tuple[float, float, float, float]] = []
    outlines: list[str] = []
    marks = _gain_bars(facts, x, step)
    for row, i in enumerate(rows):
        y = top + row * height
        name = facts.client_ids[i]
        marks.append(
            text(LEFT - 8, y + 15, shortened(name), "end small" + (" strong" if name in facts.windows else ""))
        )
        for t in range(1, facts.epochs + 1):
            cell = (x(t) - 0.46 * step, y + 1, 0.92 * step, height - 2)
            if facts.state[t, i] == STATE_COMPUTED:
                levels.setdefault(f"h{heat_level(float(facts.values[t, i]), limit)}", []).append(cell)
            elif facts.state[t, i] == STATE_SKIPPED:
                levels.setdefault("hatched", []).append(cell)
            else:
                size = min(2.4, step * 0.5)
                dots.append((x(t) - size / 2, y + height / 2 - size / 2, size, size))
        marks.append(text(WIDTH - 8, y + 15, signed(float(facts.totals[i]), 2), "end small"))
        for first, last in facts.windows.get(name, ()):
            outlines.append(box(x(first) - 0.5 * step, y, (last - first + 1) * step, height, "outline"))
    marks += [boxes(cells, look) for look, cells in sorted(levels.items())]
    marks += [boxes(dots, "absent"), *outlines]
    bottom = top + height * len(rows)
    marks.append(text(WIDTH - 8, top - 8, "Total", "end small strong"))
    marks += epoch_axis(x, facts.epochs, bottom + 2)
    marks += _heat_key(limit, bottom + 56)
    title = f"{facts.axis.capitalize()} per client and epoch"
    alt = f"{title}; colours end at ±{limit:.2g}. " + _states_alt(facts)
    return Chart("heat-map", title, alt, WIDTH, bottom + 92, "".join(marks))


def heat_limit(facts: RunFacts) -> float:
    """Where the colours end: the 95% quantile of sizes after epoch 1, which would flatten the rest."""
    sizes = np.abs(facts.values[2:] if facts.epochs > 1 else facts.values[1:])
    known = sizes[np.isfinite(sizes) & (sizes > 0)]
    return float(np.quantile(known, 0.95)) if len(known) else 1.0


def heat_level(value: float, limit: float) -> int:
    middle = HEAT_LEVELS // 2
    return int(np.clip(round(middle + value / limit * middle), 0, HEAT_LEVELS - 1))


def _gain_bars(facts: RunFacts, x: Scale, step: float) -> list[str]:
    """The model's gain of each epoch above the cells; a first bar far above the others is cut and labelled."""
    sizes = np.abs(facts.gain[1:])
    ordered = np.sort(sizes)[::-1]
    most = float(ordered[0]) if len(ordered) else 0.0
    if len(ordered) > 1 and most > 2.5 * ordered[1] > 0:
        most = float(ordered[1]) * 1.3
    most = most or 1.0
    base, room = 74.0, 46.0
    marks = [
        text(LEFT, 14, f"Model gain per epoch ({facts.axis})", "small strong"),
        line(LEFT, base, x.last, base, "axis"),
    ]
    for t in range(1, facts.epochs + 1):
        gain = float(facts.gain[t])
        tall = min(abs(gain) / most, 1.0) * (room if gain > 0 else 12.0)
        top = base - tall if gain > 0 else base
        marks.append(box(x(t) - 0.4 * step, top, 0.8 * step, tall, "help" if gain > 0 else "harm"))
        if abs(gain) > most:
            marks.append(text(x(t) + 0.5 * step + 3, base - room + 10, signed(gain, 2), "small second"))
    return marks


def _heat_key(limit: float, y: float) -> list[str]:
    width = 9.0
    marks = [box(LEFT + n * width, y, width + 0.5, 10, f"h{n}") for n in range(HEAT_LEVELS)]
    end = LEFT + width * HEAT_LEVELS
    marks += [
        text(LEFT, y + 25, f"≤ −{limit:.2g}", "small second"),
        text((LEFT + end) / 2, y + 25, "0", "middle small second"),
        text(end, y + 25, f"≥ +{limit:.2g}", "end small second"),
        box(end + 34, y, 14, 11, "hatched"),
        text(end + 54, y + 10, "took part, not computed", "small second"),
        dot(end + 218, y + 6, 1.4, "absent"),
        text(end + 228, y + 10, "absent", "small second"),
        box(end + 290, y, 14, 11, "outline"),
        text(end + 310, y + 10, "window of an alert", "small second"),
    ]
    return marks


def _states_alt(facts: RunFacts) -> str:
    counts = [int((facts.state[1:] == s).sum()) for s in (STATE_COMPUTED, STATE_SKIPPED, STATE_ABSENT)]
    return f"{counts[0]} cells computed, {counts[1]} took part but not computed, {counts[2]} absent."
