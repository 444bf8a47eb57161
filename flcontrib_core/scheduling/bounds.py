"""An upper bound of the two-sided optimum that needs no solver.

Σ_{i<j}|E_i − E_j| is the largest ⟨r, E⟩ over the permutahedron, the hull of all orders of the rank weights
(2r − m − 1). So for *any* point r of it

    U(z) − price·G(z)  ≤  Σ_t z_t·(p_t − price·y_t),      y_t = Σ_i x_it r_i  (the "pull" of epoch t),

and the right side is maximal at the k largest terms: one sort bounds every schedule – and, because y does not depend
on k or γ, every other budget and every other γ too. Finding the best r is a zero-sum game (an order of the clients
against a schedule); playing it against each other's averages comes close to the bound of the linear relaxation.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.scheduling.objectives import ProgramTerms, ScheduleMatrix
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

ENOUGH_ROUNDS = 400


class FictitiousPlay:
    """Plays the game for several budgets at once; better bounds the longer it runs.

    ``bounds`` (budgets,) is valid at any moment. ``pulls`` (budgets, T) is the y that attains it.
    """

    def __init__(self, terms: ProgramTerms, gamma: float, budgets: IntArray, at_most: bool, required: BoolArray):
        B, T, m = len(budgets), terms.epoch_count, terms.client_count
        self._terms, self._at_most = terms, at_most
        self._required = required if required.any() else None
        self._price = gamma / terms.pair_divisor
        self._rates_by_client = np.ascontiguousarray(terms.rates.T)
        self._rows = np.arange(B)[:, None]
        self._taken = np.arange(T) < budgets[:, None]  # (budgets, T) which places of an order the budget reaches
        # Sums weighted by the round's number, so that later rounds, which answer better averages, count more.
        self._rounds = 0
        self._schedule_sum: FloatArray = np.zeros((B, T))
        self._exposure_sum: FloatArray = np.zeros((B, m))
        self._pull_sum: FloatArray = np.zeros((B, T))
        self.bounds: FloatArray = np.full(B, np.inf)
        self.pulls: FloatArray = np.zeros((B, T))

    @property
    def mean_schedule(self) -> FloatArray:
        """(budgets, T) how often each epoch was chosen: the fractional schedule of the relaxation."""
        return self._schedule_sum / max(1.0, self._total_weight)

    @property
    def _total_weight(self) -> float:
        return self._rounds * (self._rounds + 1) / 2

    def advance(self, rounds: int) -> ScheduleMatrix:
        """(rounds · budgets, T) the schedules played on the way: good starts for a search. Round-major."""
        p, rates, rank_weights = self._terms.weights, self._terms.rates, self._terms.rank_weights
        B, T = self._pull_sum.shape
        played = np.empty((rounds, B, T), dtype=np.bool_)
        rank_vector = np.empty_like(self._exposure_sum)
        for n in range(rounds):
            mean_pull = self._pull_sum / max(1.0, self._total_weight)
            self._answer_and_bound(p - self._price * mean_pull, mean_pull, played[n])
            self._rounds += 1
            weighted = played[n] * float(self._rounds)
            self._schedule_sum += weighted
            self._exposure_sum += weighted @ rates
            rank_vector[self._rows, np.argsort(self._exposure_sum, axis=1)] = rank_weights
            self._pull_sum += self._rounds * (rank_vector @ self._rates_by_client)
        return played.reshape(rounds * B, T)

    def _answer_and_bound(self, worth: FloatArray, mean_pull: FloatArray, schedule: ScheduleMatrix) -> None:
        """Write the best schedule against ``worth`` (budgets, T) and keep the bound it proves."""
        cost = -worth if self._required is None else np.where(self._required, -np.inf, -worth)
        schedule[self._rows, np.argsort(cost, axis=1)] = self._taken
        if self._at_most:
            schedule &= worth > 0 if self._required is None else (worth > 0) | self._required
        bound = (worth * schedule).sum(axis=1)
        better = bound < self.bounds
        if better.any():
            self.bounds[better] = bound[better]
            self.pulls[better] = mean_pull[better]


def bound_for_every_budget(
    terms: ProgramTerms,
    gamma: float,
    pulls: FloatArray,
    required: ScheduleMatrix | None = None,
    at_most: bool = False,
) -> FloatArray:
    """(T,) upper bounds of the optimum for k = 1 … T, the best of several pulls (pulls, T).

    ``required`` (T, T): epochs that the schedule of each budget must hold.
    """
    T = terms.epoch_count
    worth = terms.weights - gamma / terms.pair_divisor * pulls
    required = np.zeros((T, T), dtype=np.bool_) if required is None else required
    room = np.arange(1, T + 1) - required.sum(axis=1)
    bounds = np.full(T, np.inf)
    for row in worth:
        held = required @ row
        if required.any():
            best_first = -np.sort(-np.where(required, -np.inf, row), axis=1)
        else:
            best_first = np.broadcast_to(-np.sort(-row), (T, T))
        gains = np.where(np.isfinite(best_first), np.maximum(best_first, 0.0) if at_most else best_first, 0.0)
        totals = np.concatenate([np.zeros((T, 1)), np.cumsum(gains, axis=1)], axis=1)
        bounds = np.minimum(bounds, held + totals[np.arange(T), room])
    return bounds
