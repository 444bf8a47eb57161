"""Separable programs – one-sided, lower bound, coverage alone – solved by sorting."""

from __future__ import annotations

import numpy as np

from flcontrib_core.scheduling.objectives import TIE, ScheduleMatrix, in_order_of
from flcontrib_core.vocabulary import BoolArray, FloatArray


def best_by_sorting(coefficients: FloatArray, k: int, at_most: bool = False) -> BoolArray:
    """(T,) the k epochs with the largest coefficients.

    The objective is a sum over the chosen epochs, so the largest k are an optimum; "at most k" keeps only those that
    add something. Ties go to the earlier epoch. Example: coefficients (.2, −.1, .5), k = 2: epochs 1 and 3.
    """
    schedule = np.zeros(len(coefficients), dtype=np.bool_)
    schedule[in_order_of(coefficients)[:k]] = True
    return schedule & (coefficients > TIE) if at_most else schedule


def best_of_every_size(coefficients: FloatArray, at_most: bool = False) -> ScheduleMatrix:
    """(T, T) row k − 1 is the answer for budget k: one sort serves them all."""
    T = len(coefficients)
    rank = np.empty(T, dtype=np.int64)
    rank[in_order_of(coefficients)] = np.arange(T)
    schedules = rank[None, :] < np.arange(1, T + 1)[:, None]
    return schedules & (coefficients > TIE) if at_most else schedules
