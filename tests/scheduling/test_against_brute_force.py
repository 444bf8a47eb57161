"""Does every way of solving a program reach the best of all schedules?"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from flcontrib_core.scheduling.anytime import best_by_search
from flcontrib_core.scheduling.choose import choose_epochs
from flcontrib_core.scheduling.enumeration import best_by_enumeration
from flcontrib_core.scheduling.objectives import TwoSidedProgram, program_terms
from flcontrib_core.scheduling.programs import Formulation, Solver, comparators, solve_here
from flcontrib_core.scheduling.schedule import BudgetSettings, FairnessMode
from flcontrib_core.scheduling.sorting import best_by_sorting
from tests.scheduling.instances import GAMMAS, every_set, objectives_by_definition, random_problem

SEPARABLE = (FairnessMode.ONE_SIDED, FairnessMode.TWO_SIDED_LB, FairnessMode.TOP_UTILITY)
MODES = (*SEPARABLE, FairnessMode.TWO_SIDED)


@pytest.mark.parametrize(("epochs", "clients", "participation"), [(1, 3, 1.0), (7, 4, 0.5), (9, 6, 0.15), (12, 5, 0.4)])
def test_every_mode_every_gamma_every_budget(epochs: int, clients: int, participation: float) -> None:
    problem = random_problem(epochs, clients, participation, seed=1)
    for at_most, k in product((False, True), range(1, epochs + 1)):
        sets = every_set(epochs, k, at_most)
        for fairness, gamma in product(MODES, GAMMAS):
            best = objectives_by_definition(problem, sets, fairness, gamma).max()
            schedule = choose_epochs(problem, BudgetSettings(k, fairness, gamma, at_most))
            case = f"{fairness} γ={gamma} k={k} at most={at_most}"
            assert schedule.objective == pytest.approx(best, abs=1e-9), case
            assert schedule.proved_optimal, case
            assert schedule.gap == 0, case
            assert len(schedule.chosen) + schedule.unused_budget == k, case
            assert at_most or schedule.unused_budget == 0, case


@pytest.mark.parametrize("paper_denominator", [False, True])
def test_the_paper_denominator_reaches_its_own_optimum(paper_denominator: bool) -> None:
    problem = random_problem(10, 5, 0.4, seed=2)
    for k in (3, 6):
        best = objectives_by_definition(
            problem, every_set(10, k, True), FairnessMode.TWO_SIDED, 1.0, paper_denominator
        ).max()
        settings = BudgetSettings(k, gamma=1.0, at_most=True, paper_denominator=paper_denominator)
        assert choose_epochs(problem, settings).objective == pytest.approx(best, abs=1e-9)


def check_formulations(
    epochs: int,
    clients: int,
    participation: float,
    solver: Solver,
    budgets: range,
    gammas: tuple[float, ...] = GAMMAS,
) -> None:
    terms = program_terms(random_problem(epochs, clients, participation, seed=3))
    for at_most, gamma, k in product((False, True), gammas, budgets):
        program = TwoSidedProgram(terms, gamma, k, at_most)
        best = program.values(best_by_enumeration(program)[None, :])[0]
        for formulation in Formulation:
            answer = solve_here(program, formulation, solver)
            assert answer.proved_optimal
            assert answer.schedule is not None
            value = program.values(answer.schedule[None, :])[0]
            assert value == pytest.approx(best, abs=1e-6), f"{formulation} {solver} γ={gamma} k={k} {at_most=}"


def test_every_formulation_with_highs() -> None:
    check_formulations(7, 5, 0.4, Solver.HIGHS, range(1, 8))


def test_every_formulation_with_cbc() -> None:
    check_formulations(6, 4, 0.5, Solver.CBC, range(2, 7, 3), gammas=(0.3, 3.0))


@pytest.mark.slow
@pytest.mark.parametrize("solver", list(Solver))
@pytest.mark.parametrize(("epochs", "clients", "participation"), [(9, 6, 0.5), (12, 5, 0.5), (12, 8, 0.15)])
def test_every_formulation_on_the_large_suite(epochs: int, clients: int, participation: float, solver: Solver) -> None:
    check_formulations(epochs, clients, participation, solver, range(1, epochs + 1))


def test_programs_keep_forced_epochs_and_merge_identical_clients() -> None:
    problem = random_problem(10, 3, 0.5, seed=4)
    twins = np.hstack([problem.participated, problem.participated[:, :2], problem.participated[:, :1]])
    terms = program_terms(type(problem)(problem.movement, twins, tuple("abcdef")))
    forced = np.zeros(10, dtype=bool)
    forced[[8, 9]] = True
    for at_most in (False, True):
        program = TwoSidedProgram(terms, 1.0, 5, at_most, forced)
        sets = every_set(10, 5, at_most)
        best = terms.two_sided(sets[sets[:, forced].all(axis=1)], 1.0).max()
        for formulation in Formulation:
            answer = solve_here(program, formulation)
            assert answer.schedule is not None
            assert answer.schedule[forced].all()
            assert program.values(answer.schedule[None, :])[0] == pytest.approx(best, abs=1e-6)
        assert program.values(best_by_search(program).schedule[None, :])[0] == pytest.approx(best, abs=1e-9)
        assert program.values(best_by_enumeration(program)[None, :])[0] == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("fairness", SEPARABLE)
@pytest.mark.parametrize("at_most", [False, True])
def test_sorting_equals_the_integer_program(fairness: FairnessMode, at_most: bool) -> None:
    import pulp

    terms = program_terms(random_problem(40, 12, 0.3, seed=5))
    for gamma, k in product((0.0, 0.3, 3.0), (1, 13, 40)):
        coefficients = terms.epoch_coefficients(fairness, gamma)
        model = pulp.LpProblem("separable", pulp.LpMaximize)
        z = [model.add_variable(f"z{t}", cat="Binary") for t in range(len(coefficients))]
        model.setObjective(pulp.LpAffineExpression(list(zip(z, coefficients.tolist(), strict=True))))
        model.addConstraint(pulp.lpSum(z) <= k if at_most else pulp.lpSum(z) == k)
        model.solve(pulp.HiGHS(msg=False, gapRel=0, threads=1))
        assert model.sol_status == pulp.LpSolutionOptimal
        sorted_value = best_by_sorting(coefficients, k, at_most) @ coefficients
        assert sorted_value == pytest.approx(pulp.value(model.objective) or 0.0, abs=1e-7)


@pytest.mark.parametrize("wires", [1, 2, 3, 7, 16, 33, 64, 100])
def test_the_comparators_sort(wires: int) -> None:
    values = np.random.default_rng(wires).random((50, wires))
    expected = np.sort(values, axis=1)
    pairs = comparators(wires)
    for low, high in pairs:
        values[:, [low, high]] = np.sort(values[:, [low, high]], axis=1)
    np.testing.assert_array_equal(values, expected)
    assert len(pairs) <= wires * np.log2(max(2, wires)) ** 2


def search_suite(seeds: range) -> tuple[int, int, float]:
    """(instances, optimal, worst loss) of bounded search against enumeration; checks bound and budget on the way."""
    instances = optimal = 0
    worst = 0.0
    sizes, gammas = ((10, 6), (13, 16), (16, 6), (16, 16)), (0.03, 0.3, 1.0, 3.0)
    for (epochs, clients), participation, gamma, seed in product(sizes, (0.1, 0.5), gammas, seeds):
        terms = program_terms(random_problem(epochs, clients, participation, 1000 + seed))
        k = (epochs // 4, epochs // 2, 3 * epochs // 4)[seed % 3]
        program = TwoSidedProgram(terms, gamma, k, at_most=seed % 2 == 1)
        best = float(program.values(best_by_enumeration(program)[None, :])[0])
        answer = best_by_search(program)
        value = float(program.values(answer.schedule[None, :])[0])
        assert program.admits(answer.schedule[None, :])[0]
        assert answer.bound >= best - 1e-9
        assert value <= best + 1e-9
        instances += 1
        optimal += value >= best - program.tolerance
        worst = max(worst, best - value)
    return instances, optimal, worst


def test_bounded_search_is_optimal_almost_always() -> None:
    instances, optimal, _ = search_suite(range(3))
    assert optimal >= 0.97 * instances, f"{optimal} of {instances}"


@pytest.mark.slow
def test_bounded_search_on_the_large_suite() -> None:
    instances, optimal, worst = search_suite(range(9, 23))
    assert instances >= 400
    assert optimal >= 0.97 * instances, f"{optimal} of {instances}"
    assert worst <= 0.04


def test_a_very_large_gamma_minimises_unfairness_and_then_maximises_coverage() -> None:
    problem = random_problem(12, 6, 0.4, seed=8)
    sets = every_set(12, 5, False)
    gaps = -objectives_by_definition(problem, sets, FairnessMode.TWO_SIDED, 1.0)
    coverage = objectives_by_definition(problem, sets, FairnessMode.TOP_UTILITY, 1.0)
    gaps = gaps + coverage
    fairest = np.flatnonzero(gaps < gaps.min() + 1e-9)
    expected = sets[fairest[coverage[fairest].argmax()]]
    assert choose_epochs(problem, BudgetSettings(5, gamma=1e6)).chosen == tuple(np.flatnonzero(expected) + 1)
    program = TwoSidedProgram(program_terms(problem), 1e6, 5)
    np.testing.assert_array_equal(best_by_search(program).schedule, expected)


def test_bounded_search_repeats_itself() -> None:
    program = TwoSidedProgram(program_terms(random_problem(60, 20, 0.3, 6)), 1.0, 25)
    first, second = best_by_search(program, seed=3), best_by_search(program, seed=3)
    np.testing.assert_array_equal(first.schedule, second.schedule)
    assert first.bound == second.bound
