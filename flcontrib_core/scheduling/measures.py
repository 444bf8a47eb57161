"""Measures of a schedule: its worth, its distance from the best, its fairness, its cost, its blind spots."""

from __future__ import annotations

from collections.abc import Callable

from flcontrib_core.scheduling.blind_spots import blind_run_limit, find_blind_spots, smallest_budgets, unseen_clients
from flcontrib_core.scheduling.every_budget import EveryBudget
from flcontrib_core.scheduling.frontier import SEPARABLE
from flcontrib_core.scheduling.objectives import BoundedSchedule, ProgramTerms, rounding
from flcontrib_core.scheduling.schedule import BudgetSettings, Schedule, SchedulingProblem
from flcontrib_core.vocabulary import BoolArray


def objective_of(terms: ProgramTerms, settings: BudgetSettings, schedule: BoolArray) -> float:
    """The mode's own objective; plain rules, audit and hand-picked sets are measured by the two-sided one."""
    if settings.fairness in SEPARABLE:
        return float(schedule @ terms.epoch_coefficients(settings.fairness, settings.gamma))
    return float(terms.two_sided(schedule[None, :], settings.gamma)[0])


def measured_schedule(
    problem: SchedulingProblem,
    terms: ProgramTerms,
    settings: BudgetSettings,
    k: int,
    answer: BoundedSchedule,
    every_budget: Callable[[], EveryBudget],
) -> Schedule:
    """Build the ``Schedule`` of an answer. ``every_budget`` is asked only when there is a blind spot to remove."""
    mask = answer.schedule
    objective = objective_of(terms, settings, mask)
    gap = max(0.0, answer.bound - objective)
    proved = gap <= rounding(settings.gamma)
    exposures = terms.exposures(mask[None, :])
    shown: dict[str, float | None] = dict.fromkeys(problem.client_ids)
    shown.update({problem.client_ids[i]: float(e) for i, e in zip(terms.present, exposures[0], strict=True)})
    total = float(problem.movement.sum())
    blind = find_blind_spots(problem, mask)
    unseen = unseen_clients(problem, mask)
    without_clients = without_spots = None
    by_search = False
    if blind:
        every = every_budget()
        without_clients, without_spots = smallest_budgets(problem, every.schedules, above=k)
        by_search = every.found_by_search
    counts = problem.evaluations
    return Schedule(
        chosen=tuple(int(t) + 1 for t in mask.nonzero()[0]),
        epoch_count=problem.epoch_count,
        k=k,
        fairness=settings.fairness,
        gamma=settings.gamma,
        at_most=settings.at_most,
        objective=objective,
        bound=objective if proved else answer.bound,
        gap=0.0 if proved else gap,
        proved_optimal=proved,
        coverage=float(problem.movement[mask].sum()) / total if total > 0 else 0.0,
        exposure=shown,
        exposure_gap=float(terms.exposure_gap(exposures)[0]),
        epoch_weights=tuple(float(p) for p in terms.epoch_weights),
        unused_budget=k - int(mask.sum()),
        predicted_evaluations=None if counts is None else int(counts[mask].sum()),
        method=answer.method,
        blind_spots=blind,
        unseen_clients=unseen,
        smallest_k_without_blind_clients=without_clients if unseen else None,
        smallest_k_without_blind_spots=without_spots,
        smallest_k_by_search=by_search,
        blind_run_limit=blind_run_limit(problem.epoch_count),
        full_evaluations=None if counts is None else int(counts.sum()),
    )
