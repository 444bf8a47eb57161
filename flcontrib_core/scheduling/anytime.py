"""Very good two-sided schedules at once, with a bound on how far from the best they are.

Bound and starts come from fictitious play, further starts from top utility and from greedy building in both
directions (without the greedy starts the search lost up to .37); swaps and flips improve them all together; a few
kicked copies of the best leave the nearest local optimum. The result carries its *proven* absolute gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from flcontrib_core.blas import one_blas_thread
from flcontrib_core.scheduling.bounds import ENOUGH_ROUNDS, FictitiousPlay
from flcontrib_core.scheduling.local_search import Neighbourhood
from flcontrib_core.scheduling.objectives import BoundedSchedule, ScheduleMatrix, TwoSidedProgram, distinct
from flcontrib_core.scheduling.sorting import best_by_sorting
from flcontrib_core.vocabulary import BoolArray, FloatArray

_ROUNDS_AT_ONCE = 50
_STALLED = 0.02
"""Fictitious play stops when fifty more rounds close less than this share of the remaining gap."""
_SURVIVORS = 4
_KICK_ROUNDS = 4
_SHORT_RUN = 40
ORDINARY_CELLS = 50_000
"""epochs × clients up to which the search makes its full effort; larger runs get fewer starts and kicks."""


def best_by_search(program: TwoSidedProgram, seed: int = 0) -> BoundedSchedule:
    """Which schedule does bounded multi-start search find for eq. (two_sided_fairness)?

    Deterministic for a seed; the work depends on the size of the run only, never on the clock.
    """
    with one_blas_thread():
        only = _only_schedule(program)
        if only is not None:
            return BoundedSchedule(only, float(program.values(only[None, :])[0]), "anytime")
        effort = ORDINARY_CELLS / (program.terms.epoch_count * max(1, program.terms.client_count))
        played, mean_schedule, bound = _play(program)
        starts = np.vstack(
            [
                _best(program, played, int(np.clip(8 * effort, 3, 12))),
                _best(program, np.vstack([*_built(program, width=_greedy_width(effort))]), 3),
                _completed(program, program.terms.weights),
                _completed(program, mean_schedule),
            ]
        )
        neighbourhood = Neighbourhood(program)
        schedules, values = neighbourhood.improve(distinct(starts))
        rng = np.random.default_rng(seed)
        for _ in range(int(np.clip(2 * effort, 0, _KICK_ROUNDS))):
            before = values.max()
            if bound - before <= program.tolerance:
                break
            survivors = _best(program, schedules, _SURVIVORS)
            improved, improved_values = neighbourhood.improve(neighbourhood.kick(survivors, 4, rng))
            schedules = np.vstack([survivors, improved])
            values = np.append(program.values(survivors), improved_values)
            if program.terms.epoch_count <= _SHORT_RUN and values.max() <= before + program.tolerance:
                break  # four exchanged epochs are much of a short run: what one round misses, the next seldom finds
        best = int(values.argmax())
        return BoundedSchedule(schedules[best], max(bound, float(values[best])), "anytime", found_by_search=True)


def upper_bound(program: TwoSidedProgram) -> float:
    """A number that no schedule of the program exceeds, without looking for a schedule."""
    with one_blas_thread():
        only = _only_schedule(program)
        return _play(program)[2] if only is None else float(program.values(only[None, :])[0])


def _only_schedule(program: TwoSidedProgram) -> BoolArray | None:
    """The single admitted schedule, where the budget leaves no choice."""
    if not program.at_most and program.k == program.terms.epoch_count:
        return np.ones(program.terms.epoch_count, dtype=np.bool_)
    return program.required if program.k == int(program.required.sum()) else None


def _play(program: TwoSidedProgram) -> tuple[ScheduleMatrix, FloatArray, float]:
    """Play until the gap closes or stalls: distinct schedules played, their mean, and the bound."""
    play = FictitiousPlay(program.terms, program.gamma, np.array([program.k]), program.at_most, program.required)
    played = np.empty((0, program.terms.epoch_count), dtype=np.bool_)
    best, before = -np.inf, np.inf
    for _ in range(0, ENOUGH_ROUNDS, _ROUNDS_AT_ONCE):
        fresh = distinct(play.advance(_ROUNDS_AT_ONCE))
        fresh = fresh[program.admits(fresh)]
        best = max(best, float(program.values(fresh).max(initial=-np.inf)))
        played = np.vstack([played, fresh])
        bound = float(play.bounds[0])
        if bound - best <= program.tolerance or before - bound < _STALLED * (bound - best):
            break
        before = bound
    return distinct(played), play.mean_schedule[0], bound


def _best(program: TwoSidedProgram, schedules: ScheduleMatrix, count: int) -> ScheduleMatrix:
    """The ``count`` best distinct ones that the program admits."""
    admitted = distinct(schedules[program.admits(schedules)])
    return admitted[np.argsort(-program.values(admitted), kind="stable")[:count]]


def _greedy_width(effort: float) -> int:
    return int(np.clip(32 * effort, 12, 64))


def _built(program: TwoSidedProgram, width: int) -> Iterator[ScheduleMatrix]:
    """The stations of forward and backward greedy building."""
    neighbourhood = Neighbourhood(program)
    T, required = program.terms.epoch_count, program.required
    yield required[None, :]
    yield from (z[None, :] for z in islice(neighbourhood.grow(required, width), program.k - int(required.sum())))
    every_epoch = np.ones(T, dtype=np.bool_)
    removals = None if program.at_most else T - program.k
    yield from (z[None, :] for z in islice(neighbourhood.shrink(every_epoch, width), removals))


def _completed(program: TwoSidedProgram, preference: FloatArray) -> ScheduleMatrix:
    """(1, T) the forced epochs and then the most preferred ones up to k."""
    return best_by_sorting(np.where(program.required, preference.max() + 1.0, preference), program.k)[None, :]
