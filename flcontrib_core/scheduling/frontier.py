"""Frontiers: the coverage, the fairness and the cost of every budget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.scheduling.baselines import at_random, audit_cores, evenly_spread
from flcontrib_core.scheduling.every_budget import (
    EveryBudget,
    as_at_most,
    completed_for_every_budget,
    evaluated_for_every_budget,
    two_sided_for_every_budget,
)
from flcontrib_core.scheduling.objectives import ProgramTerms, ScheduleMatrix
from flcontrib_core.scheduling.schedule import BudgetSettings, FairnessMode, SchedulingProblem
from flcontrib_core.scheduling.sorting import best_of_every_size
from flcontrib_core.vocabulary import FloatArray, IntArray

SEPARABLE = frozenset({FairnessMode.ONE_SIDED, FairnessMode.TWO_SIDED_LB, FairnessMode.TOP_UTILITY})
"""Modes whose objective is a sum over the chosen epochs, so that sorting solves them."""


@dataclass(frozen=True)
class Frontier:
    """One row per budget k = 1 … T (row k − 1), all of one mode and one γ."""

    fairness: FairnessMode
    gamma: float
    at_most: bool
    schedules: ScheduleMatrix
    """(T, T)"""
    objective: FloatArray
    bound: FloatArray
    coverage: FloatArray
    """(T,) U / Σp"""
    exposure_gap: FloatArray
    """(T,) G / ⌊m²/4⌋"""
    lowest_exposure: FloatArray
    """(T,) of the clients that took part; NaN where nobody ever did"""
    evaluations: IntArray | None
    """(T,) predicted; None when the caller gave no prediction"""
    full_evaluations: int | None
    """Predicted for computing every epoch"""
    found_by_search: bool
    """False: every row is a proven optimum or a fixed rule"""

    @property
    def budgets(self) -> IntArray:
        """k = 1, …, T."""
        return np.arange(1, len(self.objective) + 1)

    @property
    def evaluation_share(self) -> FloatArray | None:
        """(T,) of the evaluations of the full computation: the honest cost axis, unlike k/T."""
        if self.evaluations is None or not self.full_evaluations:
            return None
        return np.asarray(self.evaluations / self.full_evaluations)

    def seconds(self, evaluations_per_second: float) -> FloatArray | None:
        """(T,) predicted time at the measured throughput."""
        return None if self.evaluations is None else np.asarray(self.evaluations / evaluations_per_second)


def answer_every_budget(terms: ProgramTerms, settings: BudgetSettings) -> EveryBudget:
    """The schedule of each budget k = 1 … T under the settings' mode (their own budget is not read)."""
    fairness, gamma, T = settings.fairness, settings.gamma, terms.epoch_count
    if fairness in SEPARABLE:
        coefficients = terms.epoch_coefficients(fairness, gamma)
        schedules = best_of_every_size(coefficients, settings.at_most)
        values = schedules @ coefficients
        return EveryBudget(schedules, values, values, np.zeros((0, T)))
    if fairness is FairnessMode.TWO_SIDED:
        exactly = two_sided_for_every_budget(terms, gamma, settings.seed)
        return as_at_most(exactly) if settings.at_most else exactly
    if fairness is FairnessMode.AUDIT:
        cores = audit_cores(T, settings.audit_share, settings.audit_spread, settings.seed)
        return completed_for_every_budget(terms, gamma, cores, settings.at_most)
    by_rule = [
        evenly_spread(T, k) if fairness is FairnessMode.STRIDE else at_random(T, k, settings.seed)
        for k in range(1, T + 1)
    ]
    return evaluated_for_every_budget(terms, gamma, np.array(by_rule))


def frontier_of(
    problem: SchedulingProblem, terms: ProgramTerms, settings: BudgetSettings, answers: EveryBudget
) -> Frontier:
    """Everything that is shown of the answers, recomputed from their schedules."""
    schedules = answers.schedules
    exposures = terms.exposures(schedules)
    total, counts = problem.movement.sum(), problem.evaluations
    by_rule = settings.fairness in SEPARABLE | {FairnessMode.STRIDE, FairnessMode.RANDOM}
    return Frontier(
        fairness=settings.fairness,
        gamma=settings.gamma,
        at_most=settings.at_most,
        schedules=schedules,
        objective=answers.values,
        bound=answers.bounds,
        coverage=schedules @ problem.movement / total if total > 0 else np.zeros(len(schedules)),
        exposure_gap=terms.exposure_gap(exposures),
        lowest_exposure=exposures.min(axis=1) if terms.client_count else np.full(len(schedules), np.nan),
        evaluations=None if counts is None else np.asarray(schedules.astype(np.int64) @ counts),
        full_evaluations=None if counts is None else int(counts.sum()),
        found_by_search=answers.found_by_search and not by_rule,
    )
