"""FedSV's samplers, ComFedSV's completion and the one-round index."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from flcontrib_core.errors import CostRefusal, MissingPart, SettingsError
from flcontrib_core.shapley.coalitions import random_permutations
from flcontrib_core.shapley.comfedsv import ComFedSV, PrefixColumns, complete, order_count
from flcontrib_core.shapley.estimate import EpochOfRun, RunGames
from flcontrib_core.shapley.exact_values import shapley_from_table
from flcontrib_core.shapley.fedsv import FedSV, group_tests
from flcontrib_core.shapley.one_round import OneRound
from flcontrib_core.shapley.remarks import GroupTests
from tests.shapley.closed_form import Game, additive, random_table, table_game, unanimity_sum


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_group_tests_have_the_prescribed_sizes() -> None:
    players = 6
    sizes = group_tests(rng(), 20000, players).sum(axis=1)
    z = 2 * sum(1 / k for k in range(1, players))
    expected = np.array([players / (k * (players - k) * z) for k in range(1, players)])
    assert expected.sum() == pytest.approx(1.0)
    assert np.abs(np.bincount(sizes)[1:] / 20000 - expected).max() < 0.015


def test_group_testing_is_the_mean_of_all_pairwise_differences() -> None:
    """D_ij as written, averaged over all n players j with D_ii = 0, from the very tests that were drawn."""
    players, table = 5, random_table(3, 5)
    estimate = FedSV(sampling="group-testing", evaluations=20).estimate(table_game(table).oracle(), rng(4))
    (drawn,) = estimate.remarks
    assert isinstance(drawn, GroupTests)
    count = drawn.count
    tests = group_tests(rng(4), 256, players)[:count]
    assert len(tests) == count  # one batch was enough, so the same generator gives the same tests
    worth = table[tests @ (1 << np.arange(players)), 0]
    z = 2 * sum(1 / k for k in range(1, players))
    expected = np.full(players, table[-1, 0] / players)
    for i, j in itertools.product(range(players), repeat=2):
        expected[i] += z * np.mean((tests[:, i].astype(int) - tests[:, j]) * worth) / players
    assert np.allclose(estimate.values[:, 0], expected, atol=1e-12)
    assert estimate.values.sum() == pytest.approx(table[-1, 0])


def test_group_testing_with_one_evaluation_shares_equally() -> None:
    form = additive(0, 6)
    estimate = FedSV(sampling="group-testing", evaluations=1).estimate(form.game.oracle(), rng())
    assert np.allclose(estimate.values, form.values.sum() / 6)


def epochs_of(games: list[Game], participants: list[tuple[int, ...]]) -> list[EpochOfRun]:
    pairs = zip(games, participants, strict=True)
    return [EpochOfRun(t + 1, who, game.oracle()) for t, (game, who) in enumerate(pairs)]


def low_rank_run(clients: int, epochs: int, seed: int = 0) -> tuple[list[Game], np.ndarray]:
    """Full participation, utilities of rank 3 over the epochs, and the true totals."""
    basis = [unanimity_sum(seed + k, clients) for k in range(3)]
    mix = rng(seed).normal(size=(epochs, 3))

    def game(row: np.ndarray) -> Game:
        parts = [form.game.function for form in basis]
        return Game(clients, lambda s: sum(c * part(s) for c, part in zip(row, parts, strict=True)))

    totals = sum(mix[:, k].sum() * basis[k].values for k in range(3))
    return [game(row) for row in mix], np.asarray(totals)


def test_completion_recovers_a_low_rank_matrix_from_part_of_it() -> None:
    left, right = rng(1).normal(size=(30, 3)), rng(2).normal(size=(80, 3))
    truth = 1e-4 * left @ right.T
    seen = rng(3).random(truth.shape) < 0.5
    w, h = complete(np.where(seen, truth, 0.0), seen, rng(4))
    assert np.abs(w @ h.T - truth)[~seen].max() < 0.15 * np.abs(truth).max()
    w, h = complete(np.where(seen, truth, 0.0), seen, rng(4), ridge=1e-9)
    assert np.abs(w @ h.T - truth)[~seen].mean() < 0.02 * np.abs(truth).mean()


def test_a_column_never_observed_is_zero() -> None:
    seen = np.ones((6, 5), dtype=bool)
    seen[:, 2] = False
    _, right = complete(np.ones((6, 5)), seen, rng())
    assert not right[2].any()


def test_prefix_columns_name_every_position_of_every_order() -> None:
    columns = PrefixColumns.of(random_permutations(rng(), 12, 5))
    for order, numbers in zip(columns.orders, columns.column_of, strict=True):
        for position, number in enumerate(numbers):
            assert set(np.flatnonzero(columns.members[number])) == set(order[: position + 1])
    assert len({tuple(row) for row in columns.members.tolist()}) == len(columns.members)


def test_with_everybody_present_comfedsv_agrees_with_the_truth() -> None:
    games, totals = low_rank_run(clients=6, epochs=8)
    everyone = [tuple(range(6))] * 8
    runs = [ComFedSV().estimate_run(RunGames(epochs_of(games, everyone), 6), rng(seed)) for seed in range(60)]
    for estimate in runs:
        assert estimate.extra == {"unobserved_columns": 0.0}
        assert estimate.per_epoch.shape == (8, 6, 1)
        assert np.allclose(estimate.totals, estimate.per_epoch.sum(axis=0))
    mean = np.mean([estimate.totals for estimate in runs], axis=0)  # 60 × 11 orders
    assert np.abs(mean - totals).max() < 0.06 * np.ptp(totals)


def test_with_everybody_present_comfedsv_is_the_mean_over_its_own_orders() -> None:
    """Nothing is missing, so the completion may only shrink a little: walk the same orders on the true games."""
    games, _ = low_rank_run(clients=6, epochs=8)
    estimate = ComFedSV().estimate_run(RunGames(epochs_of(games, [tuple(range(6))] * 8), 6), rng(3))
    orders = random_permutations(rng(3), order_count(6), 6)
    expected = np.zeros((8, 6))
    for t, game in enumerate(games):
        for order in orders:
            members = np.zeros((7, 6), dtype=bool)
            for k, player in enumerate(order):
                members[k + 1 :, player] = True
            expected[t, order] += np.diff(game.evaluate(members)[:, 0]) / len(orders)
    assert np.abs(estimate.per_epoch[:, :, 0] - expected).max() < 0.03 * np.ptp(expected)


def test_unobserved_columns_are_refused_with_their_share_unless_allowed() -> None:
    games, _ = low_rank_run(clients=5, epochs=3)
    partial = [Game(3, lambda s, g=game: g.function(np.pad(s, ((0, 0), (0, 2))))) for game in games]
    epochs = epochs_of(partial, [(0, 1, 2)] * 3)
    with pytest.raises(SettingsError, match=r"\d+\.\d% of the \d+ coalitions never took part together"):
        ComFedSV().estimate_run(RunGames(epochs, 5), rng())
    estimate = ComFedSV(allow_unobserved=True).estimate_run(RunGames(epochs, 5), rng())
    assert 0 < estimate.extra["unobserved_columns"] < 1
    assert np.isfinite(estimate.totals).all()


def test_a_first_epoch_with_everybody_leaves_nothing_unobserved() -> None:
    games, _ = low_rank_run(clients=5, epochs=4)
    later = [Game(2, lambda s, g=game: g.function(np.pad(s, ((0, 0), (1, 2))))) for game in games[1:]]
    epochs = epochs_of([games[0], *later], [(0, 1, 2, 3, 4), *[(1, 2)] * 3])
    estimate = ComFedSV().estimate_run(RunGames(epochs, 5), rng())
    assert estimate.extra["unobserved_columns"] == 0
    assert (estimate.evaluations[1:] <= 3).all()


def test_comfedsv_scales_with_the_utility() -> None:
    """A fixed ridge on raw numbers would crush small utilities; here the unit of measurement does not matter."""
    games, _ = low_rank_run(clients=5, epochs=5)
    small = [Game(5, lambda s, g=game: 1e-5 * g.function(s)) for game in games]
    everyone = [tuple(range(5))] * 5
    first = ComFedSV().estimate_run(RunGames(epochs_of(games, everyone), 5), rng())
    second = ComFedSV().estimate_run(RunGames(epochs_of(small, everyone), 5), rng())
    assert np.allclose(1e-5 * first.totals, second.totals, rtol=1e-8)


def test_comfedsv_keeps_the_evaluations_of_every_epoch() -> None:
    games, _ = low_rank_run(clients=6, epochs=2)
    everyone = [tuple(range(6))] * 2
    epochs = epochs_of(games, everyone)
    estimate = ComFedSV(evaluations=20).estimate_run(RunGames(epochs, 6), rng())
    assert (estimate.evaluations <= 20).all()
    assert [epoch.oracle.evaluations for epoch in epochs] == estimate.evaluations.tolist()
    with pytest.raises(SettingsError, match="do not pay for one order"):
        ComFedSV(evaluations=5).estimate_run(RunGames(epochs_of(games, everyone), 6), rng())


def test_comfedsv_refuses_a_matrix_that_would_not_fit() -> None:
    with pytest.raises(CostRefusal, match="comfedsv over 10000 clients"):
        ComFedSV().estimate_run(RunGames(epochs_of([additive(0, 3).game], [(0, 1, 2)]), 10_000), rng())
    with pytest.raises(SettingsError, match="at least one epoch"):
        ComFedSV().estimate_run(RunGames([], 3), rng())


def test_order_count_is_m_ln_m_and_at_least_ten() -> None:
    assert [order_count(m) for m in (1, 2, 5, 16, 64)] == [10, 10, 10, 45, 267]


def test_one_round_is_the_exact_value_of_the_whole_run() -> None:
    table = random_table(0, 5, utilities=2)
    epochs = epochs_of([additive(0, 2).game] * 3, [(0, 4), (1, 3), (2, 4)])
    whole = table_game(table).oracle()
    estimate = OneRound().estimate_run(RunGames(epochs, 5, whole), rng())
    assert np.allclose(estimate.totals, shapley_from_table(table), atol=1e-12)
    assert np.isnan(estimate.per_epoch).all()
    assert estimate.per_epoch.shape == (3, 5, 2)
    assert estimate.evaluations.tolist() == [0, 0, 31]
    assert estimate.total_standard_errors is not None
    assert not estimate.total_standard_errors.any()


def test_one_round_samples_where_a_budget_is_given_and_says_so() -> None:
    form = unanimity_sum(0, 9)
    estimate = OneRound(evaluations=200).estimate_run(RunGames([], 9, form.game.oracle()), rng())
    assert estimate.method == "one-round (sampled by complementary)"
    assert estimate.total_standard_errors is not None
    assert (np.abs(estimate.totals - form.values) < 4 * estimate.total_standard_errors).all()


def test_one_round_refuses_too_many_clients_and_a_missing_game() -> None:
    with pytest.raises(CostRefusal, match="one-round over 30 participants"):
        OneRound().estimate_run(RunGames([], 30, additive(0, 30).game.oracle()), rng())
    with pytest.raises(MissingPart, match="whole run"):
        OneRound().estimate_run(RunGames([], 3), rng())
    with pytest.raises(MissingPart, match="all 4 clients"):
        OneRound().estimate_run(RunGames([], 4, additive(0, 3).game.oracle()), rng())
