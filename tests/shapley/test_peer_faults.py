"""Faults that published implementations have, one test each: here they must not happen."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from flcontrib_core.shapley.comfedsv import ComFedSV
from flcontrib_core.shapley.estimate import EpochOfRun, RunGames
from flcontrib_core.shapley.exact_values import evaluate_all, shapley_from_table
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.permutation import marginals_along
from flcontrib_core.shapley.registry import epoch_estimator
from tests.shapley.closed_form import Game, additive, random_table, smooth_game, table_game

EPOCH_METHODS = (
    "exact",
    "monte-carlo",
    "complementary",
    "complementary-neyman",
    "gtg",
    "mr",
    "tmr",
    "fedsv",
    "fedsv-group-testing",
    "shapiq:SVARM",
    "shapiq:KernelSHAP",
)
SVFL = np.array([[0.0], [0.5], [0.2], [0.4]])


@pytest.mark.parametrize("name", [name for name in EPOCH_METHODS if name != "gtg"])
def test_negative_marginals_are_not_clipped(name: str) -> None:
    """v0 = .5, v1 = .2, v01 = .4: the values are .35 and .05; clipping the marginal −.1 makes .10 of the .05."""
    estimate = epoch_estimator(name).estimate(table_game(SVFL).oracle(), np.random.default_rng(0))
    assert estimate.values.ravel() == pytest.approx([0.35, 0.05])


def test_negative_marginals_are_not_clipped_by_gtg_either() -> None:
    estimate = epoch_estimator("gtg").estimate(table_game(SVFL).oracle(), np.random.default_rng(0))
    assert estimate.values.ravel() == pytest.approx([0.35, 0.05], abs=0.03)
    assert estimate.values.sum() == pytest.approx(0.4)


@pytest.mark.parametrize("name", EPOCH_METHODS)
def test_a_harmful_client_keeps_its_negative_value(name: str) -> None:
    weights = np.array([0.41, 0.32, -0.53, 0.24, 0.115, 0.306, -0.207, 0.208])  # no two sums alike
    game = Game(8, lambda s: s @ weights)
    options = {} if name in ("exact", "mr", "tmr") else {"evaluations": 200}
    values = epoch_estimator(name, **options).estimate(game.oracle(), np.random.default_rng(1)).values.ravel()
    assert values[2] < -0.2
    assert np.abs(values - weights).max() < (0.2 if name == "fedsv-group-testing" else 0.05)


def test_the_first_position_of_an_order_counts() -> None:
    """All n! orders give the exact values only if the player that comes first is paid too."""
    table = random_table(0, 5, utilities=2)
    orders = np.array(list(itertools.permutations(range(5))))[:, None]
    values = marginals_along(orders, Ledger(table_game(table).oracle(), 31)).mean(axis=0)
    assert np.allclose(values, shapley_from_table(table), atol=1e-12)


def test_participants_with_non_contiguous_ids() -> None:
    """Clients 2, 5 and 7 of ten take part: their positions, not their ids, are the players."""
    game = additive(3, 3)
    epochs = [EpochOfRun(t, (2, 5, 7), game.game.oracle()) for t in (1, 2)]
    run = ComFedSV(allow_unobserved=True).estimate_run(RunGames(epochs, 10), np.random.default_rng(0))
    assert run.per_epoch.shape == (2, 10, 1)
    for name in EPOCH_METHODS:
        estimate = epoch_estimator(name).estimate(epochs[0].oracle, np.random.default_rng(0))
        assert np.allclose(estimate.values, game.values, atol=1e-3)


def test_a_client_that_never_takes_part_is_no_obstacle() -> None:
    """Client 3 of 4 is always absent: nothing is divided by its zero participations."""
    weights = np.array([0.3, -0.2, 0.5])
    epochs = [EpochOfRun(t, (0, 1, 2), Game(3, lambda s: s @ weights).oracle()) for t in (1, 2, 3)]
    run = ComFedSV(allow_unobserved=True).estimate_run(RunGames(epochs, 4), np.random.default_rng(0))
    assert np.isfinite(run.totals).all()
    assert run.extra["unobserved_columns"] > 0
    fedsv = epoch_estimator("fedsv").estimate(epochs[0].oracle, np.random.default_rng(0))
    assert np.allclose(fedsv.values.ravel(), weights)


@pytest.mark.parametrize("name", ["gtg", "monte-carlo", "fedsv", "exact"])
def test_values_are_not_renormalised_by_sign(name: str) -> None:
    """Scaling positive and negative values apart, so that each sign meets a target, breaks the sum."""
    game = smooth_game(5, 7)
    total = game.evaluate(np.ones((1, 7), dtype=bool)).item()
    estimate = epoch_estimator(name).estimate(game.oracle(), np.random.default_rng(0))
    assert (estimate.values > 0).any()
    assert (estimate.values < 0).any()
    assert estimate.values.sum() == pytest.approx(total, abs=2e-3 * np.abs(estimate.values).sum())


@pytest.mark.parametrize(("name", "options"), [("gtg", {}), ("monte-carlo", {"truncate": True})])
def test_truncated_values_are_never_remembered(name: str, options: dict[str, bool]) -> None:
    """After a truncating method the same oracle still gives the exact values."""
    table = np.minimum(np.bitwise_count(np.arange(128)), 4)[:, None] / 4 + 0.0005 * random_table(0, 7)
    table[0] = 0
    oracle = table_game(table, ("accuracy",)).oracle()
    epoch_estimator(name, evaluations=100, **options).estimate(oracle, np.random.default_rng(0))
    assert 0 < oracle.evaluations < 127
    assert np.array_equal(evaluate_all(oracle), table)


def test_an_exact_game_of_eight_takes_255_evaluations_and_the_free_empty_coalition() -> None:
    game = smooth_game(0, 8)
    estimate = epoch_estimator("exact").estimate(game.oracle(), np.random.default_rng(0))
    assert estimate.evaluations == game.evaluated == 2**8 - 1


@pytest.mark.parametrize("name", EPOCH_METHODS)
def test_global_random_state_plays_no_part(name: str) -> None:
    game = table_game(random_table(0, 8))
    options = {} if name in ("exact", "mr", "tmr") else {"evaluations": 60}
    found = []
    for noise in (0, 1):
        np.random.seed(noise)  # noqa: NPY002 – a peer's fault is to draw from here
        found.append(epoch_estimator(name, **options).estimate(game.oracle(), np.random.default_rng(7)).values)
    assert np.array_equal(*found)
