"""Objectives: the worth of a schedule to the server, to the clients, and to both.

Every number that a schedule shows is computed here, for any set of epochs, whichever way the set was found.

Departure: the text leaves four things open; the readings are
  * p_t: the text says Σp = 1 but its denominator also holds |v(F⁰)|. By default that term is dropped, so that Σp = 1;
    ``paper_denominator`` keeps it (and the utility term is then not divided again).
  * "we normalise each term" (``Normalisation``). By default each is divided by the largest value it can take:
    coverage U by Σp, exposure by the number of clients m, pairwise differences G by ⌊m²/4⌋. The lower bound takes G's
    divisor, so that it stays below the two-sided objective; at γ = 1 it then falls with almost every epoch, and "at
    most k" keeps 0 of 40 at 50 % participation, whatever k. The paper's lower bound moves with k, so paper mode
    divides each term by its own sum over all epochs: Σp = 1 as the text says, exposure by m as before, both pairwise
    terms by Σ_t Σ_{i<j}|x_it − x_jt|. At γ = 1 the lower bound's coefficients then add up to 0, so that it is empty
    only where every epoch moves the model exactly as much as it divides the clients.
  * pairs (i, i′): each is counted once (the text's ordered pairs would double γ).
  * m counts the clients that took part at least once; the others have no participation rate (0/0).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from flcontrib_core.scheduling.schedule import FairnessMode, Normalisation, SchedulingProblem
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

ScheduleMatrix = BoolArray
"""(schedules, T): True where the schedule computes the epoch."""

TIE = 1e-12
"""Coefficients closer than this are one value: ties go to the earlier epoch, whatever the order of summation."""
_ROUNDING_OF_PAIRS = 1e-12
"""Below this share of its largest value the sum of all pairwise differences is none: one client that misses one of ten
thousand epochs has a hundred thousand times as much."""


@dataclass(frozen=True)
class ProgramTerms:
    """The numbers all programs of one run share: p, x and the divisors of their terms."""

    weights: FloatArray
    """(T,) p_t as the objectives add it"""
    rates: FloatArray
    """(T, m) x_it = 1/n_i where client i took part, n_i its number of participations."""
    present: IntArray
    """(m,) positions of the clients that took part at least once."""
    pair_divisor: float
    """What Σ_{i<j}|E_i − E_j| is divided by in the objectives"""
    rank_weights: FloatArray
    """(m,) 2r − m − 1: Σ_{i<j}|E_i − E_j| = Σ_r (2r − m − 1)·E_(r) with E ascending."""

    epoch_weights: FloatArray
    """(T,) p_t as it is shown: the paper's denominator stays in it where it was asked for."""

    @classmethod
    def of(
        cls,
        weights: FloatArray,
        rates: FloatArray,
        present: IntArray,
        normalisation: Normalisation = Normalisation.LARGEST,
    ) -> ProgramTerms:
        """The terms of p (T,) and x (T, m), with their divisors."""
        m = len(present)
        rank_weights = 2.0 * np.arange(1, m + 1, dtype=np.float64) - m - 1
        if normalisation is Normalisation.LARGEST:
            return cls(weights, rates, present, largest_gap(m), rank_weights, weights)
        covered, apart = float(weights.sum()), float((np.sort(rates, axis=1) @ rank_weights).sum())
        if apart <= _ROUNDING_OF_PAIRS * largest_gap(m):  # all alike: nothing to divide by but errors of rounding
            apart = 1.0
        return cls(weights / (covered or 1.0), rates, present, apart, rank_weights, weights)

    @property
    def epoch_count(self) -> int:
        """T."""
        return len(self.weights)

    @property
    def client_count(self) -> int:
        """m."""
        return len(self.present)

    def covered(self, schedules: ScheduleMatrix) -> FloatArray:
        """(schedules,) U = Σ p_t z_t"""
        return np.asarray(schedules @ self.weights)

    def exposures(self, schedules: ScheduleMatrix) -> FloatArray:
        """(schedules, m) E_i = Σ_t x_it z_t, the share of its participations that is computed."""
        return np.asarray(schedules.astype(np.float64) @ self.rates)

    def gap(self, exposures: FloatArray) -> FloatArray:
        """(schedules,) the objectives' pairwise term: Σ_{i<j}|E_i − E_j| over its divisor, by one sort per schedule.

        Never below 0, where equal exposures would leave an error of rounding.
        """
        return np.maximum(np.sort(exposures, axis=-1) @ self.rank_weights, 0.0) / self.pair_divisor

    def exposure_gap(self, exposures: FloatArray) -> FloatArray:
        """(schedules,) Σ_{i<j}|E_i − E_j| / ⌊m²/4⌋ in [0, 1], as it is shown whatever the objective divides by."""
        return self.gap(exposures) * (self.pair_divisor / largest_gap(self.client_count))

    def epoch_coefficients(self, fairness: FairnessMode, gamma: float) -> FloatArray:
        """(T,) what each epoch adds to a separable objective: one-sided, lower bound, or coverage alone."""
        if fairness is FairnessMode.ONE_SIDED:  # eq. (server_sided_fairness)
            return np.asarray(self.weights + gamma * self.rates.sum(axis=1) / max(1, self.client_count))
        if fairness is FairnessMode.TWO_SIDED_LB:  # eq. (two_sided_fairness_lower_bound)
            return self.weights - gamma * self.gap(self.rates)
        if fairness is FairnessMode.TOP_UTILITY:
            return self.weights
        raise ValueError(f"{fairness} is not a sum over epochs")

    def two_sided(self, schedules: ScheduleMatrix, gamma: float) -> FloatArray:
        """(schedules,) U − γ·G over its divisor – eq. (two_sided_fairness)"""
        return self.covered(schedules) - gamma * self.gap(self.exposures(schedules))


def largest_gap(clients: int) -> float:
    """⌊m²/4⌋, the largest Σ_{i<j}|E_i − E_j| of m exposures in [0, 1]; at least 1."""
    return float(max(1, clients * clients // 4))


def program_terms(
    problem: SchedulingProblem,
    paper_denominator: bool = False,
    normalisation: Normalisation = Normalisation.LARGEST,
) -> ProgramTerms:
    """Which weights p and participation rates x does this run give?

    When nothing moved at all, every p_t is 0 and fairness alone decides.
    """
    movement = np.asarray(problem.movement, dtype=np.float64)
    total = movement.sum() + (abs(problem.initial_utility) if paper_denominator else 0.0)
    participations = problem.participated.sum(axis=0)
    present = np.flatnonzero(participations)
    return ProgramTerms.of(
        weights=movement / total if total > 0 else np.zeros_like(movement),
        rates=problem.participated[:, present] / participations[present],
        present=present,
        normalisation=normalisation,
    )


@dataclass(frozen=True)
class TwoSidedProgram:
    """The one hard question: max U − γ·G over its divisor over schedules of exactly (or at most) k epochs."""

    terms: ProgramTerms
    gamma: float
    k: int
    at_most: bool = False
    forced: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """(T,) epochs that every schedule must hold (the audit mode's spread part); empty = none."""

    @property
    def price(self) -> float:
        """What one unit of Σ_{i<j}|E_i − E_j| costs."""
        return self.gamma / self.terms.pair_divisor

    @property
    def tolerance(self) -> float:
        """Objectives closer than this are equal."""
        return rounding(self.gamma)

    @property
    def required(self) -> BoolArray:
        """(T,) ``forced``, spelled out when it was left empty."""
        return self.forced if self.forced.size else np.zeros(self.terms.epoch_count, dtype=np.bool_)

    def values(self, schedules: ScheduleMatrix) -> FloatArray:
        """(schedules,) eq. (two_sided_fairness)"""
        return self.terms.two_sided(schedules, self.gamma)

    def admits(self, schedules: ScheduleMatrix) -> BoolArray:
        """(schedules,) does each keep the budget and hold the forced epochs?"""
        size = schedules.sum(axis=1)
        fits = size <= self.k if self.at_most else size == self.k
        return np.asarray(fits & schedules[:, self.required].all(axis=1))


@dataclass(frozen=True)
class BoundedSchedule:
    """A schedule that some method found, and a number that no schedule of the same program exceeds."""

    schedule: BoolArray
    """(T,)"""
    bound: float
    method: str
    found_by_search: bool = False
    """True where the method may miss the optimum."""


def rounding(gamma: float) -> float:
    """What floating point may lose of an objective: U is at most 1, γ·G may be as large as γ."""
    return 1e-9 + 1e-13 * gamma


def distinct(schedules: ScheduleMatrix) -> ScheduleMatrix:
    """The schedules without repeats, each at its first place."""
    first = {row.tobytes(): n for n, row in reversed(list(enumerate(np.packbits(schedules, axis=1))))}
    return schedules[sorted(first.values())]


def in_order_of(coefficients: FloatArray) -> IntArray:
    """(…, T) epochs from the largest coefficient to the smallest, ties by epoch."""
    scale = max(1.0, float(np.abs(coefficients).max(initial=0.0)))
    return np.argsort(-np.round(coefficients / scale, 12), axis=-1, kind="stable")
