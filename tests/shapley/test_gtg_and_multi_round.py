"""GTG-Shapley, MR, TMR: skipping, cutting, converging, and what they never do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.errors import CostRefusal, SettingsError
from flcontrib_core.shapley.coalitions import everybody
from flcontrib_core.shapley.exact_values import shapley_from_table
from flcontrib_core.shapley.gtg import GTG, led_orders
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.multi_round import MultiRound, TruncatedMultiRound
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.remarks import IncrementSmall, Stop, SweepEnded
from flcontrib_core.shapley.thresholds import utility_units
from tests.shapley.closed_form import Game, random_table, table_game


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_round_that_moves_accuracy_by_a_hundredth_is_skipped_for_one_evaluation() -> None:
    table = random_table(0, 5)
    table[-1] = 0.01
    game = table_game(table, ("accuracy",))
    estimate = GTG().estimate(game.oracle(), rng())
    assert not estimate.values.any()
    assert estimate.evaluations == game.evaluated == 1
    assert estimate.remarks == (IncrementSmall(("accuracy",)),)
    table[-1] = 0.0101
    assert GTG().estimate(table_game(table, ("accuracy",)).oracle(), rng()).values.any()


def test_the_published_thresholds_are_taken_as_they_are_for_a_loss_too() -> None:
    """0.01 is 0.01 whatever the epoch's range: for one evaluation, and neither rescaled."""
    table = 50 * random_table(0, 5)
    table[-1] = 0.01
    for kind in (GTG(), TruncatedMultiRound()):
        skipped = kind.estimate(table_game(table, ("loss",)).oracle(), rng())
        assert (skipped.values.any(), skipped.evaluations) == (np.False_, 1)
    table[-1] = 0.011
    for kind in (GTG(), TruncatedMultiRound()):
        assert kind.estimate(table_game(table, ("loss",)).oracle(), rng()).values.any()
        assert not replace(kind, units="range").estimate(table_game(table, ("loss",)).oracle(), rng()).values.any()
    with pytest.raises(SettingsError, match="published, range"):
        GTG(units="metres")  # type: ignore[arg-type]


def test_thresholds_follow_the_range_of_a_loss_on_request() -> None:
    """The same game in other units must be skipped or kept alike."""
    for scale in (1e-6, 1.0, 1e6):
        table = scale * random_table(0, 5)
        table[-1] = 0.005 * scale
        skipped = GTG(units="range").estimate(table_game(table, ("loss",)).oracle(), rng())
        assert not skipped.values.any()
        assert skipped.evaluations == 6  # u(N) and the singletons
        table[-1] = 0.5 * scale
        assert GTG(units="range").estimate(table_game(table, ("loss",)).oracle(), rng()).values.any()


def test_ranges_are_one_for_utilities_between_zero_and_one() -> None:
    game = table_game(5 * random_table(3, 4, utilities=2), ("accuracy", "loss"))
    ranges = utility_units(Ledger(game.oracle(), 15), "range")
    seen = np.concatenate([[0.0], game.evaluate(np.vstack([np.eye(4, dtype=bool), everybody(4)]))[:, 1]])
    assert ranges.tolist() == [1.0, np.ptp(seen)]
    alone = Game(4, lambda s: s.sum(axis=1), ("accuracy",))
    utility_units(Ledger(alone.oracle(), 15), "range")
    assert alone.evaluated == 0


def test_every_player_leads_one_order_of_a_sweep() -> None:
    orders = led_orders(rng(), 7)
    assert sorted(orders[:, 0].tolist()) == list(range(7))
    assert (np.sort(orders, axis=1) == np.arange(7)).all()
    followers = np.array([led_orders(rng(seed), 4)[:, 1] for seed in range(900)]).ravel()
    assert np.abs(np.bincount(followers) - 900).max() < 5 * np.sqrt(900)


def test_convergence_needs_thirty_orders_and_settled_means() -> None:
    steady = np.ones((29, 3, 1))
    assert not GTG().converged(steady)[0]
    assert GTG().converged(np.ones((30, 3, 1)))[0]
    drifting = np.linspace(0, 5, 60)[:, None, None] * np.ones((60, 3, 1))
    assert not GTG().converged(drifting)[0]
    null_player = np.concatenate([np.ones((40, 2, 1)), np.zeros((40, 1, 1))], axis=1)
    assert GTG().converged(null_player)[0]


def test_gtg_is_close_to_exact_and_stops_by_itself() -> None:
    table = random_table(1, 6) * 0.05 + np.bitwise_count(np.arange(64))[:, None] * 0.1
    table[0] = 0.0
    estimate = GTG().estimate(table_game(table, ("loss",)).oracle(), rng())
    assert isinstance(estimate.remarks[0], SweepEnded)
    assert estimate.remarks[0].stop is Stop.CONVERGED
    assert np.allclose(estimate.values, shapley_from_table(table), atol=0.015)
    assert np.isnan(estimate.standard_errors).all()


def test_a_cut_is_made_per_utility_and_never_enters_the_memo() -> None:
    """The first utility saturates after two players; the second grows to the end and must stay right."""
    game = Game(6, lambda s: np.stack([np.minimum(s.sum(axis=1), 2), s.sum(axis=1)], axis=1), ("accuracy", "loss"))
    oracle = game.oracle()
    estimate = GTG().estimate(oracle, rng())
    members, values = oracle.evaluated_coalitions()
    assert np.array_equal(values, game.evaluate(members))
    assert np.allclose(estimate.values[:, 1], 1.0)
    assert estimate.values[:, 0].sum() == pytest.approx(2.0)


def test_one_and_two_participants() -> None:
    for players in (1, 2):
        table = random_table(players, players)
        estimate = GTG().estimate(table_game(table).oracle(), rng())
        assert estimate.values.sum() == pytest.approx(table[-1, 0])


def test_mr_is_exact_under_its_own_name() -> None:
    table = random_table(0, 6, utilities=2)
    estimate = MultiRound().estimate(table_game(table).oracle(), rng())
    assert (estimate.method, estimate.exact, estimate.evaluations) == ("mr", True, 63)
    assert np.allclose(estimate.values, shapley_from_table(table), atol=1e-12)


def test_tmr_skips_utility_by_utility_and_does_not_call_that_exact() -> None:
    table = random_table(0, 5, utilities=2)
    table[-1] = [0.009, 0.5]
    estimate = TruncatedMultiRound().estimate(table_game(table, ("accuracy", "macro-f1")).oracle(), rng())
    assert not estimate.values[:, 0].any()
    assert np.isnan(estimate.standard_errors[:, 0]).all()
    assert np.allclose(estimate.values[:, 1], shapley_from_table(table)[:, 1], atol=1e-12)
    assert not estimate.exact
    assert estimate.remarks == (IncrementSmall(("accuracy",)),)
    table[-1] = [0.009, -0.01]
    skipped = TruncatedMultiRound().estimate(table_game(table, ("accuracy", "macro-f1")).oracle(), rng())
    assert (skipped.evaluations, skipped.values.any()) == (1, np.False_)
    table[-1] = [0.02, -0.02]
    kept = TruncatedMultiRound().estimate(table_game(table, ("accuracy", "macro-f1")).oracle(), rng())
    assert kept.exact
    assert kept.method == "tmr"


def test_mr_and_tmr_refuse_what_exact_refuses() -> None:
    for kind in (MultiRound(most_players=5), TruncatedMultiRound(most_players=5)):
        with pytest.raises(CostRefusal, match=f"{kind.name} over 6 participants"):
            kind.estimate(table_game(random_table(0, 6)).oracle(), rng())


def test_decay_weighs_epoch_t_by_lambda_to_the_t() -> None:
    game = table_game(random_table(0, 4))
    plain = TruncatedMultiRound().estimate(CoalitionOracle(game, epoch=3), rng())
    decayed = TruncatedMultiRound(decay=0.5).estimate(CoalitionOracle(game, epoch=3), rng())
    assert np.allclose(decayed.values, plain.values / 8)
    assert plain.exact
    assert not decayed.exact
    with pytest.raises(SettingsError, match="which epoch"):
        TruncatedMultiRound(decay=0.5).estimate(CoalitionOracle(game), rng())
