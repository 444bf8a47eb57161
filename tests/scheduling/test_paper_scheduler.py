"""What the text claims about the scheduler, each statement under its label."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.history.settings import PAPER_SETTINGS
from flcontrib_core.scheduling.choose import choose_epochs
from flcontrib_core.scheduling.objectives import program_terms
from flcontrib_core.scheduling.schedule import BudgetSettings, FairnessMode, Normalisation, SchedulingProblem
from tests.scheduling.instances import every_set, objectives_by_definition, random_problem


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


def test_the_lower_bound_by_largest_values_leaves_budget_unused() -> None:
    """At γ = 1, at most k, the lower bound keeps few epochs; what it leaves is shown, not hidden."""
    problem = random_problem(40, 16, 0.5, 0)
    settings = BudgetSettings(20, FairnessMode.TWO_SIDED_LB, 1.0, at_most=True, paper_denominator=True)
    schedule = choose_epochs(problem, settings)
    assert schedule.unused_budget == 20 - len(schedule.chosen) > 10


@pytest.mark.parametrize("seed", range(4))
def test_the_paper_mode_lower_bound_moves_with_the_budget_and_is_never_empty(seed: int) -> None:
    """Each term over its own sum: at γ = 1 the coefficients add up to 0, so some epoch is worth its place."""
    problem = random_problem(40, 16, 0.5, seed)
    paper = replace(PAPER_SETTINGS.budget, fairness=FairnessMode.TWO_SIDED_LB)
    counts = [len(choose_epochs(problem, replace(paper, budget=share)).chosen) for share in (0.05, 0.25, 0.5, 1.0)]
    assert counts[0] == 2
    assert counts == sorted(counts)
    assert counts[1] > counts[0]
    everything = choose_epochs(problem, replace(paper, budget=1.0))
    assert 0 < len(everything.chosen) < 40
    assert sum(everything.epoch_weights) < 1  # the paper's denominator stays in the weights that are shown


@pytest.mark.parametrize("fairness", [FairnessMode.ONE_SIDED, FairnessMode.TWO_SIDED, FairnessMode.TWO_SIDED_LB])
@pytest.mark.parametrize("seed", range(3))
def test_each_term_over_its_own_sum_equals_the_definition(fairness: FairnessMode, seed: int) -> None:
    problem = random_problem(9, 5, 0.5, seed)
    sets = every_set(9, 5, True)
    by_definition = objectives_by_definition(problem, sets, fairness, 1.0, own_sums=True)
    settings = BudgetSettings(5, fairness, 1.0, at_most=True, normalise=Normalisation.SUM)
    schedule = choose_epochs(problem, settings)
    assert schedule.objective == pytest.approx(by_definition.max(), abs=1e-12)


@pytest.mark.parametrize("fairness", [FairnessMode.TWO_SIDED, FairnessMode.TWO_SIDED_LB])
@pytest.mark.parametrize(("epochs", "clients"), [(5, 7), (11, 4), (7, 6), (3, 5)])
def test_paper_mode_divides_nothing_by_rounding_where_everybody_always_takes_part(
    fairness: FairnessMode, epochs: int, clients: int
) -> None:
    problem = SchedulingProblem(np.ones(epochs), np.ones((epochs, clients), dtype=bool), tuple("abcdefg"[:clients]))
    schedule = choose_epochs(problem, replace(PAPER_SETTINGS.budget, fairness=fairness, budget=2))
    assert schedule.chosen == (1, 2)
    assert schedule.objective == pytest.approx(2 / epochs)


def test_a_solver_proves_the_program_whose_terms_are_over_their_own_sums() -> None:
    problem = random_problem(22, 6, 0.5, 1)
    settings = BudgetSettings(11, gamma=1.0, at_most=True, normalise=Normalisation.SUM, prove=True)
    proved = choose_epochs(problem, settings)
    assert proved.gap < 1e-5
    assert proved.objective >= choose_epochs(problem, replace(settings, prove=False)).objective - 1e-9
