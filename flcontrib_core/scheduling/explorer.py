"""Schedules while a knob is being moved: what neighbouring settings already proved is used again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from threading import RLock
from typing import TypeVar

import numpy as np

from flcontrib_core.scheduling.anytime import ORDINARY_CELLS, best_by_search
from flcontrib_core.scheduling.budget import check_settings, resolve_budget
from flcontrib_core.scheduling.choose import answer_settings, two_sided_program
from flcontrib_core.scheduling.enumeration import LARGEST_EPOCH_COUNT
from flcontrib_core.scheduling.every_budget import (
    EveryBudget,
    as_at_most,
    reused_between,
    two_sided_for_every_budget,
)
from flcontrib_core.scheduling.frontier import Frontier, answer_every_budget, frontier_of
from flcontrib_core.scheduling.measures import measured_schedule
from flcontrib_core.scheduling.objectives import BoundedSchedule, ProgramTerms, program_terms
from flcontrib_core.scheduling.schedule import (
    BudgetSettings,
    FairnessMode,
    Normalisation,
    Schedule,
    SchedulingProblem,
)
from flcontrib_core.scheduling.sorting import best_of_every_size
from flcontrib_core.vocabulary import FloatArray, OnProgress, no_progress

SOLVED_GAMMAS: FloatArray = np.geomspace(0.03, 3.0, 9)
"""The nine γ that are solved when first needed; all others between them are answered from their two neighbours."""
_REMEMBERED = 48

Remembered = TypeVar("Remembered")


class ScheduleExplorer:
    """Answers of one run for any knob position; keep one per run and ask it on every change.

    * k: the two-sided answers of all budgets are found together, and one pull bounds them all.
    * γ: the optimum is convex in γ; between two solved γ the chord of their bounds holds, and the better of their
      schedules, improved, is the answer.
    * Everything else (sorted modes, plain rules, audit) is computed afresh: it is instant, or remembered.

    Up to 50 000 epochs × clients an answer is never worse than the search of ``choose_epochs``. To compute exactly
    what is shown, pass ``settings.epochs = schedule.chosen`` on. ``settings.prove`` runs a solver: not in a page's
    thread.
    """

    def __init__(self, problem: SchedulingProblem) -> None:
        self._problem = problem
        self._terms: dict[tuple[bool, Normalisation], ProgramTerms] = {}
        self._solved: dict[tuple[bool, Normalisation, int, int], EveryBudget] = {}
        self._recent: OrderedDict[BudgetSettings, EveryBudget] = OrderedDict()
        self._answers: OrderedDict[BudgetSettings, Schedule] = OrderedDict()
        self._lock = RLock()

    def answer(self, settings: BudgetSettings) -> Schedule:
        """The schedule for these settings, as ``choose_epochs`` would give it or better."""
        check_settings(settings)
        with self._lock:
            schedule = self._answers.get(settings)
            if schedule is None:
                schedule = self._answer(settings)
                _remember(self._answers, settings, schedule)
            return schedule

    def frontier(self, fairness: FairnessMode, gamma: float, settings: BudgetSettings | None = None) -> Frontier:
        """What each budget k = 1 … T buys in this mode at this γ; ``settings`` gives the other knobs."""
        settings = replace(settings or BudgetSettings(), fairness=fairness, gamma=gamma)
        check_settings(settings)
        with self._lock:
            return frontier_of(self._problem, self._terms_for(settings), settings, self._every_budget(settings))

    def prepare(self, settings: BudgetSettings | None = None, on_progress: OnProgress = no_progress) -> None:
        """Solve the nine γ ahead of the first drag (a background thread may do this)."""
        settings = settings or BudgetSettings()
        for n, gamma in enumerate(SOLVED_GAMMAS):
            on_progress(n, len(SOLVED_GAMMAS), f"γ = {gamma:.2g}")
            with self._lock:
                self._two_sided(replace(settings, fairness=FairnessMode.TWO_SIDED, gamma=float(gamma)))
        on_progress(len(SOLVED_GAMMAS), len(SOLVED_GAMMAS), "ready")

    def _answer(self, settings: BudgetSettings) -> Schedule:
        terms = self._terms_for(settings)
        reusable = (
            settings.fairness is FairnessMode.TWO_SIDED
            and settings.epochs is None
            and settings.budget is not None
            and not settings.prove
        )
        if reusable:
            k = resolve_budget(settings.budget, terms.epoch_count)
            measured_by, answer = settings, self._reused(terms, settings, k)
        else:
            measured_by, k, answer = answer_settings(terms, settings)
        return measured_schedule(self._problem, terms, measured_by, k, answer, lambda: self._every_budget(measured_by))

    def _reused(self, terms: ProgramTerms, settings: BudgetSettings, k: int) -> BoundedSchedule:
        every = self._every_budget(settings)
        value, bound = float(every.values[k - 1]), float(every.bounds[k - 1])
        if not every.found_by_search:
            return BoundedSchedule(every.schedules[k - 1], bound, "enumeration")
        program = two_sided_program(terms, settings, k)
        reused = BoundedSchedule(every.schedules[k - 1], bound, "anytime", found_by_search=True)
        if bound - value <= program.tolerance or terms.epoch_count * terms.client_count > ORDINARY_CELLS:
            return reused
        fresh = best_by_search(program, settings.seed)
        fresh_value = float(program.values(fresh.schedule[None, :])[0])
        bound = max(value, fresh_value, min(bound, fresh.bound))
        if fresh_value <= value + program.tolerance:
            return replace(reused, bound=bound)
        self._learn(settings, k, fresh, fresh_value)
        return replace(fresh, bound=bound)

    def _learn(self, settings: BudgetSettings, k: int, answer: BoundedSchedule, value: float) -> None:
        """Put a better schedule into the frontier, so that the curve passes through the shown answer."""
        every = self._every_budget(settings)
        schedules, values = every.schedules.copy(), every.values.copy()
        schedules[k - 1], values[k - 1] = answer.schedule, value
        better = replace(every, schedules=schedules, values=values, bounds=np.maximum(every.bounds, values))
        _remember(self._recent, _without_budget(settings), better)

    def _every_budget(self, settings: BudgetSettings) -> EveryBudget:
        key = _without_budget(settings)
        every = self._recent.get(key)
        if every is None:
            if settings.fairness is FairnessMode.TWO_SIDED:
                exactly = self._two_sided(settings)
                every = as_at_most(exactly) if settings.at_most else exactly
            else:
                every = answer_every_budget(self._terms_for(settings), settings)
            _remember(self._recent, key, every)
        return every

    def _two_sided(self, settings: BudgetSettings) -> EveryBudget:
        """Exactly-k answers of all budgets: solved at the nine γ, reused between them."""
        terms, gamma = self._terms_for(settings), settings.gamma
        solved = np.append(0.0, SOLVED_GAMMAS)
        if gamma > solved[-1] or terms.epoch_count <= LARGEST_EPOCH_COUNT:
            return two_sided_for_every_budget(terms, gamma, settings.seed)
        above = int(np.searchsorted(solved, gamma * (1 - 1e-9)))
        if np.isclose(solved[above], gamma, rtol=1e-9, atol=0.0):
            return self._solve(settings, above)
        share = (gamma - solved[above - 1]) / (solved[above] - solved[above - 1])
        below_above = self._solve(settings, above - 1), self._solve(settings, above)
        return reused_between(terms, gamma, *below_above, float(share))

    def _solve(self, settings: BudgetSettings, place: int) -> EveryBudget:
        """Place 0 is γ = 0; place n is the n-th of the nine."""
        key = (settings.paper_denominator, settings.normalise, settings.seed, place)
        if key not in self._solved:
            terms = self._terms_for(settings)
            if place == 0:  # coverage alone: sorting is exact, and the middle of all orders pulls nowhere
                schedules = best_of_every_size(terms.weights)
                values = terms.covered(schedules)
                self._solved[key] = EveryBudget(schedules, values, values, np.zeros((1, terms.epoch_count)))
            else:
                gamma = float(SOLVED_GAMMAS[place - 1])
                self._solved[key] = two_sided_for_every_budget(terms, gamma, settings.seed)
        return self._solved[key]

    def _terms_for(self, settings: BudgetSettings) -> ProgramTerms:
        reading = settings.paper_denominator, settings.normalise
        if reading not in self._terms:
            self._terms[reading] = program_terms(self._problem, *reading)
        return self._terms[reading]


def _without_budget(settings: BudgetSettings) -> BudgetSettings:
    """The settings that all budgets of one frontier share."""
    return replace(settings, budget=None, epochs=None, prove=False)


def _remember(memory: OrderedDict[BudgetSettings, Remembered], key: BudgetSettings, value: Remembered) -> None:
    memory[key] = value
    if len(memory) > _REMEMBERED:
        memory.popitem(last=False)
