"""The front door of the scheduler: the epochs to compute under a budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flcontrib_core.errors import ScheduleError
from flcontrib_core.scheduling.anytime import best_by_search, upper_bound
from flcontrib_core.scheduling.baselines import at_random, audit_core, evenly_spread
from flcontrib_core.scheduling.budget import check_settings, hand_picked, resolve_budget
from flcontrib_core.scheduling.enumeration import LARGEST_EPOCH_COUNT, best_by_enumeration
from flcontrib_core.scheduling.frontier import SEPARABLE, Frontier, answer_every_budget, frontier_of
from flcontrib_core.scheduling.measures import measured_schedule, objective_of
from flcontrib_core.scheduling.objectives import BoundedSchedule, ProgramTerms, TwoSidedProgram, program_terms
from flcontrib_core.scheduling.schedule import BudgetSettings, FairnessMode, Schedule, SchedulingProblem, schedule_json
from flcontrib_core.scheduling.solver_process import solve_apart
from flcontrib_core.scheduling.sorting import best_by_sorting
from flcontrib_core.vocabulary import BoolArray, OnProgress, no_progress

__all__ = ["choose_epochs", "resolve_budget", "schedule_json", "trace_frontier"]

_SOLVER_TOLERANCE = 1e-6
"""Of a solver's scaled objective, whose largest coefficient is near 1."""
_NEGLIGIBLE = 1e-5
"""A proof to within this is called a proof; at γ > 10 the solver's tolerance is wider, and stays as the gap."""


def choose_epochs(
    problem: SchedulingProblem, settings: BudgetSettings | None = None, on_progress: OnProgress = no_progress
) -> Schedule:
    """Which epochs does the budget go to, and how far from the best can that choice be?

    One-sided, lower bound and top utility are sorted; two-sided and audit are enumerated up to 16 epochs and searched
    with a proven gap above; ``settings.prove`` asks a solver to close that gap within ``proof_seconds``.
    Raises ``SettingsError`` for knobs out of range and ``ScheduleError`` when a solver's answer does not hold.
    Example: movements (5, 1, 3) with everybody present, budget 2: epochs 1 and 3, coverage 8/9.
    """
    settings = settings or BudgetSettings()
    check_settings(settings)
    terms = program_terms(problem, settings.paper_denominator, settings.normalise)
    settings, k, answer = answer_settings(terms, settings, on_progress)
    on_progress(2, 3, "blind spots")
    schedule = measured_schedule(problem, terms, settings, k, answer, lambda: answer_every_budget(terms, settings))
    on_progress(3, 3, "schedule ready")
    return schedule


def trace_frontier(problem: SchedulingProblem, settings: BudgetSettings | None = None) -> Frontier:
    """What would each budget k = 1 … T buy under these settings? (Their own budget is not read.)"""
    settings = settings or BudgetSettings()
    check_settings(settings)
    terms = program_terms(problem, settings.paper_denominator, settings.normalise)
    return frontier_of(problem, terms, settings, answer_every_budget(terms, settings))


def answer_settings(
    terms: ProgramTerms, settings: BudgetSettings, on_progress: OnProgress = no_progress
) -> tuple[BudgetSettings, int, BoundedSchedule]:
    """The answer, the k it was given for, and the settings it is measured by."""
    T = terms.epoch_count
    if settings.epochs is not None:
        mask = hand_picked(settings.epochs, T)
        exactly = replace(settings, at_most=False)
        return exactly, len(settings.epochs), _evaluated(terms, exactly, mask, "given")
    k = resolve_budget(settings.budget, T)
    if settings.budget is None:  # no budget: nothing to choose, whatever the mode
        everything = np.ones(T, dtype=np.bool_)
        exactly = replace(settings, at_most=False)
        return exactly, k, BoundedSchedule(everything, objective_of(terms, exactly, everything), "every epoch")
    return settings, k, _answer_budget(terms, settings, k, on_progress)


def _answer_budget(terms: ProgramTerms, settings: BudgetSettings, k: int, on_progress: OnProgress) -> BoundedSchedule:
    fairness, T = settings.fairness, terms.epoch_count
    if fairness in SEPARABLE:
        mask = best_by_sorting(terms.epoch_coefficients(fairness, settings.gamma), k, settings.at_most)
        return BoundedSchedule(mask, objective_of(terms, settings, mask), "sort")
    if fairness is FairnessMode.STRIDE:
        return _evaluated(terms, settings, evenly_spread(T, k), "stride")
    if fairness is FairnessMode.RANDOM:
        return _evaluated(terms, settings, at_random(T, k, settings.seed), "random")
    return solve_two_sided(two_sided_program(terms, settings, k), settings, on_progress)


def two_sided_program(terms: ProgramTerms, settings: BudgetSettings, k: int) -> TwoSidedProgram:
    """The program of the two-sided mode, or of the audit mode with its spread epochs forced in."""
    forced = np.zeros(terms.epoch_count, dtype=np.bool_)
    if settings.fairness is FairnessMode.AUDIT:
        forced = audit_core(terms.epoch_count, k, settings.audit_share, settings.audit_spread, settings.seed)
    return TwoSidedProgram(terms, settings.gamma, k, settings.at_most, forced)


def solve_two_sided(
    program: TwoSidedProgram, settings: BudgetSettings, on_progress: OnProgress = no_progress
) -> BoundedSchedule:
    """Enumerate, search, or – on request – prove eq. (two_sided_fairness)."""
    if int((~program.required).sum()) <= LARGEST_EPOCH_COUNT:
        mask = best_by_enumeration(program)
        return BoundedSchedule(mask, float(program.values(mask[None, :])[0]), "enumeration")
    on_progress(0, 3, "bound and search")
    answer = best_by_search(program, settings.seed)
    value = float(program.values(answer.schedule[None, :])[0])
    if not settings.prove or answer.bound - value <= program.tolerance:
        return answer
    on_progress(1, 3, f"proof, at most {settings.proof_seconds:g} s")
    return _proved(program, answer, value, settings.proof_seconds)


def _proved(program: TwoSidedProgram, searched: BoundedSchedule, value: float, seconds: float) -> BoundedSchedule:
    """What a solver adds to a searched answer: the proof, a better schedule, or at least a lower bound."""
    slack = _SOLVER_TOLERANCE * max(1.0, program.gamma)
    solved = solve_apart(program, seconds=seconds)
    if solved.schedule is None:
        return replace(searched, bound=max(value, min(searched.bound, solved.bound + slack)))
    solved_value = float(program.values(solved.schedule[None, :])[0])
    if solved.proved_optimal:
        if solved_value < value - slack:
            raise ScheduleError(
                f"{solved.solver} called {solved_value:.9g} optimal, but a schedule worth {value:.9g} is known; "
                "its proof is refused; schedule without a proof"
            )
        best = solved.schedule if solved_value >= value else searched.schedule
        bound = max(value, solved_value) + (slack if slack > _NEGLIGIBLE else 0.0)
        return BoundedSchedule(best, min(bound, searched.bound), str(solved.solver))
    bound = max(value, solved_value, min(searched.bound, solved.bound + slack))
    if solved_value > value + program.tolerance:
        return BoundedSchedule(solved.schedule, bound, str(solved.solver), found_by_search=True)
    return replace(searched, bound=bound)


def _evaluated(terms: ProgramTerms, settings: BudgetSettings, mask: BoolArray, method: str) -> BoundedSchedule:
    """An answer that no program chose, beside the bound of the best one with as many epochs."""
    k = int(mask.sum())
    if settings.fairness in SEPARABLE:
        coefficients = terms.epoch_coefficients(settings.fairness, settings.gamma)
        return BoundedSchedule(mask, float(best_by_sorting(coefficients, k) @ coefficients), method)
    program = TwoSidedProgram(terms, settings.gamma, k)
    if terms.epoch_count <= LARGEST_EPOCH_COUNT:
        return BoundedSchedule(mask, float(program.values(best_by_enumeration(program)[None, :])[0]), method)
    return BoundedSchedule(mask, upper_bound(program), method)
