"""Values from gradients: equal to enumeration where the loss is quadratic, close where it is not, honest everywhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.games.evaluator import Evaluator
from flcontrib_core.games.module_evaluator import ModuleEvaluator
from flcontrib_core.games.submodels import EpochGame
from flcontrib_core.history.trajectory import evaluator_for, walk
from flcontrib_core.laboratory.simulation import SimulationSettings, simulate_in_memory
from flcontrib_core.shapley import Gradient
from flcontrib_core.shapley.costs import cost_of
from flcontrib_core.shapley.exact_values import evaluate_all, shapley_from_table
from flcontrib_core.shapley.gradient import MOST_PAIRED, ladder, linearised_values
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.remarks import FromGradients
from flcontrib_core.vocabulary import CoalitionMatrix, FloatArray, GradientGame, UtilityMatrix, WeightMode
from tests.shapley.closed_form import random_table, table_game


class QuadraticGame:
    """loss(F) = ½ FᵀHF + g·F around F_prev = 0: fixed weights, no model."""

    utilities = ("loss",)
    weight_mode = WeightMode.FIXED
    validation_rows, multiply_adds = 1, 1.0

    def __init__(self, players: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.players = players
        self.steps = rng.standard_normal((players, 7))
        half = rng.standard_normal((7, 7))
        self.hessian, self.gradient = half @ half.T, rng.standard_normal(7)
        self.sizes = rng.integers(1, 9, players).astype(float)

    def weights(self, coalitions: CoalitionMatrix) -> FloatArray:
        return np.asarray(coalitions * self.sizes / self.sizes.sum())

    def evaluate(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        at = self.weights(coalitions) @ self.steps
        return np.asarray(0.5 * np.einsum("ci,ij,cj->c", at, self.hessian, at) + at @ self.gradient)[:, None]

    def loss_slopes(self, weights: FloatArray) -> FloatArray:
        return np.asarray(self.steps @ (self.hessian @ (weights @ self.steps) + self.gradient))

    def gram(self) -> FloatArray:
        return np.asarray(self.steps @ self.steps.T)

    def evaluate_with_logits(self, coalitions: CoalitionMatrix) -> tuple[UtilityMatrix, np.ndarray]:
        raise NotImplementedError

    def utilities_of_logits(self, logits: np.ndarray) -> UtilityMatrix:
        raise NotImplementedError


@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_a_quadratic_loss_with_fixed_weights_is_valued_exactly(nodes: int) -> None:
    game = QuadraticGame(8, 0)
    assert isinstance(game, GradientGame)
    estimate = Gradient(nodes=nodes).estimate(CoalitionOracle(game), np.random.default_rng(0))
    truth = shapley_from_table(evaluate_all(CoalitionOracle(game)))
    np.testing.assert_allclose(estimate.values, truth, rtol=1e-9, atol=1e-12)
    assert estimate.remarks == (FromGradients(nodes, ()),)


@pytest.fixture(scope="module")
def epochs() -> list[EpochGame]:
    """Nine participants with skewed data, an early and a late epoch of a small network."""
    settings = SimulationSettings(clients=9, epochs=8, split="dirichlet", sizes="unequal", hidden=(16,), seed=4)
    run = simulate_in_memory(settings)
    evaluator = evaluator_for(run, ("loss", "accuracy"))
    return [
        EpochGame(step.start, step.data.updates, step.record.data_sizes, evaluator)
        for step in walk(run)
        if step.record.epoch in (1, 8)
    ]


@pytest.mark.parametrize("mode", [WeightMode.FIXED, WeightMode.ADAPTIVE])
def test_values_are_close_to_enumeration_and_inside_their_intervals(epochs: list[EpochGame], mode: WeightMode) -> None:
    for epoch in epochs:
        game = EpochGame(epoch.base, epoch.updates, epoch.data_sizes, epoch.evaluator, weights=mode)
        truth = shapley_from_table(evaluate_all(CoalitionOracle(game)))[:, 0]
        estimate = Gradient().estimate(CoalitionOracle(game), np.random.default_rng(1))
        loss = estimate.values[:, 0]
        assert ((loss - truth) ** 2).mean() / truth.var() < 0.02
        assert (np.abs(loss - truth) <= estimate.half_widths[:, 0]).mean() > 0.85
        assert loss.sum() == pytest.approx(game.evaluate(np.ones((1, 9), dtype=bool))[0, 0], abs=1e-9)
        assert np.isnan(estimate.values[:, 1]).all()
        assert estimate.remarks == (FromGradients(2 if mode is WeightMode.FIXED else 1, ("accuracy",)),)


def test_fixed_weights_cost_the_same_whatever_the_number_of_participants() -> None:
    spent = {
        n: Gradient().estimate(CoalitionOracle(QuadraticGame(n, 1)), np.random.default_rng(0)).evaluations
        for n in (20, 200)
    }
    fixed, adaptive = (
        cost_of(Gradient(), 200, None, weights=mode).most for mode in (WeightMode.FIXED, WeightMode.ADAPTIVE)
    )
    assert max(spent.values()) <= fixed == 1 + 2 * Gradient().checks
    assert adaptive > 200


def test_adaptive_weights_cost_one_evaluation_each_and_a_short_ladder(epochs: list[EpochGame]) -> None:
    assert ladder(10) == [2, 3, 4, 6]
    assert len(ladder(1000)) <= 16
    cost = Gradient().cost(1000, None)
    assert cost.likely <= 1000 + 1 + 16 * Gradient().per_size
    found = Gradient().estimate(CoalitionOracle(epochs[0]), np.random.default_rng(0))
    assert found.evaluations <= Gradient().cost(9, None).most


def test_few_participants_are_valued_by_every_pair_where_the_evaluations_pay_for_it(epochs: list[EpochGame]) -> None:
    """Nine players: 1 + 9 + 36 + 6 sizes of 4; with fewer evaluations the ladder, which misses more."""
    game = epochs[1]
    truth = shapley_from_table(evaluate_all(CoalitionOracle(game)))[:, 0]
    errors = {}
    for evaluations in (None, 69):
        option = Gradient(evaluations=evaluations)
        found = option.estimate(CoalitionOracle(game), np.random.default_rng(0))
        assert found.evaluations <= option.cost(9, None).most
        errors[evaluations] = ((found.values[:, 0] - truth) ** 2).mean()
    assert Gradient().takes_pairs(9)
    assert Gradient().cost(9, None).most == 70
    assert errors[None] < 0.5 * errors[69]
    assert not Gradient().takes_pairs(MOST_PAIRED + 1)


@pytest.mark.parametrize("players", [2, 3])
def test_two_and_three_participants_are_all_pairs_and_so_exact(epochs: list[EpochGame], players: int) -> None:
    whole = epochs[0]
    game = EpochGame(whole.base, whole.updates[:players], whole.data_sizes[:players], whole.evaluator)
    found = Gradient().estimate(CoalitionOracle(game), np.random.default_rng(0))
    truth = shapley_from_table(evaluate_all(CoalitionOracle(game)))[:, 0]
    np.testing.assert_allclose(found.values[:, 0], truth, rtol=1e-12)
    assert (found.standard_errors[:, 0] == 0).all()


def test_the_slopes_are_the_derivative_of_the_loss(epochs: list[EpochGame]) -> None:
    game = epochs[0]
    weights = game.weights(np.ones((1, 9), dtype=bool))[0]
    step = 1e-2
    for player in (0, 4):
        towards = np.zeros(9)
        towards[player] = step
        values, _ = game.evaluator.evaluate_mixture(game.mixture, np.stack([weights + towards, weights - towards]))
        difference = (values[0, 0] - values[1, 0]) / (2 * step)
        assert game.loss_slopes(weights)[player] == pytest.approx(difference, rel=0.02, abs=1e-4)


def test_a_live_module_has_slopes_too() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 4)).astype(np.float32), rng.integers(0, 3, 40)
    evaluator: Evaluator = ModuleEvaluator(net, (x, y))
    count = evaluator.parameter_count
    game = EpochGame(
        rng.standard_normal(count).astype(np.float32), rng.standard_normal((3, count)).astype(np.float32) / 20,
        (5, 6, 7), evaluator,
    )  # fmt: skip
    estimate = Gradient().estimate(CoalitionOracle(game), rng)
    truth = shapley_from_table(evaluate_all(CoalitionOracle(game)))[:, 0]
    assert ((estimate.values[:, 0] - truth) ** 2).mean() / truth.var() < 0.05


@pytest.mark.parametrize("equal", [True, False])
def test_the_linear_games_values_are_those_of_enumeration(equal: bool) -> None:
    rng = np.random.default_rng(2)
    shares = np.ones(6) if equal else rng.random(6)
    slopes, alone = rng.standard_normal(6), rng.standard_normal(6)
    shares /= shares.sum()
    members = (np.arange(64)[:, None] >> np.arange(6) & 1).astype(bool)
    mass = np.where(members.any(axis=1), members @ shares, 1.0)
    factor = np.where(members.sum(axis=1) == 1, 1.0, 0.6)
    table = members @ (shares * slopes) / mass + factor * (members @ (shares**2 * alone)) / mass**2
    truth = shapley_from_table(np.where(members.any(axis=1), table, 0.0)[:, None])[:, 0]
    np.testing.assert_allclose(linearised_values(shares, slopes, alone, 0.6), truth, atol=1e-5)


def test_a_game_without_gradients_is_refused_and_options_are_checked() -> None:
    with pytest.raises(MissingPart, match="gradient"):
        Gradient().estimate(table_game(random_table(0, 4), ("loss",)).oracle(), np.random.default_rng(0))
    for wrong in ({"nodes": 0}, {"per_size": 2}):
        with pytest.raises(SettingsError):
            Gradient(**wrong)
    with pytest.raises(SettingsError, match="evaluations"):
        cost_of(Gradient(evaluations=20), 30, None)
    few = Gradient(evaluations=20).estimate(CoalitionOracle(QuadraticGame(30, 0)), np.random.default_rng(0))
    assert few.evaluations <= 20  # fixed weights need no singletons
