"""The two-sided schedules of all budgets k = 1 … T, and their bounds, in one go.

One pull bounds all budgets, one greedy path passes through all of them, and neighbouring budgets teach each other:
adding the best epoch to the answer for k − 1, or removing the least useful of the one for k + 1, starts k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.blas import one_blas_thread
from flcontrib_core.scheduling.bounds import FictitiousPlay, bound_for_every_budget
from flcontrib_core.scheduling.enumeration import LARGEST_EPOCH_COUNT, best_by_enumeration
from flcontrib_core.scheduling.local_search import Neighbourhood
from flcontrib_core.scheduling.objectives import ProgramTerms, ScheduleMatrix, TwoSidedProgram, in_order_of
from flcontrib_core.vocabulary import FloatArray, IntArray

_ANCHORS = 8
"""Budgets for which a pull is found; each of them bounds all the others."""
_ROUNDS = 200
_KICKS = 3
_ORDINARY_CELLS = 6_400
"""epochs × clients up to which every budget gets the full effort."""


@dataclass(frozen=True)
class EveryBudget:
    """Row k − 1 belongs to budget k."""

    schedules: ScheduleMatrix
    """(T, T)"""
    values: FloatArray
    """(T,) their objectives"""
    bounds: FloatArray
    """(T,) no schedule of that budget exceeds this"""
    pulls: FloatArray
    """(anchors, T) what the bounds were proved with, valid for every other γ too; empty where they are exact"""

    @property
    def found_by_search(self) -> bool:
        """Did the search find schedules, rather than a rule?"""
        return len(self.pulls) > 0


def two_sided_for_every_budget(terms: ProgramTerms, gamma: float, seed: int = 0) -> EveryBudget:
    """Solve eq. (two_sided_fairness), exactly k epochs, for all k: proved up to 16 epochs, by bounded search above."""
    T = terms.epoch_count
    if T <= LARGEST_EPOCH_COUNT:
        return _enumerated(terms, gamma, np.zeros((T, T), dtype=np.bool_), at_most=False)
    with one_blas_thread():
        effort = _effort(terms)
        play = _play_anchors(terms, gamma)
        program = TwoSidedProgram(terms, gamma, T)
        width = int(np.clip(24 * effort, 8, 32))
        none = np.zeros(T, dtype=np.bool_)
        neighbourhood = _neighbourhood(program)
        forward = np.array(list(neighbourhood.grow(none, width)))
        backward = np.array([~none, *neighbourhood.shrink(~none, width)])[T - 1 :: -1]
        paths = np.concatenate([_starting_paths(terms, gamma, play), forward[None], backward[None]])
        answers = _leaders(program, paths, count=3 if effort >= 0.5 else 1)
        for _ in range(2 if effort >= 0.1 else 1):
            answers = _learn_from_neighbours(program, *answers)
        if effort >= 0.5:
            kicked = neighbourhood.kick(answers[0], _KICKS, np.random.default_rng(seed))
            answers = _offer(program, *answers, kicked, np.repeat(np.arange(T), _KICKS))
            answers = _learn_from_neighbours(program, *answers)
    schedules, values = answers
    bounds = np.maximum(bound_for_every_budget(terms, gamma, play.pulls), values)
    return EveryBudget(schedules, values, bounds, play.pulls)


def completed_for_every_budget(
    terms: ProgramTerms, gamma: float, required: ScheduleMatrix, at_most: bool
) -> EveryBudget:
    """The same where budget k must hold the epochs ``required[k − 1]`` (T, T): the audit mode's frontier."""
    T = terms.epoch_count
    if T <= LARGEST_EPOCH_COUNT:
        return _enumerated(terms, gamma, required, at_most)
    with one_blas_thread():
        play = _play_anchors(terms, gamma)
        program = TwoSidedProgram(terms, gamma, T, at_most)
        paths = _starting_paths(terms, gamma, play, required)
        schedules, values = _leaders(program, paths, count=2 if _effort(terms) >= 0.5 else 1, required=required)
    bounds = np.maximum(bound_for_every_budget(terms, gamma, play.pulls, required, at_most), values)
    return EveryBudget(schedules, values, bounds, play.pulls)


def evaluated_for_every_budget(terms: ProgramTerms, gamma: float, schedules: ScheduleMatrix) -> EveryBudget:
    """Schedules that a plain rule gave (T, T), valued and bounded by the two-sided objective."""
    values = terms.two_sided(schedules, gamma)
    if terms.epoch_count <= LARGEST_EPOCH_COUNT:
        best = two_sided_for_every_budget(terms, gamma)
        return EveryBudget(schedules, values, best.values, best.pulls)
    with one_blas_thread():
        pulls = _play_anchors(terms, gamma).pulls
    return EveryBudget(schedules, values, np.maximum(bound_for_every_budget(terms, gamma, pulls), values), pulls)


def as_at_most(answer: EveryBudget) -> EveryBudget:
    """The answers for "at most k" from those for exactly k: the best smaller budget, or no epoch at all."""
    T = len(answer.values)
    values = np.append(0.0, answer.values)
    best = np.array([int(np.argmax(values[: k + 1])) for k in range(1, T + 1)])
    schedules = np.vstack([np.zeros((1, T), dtype=np.bool_), answer.schedules])[best]
    bounds = np.maximum.accumulate(np.append(0.0, answer.bounds))[1:]
    return EveryBudget(schedules, values[best], bounds, answer.pulls)


def reused_between(terms: ProgramTerms, gamma: float, below: EveryBudget, above: EveryBudget, t: float) -> EveryBudget:
    """The answers at a γ between two solved ones, without solving: γ = (1 − t)·γ_below + t·γ_above.

    The optimum is convex in γ (a maximum of lines U − γG), so the chord of two bounds bounds everything between;
    each pull is a bound of its own. The better neighbour of each budget, improved, is the schedule.
    """
    T = terms.epoch_count
    program = TwoSidedProgram(terms, gamma, T)
    chord = (1 - t) * below.bounds + t * above.bounds
    with one_blas_thread():
        schedules, values = _leaders(program, np.stack([below.schedules, above.schedules]), count=1)
    pulls = np.vstack([below.pulls, above.pulls])
    own = bound_for_every_budget(terms, gamma, pulls) if len(pulls) else np.full(T, np.inf)
    return EveryBudget(schedules, values, np.maximum(np.minimum(chord, own), values), pulls)


def _effort(terms: ProgramTerms) -> float:
    return _ORDINARY_CELLS / (terms.epoch_count * max(1, terms.client_count))


def _neighbourhood(program: TwoSidedProgram) -> Neighbourhood:
    return Neighbourhood(program, width=8 if _effort(program.terms) >= 0.5 else 4)


def _enumerated(terms: ProgramTerms, gamma: float, required: ScheduleMatrix, at_most: bool) -> EveryBudget:
    T = terms.epoch_count
    best = np.array(
        [best_by_enumeration(TwoSidedProgram(terms, gamma, k, at_most, required[k - 1])) for k in range(1, T + 1)]
    )
    values = terms.two_sided(best, gamma)
    return EveryBudget(best, values, values, np.zeros((0, T)))


def _play_anchors(terms: ProgramTerms, gamma: float) -> FictitiousPlay:
    T = terms.epoch_count
    play = FictitiousPlay(terms, gamma, _anchors(T), at_most=False, required=np.zeros(T, dtype=np.bool_))
    play.advance(int(np.clip(_ROUNDS * _effort(terms) ** 0.5, 100, _ROUNDS)))
    return play


def _anchors(epochs: int) -> IntArray:
    """The budgets for which pulls are found: evenly over 1 … T, without the ends."""
    return np.unique(np.linspace(1, epochs, _ANCHORS + 2).astype(np.int64)[1:-1])


def _starting_paths(
    terms: ProgramTerms, gamma: float, play: FictitiousPlay, required: ScheduleMatrix | None = None
) -> ScheduleMatrix:
    """(paths, T, T) per path the k most preferred epochs of each budget, required ones first.

    Preferred by weight, by how often the nearest anchors played an epoch, and by what it is worth to them.
    """
    T = terms.epoch_count
    worth = terms.weights - gamma / terms.pair_divisor * play.pulls
    anchors = _anchors(T)
    above = np.minimum(np.searchsorted(anchors, np.arange(1, T + 1)), len(anchors) - 1)
    below = np.maximum(above - 1, 0)
    by_weight = _ranks(terms.weights[None, :])[np.zeros(T, dtype=np.int64)]
    by_play, by_worth = _ranks(play.mean_schedule), _ranks(worth)
    rank = np.stack([by_weight, by_play[below], by_play[above], by_worth[below], by_worth[above]])
    if required is not None:
        rank = np.argsort(np.argsort(np.where(required, rank - T, rank), axis=2), axis=2)
    return np.asarray(rank < np.arange(1, T + 1)[None, :, None])


def _ranks(preferences: FloatArray) -> IntArray:
    """(rows, T) the place of each epoch in the order of its row, 0 = most preferred."""
    ranks = np.empty(preferences.shape, dtype=np.int64)
    np.put_along_axis(ranks, in_order_of(preferences), np.arange(preferences.shape[1])[None, :], axis=1)
    return ranks


def _leaders(
    program: TwoSidedProgram, paths: ScheduleMatrix, count: int, required: ScheduleMatrix | None = None
) -> tuple[ScheduleMatrix, FloatArray]:
    """The ``count`` best candidates (paths, T, T) of each budget, improved; then the best of those."""
    number, T, _ = paths.shape
    values = program.values(paths.reshape(number * T, T)).reshape(number, T)
    leaders = np.argsort(-values, axis=0, kind="stable")[:count]
    starts = np.take_along_axis(paths, leaders[:, :, None], axis=0)
    improved, gained = _neighbourhood(program).improve(
        starts.reshape(count * T, T),
        budgets=np.tile(np.arange(1, T + 1), count),
        required=None if required is None else np.tile(required, (count, 1)),
    )
    best = gained.reshape(count, T).argmax(axis=0)
    budgets = np.arange(T)
    return improved.reshape(count, T, T)[best, budgets], gained.reshape(count, T)[best, budgets]


def _learn_from_neighbours(
    program: TwoSidedProgram, schedules: ScheduleMatrix, values: FloatArray
) -> tuple[ScheduleMatrix, FloatArray]:
    """Offer each budget the extended answer of the one below and the reduced answer of the one above."""
    offers = np.vstack([_changed(program, schedules[:-1], add=True), _changed(program, schedules[1:], add=False)])
    budgets = np.concatenate([np.arange(1, len(schedules)), np.arange(len(schedules) - 1)])
    promising = program.values(offers) > values[budgets] - 0.02 * (1.0 + program.gamma) * np.abs(values).max()
    return _offer(program, schedules, values, offers[promising], budgets[promising])


def _offer(
    program: TwoSidedProgram, schedules: ScheduleMatrix, values: FloatArray, offers: ScheduleMatrix, budgets: IntArray
) -> tuple[ScheduleMatrix, FloatArray]:
    """Improve the offers and take those that beat the answer of their budget (row number)."""
    improved, gained = _neighbourhood(program).improve(offers)
    schedules, values = schedules.copy(), values.copy()
    for schedule, value, budget in zip(improved, gained, budgets, strict=True):
        if value > values[budget] + program.tolerance:
            schedules[budget], values[budget] = schedule, value
    return schedules, values


def _changed(program: TwoSidedProgram, schedules: ScheduleMatrix, add: bool) -> ScheduleMatrix:
    """Each schedule with its most hopeful epoch added, or its least useful one removed."""
    worth = _neighbourhood(program).worth(program.terms.exposures(schedules))[:, :-1]
    pick = np.where(schedules, -np.inf, worth) if add else np.where(schedules, -worth, -np.inf)
    changed = schedules.copy()
    changed[np.arange(len(schedules)), pick.argmax(axis=1)] = add
    return changed
