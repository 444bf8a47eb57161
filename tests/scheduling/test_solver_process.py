"""Is a solver ended at its limit, and is its word checked before it is believed?"""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.errors import MissingPart, ScheduleError
from flcontrib_core.scheduling import choose, programs, solver_process
from flcontrib_core.scheduling.choose import choose_epochs
from flcontrib_core.scheduling.objectives import TwoSidedProgram, program_terms
from flcontrib_core.scheduling.programs import Formulation, Solver, SolverAnswer, fitting_formulation, solve_here
from flcontrib_core.scheduling.schedule import BudgetSettings
from flcontrib_core.scheduling.solver_process import solve_apart
from tests.scheduling.instances import every_set, random_problem

HARD = random_problem(60, 32, 0.3, 0)


def hard_program() -> TwoSidedProgram:
    return TwoSidedProgram(program_terms(HARD), 3.0, 30)


def test_a_child_process_proves_what_brute_force_finds() -> None:
    problem = random_problem(18, 6, 0.4, 1)
    best = program_terms(problem).two_sided(every_set(18, 7, False), 1.0).max()
    schedule = choose_epochs(problem, BudgetSettings(7, gamma=1.0, prove=True))
    assert schedule.proved_optimal
    assert schedule.objective == pytest.approx(best, abs=1e-6)
    assert schedule.gap == 0
    assert schedule.method in {"highs", "cbc", "anytime"}


def test_a_time_out_is_never_called_optimal() -> None:
    for solver in Solver:
        answer = solve_here(hard_program(), Formulation.PAIRS, solver, seconds=0.3)
        assert not answer.proved_optimal
        assert answer.schedule is None or answer.schedule.sum() == 30
    schedule = choose_epochs(HARD, BudgetSettings(30, gamma=3.0, prove=True, proof_seconds=0.5))
    searched = choose_epochs(HARD, BudgetSettings(30, gamma=3.0))
    assert not schedule.proved_optimal
    assert schedule.gap > 0
    assert schedule.objective >= searched.objective - 1e-9
    assert schedule.bound <= searched.bound + 1e-9


def test_a_solver_that_overruns_is_ended_with_its_child() -> None:
    # the solver is given 300 s, its process 1.5 s: a nearly complete run of CBC would have left some schedule behind
    answer = solve_apart(hard_program(), Formulation.DIRECT, Solver.CBC, seconds=300, grace=-298.5)
    assert answer == SolverAnswer(None, False, np.inf, Solver.CBC)


def test_a_child_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver_process, "python_command", lambda *arguments: ["/bin/false"])
    with pytest.raises(ScheduleError, match="ended with code 1"):
        solve_apart(hard_program(), seconds=1)


class FalseClaim:
    """A solver that calls its first epochs optimal, whatever the budget."""

    def __init__(self, chosen: int, sol_status: int) -> None:
        self.chosen, self.sol_status = chosen, sol_status

    def available(self) -> bool:
        return True

    def __call__(self, *_: object) -> FalseClaim:
        return self


def claim(monkeypatch: pytest.MonkeyPatch, chosen: int, sol_status: int) -> None:
    """Let the solver leave ``chosen`` epochs behind under ``sol_status``."""
    import pulp

    def solve(model: pulp.LpProblem, engine: FalseClaim) -> None:
        for n, variable in enumerate(v for v in model.variables() if v.name.startswith("z")):
            variable.varValue = float(n < engine.chosen)
        model.assignStatus(pulp.LpStatusOptimal, engine.sol_status)

    monkeypatch.setattr(programs, "_engine", FalseClaim(chosen, sol_status))
    monkeypatch.setattr(pulp.LpProblem, "solve", solve)


def test_too_many_epochs_called_optimal_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    claim(monkeypatch, chosen=31, sol_status=1)
    with pytest.raises(ScheduleError, match="31 chosen epochs"):
        solve_here(hard_program(), Formulation.PAIRS, Solver.CBC)


def test_too_many_epochs_after_a_time_out_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    claim(monkeypatch, chosen=31, sol_status=2)
    assert solve_here(hard_program(), Formulation.PAIRS, Solver.CBC).schedule is None


def test_values_left_behind_by_an_unsolved_program_are_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    claim(monkeypatch, chosen=30, sol_status=0)
    assert solve_here(hard_program(), Formulation.PAIRS, Solver.CBC).schedule is None


def test_a_proof_below_a_known_schedule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    worst = np.zeros(60, dtype=bool)
    worst[30:] = True
    monkeypatch.setattr(choose, "solve_apart", lambda *_, **__: SolverAnswer(worst, True, 0.0, Solver.HIGHS))
    with pytest.raises(ScheduleError, match="proof is refused"):
        choose_epochs(HARD, BudgetSettings(30, gamma=3.0, prove=True))


def test_cbc_steps_in_where_highs_is_missing_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import pulp

    program = TwoSidedProgram(program_terms(random_problem(10, 4, 0.5, 0)), 0.3, 4)
    assert solve_here(program, Formulation.PAIRS).solver is Solver.HIGHS
    monkeypatch.setattr(pulp.HiGHS, "available", lambda self: False)
    answer = solve_here(program, Formulation.PAIRS)
    assert answer.solver is Solver.CBC
    assert answer.proved_optimal
    monkeypatch.setattr(pulp.COIN_CMD, "available", lambda self: False)
    with pytest.raises(MissingPart, match="highspy"):
        solve_here(program, Formulation.PAIRS)


def test_many_distinct_clients_get_the_sorting_network() -> None:
    assert fitting_formulation(hard_program()) is Formulation.PAIRS
    many = random_problem(40, 80, 0.5, 0)
    assert fitting_formulation(TwoSidedProgram(program_terms(many), 1.0, 20)) is Formulation.NETWORK


def test_a_proof_is_not_called_exact_where_the_solver_cannot_be() -> None:
    problem = random_problem(18, 6, 0.4, 1)
    schedule = choose_epochs(problem, BudgetSettings(7, gamma=100.0, prove=True))
    best = program_terms(problem).two_sided(every_set(18, 7, False), 100.0).max()
    assert schedule.objective == pytest.approx(best, abs=1e-4)
    assert schedule.bound >= best - 1e-9
    assert not schedule.proved_optimal
    assert schedule.gap == pytest.approx(1e-4, abs=1e-6)
