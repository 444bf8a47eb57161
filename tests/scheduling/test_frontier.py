"""Does a drag along k or γ show the same truth as a fresh solve, and never promise too much?"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from flcontrib_core.scheduling.choose import choose_epochs, trace_frontier
from flcontrib_core.scheduling.enumeration import best_by_enumeration
from flcontrib_core.scheduling.explorer import SOLVED_GAMMAS, ScheduleExplorer
from flcontrib_core.scheduling.objectives import TwoSidedProgram, program_terms
from flcontrib_core.scheduling.schedule import BudgetSettings, FairnessMode
from tests.scheduling.instances import every_set, objectives_by_definition, random_problem


@pytest.mark.parametrize("fairness", list(FairnessMode))
@pytest.mark.parametrize("at_most", [False, True])
def test_each_row_is_the_answer_of_its_budget(fairness: FairnessMode, at_most: bool) -> None:
    problem = random_problem(11, 5, 0.4, 0)
    settings = BudgetSettings(None, fairness, 1.0, at_most)
    frontier = trace_frontier(problem, settings)
    assert not frontier.found_by_search
    for k in range(1, 12):
        single = choose_epochs(problem, replace(settings, budget=k))
        row = k - 1
        assert frontier.objective[row] == pytest.approx(single.objective, abs=1e-9)
        assert frontier.bound[row] == pytest.approx(single.bound, abs=1e-9)
        mask = np.isin(np.arange(1, 12), single.chosen)
        if np.array_equal(mask, frontier.schedules[row]):
            assert frontier.coverage[row] == pytest.approx(single.coverage)
            assert frontier.exposure_gap[row] == pytest.approx(single.exposure_gap)
            assert frontier.lowest_exposure[row] == pytest.approx(single.lowest_exposure)
            assert frontier.evaluations is not None
            assert frontier.evaluations[row] == single.predicted_evaluations


def test_costs_reach_the_full_computation() -> None:
    frontier = trace_frontier(random_problem(30, 6, 0.4, 1), BudgetSettings(gamma=0.3))
    assert frontier.evaluation_share is not None
    assert frontier.evaluation_share[-1] == 1.0
    seconds = frontier.seconds(10.0)
    assert seconds is not None
    assert frontier.evaluations is not None
    np.testing.assert_allclose(seconds, frontier.evaluations / 10)


@pytest.mark.parametrize("fairness", [FairnessMode.TWO_SIDED, FairnessMode.AUDIT])
@pytest.mark.parametrize("at_most", [False, True])
def test_searched_rows_keep_their_budget_and_their_bound(fairness: FairnessMode, at_most: bool) -> None:
    problem = random_problem(18, 6, 0.3, 2)
    settings = BudgetSettings(None, fairness, 1.0, at_most)
    frontier = trace_frontier(problem, settings)
    terms = program_terms(problem)
    assert frontier.found_by_search
    optimal = 0
    for k in (4, 7, 9, 14, 17):
        row = k - 1
        size = frontier.schedules[row].sum()
        assert size <= k if at_most else size == k
        sets = every_set(18, k, at_most) if k <= 9 or not at_most else every_set(18, k, False)
        if fairness is FairnessMode.AUDIT:
            spread = np.isin(
                np.arange(1, 19), choose_epochs(problem, BudgetSettings(round(k / 2), FairnessMode.STRIDE)).chosen
            )
            assert frontier.schedules[row][spread].all()
            sets = sets[sets[:, spread].all(axis=1)]
        best = terms.two_sided(sets, 1.0).max()
        assert frontier.bound[row] >= best - 1e-9
        assert frontier.objective[row] == pytest.approx(terms.two_sided(frontier.schedules[row][None, :], 1.0)[0])
        optimal += frontier.objective[row] >= best - 1e-9
    assert optimal >= 4


def test_a_drag_never_promises_too_much_and_rarely_loses() -> None:
    problem = random_problem(18, 8, 0.3, 3)
    explorer = ScheduleExplorer(problem)
    optimal = asked = 0
    for k in (5, 9):
        sets = every_set(18, k, False)
        for gamma in (0.0, 0.01, 0.03, 0.07, 0.3, 0.42, 1.0, 2.2, 3.0, 8.0):
            best = objectives_by_definition(problem, sets, FairnessMode.TWO_SIDED, gamma).max()
            shown = explorer.answer(BudgetSettings(k, gamma=gamma))
            assert shown.bound >= best - 1e-9
            assert shown.objective <= best + 1e-9
            assert len(shown.chosen) == k
            asked += 1
            optimal += shown.objective >= best - 1e-9
    assert optimal >= 0.95 * asked


def test_between_two_solved_gammas_the_chord_bounds_the_optimum() -> None:
    problem = random_problem(18, 8, 0.5, 4)
    explorer = ScheduleExplorer(problem)
    for low, high in pairwise(SOLVED_GAMMAS):
        gamma = float(np.sqrt(low * high))
        frontier = explorer.frontier(FairnessMode.TWO_SIDED, gamma)
        for k in (3, 6, 16):
            best = objectives_by_definition(problem, every_set(18, k, False), FairnessMode.TWO_SIDED, gamma).max()
            assert frontier.bound[k - 1] >= best - 1e-9
            assert frontier.objective[k - 1] <= best + 1e-9


def test_the_explorer_is_never_worse_than_a_fresh_search_and_lies_on_its_frontier() -> None:
    problem = random_problem(45, 12, 0.2, 5)
    explorer = ScheduleExplorer(problem)
    for gamma, k in product((0.1, 1.0, 2.5), (8, 20, 33)):
        settings = BudgetSettings(k, gamma=gamma)
        shown = explorer.answer(settings)
        fresh = choose_epochs(problem, settings)
        assert shown.objective >= fresh.objective - 1e-9
        assert shown.bound <= fresh.bound + 1e-9
        assert explorer.frontier(FairnessMode.TWO_SIDED, gamma).objective[k - 1] == pytest.approx(shown.objective)
        assert explorer.answer(settings) is shown


@pytest.mark.parametrize("fairness", [f for f in FairnessMode if f is not FairnessMode.TWO_SIDED])
def test_the_explorer_equals_the_front_door_in_the_other_modes(fairness: FairnessMode) -> None:
    problem = random_problem(25, 7, 0.3, 6)
    explorer = ScheduleExplorer(problem)
    for settings in (BudgetSettings(9, fairness), BudgetSettings(9, fairness, paper_denominator=True, at_most=True)):
        assert explorer.answer(settings) == choose_epochs(problem, settings)
    assert explorer.answer(BudgetSettings(None, fairness)).chosen == tuple(range(1, 26))


def test_small_runs_are_exact_in_the_explorer_too() -> None:
    problem = random_problem(12, 6, 0.4, 7)
    terms = program_terms(problem)
    explorer = ScheduleExplorer(problem)
    for gamma, k, at_most in product((0.2, 1.3), (4, 7), (False, True)):
        shown = explorer.answer(BudgetSettings(k, gamma=gamma, at_most=at_most))
        program = TwoSidedProgram(terms, gamma, k, at_most)
        assert shown.objective == pytest.approx(program.values(best_by_enumeration(program)[None, :])[0])
        assert shown.proved_optimal


def test_preparing_solves_the_nine_ahead() -> None:
    problem = random_problem(30, 6, 0.4, 8)
    explorer = ScheduleExplorer(problem)
    told: list[int] = []
    explorer.prepare(on_progress=lambda done, total, label: told.append(done))
    assert told == list(range(10))
    assert explorer.answer(BudgetSettings(12)) == ScheduleExplorer(problem).answer(BudgetSettings(12))
