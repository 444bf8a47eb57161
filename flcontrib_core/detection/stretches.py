"""Stretches of a client's participations in which something stays beyond a limit: the interval with the largest sum.

Page's cumulative sum, read backwards: each participation adds its excess over the limit or takes off what it falls
short by, so that one calm epoch inside does not break a stretch and one loud epoch alone does not make one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.vocabulary import FloatArray, IntArray

MOST_STRETCHES = 4
"""Per client: on/off behaviour has a few."""


@dataclass(frozen=True)
class Stretch:
    """Some of a client's participations, in a row."""

    client: int
    epochs: tuple[int, ...]
    """from the first to the last of the stretch, every participation that could be judged"""
    total: float
    """the sum of the excesses"""


def largest_totals(excess: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """(m,) largest sum over an interval of rows, its first and its last row; NaN cells (T + 1, m) do not count.

    >>> largest_totals(np.array([[1.0], [-0.5], [np.nan], [2.0], [-4.0]]))
    (array([2.5]), array([0]), array([3]))
    """
    known = np.isfinite(excess)
    gains = np.where(known, excess, 0.0)
    clients = excess.shape[1]
    running, began = np.zeros(clients), np.zeros(clients, dtype=np.int64)
    best, first, last = np.zeros(clients), np.zeros(clients, dtype=np.int64), np.full(clients, -1)
    for t, row in enumerate(gains):
        afresh = known[t] & (running <= 0)
        began[afresh] = t
        running = np.where(afresh, row, running + row)
        larger = known[t] & (running > best)
        best[larger], first[larger], last[larger] = running[larger], began[larger], t
    return best, first, last


def stretches(excess: FloatArray, level: float) -> tuple[Stretch, ...]:
    """Every stretch with a total above ``level``, client by client, in the order of time."""
    cells = excess.copy()
    found: list[Stretch] = []
    for _ in range(MOST_STRETCHES):
        total, first, last = largest_totals(cells)
        loud = np.flatnonzero(total > max(level, 0.0))
        if not len(loud):
            break
        for i in loud:
            rows = np.arange(first[i], last[i] + 1)
            epochs = rows[np.isfinite(cells[rows, i])]
            found.append(Stretch(int(i), tuple(epochs.tolist()), float(total[i])))
            cells[rows, i] = np.nan
        quiet = np.ones(cells.shape[1], dtype=bool)
        quiet[loud] = False
        cells[:, quiet] = np.nan
    return tuple(sorted(found, key=lambda s: (s.client, s.epochs)))
