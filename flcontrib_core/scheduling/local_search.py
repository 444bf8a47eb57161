"""Which small change improves a two-sided schedule? Greedy building, then swaps and flips of epochs, many at once.

All schedules of a batch move together in numpy. A move takes one epoch out and puts one in; for "at most k" either
may be *no epoch*, which turns the swap into a flip. The rank vector of the current exposures is a subgradient of G,
so ``worth[in] − worth[out]`` is an upper limit of what a move can gain: moves without hope are never evaluated, and
only the most hopeful corner of the others is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from flcontrib_core.scheduling.objectives import ScheduleMatrix, TwoSidedProgram
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

_CELLS_AT_ONCE = 1 << 17
_STEPS = 400
_KICK_SIZE = 4


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
        np.put_along_axis(
            rank_vector,
            np.argsort(exposures, axis=1),
            np.broadcast_to(self._program.terms.rank_weights, exposures.shape),
            axis=1,
        )
        return np.asarray(self._weights - self._program.price * (rank_vector @ self._rates_by_client))

    def value(self, covered: FloatArray, exposures: FloatArray) -> FloatArray:
        return covered - self._program.gamma * self._program.terms.gap(exposures)

    def improve(
        self, schedules: ScheduleMatrix, budgets: IntArray | None = None, required: ScheduleMatrix | None = None
    ) -> tuple[ScheduleMatrix, FloatArray]:
        """Take the best move of each schedule until none helps; returns the schedules and their values.

        ``budgets`` and ``required`` (one per schedule) replace the program's own where every schedule has another.
        """
        terms = self._program.terms
        at_most = self._program.at_most
        B, T = schedules.shape
        chosen = np.zeros((B, T + 1), dtype=np.bool_)
        chosen[:, :T] = schedules
        exposures, covered = terms.exposures(schedules), terms.covered(schedules)
        value = self.value(covered, exposures)
        budgets = np.full(B, self._program.k) if budgets is None else budgets
        fixed = np.zeros_like(chosen)
        fixed[:, :T] = self._program.required if required is None else required
        active = np.arange(B)
        for _ in range(_STEPS):
            if not active.size:
                break
            worth = self.worth(exposures[active])
            may_leave = chosen[active] & ~fixed[active]
            may_enter = ~chosen[active]
            may_leave[:, T] = at_most & (chosen[active, :T].sum(axis=1) < budgets[active])
            may_enter[:, T] = at_most
            leaving, entering, gain = self._best_moves(
                worth, may_leave, may_enter, covered[active], exposures[active], value[active]
            )
            moved = gain > self._program.tolerance
            active, leaving, entering, gain = active[moved], leaving[moved], entering[moved], gain[moved]
            chosen[active, leaving] = False
            chosen[active, entering] = True
            chosen[active, T] = False
            exposures[active] += self._rates[entering] - self._rates[leaving]
            covered[active] += self._weights[entering] - self._weights[leaving]
            value[active] += gain
        result = chosen[:, :T]
        return result, self._program.values(result)

    def _best_moves(
        self,
        worth: FloatArray,
        may_leave: BoolArray,
        may_enter: BoolArray,
        covered: FloatArray,
        exposures: FloatArray,
        value: FloatArray,
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """(schedules,) each: the epoch to take out, the one to put in, and what that really gains."""
        width = min(self._width, worth.shape[1])
        cost_out = np.where(may_leave, worth, np.inf)
        cost_in = np.where(may_enter, -worth, np.inf)
        out = np.argpartition(cost_out, width - 1, axis=1)[:, :width]
        into = np.argpartition(cost_in, width - 1, axis=1)[:, :width]
        leaving, entering = np.take_along_axis(cost_out, out, axis=1), np.take_along_axis(cost_in, into, axis=1)
        hope = -(leaving[:, :, None] + entering[:, None, :])
        gains = np.full(hope.shape, -np.inf)
        row, a, b = np.nonzero(hope > self._program.tolerance)
        at_once = max(1, _CELLS_AT_ONCE // max(1, exposures.shape[1]))
        for start in range(0, len(row), at_once):
            r, x, y = (index[start : start + at_once] for index in (row, a, b))
            s, t = out[r, x], into[r, y]
            after = exposures[r] + self._rates[t]
            after -= self._rates[s]
            gains[r, x, y] = self.value(covered[r] + self._weights[t] - self._weights[s], after) - value[r]
        best = gains.reshape(len(gains), -1).argmax(axis=1)
        rows = np.arange(len(gains))
        return out[rows, best // width], into[rows, best % width], gains.reshape(len(gains), -1)[rows, best]

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
        chosen = start.copy()
        terms = self._program.terms
        exposures = terms.exposures(chosen[None, :])[0]
        for _ in range(terms.epoch_count - int(chosen.sum())):
            worth = self.worth(exposures[None, :])[0, :-1]
            t = self._most_gain(np.where(chosen, -np.inf, worth), 1.0, exposures, width)
            chosen[t] = True
            exposures = exposures + terms.rates[t]
            yield chosen.copy()

    def shrink(self, start: BoolArray, width: int) -> Iterator[BoolArray]:
        """Backward greedy: remove the epoch that leaves the best objective, and yield after each removal."""
        chosen = start.copy()
        terms = self._program.terms
        exposures = terms.exposures(chosen[None, :])[0]
        removable = chosen & ~self._program.required
        for _ in range(int(removable.sum())):
            worth = self.worth(exposures[None, :])[0, :-1]
            t = self._most_gain(np.where(removable, -worth, -np.inf), -1.0, exposures, width)
            chosen[t] = removable[t] = False
            exposures = exposures - terms.rates[t]
            yield chosen.copy()

    def _most_gain(self, hope: FloatArray, sign: float, exposures: FloatArray, width: int) -> int:
        """The epoch whose addition (+1) or removal (−1) leaves the best objective, among the ``width`` most hopeful."""
        terms = self._program.terms
        width = min(width, len(hope))
        candidates = np.sort(np.argpartition(-hope, width - 1)[:width])
        candidates = candidates[np.isfinite(hope[candidates])]
        gains = self.value(sign * terms.weights[candidates], exposures + sign * terms.rates[candidates])
        return int(candidates[gains.argmax()])
