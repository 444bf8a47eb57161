"""Complementary contributions: strata, borders, allocation and their variance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm, t

from flcontrib_core.shapley.coalitions import everybody
from flcontrib_core.shapley.complementary import Complementary, draw_by_spread, tiled_halves
from flcontrib_core.shapley.complementary_strata import PairSample, apportion, pair_count, pair_sizes
from flcontrib_core.shapley.exact_values import evaluate_all, shapley_from_table
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.remarks import BordersDrawn, EmptyCells, Pilot
from tests.shapley.closed_form import Game, additive, random_table, smooth_game, table_game


def all_pairs(players: int, game: Game) -> PairSample:
    ledger = Ledger(game.oracle(), 2**players - 1)
    ledger.evaluate(everybody(players))
    sample = PairSample(ledger)
    sample.draw(np.random.default_rng(0), {size: pair_count(players, size) for size in pair_sizes(players)})
    return sample


@pytest.mark.parametrize("players", range(1, 10))
def test_every_pair_once_gives_the_shapley_values_without_error(players: int) -> None:
    table = random_table(players, players, utilities=2)
    sample = all_pairs(players, table_game(table))
    values, errors, empty = sample.values()
    assert np.allclose(values, shapley_from_table(table), atol=1e-12)
    assert not errors.any()
    assert empty == 0
    assert sample.ledger.spent == 2**players - 1


@pytest.mark.parametrize("players", [2, 5, 8, 9])
def test_the_larger_halves_cover_all_coalitions_once(players: int) -> None:
    pairs = sum(pair_count(players, size) for size in pair_sizes(players))
    assert 2 * pairs + 1 == 2**players - 1


def test_a_pair_updates_members_and_the_others() -> None:
    """u = |S|²: with n = 3 the pair ({0, 1}, {2}) has CC = 4 − 1 = 3, +3 for 0 and 1 in stratum 2, −3 for 2 in 1."""
    ledger = Ledger(Game(3, lambda s: s.sum(axis=1) ** 2).oracle(), 7)
    sample = PairSample(ledger)
    sample.add(2, np.array([[True, True, False]]))
    strata = {stratum: (members.tolist(), c.tolist()) for stratum, members, c in sample.strata()}
    assert strata == {2: ([[True, True, False]], [[3.0]]), 1: ([[False, False, True]], [[-3.0]])}


def test_two_equal_halves_are_one_pair_whichever_half_is_named() -> None:
    sample = PairSample(Ledger(smooth_game(0, 4).oracle(), 15))
    half = np.array([[True, False, True, False]])
    assert sample.add(2, half) == 1
    assert sample.add(2, ~half) == 0
    assert sample.room(2) == 2


def test_pairs_are_drawn_without_repetition_to_the_last_one() -> None:
    sample = PairSample(Ledger(smooth_game(0, 7).oracle(), 127))
    rng = np.random.default_rng(0)
    for _ in range(7):
        sample.draw(rng, {4: 5})
    assert sample.room(4) == 0
    assert sample.ledger.spent == 70
    sample.draw(rng, {4: 5})
    assert sample.ledger.spent == 70


def test_the_drawn_pairs_are_uniform() -> None:
    counts = np.zeros(1 << 6)
    for seed in range(1500):
        sample = PairSample(Ledger(additive(0, 6).game.oracle(), 63))
        sample.draw(np.random.default_rng(seed), {4: 4})
        (members,) = (m for stratum, m, _ in sample.strata() if stratum == 4)
        counts[members @ (1 << np.arange(6))] += 1
    hit = counts[counts > 0]
    assert len(hit) == 15
    assert np.abs(hit - 400).max() < 5 * np.sqrt(400)


def test_the_borders_are_exact_from_2n_plus_1_evaluations_on() -> None:
    """A game whose curvature lives in the borders alone is exact with them alone."""
    singles = np.random.default_rng(0).normal(size=7)

    def function(s: np.ndarray) -> np.ndarray:
        size = s.sum(axis=1)
        return np.where(size == 1, s @ singles, np.where(size == 6, s @ -singles, size / 7))

    game = Game(7, function)
    truth = shapley_from_table(evaluate_all(game.oracle()))
    for kind in (Complementary(evaluations=60), Complementary(evaluations=60, allocation="neyman")):
        estimate = kind.estimate(game.oracle(), np.random.default_rng(0))
        assert np.allclose(estimate.values, truth, atol=1e-12)


@pytest.mark.parametrize(("evaluations", "pairs"), [(13, 6), (20, 9), (21, 10), (31, 15)])
def test_what_is_allowed_is_spent_in_pairs(evaluations: int, pairs: int) -> None:
    estimate = Complementary(evaluations=evaluations).estimate(smooth_game(0, 10).oracle(), np.random.default_rng(0))
    assert estimate.evaluations == 2 * pairs + 1


def test_a_budget_below_the_borders_says_so_and_fills_empty_cells() -> None:
    estimate = Complementary(evaluations=13).estimate(smooth_game(0, 10).oracle(), np.random.default_rng(0))
    assert estimate.remarks[0] == BordersDrawn(13, 21)
    assert isinstance(estimate.remarks[1], EmptyCells)
    assert estimate.remarks[1].cells == 90
    one = Complementary(evaluations=1).estimate(additive(0, 10).game.oracle(), np.random.default_rng(0))
    assert np.allclose(one.values, additive(0, 10).values.sum() / 10)
    assert np.isnan(one.standard_errors).all()


def test_the_standard_error_follows_the_stratified_formula() -> None:
    """Var φ_i = (1/n²) Σ_s (1 − C/P) s²/C, recomputed cell by cell from the pairs, with Welch's degrees."""
    players = 6
    table = random_table(2, players)
    ledger = Ledger(table_game(table).oracle(), 63)
    ledger.evaluate(everybody(players))
    sample = PairSample(ledger)
    sample.draw(np.random.default_rng(3), {5: 6, 4: 12, 3: 6})
    cells: dict[tuple[int, int], list[float]] = {}
    masks = 1 << np.arange(players)
    for stratum, members, _ in sample.strata():
        for row in members:
            cc = table[row @ masks, 0] - table[~row @ masks, 0]
            for player in np.flatnonzero(row).tolist():
                cells.setdefault((player, stratum), []).append(cc)
    values, errors, empty = sample.values()
    assert empty == 0
    for player in range(players):
        mean, variance, uncertain = table[-1, 0], 0.0, 0.0
        for stratum in range(1, players):
            found = cells[player, stratum]
            population = math.comb(players - 1, stratum - 1)
            assert len(found) == population or len(found) > 1
            mean += np.mean(found)
            if len(found) < population:
                part = (1 - len(found) / population) * float(np.var(found, ddof=1)) / len(found)
                variance, uncertain = variance + part, uncertain + part**2 / (len(found) - 1)
        assert values[player, 0] == pytest.approx(mean / players)
        student = t.ppf(0.975, max(2.0, variance**2 / uncertain)) / norm.ppf(0.975)
        assert errors[player, 0] == pytest.approx(student * math.sqrt(variance) / players, rel=0.04)


def test_apportion_is_proportional_whole_and_capped() -> None:
    assert apportion(10, np.array([1.0, 1.0, 2.0]), [100, 100, 100]) == [3, 2, 5]
    assert apportion(10, np.array([1.0, 1.0, 2.0]), [100, 100, 1]) == [5, 4, 1]
    assert apportion(10, np.array([1.0, 0.0]), [4, 100]) == [4, 0]
    assert apportion(0, np.array([1.0]), [4]) == [0]
    assert apportion(3, np.zeros(0), []) == []


@pytest.mark.parametrize("players", range(4, 13))
def test_one_tile_puts_everybody_inside_and_outside(players: int) -> None:
    rng = np.random.default_rng(players)
    for size in pair_sizes(players)[:-1]:
        halves = tiled_halves(rng, players, size)
        assert (halves.sum(axis=1) == size).all()
        if 2 * size == players:
            assert len(halves) == 1
        else:
            assert halves.any(axis=0).all()
            assert (~halves).any(axis=0).all()


def test_neymans_pilot_gives_every_cell_two_samples_before_it_shares() -> None:
    ledger = Ledger(smooth_game(1, 9).oracle(), 300)
    ledger.evaluate(everybody(9))
    sample = PairSample(ledger)
    sample.draw(np.random.default_rng(0), {8: 9})
    draw_by_spread(sample, np.random.default_rng(0), ledger.left // 2)
    available = np.array([math.comb(8, s - 1) for s in range(1, 9)])
    assert (sample.counts() >= np.minimum(2, available)).all()
    assert ledger.spent <= 300


def test_neyman_spends_more_where_the_contributions_vary() -> None:
    """All the noise sits in size 7 and its complements of size 3; the other sizes are flat."""
    noise = random_table(0, 10)

    def function(s: np.ndarray) -> np.ndarray:
        return np.where(s.sum(axis=1) == 7, noise[s @ (1 << np.arange(10)), 0], 0.0)

    ledger = Ledger(Game(10, function).oracle(), 400)
    ledger.evaluate(everybody(10))
    sample = PairSample(ledger)
    sample.draw(np.random.default_rng(0), {9: 10})
    draw_by_spread(sample, np.random.default_rng(0), ledger.left // 2)
    drawn = {size: pair_count(10, size) - sample.room(size) for size in (5, 6, 7, 8)}
    assert drawn[7] == pair_count(10, 7)
    assert max(drawn[5], drawn[6], drawn[8]) <= 20


def test_neyman_stops_after_the_pilot_when_nothing_varies() -> None:
    form = additive(0, 10)
    flat = Game(10, lambda s: s.sum(axis=1) * 0.25)
    estimate = Complementary(allocation="neyman", evaluations=900).estimate(flat.oracle(), np.random.default_rng(0))
    assert isinstance(estimate.remarks[0], Pilot)
    assert estimate.remarks[0].shared is None
    assert estimate.evaluations < 150
    assert np.allclose(estimate.values, 0.25)
    varied = Complementary(allocation="neyman", evaluations=900).estimate(form.game.oracle(), np.random.default_rng(0))
    assert varied.evaluations > 890


def test_neyman_beats_equal_shares_where_one_size_holds_the_variance() -> None:
    noise = random_table(4, 10)

    def function(s: np.ndarray) -> np.ndarray:
        return np.where(s.sum(axis=1) == 7, noise[s @ (1 << np.arange(10)), 0], s.sum(axis=1) / 10)

    game = Game(10, function)
    truth = shapley_from_table(evaluate_all(game.oracle()))

    def error(kind: Complementary) -> float:
        runs = [kind.estimate(game.oracle(), np.random.default_rng(seed)) for seed in range(10)]
        return float(np.mean([((run.values - truth) ** 2).mean() for run in runs]))

    neyman, equal = Complementary(evaluations=220, allocation="neyman"), Complementary(evaluations=220)
    assert error(neyman) < 0.6 * error(equal)


@pytest.mark.parametrize("evaluations", [34, 60])
def test_small_budgets_are_unbiased_because_no_cell_is_empty(evaluations: int) -> None:
    """From the tiles' price on; one evaluation pair less, and a remark calls the values biased."""
    table = random_table(2, 8) + np.bitwise_count(np.arange(256))[:, None] ** 2 / 20
    table[0] = 0.0
    game, truth = table_game(table), shapley_from_table(table)
    runs = [
        Complementary(evaluations=evaluations).estimate(game.oracle(), np.random.default_rng(seed))
        for seed in range(400)
    ]
    values = np.array([run.values for run in runs])
    z = (values.mean(axis=0) - truth) / (values.std(axis=0, ddof=1) / np.sqrt(len(runs)))
    assert np.abs(z).max() < 4
    assert not any(isinstance(remark, EmptyCells) for run in runs for remark in run.remarks)
    below = Complementary(evaluations=30).estimate(game.oracle(), np.random.default_rng(0))
    assert any(isinstance(remark, EmptyCells) for remark in below.remarks)
