"""Effects of the knobs: which of them change nothing on this run, and what a choice of epochs trades for what."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from flcontrib_core.scheduling.objectives import TIE, program_terms
from flcontrib_core.scheduling.schedule import BudgetSettings, FairnessMode, Schedule, SchedulingProblem

BY_RULE = frozenset({FairnessMode.STRIDE, FairnessMode.RANDOM})
"""Modes that look at nothing but the number of epochs."""


class Idle(StrEnum):
    """Why a knob changes nothing."""

    ALL_SEEN_ALIKE = "all-seen-alike"
    """γ: every client took part in the same epochs, so any choice sees them equally often."""
    EPOCHS_ALIKE = "epochs-alike"
    """γ: every epoch adds the same to the clients' side of the objective."""
    MODE_HAS_NO_WEIGHT = "mode-has-no-weight"
    """γ: the mode does not weigh fairness."""
    RULE_FILLS_THE_BUDGET = "rule-fills-the-budget"
    """at most: the mode always takes k epochs."""
    EVERY_EPOCH = "every-epoch"
    """all of them: every epoch is computed."""


def idle_knobs(problem: SchedulingProblem, settings: BudgetSettings) -> dict[str, Idle]:
    """'gamma', 'fairness' and 'at_most', where moving them would change nothing, with the reason."""
    fairness = settings.fairness
    if settings.budget == problem.epoch_count and not settings.at_most:
        return dict.fromkeys(("gamma", "fairness"), Idle.EVERY_EPOCH)
    idle: dict[str, Idle] = {}
    if fairness in BY_RULE:
        idle["at_most"] = Idle.RULE_FILLS_THE_BUDGET
    if fairness in BY_RULE | {FairnessMode.TOP_UTILITY}:
        idle["gamma"] = Idle.MODE_HAS_NO_WEIGHT
        return idle
    terms = program_terms(problem)
    if fairness in (FairnessMode.TWO_SIDED, FairnessMode.AUDIT):
        if terms.client_count < 2 or bool((np.ptp(terms.rates, axis=1) <= TIE).all()):
            idle["gamma"] = Idle.ALL_SEEN_ALIKE
    elif not settings.at_most:
        fair = terms.epoch_coefficients(fairness, 1.0) - terms.epoch_coefficients(fairness, 0.0)
        if np.ptp(fair) <= TIE:
            idle["gamma"] = Idle.EPOCHS_ALIKE
    return idle


@dataclass(frozen=True)
class Trade:
    """What a schedule gives up against the epochs of largest movement, and what the least seen client gets for it."""

    coverage_given: float
    """Share of the movement."""
    exposure_gained: float
    """Of the least seen client, as a share of its epochs."""
    same_epochs: bool


def trade_of(schedule: Schedule, largest: Schedule) -> Trade:
    """``largest``: the schedule of as many epochs with the largest movement."""
    gained = (schedule.lowest_exposure or 0.0) - (largest.lowest_exposure or 0.0)
    return Trade(largest.coverage - schedule.coverage, gained, schedule.chosen == largest.chosen)
