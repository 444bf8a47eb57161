"""Local search for two-sided schedules: greedy building, then swaps and flips of epochs, many at once.

All schedules of a batch move together in numpy. A move takes one epoch out and puts one in; for "at most k" either
may be *no epoch*, which turns the swap into a flip. The rank vector of the current exposures is a subgradient of G,
so ``worth[in] − worth[out]`` is an upper limit of what a move can gain: moves without hope are never evaluated, and
only the most hopeful corner of the others is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from flcontrib_core.scheduling.objectives import ScheduleMatrix, TwoSidedProgram
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

_CELLS_AT_ONCE = 1 << 17
_STEPS = 400
_KICK_SIZE = 4


@dataclass
class _Moving:
    """The schedules of a batch that still improve; one row each, the last column being *no epoch*."""

    row: IntArray
    schedules: ScheduleMatrix
    fixed: BoolArray
    budgets: IntArray
    exposures: FloatArray
    covered: FloatArray

    def only(self, rows: BoolArray) -> _Moving:
        return _Moving(
            self.row[rows],
            self.schedules[rows],
            self.fixed[rows],
            self.budgets[rows],
            self.exposures[rows],
            self.covered[rows],
        )


class Neighbourhood:
    """A two-sided program with one more epoch that is *no epoch* (nothing gained, nobody exposed)."""

    def __init__(self, program: TwoSidedProgram, width: int = 8):
        terms = program.terms
        self._program, self._width = program, width
        self._weights: FloatArray = np.append(terms.weights, 0.0)
        self._rates: FloatArray = np.vstack([terms.rates, np.zeros((1, terms.client_count))])
        self._rates_by_client = np.ascontiguousarray(self._rates.T)

    def worth(self, exposures: FloatArray) -> FloatArray:
        """(schedules, T + 1) p_t − price·⟨x_t, r⟩ with r the rank weights in the order of each row's exposures."""
        rank_vector = np.empty_like(exposures)
        rows = np.arange(len(exposures))[:, None]
        rank_vector[rows, np.argsort(exposures, axis=1)] = self._program.terms.rank_weights
        return np.asarray(self._weights - self._program.price * (rank_vector @ self._rates_by_client))

    def value(self, covered: FloatArray, exposures: FloatArray) -> FloatArray:
        """The objective of each schedule: coverage − γ · exposure gap."""
        return covered - self._program.gamma * self._program.terms.gap(exposures)

    def improve(
        self, schedules: ScheduleMatrix, budgets: IntArray | None = None, required: ScheduleMatrix | None = None
    ) -> tuple[ScheduleMatrix, FloatArray]:
        """Take the best move of each schedule until none helps; returns the schedules and their values.

        ``budgets`` and ``required`` (one per schedule) replace the program's own where every schedule has another.
        """
        B, T = schedules.shape
        fixed = np.zeros((B, T + 1), dtype=np.bool_)
        fixed[:, :T] = self._program.required if required is None else required
        moving = _Moving(
            row=np.arange(B),
            schedules=np.hstack([schedules, np.zeros((B, 1), dtype=np.bool_)]),
            fixed=fixed,
            budgets=np.full(B, self._program.k) if budgets is None else budgets,
            exposures=self._program.terms.exposures(schedules),
            covered=self._program.terms.covered(schedules),
        )
        improved = schedules.copy()
        for _ in range(_STEPS):
            leaving, entering, gain = self._best_moves(moving)
            moved = gain > self._program.tolerance
            improved[moving.row[~moved]] = moving.schedules[~moved, :T]
            if not moved.any():
                break
            if not moved.all():
                moving, leaving, entering = moving.only(moved), leaving[moved], entering[moved]
            rows = np.arange(len(leaving))
            moving.schedules[rows, leaving] = False
            moving.schedules[rows, entering] = True
            moving.schedules[:, T] = False
            moving.exposures += self._rates[entering] - self._rates[leaving]
            moving.covered += self._weights[entering] - self._weights[leaving]
        else:
            improved[moving.row] = moving.schedules[:, :T]
        return improved, self._program.values(improved)

    def _best_moves(self, moving: _Moving) -> tuple[IntArray, IntArray, FloatArray]:
        """(schedules,) each: the epoch to take out, the one to put in, and what that really gains."""
        schedules, exposures, covered = moving.schedules, moving.exposures, moving.covered
        worth = self.worth(exposures)
        may_leave, may_enter = schedules & ~moving.fixed, ~schedules
        at_most = self._program.at_most
        may_leave[:, -1] = at_most & (schedules.sum(axis=1) < moving.budgets)
        may_enter[:, -1] = at_most
        cost_out, cost_in = np.where(may_leave, worth, np.inf), np.where(may_enter, -worth, np.inf)
        width = min(self._width, worth.shape[1])
        out = np.argpartition(cost_out, width - 1, axis=1)[:, :width]
        into = np.argpartition(cost_in, width - 1, axis=1)[:, :width]
        rows = np.arange(len(worth))
        hope = -(cost_out[rows[:, None], out][:, :, None] + cost_in[rows[:, None], into][:, None, :])
        gains = np.full(hope.shape, -np.inf)
        row, a, b = np.nonzero(hope > self._program.tolerance)
        value = self.value(covered, exposures)
        at_once = max(1, _CELLS_AT_ONCE // max(1, exposures.shape[1]))
        for start in range(0, len(row), at_once):
            r, x, y = (index[start : start + at_once] for index in (row, a, b))
            s, t = out[r, x], into[r, y]
            after = exposures[r] + self._rates[t]
            after -= self._rates[s]
            gains[r, x, y] = self.value(covered[r] + self._weights[t] - self._weights[s], after) - value[r]
        flat = gains.reshape(len(gains), -1)
        best = flat.argmax(axis=1)
        return out[rows, best // width], into[rows, best % width], flat[rows, best]

    def kick(self, schedules: ScheduleMatrix, copies: int, rng: np.random.Generator) -> ScheduleMatrix:
        """(copies · schedules, T) each with up to four epochs exchanged at random: a way out of a local optimum."""
        program = self._program
        kicked = np.repeat(schedules, copies, axis=0)
        free_in, free_out = kicked & ~program.required, ~kicked
        leaving = np.minimum(_KICK_SIZE, free_in.sum(axis=1))
        room = program.k - kicked.sum(axis=1) + leaving if program.at_most else leaving
        entering = np.minimum(np.minimum(_KICK_SIZE, room), free_out.sum(axis=1))
        if not program.at_most:
            leaving = entering
        for mask, count, inside in ((free_in, leaving, False), (free_out, entering, True)):
            order = np.argsort(np.where(mask, rng.random(kicked.shape), 2.0), axis=1)
            row, place = np.nonzero(np.arange(kicked.shape[1]) < count[:, None])
            kicked[row, order[row, place]] = inside
        return kicked

    def grow(self, start: BoolArray, width: int) -> Iterator[BoolArray]:
        """Forward greedy: add the epoch that leaves the best objective, and yield after each addition."""
        schedule = start.copy()
        terms = self._program.terms
        exposures = terms.exposures(schedule[None, :])[0]
        for _ in range(terms.epoch_count - int(schedule.sum())):
            worth = self.worth(exposures[None, :])[0, :-1]
            t = self._most_gain(np.where(schedule, -np.inf, worth), 1.0, exposures, width)
            schedule[t] = True
            exposures = exposures + terms.rates[t]
            yield schedule.copy()

    def shrink(self, start: BoolArray, width: int) -> Iterator[BoolArray]:
        """Backward greedy: remove the epoch that leaves the best objective, and yield after each removal."""
        schedule = start.copy()
        terms = self._program.terms
        exposures = terms.exposures(schedule[None, :])[0]
        removable = schedule & ~self._program.required
        for _ in range(int(removable.sum())):
            worth = self.worth(exposures[None, :])[0, :-1]
            t = self._most_gain(np.where(removable, -worth, -np.inf), -1.0, exposures, width)
            schedule[t] = removable[t] = False
            exposures = exposures - terms.rates[t]
            yield schedule.copy()

    def _most_gain(self, hope: FloatArray, sign: float, exposures: FloatArray, width: int) -> int:
        """The epoch whose addition (+1) or removal (−1) leaves the best objective, among the ``width`` most hopeful."""
        terms = self._program.terms
        width = min(width, len(hope))
        candidates = np.sort(np.argpartition(-hope, width - 1)[:width])
        candidates = candidates[np.isfinite(hope[candidates])]
        gains = self.value(sign * terms.weights[candidates], exposures + sign * terms.rates[candidates])
        return int(candidates[gains.argmax()])
