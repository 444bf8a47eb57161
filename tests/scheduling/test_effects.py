"""Are knobs called idle exactly where they change nothing, and is a trade told with its real numbers?"""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.scheduling import (
    BudgetSettings,
    FairnessMode,
    Idle,
    SchedulingProblem,
    choose_epochs,
    idle_knobs,
    trade_of,
)
from flcontrib_core.scheduling.effects import Trade
from flcontrib_core.words import idle_reason, trade_sentence
from tests.scheduling.instances import GAMMAS, random_problem

ALL = SchedulingProblem(np.array([5.0, 1.0, 3.0, 2.0]), np.ones((4, 3), dtype=bool), ("a", "b", "c"))


@pytest.mark.parametrize("mode", [FairnessMode.TWO_SIDED, FairnessMode.ONE_SIDED, FairnessMode.TWO_SIDED_LB])
def test_weight_of_fairness_is_idle_where_all_take_part_always(mode: FairnessMode) -> None:
    settings = BudgetSettings(budget=2, fairness=mode)
    assert "gamma" in idle_knobs(ALL, settings)
    chosen = {choose_epochs(ALL, BudgetSettings(budget=2, fairness=mode, gamma=g)).chosen for g in (0.03, 0.3, 3.0)}
    assert len(chosen) == 1


def test_what_is_called_idle_changes_nothing() -> None:
    for participation in (0.4, 1.0):
        problem = random_problem(10, 5, participation, seed=1)
        for mode in FairnessMode:
            settings = BudgetSettings(budget=max(1, problem.epoch_count // 2), fairness=mode)
            if "gamma" in idle_knobs(problem, settings):
                chosen = {
                    choose_epochs(problem, BudgetSettings(budget=settings.budget, fairness=mode, gamma=g)).chosen
                    for g in GAMMAS
                }
                assert len(chosen) == 1, mode


def test_rules_ignore_weight_and_room() -> None:
    idle = idle_knobs(ALL, BudgetSettings(budget=2, fairness=FairnessMode.STRIDE))
    assert idle == {"at_most": Idle.RULE_FILLS_THE_BUDGET, "gamma": Idle.MODE_HAS_NO_WEIGHT}
    assert "at_most" not in idle_knobs(ALL, BudgetSettings(budget=2, fairness=FairnessMode.TOP_UTILITY))


def test_all_epochs_leave_nothing_to_choose() -> None:
    assert set(idle_knobs(ALL, BudgetSettings(budget=4))) == {"gamma", "fairness"}
    assert all(idle_reason(reason).endswith(".") for reason in Idle)


def test_trade_against_the_largest_movement() -> None:
    took_part = np.array([[1, 0], [1, 0], [0, 1], [1, 1]], dtype=bool)
    problem = SchedulingProblem(np.array([5.0, 4.0, 1.0, 2.0]), took_part, ("a", "b"))
    fair = choose_epochs(problem, BudgetSettings(budget=2, gamma=3.0))
    largest = choose_epochs(problem, BudgetSettings(budget=2, fairness=FairnessMode.TOP_UTILITY))
    trade = trade_of(fair, largest)
    assert trade.coverage_given == pytest.approx(largest.coverage - fair.coverage)
    assert trade.exposure_gained == pytest.approx((fair.lowest_exposure or 0) - (largest.lowest_exposure or 0))
    assert trade_sentence(trade) == (
        f"{100 * trade.coverage_given:.0f} points of coverage buy the least-seen client "
        f"{100 * trade.exposure_gained:.0f} points of exposure."
    )


@pytest.mark.parametrize(
    ("trade", "words"),
    [
        (Trade(0.06, 0.16, same_epochs=False), "6 points of coverage buy the least-seen client 16 points of exposure."),
        (Trade(0.01, 0.01, same_epochs=False), "1 point of coverage buys the least-seen client 1 point of exposure."),
        (Trade(0.0, 0.0, same_epochs=True), "fairness changes nothing"),
        (Trade(0.06, 0.0, same_epochs=False), "is not seen more often"),
        (Trade(0.0, 0.1, same_epochs=False), "at no loss of coverage"),
    ],
)
def test_trade_in_words(trade: Trade, words: str) -> None:
    assert words in trade_sentence(trade)
