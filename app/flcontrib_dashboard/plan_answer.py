"""A planned run, and what the knobs get: a schedule, its frontier, its price and the question of its job."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from flcontrib_core.auditing import settings_from_record
from flcontrib_core.errors import FLContribError
from flcontrib_core.history import (
    Price,
    RunMeasurement,
    epoch_costs,
    price,
    problem_of_history,
    unpriced_problem,
)
from flcontrib_core.scheduling import BudgetSettings, FairnessMode, Frontier, Schedule, SchedulingProblem
from flcontrib_core.vocabulary import IntArray
from flcontrib_core.workspace import RunEntry, stored_proof
from flcontrib_dashboard import state
from flcontrib_dashboard.plan_knobs import Choice

PATIENT_SECONDS = 600.0
"""Up to this much, all epochs are offered first; a longer computation is offered at three quarters of them."""


_USUAL = settings_from_record({}).assess


@dataclass(frozen=True)
class Planned:
    """A run that can be planned: what it is planned from, and its result where there is one."""

    entry: RunEntry
    digest: str
    """Of what the plan is made from: whatever is kept of it is found by this."""
    measurement: RunMeasurement | None
    shown: state.Shown | None

    def problem(self, weight_utility: str) -> SchedulingProblem:
        """Movement and participation, measured or from the history."""
        return state.cached((self.digest, "problem", weight_utility), lambda: self._problem(weight_utility))

    def _problem(self, weight_utility: str) -> SchedulingProblem:
        if self.measurement is not None:
            return unpriced_problem(self.measurement, weight_utility)
        assert self.shown is not None
        settings = settings_from_record(dict(self.shown.report.provenance.settings)).assess
        return problem_of_history(self.shown.report.history, replace(settings, weight_utility=weight_utility))

    @property
    def utilities(self) -> tuple[str, ...]:
        """What the run's models are measured by."""
        if self.measurement is not None:
            return self.measurement.utilities
        return self.shown.report.history.utilities if self.shown is not None else ()

    @property
    def usual_k(self) -> int:
        """As much as is affordable; as much as the result on screen has; beside a full one a budget to compare with."""
        computed = 0 if self.shown is None else int(self.shown.report.history.computed[1:].sum())
        if 0 < computed < self.entry.epochs:
            return computed
        if self.shown is not None or self.measurement is None:
            return int(0.6 * self.entry.epochs + 0.5)
        whole = price(self.measurement, _USUAL, range(1, self.entry.epochs + 1))
        dear = whole.seconds is not None and whole.seconds > PATIENT_SECONDS
        return round(0.75 * self.entry.epochs) if dear else self.entry.epochs


def planned(entry: RunEntry, shown: state.Shown | None) -> Planned | None:
    """The run as it can be planned now; None where it is not measured and has no result either."""
    measured = state.measurement(entry)
    if measured is not None:
        return Planned(entry, measured[0], measured[1], shown)
    return None if shown is None else Planned(entry, shown.result.digest, None, shown)


@dataclass(frozen=True)
class Answer:
    """What the knobs ask for and what they get: everything the cards below them show."""

    run: Planned
    choice: Choice
    plan: Schedule
    frontier: Frontier
    one_sided: Frontier
    largest: Schedule
    """As many epochs, those of largest movement: what fairness is measured against."""
    costs: IntArray | None
    """(T,) evaluations of each epoch with the chosen estimator; None where that is refused."""
    refusal: str
    mode: str

    @property
    def key(self) -> tuple[Hashable, ...]:
        proved = self.plan.method if self.plan.proved_optimal else ""
        return (self.run.digest, self.choice.budget, self.choice.assess.weight_utility, proved, self.mode)

    @property
    def lowest_exposure(self) -> float:
        return self.plan.lowest_exposure or 0.0

    @cached_property
    def price(self) -> Price | None:
        """With the estimator that will run; None where it is refused, or where the run was never measured."""
        if self.run.measurement is None or self.refusal:
            return None
        epochs = self.plan.chosen if self.choice.assess.values else ()
        return price(self.run.measurement, self.choice.assess, epochs, self.choice.execution.processes)

    @property
    def evaluations(self) -> int | None:
        if not self.choice.assess.values:
            return 0
        return None if self.costs is None else int(self.costs[np.array(self.plan.chosen, dtype=int) - 1].sum())


def answer_to(run: Planned, choice: Choice) -> Answer:
    """Schedules depend on movement and participation alone; their price follows the estimator."""
    weigh = choice.assess.weight_utility
    plans = state.explorer(run.digest, weigh, run.problem(weigh))
    budget, costs, refusal = choice.budget, None, ""
    try:
        if run.measurement is None:
            costs = run.problem(weigh).evaluations
        else:
            costs = np.array([cost.likely for cost in epoch_costs(run.measurement, choice.assess)], dtype=np.int64)
    except FLContribError as refused:
        refusal = str(refused)
    plan = plans.answer(budget)
    proof = stored_proof(state.workspace(), run.entry.digest, choice.settings.record())
    if proof is not None and proof.objective >= plan.objective:
        plan = proof
    return Answer(
        run,
        choice,
        plan,
        _priced(plans.frontier(budget.fairness, budget.gamma, budget), costs),
        _priced(plans.frontier(FairnessMode.ONE_SIDED, budget.gamma, budget), costs),
        plans.answer(
            replace(budget, fairness=FairnessMode.TOP_UTILITY, at_most=False, budget=max(1, len(plan.chosen)))
        ),
        costs,
        refusal,
        state.theme(),
    )


def _priced(frontier: Frontier, costs: IntArray | None) -> Frontier:
    """The curve with the chosen estimator's evaluations as its cost."""
    if costs is None:
        return replace(frontier, evaluations=None, full_evaluations=None)
    evaluations = np.asarray(frontier.schedules.astype(np.int64) @ costs)
    return replace(frontier, evaluations=evaluations, full_evaluations=int(costs.sum()))


def predicted_seconds(answer: Answer) -> float | None:
    """Of the price, or from the speed of the result on screen where the run was never measured."""
    if answer.price is not None or answer.run.shown is None or answer.evaluations is None:
        return None if answer.price is None else answer.price.seconds
    report = answer.run.shown.report
    rate = float(report.history.evaluations.sum()) / report.seconds if report.seconds > 0 else 0.0
    return answer.evaluations / rate if rate > 0 else None


def same_question(answer: Answer, shown: state.Shown) -> bool:
    """Is the result on screen of these settings, budget aside? Then its epochs need not be computed again."""
    before = settings_from_record(dict(shown.report.provenance.settings))
    asked = answer.choice.settings
    same = replace(before.assess, budget=BudgetSettings()) == replace(asked.assess, budget=BudgetSettings())
    return same and before.preset == asked.preset


def question(answer: Answer) -> dict[str, object]:
    """The job's settings: the chosen epochs by number, or no budget at all where every epoch is chosen."""
    settings, plan = answer.choice.settings, answer.plan
    budget = replace(settings.assess.budget, epochs=plan.chosen)
    if len(plan.chosen) == plan.epoch_count or not settings.assess.values:
        budget = type(budget)(seed=settings.assess.seed)
    return replace(settings, assess=replace(settings.assess, budget=budget)).record()
