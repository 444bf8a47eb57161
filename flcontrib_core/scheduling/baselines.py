"""Plain rules: epochs evenly spread or at random, and the part of an audit budget that ignores utility."""

from __future__ import annotations

import numpy as np

from flcontrib_core.scheduling.objectives import ScheduleMatrix
from flcontrib_core.scheduling.schedule import AuditSpread
from flcontrib_core.vocabulary import BoolArray


def evenly_spread(epochs: int, k: int) -> BoolArray:
    """(T,) the middles of k equal stretches. Example: 3 of 12 epochs are 3, 7 and 11."""
    schedule = np.zeros(epochs, dtype=np.bool_)
    schedule[((2 * np.arange(k) + 1) * epochs) // (2 * k) if k else []] = True
    return schedule


def at_random(epochs: int, k: int, seed: int) -> BoolArray:
    """(T,) the first k epochs of one seeded shuffle, so that a larger budget only adds epochs."""
    schedule = np.zeros(epochs, dtype=np.bool_)
    schedule[np.random.default_rng(seed).permutation(epochs)[:k]] = True
    return schedule


def audit_core(epochs: int, k: int, share: float, spread: AuditSpread, seed: int) -> BoolArray:
    """(T,) the part of an audit budget that does not look at utility: round(share · k) epochs over the whole run.

    Utility-weighted schedules detected worse than random ones at equal budget, because poisoned windows lost their
    clean neighbours; this part gives them back.
    """
    count = round(share * k)
    return evenly_spread(epochs, count) if spread is AuditSpread.STRIDE else at_random(epochs, count, seed)


def audit_cores(epochs: int, share: float, spread: AuditSpread, seed: int) -> ScheduleMatrix:
    """(T, T) row k − 1 is ``audit_core`` of budget k."""
    return np.array([audit_core(epochs, k, share, spread, seed) for k in range(1, epochs + 1)])
