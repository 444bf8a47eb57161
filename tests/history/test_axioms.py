"""Are the promises of the Shapley value judged where values exist, and only there?"""

from __future__ import annotations

from flcontrib_core.history.axioms import check_axioms
from tests.detection.made_histories import made_history, with_values


def test_skipped_epochs_promise_nothing_and_break_nothing() -> None:
    history = made_history(clients=5, epochs=10, computed=(1, 4, 9))
    assert all(check.holds for check in check_axioms(history))


def test_a_sum_that_misses_its_increment_is_named_also_under_a_budget() -> None:
    history = made_history(clients=5, epochs=10, computed=(1, 4, 9))
    values = history.of("loss").values.copy()
    values[4, 2] += 1e-3
    checks = check_axioms(with_values(history, loss=values))
    broken = [c for c in checks if not c.holds]
    assert [(c.name, c.utility, c.epoch) for c in broken] == [("sum of values = increment", "loss", 4)]
