"""The surrogate for opaque utilities."""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.shapley.estimate import ShapleyEstimate
from flcontrib_core.shapley.exact_values import evaluate_all, shapley_from_table
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.remarks import NoDifference
from flcontrib_core.shapley.surrogate import Surrogate
from tests.shapley.closed_form import ClosedForm, Game, all_closed_forms, smooth_game
from tests.shapley.mlp_epoch import MLPEpoch, relative_errors


def run(game: Game | MLPEpoch, evaluations: int | None = None, precision: float = 0.3) -> ShapleyEstimate:
    return Surrogate(outputs="utilities", evaluations=evaluations, precision=precision).estimate(
        CoalitionOracle(game), np.random.default_rng(0)
    )


def test_values_of_a_net_from_utilities_alone() -> None:
    found = []
    for seed in range(5):
        game = MLPEpoch(10, seed, rows=200)
        found.append(relative_errors(run(game, 80).values, game.exact()))
    assert np.median(found, axis=0)[0] < 0.01
    assert np.median(found, axis=0)[1] < 0.1


def test_logits_tell_more_per_evaluation() -> None:
    blind, seeing = [], []
    for seed in range(5):
        game = MLPEpoch(10, seed, rows=200)
        truth = game.exact()
        blind.append(relative_errors(run(game, 40).values, truth))
        sees = Surrogate(evaluations=40).estimate(CoalitionOracle(game), np.random.default_rng(0))
        seeing.append(relative_errors(sees.values, truth))
    assert (np.median(seeing, axis=0) < np.median(blind, axis=0)).all()


@pytest.mark.parametrize("form", all_closed_forms(9), ids=lambda form: form.name)
def test_any_game_ends_right_or_with_an_interval_that_says_otherwise(form: ClosedForm) -> None:
    """Games that are no smooth function of λ at all: jumps, minima, unanimity."""
    estimate = run(form.game)
    error = np.abs(estimate.values - form.values)
    assert (error <= 2 * estimate.half_widths + 1e-9).mean() >= 0.8
    assert estimate.values.sum() == pytest.approx(form.values.sum(), abs=1e-9)


def test_it_converges_to_exact_as_the_budget_covers_everything() -> None:
    game = smooth_game(3, 8)
    truth = shapley_from_table(evaluate_all(game.oracle()))
    errors = [np.abs(run(game, budget).values - truth).max() for budget in (20, 80, 200, 255)]
    assert errors[-1] < 1e-12
    assert errors[2] < errors[0]
    assert run(game, 255).exact


def test_intervals_cover_smooth_games() -> None:
    inside = []
    for seed in range(12):
        game = smooth_game(seed, 9, utilities=2)
        truth = shapley_from_table(evaluate_all(game.oracle()))
        estimate = run(game, 54)
        inside.append(np.abs(estimate.values - truth) <= estimate.half_widths)
    assert np.mean(inside) >= 0.93


def test_a_utility_that_never_moves_gives_zeros_at_the_first_look() -> None:
    estimate = run(Game(8, lambda s: np.zeros(len(s))))
    assert not estimate.values.any()
    assert estimate.evaluations == 32
    assert any(isinstance(remark, NoDifference) for remark in estimate.remarks)


def test_twenty_players_are_sampled() -> None:
    game = smooth_game(1, 20)
    estimate = run(game, 120)
    assert estimate.values.sum() == pytest.approx(float(game.function(np.ones((1, 20), dtype=bool))[0, 0]), abs=1e-9)
    assert np.isfinite(estimate.standard_errors).all()
