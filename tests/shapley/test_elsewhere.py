"""Methods of another Python's packages on tabulated games: the same values wherever they are computed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.errors import FLContribError, SettingsError
from flcontrib_core.execution.children import python_command
from flcontrib_core.shapley.elsewhere import VARIABLE, MethodBudget, answer_here, estimate_elsewhere
from flcontrib_core.shapley.exact_values import shapley_from_table
from flcontrib_core.shapley.shapiq_adapter import Shapiq
from tests.shapley.closed_form import random_table, table_game

BESIDE = Path(__file__).parents[2] / ".venv-shapiq" / "bin" / "python"
NEWEST = os.environ.get(VARIABLE) or (str(BESIDE) if BESIDE.exists() else "")


def tables(players: int = 7) -> dict[int, np.ndarray]:
    sizes = np.bitwise_count(np.arange(1 << players))[:, None]
    made = {epoch: 0.1 * random_table(epoch, players, 2) + 0.3 * sizes for epoch in (1, 4)}
    for table in made.values():
        table[0] = 0
    return made


def test_a_child_gives_the_values_that_an_assessment_gives_here() -> None:
    tasks = [MethodBudget("shapiq:SVARM", 40), MethodBudget("complementary", 30)]
    answer = estimate_elsewhere(python_command()[0], tables(), tasks, seed=3)
    assert answer == answer_here(tables(), tasks, seed=3)
    assert [(e.task, e.epoch, e.evaluations) for e in answer.estimates[:2]] == [(tasks[0], 1, 40), (tasks[0], 4, 40)]
    direct = Shapiq(name="SVARM", evaluations=40).estimate(
        table_game(tables()[4]).oracle(), np.random.default_rng([3, 4])
    )
    assert answer.estimates[1].values == direct.values.tolist()


def test_what_the_other_python_lacks_is_named_and_what_a_budget_cannot_buy_left_out() -> None:
    answer = answer_here(
        tables(),
        [MethodBudget("shapiq:ShaplEIG", 20), MethodBudget("surrogate", 20), MethodBudget("monte-carlo", 1)],
        0,
    )
    assert set(answer.missing) == {"shapiq:ShaplEIG", "surrogate"}  # the latter reads logits, which no table has
    assert answer.estimates == []


def test_an_interpreter_that_does_not_start_is_refused() -> None:
    with pytest.raises(SettingsError, match=f"{VARIABLE} names .*nowhere"):
        estimate_elsewhere("/nowhere/python", tables(), [MethodBudget("complementary", 30)], seed=0)


def test_a_child_that_fails_is_heard() -> None:
    with pytest.raises(FLContribError, match=r"ended with code 1: .*magic"):
        estimate_elsewhere(python_command()[0], tables(), [MethodBudget("magic", 30)], seed=0)


@pytest.mark.skipif(not NEWEST, reason=f"needs `make shapiq` (Python 3.12), or its interpreter in {VARIABLE}")
def test_the_newest_of_shapiq_come_near_without_torch() -> None:
    names = ("LeverageSHAP", "RegressionMSR", "OddSHAP", "ShaplEIG")
    answer = estimate_elsewhere(NEWEST, tables(), [MethodBudget(f"shapiq:{name}", 100) for name in names], seed=0)
    assert set(answer.missing) == {"shapiq:ShaplEIG"}
    assert len(answer.estimates) == 6
    for estimate in answer.estimates:
        assert 98 <= estimate.evaluations <= 100
        assert np.abs(np.array(estimate.values) - shapley_from_table(tables()[estimate.epoch])).max() < 0.1
