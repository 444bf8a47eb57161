"""Are exact values exact, cheap to weight, and refused where they cannot be had?"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flcontrib_core.errors import CostRefusal, SettingsError
from flcontrib_core.shapley.exact import Exact
from flcontrib_core.shapley.exact_values import best_coalition, evaluate_all, shapley_from_table
from flcontrib_core.shapley.registry import epoch_estimator, estimator_by_name
from tests.shapley.closed_form import (
    ClosedForm,
    all_closed_forms,
    gloves,
    random_table,
    security_council,
    table_game,
)

RNG = np.random.default_rng(0)


def by_all_orders(table: np.ndarray) -> np.ndarray:
    """The definition by n! orders: slow, obvious, independent."""
    players = len(table).bit_length() - 1
    values = np.zeros((players, table.shape[1]))
    for order in itertools.permutations(range(players)):
        mask = 0
        for player in order:
            values[player] += table[mask | 1 << player] - table[mask]
            mask |= 1 << player
    return values / math.factorial(players)


@pytest.mark.parametrize("players", range(1, 8))
def test_equals_the_mean_over_all_orders(players: int) -> None:
    table = random_table(players, players, utilities=3)
    assert np.allclose(shapley_from_table(table), by_all_orders(table), atol=1e-12)


@pytest.mark.parametrize("form", [*all_closed_forms(9), security_council(), gloves(1, 5)], ids=lambda f: f.name)
def test_closed_form_games(form: ClosedForm) -> None:
    estimate = Exact().estimate(form.game.oracle(), RNG)
    assert np.allclose(estimate.values, form.values, atol=1e-12)
    assert estimate.exact
    assert not estimate.standard_errors.any()


def test_one_left_glove_is_worth_nearly_the_whole_pair() -> None:
    assert gloves(1, 5).values.ravel() == pytest.approx([5 / 6, *[1 / 30] * 5])


def test_equals_shapiqs_exact_computer_on_the_same_table() -> None:
    from shapiq import ExactComputer

    table = random_table(11, 9)
    peer = ExactComputer(n_players=9, game=lambda s: table[s.astype(int) @ (1 << np.arange(9)), 0])("SV", 1)
    assert shapley_from_table(table).ravel() == pytest.approx([peer[(i,)] for i in range(9)], abs=1e-12)


tables = st.integers(0, 2**32 - 1).map(lambda seed: random_table(seed, 5, 2)) | st.integers(0, 2**32 - 1).map(
    lambda seed: 10.0 ** np.random.default_rng(seed).integers(-12, 12) * random_table(seed, 5, 2)
)


@given(table=tables)
@settings(max_examples=60, deadline=None)
def test_values_add_up_to_the_increment(table: np.ndarray) -> None:
    scale = np.abs(table).max()
    assert np.allclose(shapley_from_table(table).sum(axis=0), table[-1], rtol=0, atol=1e-9 * scale)


@given(table=tables, other=tables, weight=st.floats(-3, 3))
@settings(max_examples=60, deadline=None)
def test_linearity(table: np.ndarray, other: np.ndarray, weight: float) -> None:
    scale = max(np.abs(table).max(), np.abs(other).max())
    together = shapley_from_table(table + weight * other)
    apart = shapley_from_table(table) + weight * shapley_from_table(other)
    assert np.allclose(together, apart, rtol=0, atol=1e-12 * scale)


@given(table=tables, player=st.integers(0, 4))
@settings(max_examples=40, deadline=None)
def test_a_null_player_gets_zero(table: np.ndarray, player: int) -> None:
    masks = np.arange(32)
    assert not shapley_from_table(table[masks & ~(1 << player)])[player].any()


@given(table=tables, pair=st.permutations(range(5)))
@settings(max_examples=40, deadline=None)
def test_symmetric_players_get_the_same(table: np.ndarray, pair: list[int]) -> None:
    i, j = pair[:2]
    masks = np.arange(32)
    swapped = masks & ~(1 << i) & ~(1 << j) | (masks >> i & 1) << j | (masks >> j & 1) << i
    values = shapley_from_table(table + table[swapped])
    assert np.allclose(values[i], values[j], rtol=0, atol=1e-12 * np.abs(table).max())


def test_a_constant_offset_of_the_nonempty_coalitions_cancels() -> None:
    table = random_table(5, 10)
    raised = table.copy()
    raised[1:] += 1e9
    difference = shapley_from_table(raised) - shapley_from_table(table)
    assert np.allclose(difference, 1e8, rtol=1e-12)


def test_sixteen_and_twenty_players_are_weighted_from_the_table() -> None:
    weights = np.random.default_rng(0).normal(size=20)
    table = np.zeros((1 << 20, 1))
    for player in range(20):
        table.reshape(-1, 2, 1 << player)[:, 1] += weights[player]
    assert np.allclose(shapley_from_table(table).ravel(), weights, atol=1e-10)


def test_a_table_that_is_not_a_power_of_two_is_refused() -> None:
    for rows in (0, 1, 3, 12):
        with pytest.raises(ValueError, match="2\\^n rows"):
            shapley_from_table(np.zeros((rows, 1)))


def test_evaluate_all_is_in_mask_order() -> None:
    table = random_table(2, 7, utilities=2)
    assert np.array_equal(evaluate_all(table_game(table).oracle()), table)


def test_too_many_participants_are_refused_with_the_cost_before_anything_is_evaluated() -> None:
    game = table_game(random_table(0, 6))
    with pytest.raises(CostRefusal, match=r"2\^6 − 1 = 63 evaluations; the limit is 5 participants") as refusal:
        Exact(most_players=5).estimate(game.oracle(), RNG)
    assert refusal.value.evaluations == 63
    assert "auto" in refusal.value.offered
    assert game.evaluated == 0


def test_a_budget_below_all_coalitions_is_refused_not_bent() -> None:
    with pytest.raises(CostRefusal, match="evaluations = 30 allows fewer"):
        Exact(evaluations=30).estimate(table_game(random_table(0, 5)).oracle(), RNG)
    assert Exact(evaluations=31).estimate(table_game(random_table(0, 5)).oracle(), RNG).exact


def test_an_option_of_another_estimator_is_refused() -> None:
    with pytest.raises(SettingsError, match="exact has no option truncate; its options: evaluations, most_players"):
        epoch_estimator("exact", truncate=True)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("exact", {"evaluations": 0}),
        ("auto", {"precision": 0.0}),
        ("surrogate", {"precision": float("nan")}),
        ("surrogate", {"outputs": "gradients"}),
        ("complementary", {"allocation": "equally"}),
        ("fedsv", {"sampling": "orders"}),
        ("tmr", {"decay": 0.0}),
        ("tmr", {"threshold": -0.1}),
        ("gtg", {"window": 0}),
        ("gtg", {"round_threshold": -1.0}),
        ("comfedsv", {"rank": 0}),
        ("comfedsv", {"ridge": 0.0}),
    ],
)
def test_options_out_of_range_are_refused(name: str, options: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        estimator_by_name(name, **options)


def test_the_best_coalition_comes_free_with_exact_values() -> None:
    table = random_table(9, 6, utilities=2)
    oracle = table_game(table, ("loss", "accuracy")).oracle()
    evaluate_all(oracle)
    for utility, mask in (("loss", table[:, 0].argmin()), ("accuracy", table[:, 1].argmax())):
        best, proved = best_coalition(oracle, utility, lower_is_better=utility == "loss")
        assert sum(1 << player for player in best) == mask
        assert proved


def test_the_best_coalition_is_the_smallest_of_equals_and_not_proved_before_all_is_known() -> None:
    oracle = table_game(np.zeros((8, 1)), ("accuracy",)).oracle()
    oracle.evaluate(np.eye(3, dtype=bool))
    assert best_coalition(oracle, "accuracy", lower_is_better=False) == ((), False)
