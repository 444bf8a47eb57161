"""Round places on an axis with their words, the end of a colour scale, and labels that keep their distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from flcontrib_core.words import numbers


def epoch_ticks(epochs: int) -> list[int]:
    """1, 5, 10 … – at most about ten labels."""
    step = next(s for s in (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 10**9) if epochs / s <= 9)
    return sorted({1, *range(step, epochs + 1, step)}) if epochs else [0]


def signed_ticks(low: float, high: float, about: int = 5) -> dict[str, Any]:
    """Round tick positions with explicit signs, a real minus and a plain 0."""
    values, digits = _round_values(low, high, about)
    return {"tickvals": values, "ticktext": [_signed(v, digits) for v in values]}


def plain_ticks(low: float, high: float, about: int = 5) -> dict[str, Any]:
    """Round tick positions of what has no sign."""
    values, digits = _round_values(low, high, about)
    return {"tickvals": values, "ticktext": [numbers.plain(v, digits) for v in values]}


def percent_ticks(low: float, high: float, about: int = 5) -> dict[str, Any]:
    """Round shares: 0%, 5%, 10%."""
    values, digits = _round_values(100 * low, 100 * high, about)
    return {"tickvals": [v / 100 for v in values], "ticktext": [f"{v:.{digits}f}%" for v in values]}


def _round_values(low: float, high: float, about: int) -> tuple[list[float], int]:
    """About so many round values in a range, and the decimals they need."""
    if not high > low:
        return [], 0
    raw = (high - low) / about
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 2.5, 5, 10) if m * size >= raw)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    digits += 1 if abs(step * 10**digits - round(step * 10**digits)) > 1e-9 else 0
    return [n * step for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)], digits


def leading_digit_up(value: float) -> float:
    """To one leading digit, upwards, so that a colour scale ends at a readable number; 1 for nothing."""
    if not value > 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return float(math.ceil(value / size) * size)


def _signed(value: float, digits: int) -> str:
    text = f"{abs(value):.{digits}f}"
    return "0" if float(text) == 0 else ("+" if value > 0 else "−") + text


def value_range(series: Sequence[np.ndarray], room: float = 0.06) -> tuple[float, float]:
    """From the lowest to the highest number and zero, with some room at both ends."""
    joined = np.concatenate([*(np.ravel(s) for s in series), [0.0]])
    low, high = float(np.nanmin(joined)), float(np.nanmax(joined))
    space = (high - low or 1.0) * room
    return low - space, high + space


def spread_labels(positions: list[float], smallest_gap: float) -> list[float]:
    """Moves label positions apart so that neighbours keep the gap, staying as near as possible to their lines."""
    order = sorted(range(len(positions)), key=positions.__getitem__)
    groups: list[tuple[float, list[int]]] = []
    for i in order:
        groups.append((positions[i], [i]))
        while len(groups) > 1:
            (c1, m1), (c2, m2) = groups[-2], groups[-1]
            if c2 - c1 >= smallest_gap * (len(m1) + len(m2)) / 2:
                break
            merged = m1 + m2
            centre = sum(positions[k] for k in merged) / len(merged)
            groups[-2:] = [(centre, merged)]
    placed = list(positions)
    for centre, members in groups:
        first = centre - smallest_gap * (len(members) - 1) / 2
        for n, i in enumerate(members):
            placed[i] = first + n * smallest_gap
    return placed
