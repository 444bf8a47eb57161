"""What the text claims about the scheduler, each statement under its label."""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.scheduling.choose import choose_epochs
from flcontrib_core.scheduling.objectives import program_terms
from flcontrib_core.scheduling.schedule import BudgetSettings, FairnessMode, SchedulingProblem
from tests.scheduling.instances import random_problem


@pytest.mark.parametrize("k", [1, 5, 12, 20])
def test_lm_complexity_scheduling(k: int) -> None:
    """With n participants in every epoch the cost is k/T of the full 2ⁿ·T, whichever epochs are chosen."""
    rng = np.random.default_rng(0)
    participated = np.argsort(rng.random((20, 8)), axis=1) < 4
    problem = SchedulingProblem(
        rng.random(20), participated, tuple(map(str, range(8))), evaluations=2 ** participated.sum(axis=1) - 1
    )
    for fairness in FairnessMode:
        schedule = choose_epochs(problem, BudgetSettings(k, fairness))
        assert schedule.full_evaluations == 20 * 15
        assert schedule.predicted_evaluations == k * 15


def test_cost_is_not_k_over_t_when_cohorts_differ() -> None:
    """Where the Lemma's premise fails: one-sided prefers large cohorts, so half of the epochs cost more than half."""
    shares = []
    for seed in range(10):
        schedule = choose_epochs(random_problem(30, 10, 0.5, seed), BudgetSettings(0.5, FairnessMode.ONE_SIDED, 1.0))
        assert schedule.predicted_evaluations is not None
        assert schedule.full_evaluations
        shares.append(schedule.predicted_evaluations / schedule.full_evaluations)
    assert np.mean(shares) > 0.55


@pytest.mark.parametrize("seed", range(5))
def test_eq_two_sided_fairness_lower_bound(seed: int) -> None:
    """The derivation of the appendix: the separable objective never exceeds the two-sided one, term by term."""
    terms = program_terms(random_problem(20, 9, 0.4, seed))
    sets = np.random.default_rng(seed).random((500, 20)) < 0.5
    for gamma in (0.0, 0.3, 1.0, 3.0):
        lower = sets @ terms.epoch_coefficients(FairnessMode.TWO_SIDED_LB, gamma)
        assert (lower <= terms.two_sided(sets, gamma) + 1e-12).all()


@pytest.mark.parametrize("gamma", [0.03, 1.0, 3.0, 1e6])
def test_remark_uniform_participation_ranks_by_utility(gamma: float) -> None:
    """When everybody takes part in every epoch, both kinds of fairness choose the k largest incremental utilities."""
    movement = np.random.default_rng(1).random(24)
    problem = SchedulingProblem(movement, np.ones((24, 6), dtype=bool), tuple(map(str, range(6))))
    largest = tuple(sorted(int(t) + 1 for t in np.argsort(-movement)[:9]))
    for fairness in (FairnessMode.ONE_SIDED, FairnessMode.TWO_SIDED, FairnessMode.TWO_SIDED_LB):
        assert choose_epochs(problem, BudgetSettings(9, fairness, gamma)).chosen == largest


def test_remark_one_sided_prefers_epochs_with_more_participants() -> None:
    participated = np.zeros((10, 6), dtype=bool)
    participated[:, 0] = True
    participated[[2, 5, 7]] = True
    problem = SchedulingProblem(np.ones(10), participated, tuple("abcdef"))
    assert choose_epochs(problem, BudgetSettings(3, FairnessMode.ONE_SIDED, 1.0)).chosen == (3, 6, 8)


def test_two_sided_buys_fairness_not_coverage() -> None:
    """Exposure gap and lowest exposure improve over top utility, at the price of some coverage."""
    for seed in range(6):
        problem = random_problem(30, 10, 0.5, seed)
        fair = choose_epochs(problem, BudgetSettings(15, gamma=1.0))
        greedy = choose_epochs(problem, BudgetSettings(15, FairnessMode.TOP_UTILITY))
        assert fair.exposure_gap <= greedy.exposure_gap + 1e-9
        assert fair.coverage <= greedy.coverage + 1e-9


def test_the_paper_mode_lower_bound_leaves_budget_unused() -> None:
    """At γ = 1, at most k, the lower bound keeps few epochs; what it leaves is shown, not hidden."""
    problem = random_problem(40, 16, 0.5, 0)
    settings = BudgetSettings(20, FairnessMode.TWO_SIDED_LB, 1.0, at_most=True, paper_denominator=True)
    schedule = choose_epochs(problem, settings)
    assert schedule.unused_budget == 20 - len(schedule.chosen) > 10
