"""Do the sampling estimators converge to the exact values, keep their budgets and follow their seeds?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, t

from flcontrib_core.errors import SettingsError
from flcontrib_core.shapley.coalitions import (
    coalitions_of_size,
    prefix_coalitions,
    random_coalitions_of_size,
    random_permutations,
)
from flcontrib_core.shapley.costs import cost_of
from flcontrib_core.shapley.estimate import EpochEstimator, ShapleyEstimate
from flcontrib_core.shapley.exact_values import evaluate_all, shapley_from_table
from flcontrib_core.shapley.function_game import FunctionGame
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.permutation import mean_and_error, small_sample_factor
from flcontrib_core.shapley.registry import epoch_estimator
from flcontrib_core.shapley.remarks import IncrementSmall
from tests.shapley.closed_form import ClosedForm, Game, all_closed_forms, random_table, smooth_game, table_game

SAMPLERS = (
    "monte-carlo",
    "complementary",
    "complementary-neyman",
    "fedsv",
    "fedsv-group-testing",
    "gtg",
    "shapiq:SVARM",
    "shapiq:KernelSHAP",
    "shapiq:PermutationSamplingSV",
)
OPTIONS: tuple[dict[str, bool], ...] = (
    {},
    {"antithetic": True},
    {"truncate": True},
    {"truncate": True, "antithetic": True},
)


def run(name: str, game: Game, seed: int = 0, **options: object) -> ShapleyEstimate:
    return epoch_estimator(name, **options).estimate(game.oracle(), np.random.default_rng(seed))


def truth_of(game: Game) -> np.ndarray:
    return shapley_from_table(evaluate_all(game.oracle()))


def is_refused(estimator: EpochEstimator, players: int) -> bool:
    try:
        cost_of(estimator, players, None)
    except SettingsError:
        return True
    return False


@pytest.mark.parametrize("form", all_closed_forms(8), ids=lambda form: form.name)
@pytest.mark.parametrize("name", SAMPLERS)
def test_converges_to_the_closed_form_without_seeing_every_coalition(name: str, form: ClosedForm) -> None:
    budgets = (30, 200)
    seeds = range(6)
    scale = np.abs(form.values).sum()
    errors = [
        [np.abs(run(name, form.game, seed, evaluations=n).values - form.values).mean() / scale for seed in seeds]
        for n in budgets
    ]
    few, many = np.mean(errors, axis=1)
    assert many <= max(0.7 * few, 2e-3)
    assert many < (0.1 if name == "fedsv-group-testing" else 0.03)


@pytest.mark.parametrize("form", all_closed_forms(6), ids=lambda form: form.name)
@pytest.mark.parametrize("name", [name for name in SAMPLERS if name != "gtg"])
def test_all_coalitions_give_exact_values_and_say_so(name: str, form: ClosedForm) -> None:
    estimate = run(name, form.game, evaluations=63)
    assert np.allclose(estimate.values, form.values, atol=1e-12)
    assert estimate.exact
    assert estimate.method == f"{name} (exact: all coalitions)"
    assert estimate.evaluations == 63


@pytest.mark.parametrize("players", [1, 2, 3, 4, 7, 10])
@pytest.mark.parametrize("name", SAMPLERS)
def test_never_evaluates_more_than_allowed_nor_misreports(name: str, players: int) -> None:
    everything = 2**players - 1
    for budget in sorted({1, players, 2 * players - 1, 2 * players + 1, 4 * players + 3, everything - 1, everything}):
        game = smooth_game(players, players, utilities=2)
        oracle = game.oracle()
        estimator = epoch_estimator(name, evaluations=max(budget, 1))
        if is_refused(estimator, players):
            assert budget < 2 * players
            with pytest.raises(SettingsError, match=r"needs \d+ evaluations"):
                estimator.estimate(oracle, np.random.default_rng(1))
            continue
        estimate = estimator.estimate(oracle, np.random.default_rng(1))
        assert estimate.evaluations == oracle.evaluations == game.evaluated <= max(budget, 1)
        assert estimate.values.shape == estimate.standard_errors.shape == (players, 2)
        assert np.isfinite(estimate.values).all()
        assert estimate.evaluations <= cost_of(estimator, players, None).most


@pytest.mark.parametrize("players", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_default_budget_is_predicted(name: str, players: int) -> None:
    game = smooth_game(3, players)
    cost = cost_of(epoch_estimator(name), players, None)
    estimate = run(name, game)
    assert estimate.evaluations == game.evaluated <= cost.most
    assert cost.likely <= cost.most
    if any(isinstance(remark, IncrementSmall) for remark in estimate.remarks):
        return
    truth = truth_of(smooth_game(3, players))
    allowed = np.where(np.isnan(estimate.standard_errors), 0.5 * np.ptp(truth), 4 * estimate.standard_errors)
    assert (np.abs(estimate.values - truth) <= allowed + 1e-9).all()


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_seed_decides_everything(name: str) -> None:
    game = smooth_game(0, 8)
    first, again, other = (run(name, game, seed, evaluations=60) for seed in (5, 5, 6))
    assert np.array_equal(first.values, again.values)
    assert np.array_equal(first.standard_errors, again.standard_errors, equal_nan=True)
    assert not np.array_equal(first.values, other.values)


@pytest.mark.parametrize("name", SAMPLERS)
def test_what_the_oracle_already_knows_changes_nothing(name: str) -> None:
    game = table_game(random_table(0, 8))
    fresh = run(name, game, 5, evaluations=60)
    warm = game.oracle()
    evaluate_all(warm)
    again = epoch_estimator(name, evaluations=60).estimate(warm, np.random.default_rng(5))
    assert np.array_equal(fresh.values, again.values)
    assert fresh.evaluations == again.evaluations


@pytest.mark.parametrize("name", SAMPLERS)
def test_several_utilities_share_the_evaluations_and_keep_their_own_values(name: str) -> None:
    table = random_table(0, 7, utilities=2)
    together = run(name, table_game(table), 3, evaluations=80)
    assert together.evaluations <= 80
    if name not in ("gtg", "complementary-neyman"):  # those two look at the values to decide what to ask next
        for k in range(2):
            alone = run(name, table_game(table[:, k]), 3, evaluations=80)
            assert np.allclose(alone.values[:, 0], together.values[:, k], atol=1e-12)


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "antithetic", "truncated", "both"])
def test_monte_carlo_options_converge(options: dict[str, bool]) -> None:
    game = smooth_game(2, 9)
    truth = truth_of(game)
    errors = [np.abs(run("monte-carlo", game, s, evaluations=400, **options).values - truth).max() for s in range(5)]
    assert np.mean(errors) < 0.1 * np.ptp(truth)
    method = run("monte-carlo", game, evaluations=400, **options).method
    assert ("truncated" in method, "antithetic" in method) == ("truncate" in options, "antithetic" in options)


@pytest.mark.parametrize("degrees", [3, 4, 6, 9, 20, 100])
def test_the_small_sample_factor_is_students(degrees: int) -> None:
    assert small_sample_factor(degrees) == pytest.approx(t.ppf(0.975, degrees) / norm.ppf(0.975), rel=0.01)


def test_every_monte_carlo_order_adds_up_to_the_increment() -> None:
    game = smooth_game(4, 9, utilities=2)
    total = game.evaluate(np.ones((1, 9), dtype=bool))[0]
    for antithetic in (False, True):
        values = run("monte-carlo", game, evaluations=100, antithetic=antithetic).values
        assert np.allclose(values.sum(axis=0), total, atol=1e-12)


def test_antithetic_orders_are_exact_for_pairwise_games() -> None:
    """An order and its reverse see each pair once from either side, so a game of pairs has no spread at all."""
    rng = np.random.default_rng(0)
    pairs = np.triu(rng.normal(size=(8, 8)))
    game = Game(8, lambda s: np.einsum("ci,ij,cj->c", s.astype(float), pairs, s.astype(float)))
    estimate = run("monte-carlo", game, evaluations=15, antithetic=True)
    assert np.allclose(estimate.values, truth_of(game), atol=1e-12)


def test_truncation_saves_evaluations_and_leaves_its_shortcut_out_of_the_memo() -> None:
    game = Game(9, lambda s: 1.0 - 0.5 ** s.sum(axis=1))  # saturates: within 1 % after seven players
    oracle = game.oracle()
    estimate = epoch_estimator("monte-carlo", evaluations=200, truncate=True).estimate(oracle, np.random.default_rng(0))
    members, values = oracle.evaluated_coalitions()
    assert np.array_equal(values, game.evaluate(members))
    assert members.sum(axis=1)[members.sum(axis=1) < 9].max() < 9 - 1
    assert np.allclose(estimate.values.sum(), 1.0, atol=0.02)


def test_too_few_evaluations_for_one_order_are_refused_with_the_number_needed() -> None:
    for name, options, needed in (
        ("monte-carlo", {}, 8),
        ("monte-carlo", {"antithetic": True}, 15),
        ("fedsv", {}, 8),
        ("gtg", {}, 15),
    ):
        with pytest.raises(SettingsError, match=f"needs {needed} evaluations"):
            run(name, smooth_game(0, 8), evaluations=needed - 1, **options)
        assert run(name, smooth_game(0, 8), evaluations=needed, **options).evaluations <= needed


def test_foreign_options_are_refused_by_everybody_else() -> None:
    for name in SAMPLERS:
        if name != "monte-carlo":
            with pytest.raises(SettingsError, match="no option antithetic"):
                run(name, smooth_game(0, 4), antithetic=True)
        with pytest.raises(SettingsError, match="no option allow_unobserved"):
            run(name, smooth_game(0, 4), allow_unobserved=True)


def test_who_never_differed_in_the_sample_has_an_error_where_others_did() -> None:
    samples = np.zeros((20, 3, 1))
    samples[4, 1] = 1.0
    _, errors = mean_and_error(samples)
    assert errors[0, 0] == errors[2, 0] == pytest.approx(3 / 1.96 * 0.95 / 20)
    assert mean_and_error(np.zeros((20, 3, 1)))[1].max() == 0


def test_players_that_hardly_ever_decide_are_not_called_exact() -> None:
    """All ten but one must agree: in a few orders some player never decides."""
    game = FunctionGame(lambda coalitions: coalitions.sum(axis=1) >= 9, 10)
    for name in ("fedsv", "monte-carlo"):
        estimate = epoch_estimator(name, evaluations=120).estimate(CoalitionOracle(game), np.random.default_rng(0))
        never = estimate.values == 0
        assert never.any()
        assert (1.96 * estimate.standard_errors[never] >= 0.09).all()  # the truth is 0.1 for everybody


def test_estimators_fulfil_the_protocol() -> None:
    for name in SAMPLERS:
        found: EpochEstimator = epoch_estimator(name)
        assert found.name == name


def test_coalition_draws_are_uniform_and_prefixes_grow() -> None:
    rng = np.random.default_rng(0)
    orders = random_permutations(rng, 3, 5)
    prefixes = prefix_coalitions(orders)
    for order, rows in zip(orders, prefixes, strict=True):
        for k, row in enumerate(rows):
            assert set(np.flatnonzero(row)) == set(order[: k + 1])
    drawn = random_coalitions_of_size(rng, 6000, 4, 2)
    counts = np.unique(drawn @ (1 << np.arange(4)), return_counts=True)[1]
    assert len(counts) == 6
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)
    assert [len(coalitions_of_size(5, k)) for k in range(6)] == [1, 5, 10, 10, 5, 1]
