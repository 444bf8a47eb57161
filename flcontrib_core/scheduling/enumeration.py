"""The best two-sided schedule by enumeration, where there are few enough epochs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from flcontrib_core.errors import ScheduleError
from flcontrib_core.scheduling.objectives import ScheduleMatrix, TwoSidedProgram
from flcontrib_core.vocabulary import BoolArray

LARGEST_EPOCH_COUNT = 16
_CELLS_AT_ONCE = 1 << 20


@lru_cache(maxsize=8)
def every_schedule(epochs: int) -> ScheduleMatrix:
    """(2^epochs, epochs) all subsets, in the order of the number whose highest bit is epoch 1."""
    if epochs > LARGEST_EPOCH_COUNT:
        raise ScheduleError(f"{epochs} free epochs have 2^{epochs} schedules; enumeration stops at 2^16")
    numbers = np.arange(1 << epochs, dtype=np.uint32)[:, None]
    schedules: ScheduleMatrix = (numbers >> np.arange(epochs - 1, -1, -1, dtype=np.uint32)) & 1 != 0
    schedules.flags.writeable = False
    return schedules


def admitted_schedules(program: TwoSidedProgram) -> ScheduleMatrix:
    """(schedules, T) all that keep the budget and hold the forced epochs."""
    required = program.required
    free = every_schedule(int((~required).sum()))
    room = program.k - int(required.sum())
    size = free.sum(axis=1)
    fitting: ScheduleMatrix = free[size <= room if program.at_most else size == room]
    if not required.any():
        return fitting
    schedules = np.ones((len(fitting), len(required)), dtype=np.bool_)
    schedules[:, ~required] = fitting
    return schedules


def best_by_enumeration(program: TwoSidedProgram) -> BoolArray:
    """(T,) the optimum of eq. (two_sided_fairness) by looking at every schedule.

    Among equals (to 1e-9) the one that chooses earlier epochs. Raises ``ScheduleError`` above 16 free epochs.
    """
    schedules = admitted_schedules(program)
    at_once = max(1, _CELLS_AT_ONCE // max(1, program.terms.client_count))
    values = np.concatenate(
        [program.values(schedules[a : a + at_once]) for a in range(0, len(schedules), at_once)] or [np.zeros(0)]
    )
    best: BoolArray = schedules[np.flatnonzero(values >= values.max() - program.tolerance)[-1]]
    return best.copy()
