"""Games that break estimators: flat, identical, null, tiny, huge, lopsided, diverging."""

from __future__ import annotations

import doctest
import importlib
import warnings

import numpy as np
import pytest

from flcontrib_core.errors import NonFiniteUtility
from flcontrib_core.shapley.estimate import ShapleyEstimate
from flcontrib_core.shapley.exact_values import evaluate_all, shapley_from_table
from flcontrib_core.shapley.permutation import small_sample_factor
from flcontrib_core.shapley.registry import epoch_estimator
from tests.shapley.closed_form import Game, random_table, smooth_game, table_game

EXACT_KINDS = ("exact", "mr", "tmr")
METHODS = (
    *EXACT_KINDS,
    "monte-carlo",
    "complementary",
    "complementary-neyman",
    "gtg",
    "fedsv",
    "fedsv-group-testing",
    "shapiq:SVARM",
    "shapiq:KernelSHAP",
)


def run(name: str, game: Game, evaluations: int | None = None, **options: str) -> ShapleyEstimate:
    allowed = None if name in EXACT_KINDS else evaluations
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # 0/0, overflow: none of it
        return epoch_estimator(name, evaluations=allowed, **options).estimate(game.oracle(), np.random.default_rng(0))


@pytest.mark.parametrize("players", [1, 2, 3])
@pytest.mark.parametrize("name", METHODS)
def test_one_two_and_three_participants(name: str, players: int) -> None:
    table = random_table(players + 5, players, utilities=2)
    estimate = run(name, table_game(table))
    truth = shapley_from_table(table)
    if name == "gtg":
        assert np.allclose(estimate.values.sum(axis=0), table[-1], atol=0.02 * np.abs(table).max())
    else:
        assert np.allclose(estimate.values, truth, atol=1e-12)


@pytest.mark.parametrize("evaluations", [None, 100])
@pytest.mark.parametrize("name", METHODS)
def test_a_utility_that_never_moves_gives_zeros(name: str, evaluations: int | None) -> None:
    estimate = run(name, Game(8, lambda s: np.zeros(len(s))), evaluations)
    assert not estimate.values.any()
    assert not np.nan_to_num(estimate.standard_errors).any()


@pytest.mark.parametrize("name", METHODS)
def test_any_member_alone_moves_the_utility_all_the_way(name: str) -> None:
    """u = 1 for every non-empty coalition, as with identical updates under adaptive weights: everybody gets 1/n."""
    estimate = run(name, Game(8, lambda s: (s.sum(axis=1) > 0).astype(np.float64)), 150)
    assert np.abs(estimate.values - 1 / 8).max() < (0.35 if name == "fedsv-group-testing" else 0.12)
    if name != "fedsv-group-testing":
        assert estimate.values.sum() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("name", METHODS)
def test_null_players_get_nothing_from_orders_and_little_from_anybody(name: str) -> None:
    inner = smooth_game(1, 5)
    game = Game(8, lambda s: inner.function(s[:, :5]))
    estimate = run(name, game, 200)
    nulls = np.abs(estimate.values[5:]).max()
    limit = {"fedsv-group-testing": 0.5, "shapiq:SVARM": 0.3, "shapiq:KernelSHAP": 0.3}.get(name, 0.2)
    assert nulls <= limit * np.ptp(estimate.values)
    if name in (*EXACT_KINDS, "monte-carlo", "fedsv", "gtg"):
        assert nulls < 1e-12


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1e9, 1e150])
@pytest.mark.parametrize("name", METHODS)
def test_the_unit_of_the_utility_does_not_matter(name: str, scale: float) -> None:
    """GTG and TMR publish absolute thresholds: there it holds for thresholds that follow the range."""
    table = random_table(3, 8)
    options = {"units": "range"} if name in ("gtg", "tmr") else {}
    one = run(name, table_game(table), 120, **options)
    other = run(name, table_game(scale * table), 120, **options)
    assert np.allclose(other.values / scale, one.values, rtol=1e-6, atol=1e-7)
    assert np.allclose(other.standard_errors / scale, one.standard_errors, rtol=1e-6, atol=1e-7, equal_nan=True)
    assert one.evaluations == other.evaluations


@pytest.mark.parametrize("name", METHODS)
def test_a_huge_common_offset_leaves_the_differences(name: str) -> None:
    """All non-empty coalitions lie 10⁶ up, differing by ones: shares of the offset are equal, differences survive."""
    table = random_table(4, 8)
    raised = table + 1e6
    raised[0] = 0
    estimate = run(name, table_game(raised), 200)
    truth = shapley_from_table(raised)
    assert np.isfinite(estimate.values).all()
    if name in EXACT_KINDS:
        assert np.allclose(estimate.values - truth.mean(), shapley_from_table(table) - table[-1] / 8, atol=1e-6)
    if name == "complementary":
        assert np.abs(estimate.values - truth).max() < 1.0
        assert (np.abs(estimate.values - truth) <= 6 * estimate.standard_errors + 1e-6).all()


@pytest.mark.parametrize("name", METHODS)
def test_a_diverging_sub_model_is_named(name: str) -> None:
    def function(s: np.ndarray) -> np.ndarray:
        return np.where(s.sum(axis=1) == 1, np.where(s[:, 3], np.nan, 0.1), s.sum(axis=1) / 8)

    with pytest.raises(NonFiniteUtility, match=r"players \[3\]"):
        epoch_estimator(name).estimate(Game(8, function).oracle(), np.random.default_rng(0))


def test_sixteen_participants_within_a_budget() -> None:
    game = smooth_game(0, 16)
    truth = shapley_from_table(evaluate_all(game.oracle()))
    for name in ("monte-carlo", "complementary", "complementary-neyman", "fedsv"):
        estimate = run(name, smooth_game(0, 16), 2000)
        assert estimate.evaluations <= 2000
        assert (np.abs(estimate.values - truth) <= 4.5 * estimate.standard_errors).all()
        assert np.corrcoef(estimate.values.ravel(), truth.ravel())[0, 1] > 0.95


def test_a_hundred_participants() -> None:
    weights = np.random.default_rng(0).normal(size=100)
    game = Game(100, lambda s: np.tanh(s @ weights / 10))
    total = np.tanh(weights.sum() / 10)
    for name in ("monte-carlo", "complementary", "complementary-neyman", "fedsv", "fedsv-group-testing", "gtg"):
        estimate = run(name, game, 3000)
        assert estimate.evaluations <= 3000
        assert estimate.values.sum() == pytest.approx(total, abs=0.2)
        if name == "monte-carlo":
            assert np.corrcoef(estimate.values.ravel(), weights)[0, 1] > 0.9


def test_students_factor_against_scipy() -> None:
    from scipy.stats import t

    for degrees in (3, 5, 10, 30, 1000):
        assert 1.96 * small_sample_factor(degrees) == pytest.approx(t.ppf(0.975, degrees), rel=0.01)


@pytest.mark.parametrize("module", ["coalitions", "exact_values", "permutation"])
def test_the_examples_in_the_docstrings_run(module: str) -> None:
    result = doctest.testmod(importlib.import_module(f"flcontrib_core.shapley.{module}"))
    assert result.failed == 0
    assert result.attempted > 0
