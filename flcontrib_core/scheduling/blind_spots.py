"""Blind spots: clients, and runs of their epochs, that a schedule never looks at, and the budget that would."""

from __future__ import annotations

import numpy as np

from flcontrib_core.scheduling.objectives import ScheduleMatrix
from flcontrib_core.scheduling.schedule import BlindSpot, SchedulingProblem
from flcontrib_core.vocabulary import BoolArray, IntArray

_BUDGETS_AT_ONCE = 32


def blind_run_limit(epochs: int) -> int:
    """How many epochs may pass without a computed participation before a run is called blind: a quarter of the run.

    Example: 8 of 30 epochs. A run of up to two epochs is never blind: no window that short is ever read alone.
    """
    return max(2, round(epochs / 4))


def find_blind_spots(problem: SchedulingProblem, schedule: BoolArray) -> tuple[BlindSpot, ...]:
    """Every maximal run of a client's participations that are not computed, where it is longer than the limit.

    A run goes from its first to its last missed participation; epochs in which the client was absent do not end it.
    Runs of a client that the schedule never sees are listed whatever their length. Longest first, then by client.
    """
    limit = blind_run_limit(problem.epoch_count)
    never_seen = ~problem.participated[schedule].any(axis=0)
    longest = _longest_runs(problem.participated, schedule[None, :])[0]
    spots = []
    for i in np.flatnonzero(never_seen | (longest > limit)):
        client = problem.client_ids[i]
        epochs = np.flatnonzero(problem.participated[:, i])
        computed = schedule[epochs]
        run_of = np.cumsum(computed)  # a computed participation starts a new run
        for run in np.unique(run_of[~computed]):
            missed = epochs[(run_of == run) & ~computed]
            if not computed.any() or missed[-1] - missed[0] + 1 > limit:
                spots.append(BlindSpot(client, int(missed[0]) + 1, int(missed[-1]) + 1, len(missed)))
    order = {client: i for i, client in enumerate(problem.client_ids)}
    return tuple(sorted(spots, key=lambda s: (s.first - s.last, order[s.client], s.first)))


def unseen_clients(problem: SchedulingProblem, schedule: BoolArray) -> tuple[str, ...]:
    """The clients that took part, but never in a chosen epoch."""
    blind = np.ravel(problem.participated.any(axis=0) & ~problem.participated[schedule].any(axis=0))
    return tuple(client for client, is_blind in zip(problem.client_ids, blind, strict=True) if is_blind)


def smallest_budgets(
    problem: SchedulingProblem, schedules: ScheduleMatrix, above: int
) -> tuple[int | None, int | None]:
    """The smallest k > ``above`` whose schedule sees every client, and the smallest without any blind spot.

    ``schedules`` (T, T) holds the schedule of budget k in row k − 1. None where no budget of this mode does.
    """
    limit = blind_run_limit(problem.epoch_count)
    took_part = problem.participated.any(axis=0)
    without_clients: int | None = None
    for start in range(above, len(schedules), _BUDGETS_AT_ONCE):
        rows = schedules[start : start + _BUDGETS_AT_ONCE]
        seen = rows.astype(np.float64) @ problem.participated > 0
        all_seen = (seen | ~took_part).all(axis=1)
        if without_clients is None and all_seen.any():
            without_clients = start + 1 + int(all_seen.argmax())
        clear = all_seen & (_longest_runs(problem.participated, rows).max(axis=1, initial=0) <= limit)
        if clear.any():
            return without_clients, start + 1 + int(clear.argmax())
    return without_clients, None


def _longest_runs(participated: BoolArray, schedules: ScheduleMatrix) -> IntArray:
    """(schedules, clients) length in epochs of the longest run of missed participations."""
    K, m = len(schedules), participated.shape[1]
    first = np.full((K, m), -1)
    longest = np.zeros((K, m), dtype=np.int64)
    for t, taking_part in enumerate(participated):
        missed = taking_part & ~schedules[:, t, None]
        first[taking_part & schedules[:, t, None]] = -1
        first[missed & (first < 0)] = t
        np.maximum(longest, np.where(missed, t + 1 - first, 0), out=longest)
    return longest
