"""The corrected surrogate: unbiased whatever the fit is worth, and better than plain sampling at equal cost."""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.shapley import Complementary, UnbiasedSurrogate
from flcontrib_core.shapley.exact_values import shapley_from_table
from flcontrib_core.shapley.oracle import CoalitionOracle
from tests.shapley.closed_form import random_table, table_game
from tests.shapley.mlp_epoch import MLPEpoch


def estimates(table: np.ndarray, evaluations: int, seeds: int) -> list[tuple[np.ndarray, np.ndarray, int]]:
    kind = UnbiasedSurrogate(outputs="utilities", evaluations=evaluations)
    found = [kind.estimate(table_game(table).oracle(), np.random.default_rng(seed)) for seed in range(seeds)]
    return [(e.values[:, 0], e.standard_errors[:, 0], e.evaluations) for e in found]


def test_a_game_that_no_surrogate_fits_is_valued_without_bias() -> None:
    """Noise on every coalition: the fit is worthless, and the correction carries the values."""
    table = random_table(4, 7)
    truth = shapley_from_table(table)[:, 0]
    runs = estimates(table, 60, 120)
    values = np.array([run[0] for run in runs])
    z = (values.mean(axis=0) - truth) / (values.std(axis=0, ddof=1) / np.sqrt(len(runs)))
    assert np.abs(z).max() < 4
    inside = np.mean([np.abs(value - truth) <= 1.96 * error for value, error, _ in runs])
    assert inside > 0.85
    assert max(run[2] for run in runs) <= 60


def test_where_the_surrogate_fits_the_correction_is_small_and_beats_plain_sampling() -> None:
    members = (np.arange(512)[:, None] >> np.arange(9) & 1).astype(float)
    mean = members @ np.linspace(-1, 1, 9) / np.maximum(members.sum(axis=1), 1)
    table = np.where(members.any(axis=1), np.tanh(mean) + 0.3, 0.0)[:, None]
    truth = shapley_from_table(table)[:, 0]
    ours = np.mean([((value - truth) ** 2).mean() for value, _, _ in estimates(table, 72, 6)])
    sampled = [
        Complementary(evaluations=72).estimate(table_game(table).oracle(), np.random.default_rng(seed)).values[:, 0]
        for seed in range(6)
    ]
    plain = np.mean([((values - truth) ** 2).mean() for values in sampled])
    assert ours < 0.25 * plain


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_draws_that_all_agree_with_the_fit_do_not_make_the_accuracy_exact(seed: int) -> None:
    """Small steps move few rows: no drawn coalition is missed, others are."""
    game = MLPEpoch(9, seed, rows=30)
    game.updates *= 0.15
    truth = game.exact()[:, 1]
    estimate = UnbiasedSurrogate().estimate(CoalitionOracle(game), np.random.default_rng(0))
    missed = np.abs(estimate.values[:, 1] - truth)
    assert missed.max() > 0
    assert (missed <= 1.96 * estimate.standard_errors[:, 1]).all()


@pytest.mark.parametrize("players", [1, 2, 3])
def test_small_games_are_exact(players: int) -> None:
    table = random_table(0, players)
    estimate = UnbiasedSurrogate(outputs="utilities").estimate(table_game(table).oracle(), np.random.default_rng(0))
    np.testing.assert_allclose(estimate.values, shapley_from_table(table), atol=1e-12)
