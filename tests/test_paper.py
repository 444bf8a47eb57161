"""The paper's Examples as golden tests and its Lemmas as properties over many seeded games, by their labels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest

from flcontrib_core.games.architecture import Architecture
from flcontrib_core.games.evaluator import Evaluator
from flcontrib_core.games.submodels import EpochGame, WholeRunGame, aggregate, coalition_weights
from flcontrib_core.runs.run_log import ParameterSpec, Validation
from flcontrib_core.shapley.exact_values import evaluate_all, shapley_from_table
from flcontrib_core.shapley.oracle import CoalitionOracle

# =====================================================================================================================
# The game of an epoch: participation-aware weights, sub-models, incremental utilities
# =====================================================================================================================

SEEDS = range(12)


@dataclass(frozen=True)
class SeededRun:
    """A random federated run of a small network: participation, sizes and updates change from epoch to epoch."""

    clients: int
    initial: np.ndarray
    epochs: list[tuple[list[int], list[int], np.ndarray]]
    """(participants, data sizes, updates)"""
    evaluator: Evaluator

    def models(self) -> list[np.ndarray]:
        """F(0) … F(T) by eq. (fl_naive)."""
        found = [self.initial]
        for _, sizes, updates in self.epochs:
            found.append(aggregate(found[-1], updates, sizes))
        return found

    def games(self) -> list[EpochGame]:
        """Epoch by epoch; v(F(t)) is evaluated once, as the end of one epoch and the start of the next."""
        games: list[EpochGame] = []
        start = self.evaluator.evaluate(self.initial[None])[0][0]
        for model, (_, sizes, updates) in zip(self.models(), self.epochs, strict=False):
            games.append(EpochGame(model, updates, sizes, self.evaluator, empty_value=start))
            start = games[-1].absolute(np.ones((1, len(sizes)), dtype=bool))[0]
        return games


def seeded_run(seed: int, clients: int = 5, epochs: int = 3) -> SeededRun:
    rng = np.random.default_rng(seed)
    parameters = [ParameterSpec("a", (6, 4)), ParameterSpec("b", (6,)), ParameterSpec("c", (3, 6))]
    layers = [{"op": "linear", "weight": "a", "bias": "b"}, {"op": "relu"}, {"op": "linear", "weight": "c"}]
    architecture = Architecture.from_spec({"input": [4], "layers": layers}, parameters, 3)
    validation = Validation(rng.standard_normal((40, 4), dtype=np.float32), rng.integers(0, 3, 40), None)
    history = []
    for _ in range(epochs):
        participants = sorted(rng.permutation(clients)[: rng.integers(1, clients)].tolist())  # somebody is absent
        updates = 0.4 * rng.standard_normal((len(participants), architecture.parameter_count))
        history.append((participants, rng.integers(1, 200, len(participants)).tolist(), updates.astype(np.float32)))
    initial = 0.5 * rng.standard_normal(architecture.parameter_count)
    evaluator = Evaluator(architecture, validation, ["loss", "accuracy"])
    return SeededRun(clients, initial.astype(np.float32), history, evaluator)


def every_coalition(players: int) -> np.ndarray:
    return (np.arange(1 << players)[:, None] >> np.arange(players) & 1).astype(bool)


def shapley_over_orders(table: np.ndarray, players: int) -> np.ndarray:
    """(players, utilities): the mean marginal over all n! orders, straight from the definition."""
    values = np.zeros((players, table.shape[1]))
    orders = list(permutations(range(players)))
    for order in orders:
        mask = 0
        for player in order:
            values[player] += table[mask | 1 << player] - table[mask]
            mask |= 1 << player
    return values / len(orders)


def game_of_all_clients(game: EpochGame, participants: list[int], clients: int) -> np.ndarray:
    """(2^m, utilities): the epoch's utilities u(S ∩ I(t)) for every subset of *all* clients."""
    return game.evaluate(every_coalition(clients)[:, participants])


def test_ex_lambda_function() -> None:
    """Three equal clients a, b, c; a and c take part: λ(a) = λ(c) = 1/2, λ(b) = 0."""
    assert coalition_weights(np.array([[True, False, True]]), [7, 7, 7]).tolist() == [[0.5, 0.0, 0.5]]


def test_ex_adaptive_sub_model() -> None:
    run = seeded_run(0, clients=3)
    rng = np.random.default_rng(0)
    a, c = rng.standard_normal((2, len(run.initial))).astype(np.float32)
    game = WholeRunGame(run.initial, 3, lambda: [([0, 2], [10, 10], np.stack([a, c]))], run.evaluator)
    coalitions = every_coalition(3)
    model = dict(zip(range(8), game.sub_models(coalitions), strict=True))
    expected = {
        0b111: run.initial + a / 2 + c / 2,
        0b101: run.initial + a / 2 + c / 2,
        0b011: run.initial + a,
        0b001: run.initial + a,
        0b110: run.initial + c,
        0b100: run.initial + c,
        0b010: run.initial,
        0b000: run.initial,
    }
    for mask, wanted in expected.items():
        np.testing.assert_allclose(model[mask], wanted, atol=1e-6)
    for with_b, without_b in ((0b111, 0b101), (0b011, 0b001), (0b110, 0b100), (0b010, 0b000)):
        assert np.array_equal(model[with_b], model[without_b])


@pytest.mark.parametrize("seed", SEEDS)
def test_eq_fl_sub_model(seed: int) -> None:
    """The game's sub-models are F_prev + Σ λ(i, S) Δ_i: same values as models built one by one."""
    run = seeded_run(seed)
    for model, game in zip(run.models(), run.games(), strict=False):
        coalitions = every_coalition(game.players)[1:]
        for row, value in zip(coalitions, game.absolute(coalitions), strict=True):
            sizes = np.array(game.data_sizes, dtype=np.float64)[row]
            built = model + (sizes / sizes.sum()) @ game.updates[row].astype(np.float64)
            independent = run.evaluator.evaluate(built.astype(np.float32)[None])[0][0]
            assert value[0] == pytest.approx(independent[0], rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_lm_utility_decomposition(seed: int) -> None:
    """v(F(T)) = Σ_t δv(t) + v(F(0))."""
    run = seeded_run(seed)
    games = run.games()
    increments = [game.evaluate(np.ones((1, game.players), dtype=bool))[0] for game in games]
    total = np.sum(increments, axis=0) + games[0].empty_values
    final = run.evaluator.evaluate(run.models()[-1][None])[0][0]
    np.testing.assert_allclose(total, final, atol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_lm_shapley_value_decomposition(seed: int) -> None:
    """The values of the summed game are the summed values; with v(F(0))/m they add up to v(F(T))."""
    run = seeded_run(seed)
    games = run.games()
    summed = np.zeros((1 << run.clients, 2))
    per_epoch = np.zeros((run.clients, 2))
    for game, (participants, _, _) in zip(games, run.epochs, strict=True):
        summed += game_of_all_clients(game, participants, run.clients)
        per_epoch[participants] += shapley_from_table(evaluate_all(CoalitionOracle(game)))
    np.testing.assert_allclose(shapley_over_orders(summed, run.clients), per_epoch, atol=1e-12)
    shares = per_epoch + games[0].empty_values / run.clients
    final = run.evaluator.evaluate(run.models()[-1][None])[0][0]
    np.testing.assert_allclose(shares.sum(axis=0), final, atol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_lm_non_selected_submodel(seed: int) -> None:
    """F_{S ∪ {i}} = F_S, to the bit, for every i that did not take part and every S."""
    run = seeded_run(seed, epochs=1)
    game = WholeRunGame(run.initial, run.clients, lambda: run.epochs, run.evaluator)
    coalitions = every_coalition(run.clients)
    models = game.sub_models(coalitions)
    absent = set(range(run.clients)) - set(run.epochs[0][0])
    assert absent
    for client in absent:
        for mask in range(1 << run.clients):
            assert np.array_equal(models[mask | 1 << client], models[mask & ~(1 << client)])


@pytest.mark.parametrize("seed", SEEDS)
def test_lm_shapley_value_non_selected(seed: int) -> None:
    """In the game of all clients an absent one is a null player (exactly 0); the others' values do not notice it."""
    run = seeded_run(seed)
    for game, (participants, _, _) in zip(run.games(), run.epochs, strict=True):
        of_all = shapley_over_orders(game_of_all_clients(game, participants, run.clients), run.clients)
        absent = [client for client in range(run.clients) if client not in participants]
        assert (of_all[absent] == 0.0).all()
        of_participants = shapley_from_table(evaluate_all(CoalitionOracle(game)))
        np.testing.assert_allclose(of_all[participants], of_participants, atol=1e-13)


@pytest.mark.parametrize("seed", SEEDS)
def test_lm_shapley_value_complexity(seed: int) -> None:
    """Exact values cost 2^(participants) − 1 evaluations per epoch, however many clients there are."""
    run = seeded_run(seed, clients=8, epochs=2)
    for game in run.games():
        oracle = CoalitionOracle(game)
        evaluate_all(oracle)
        assert oracle.evaluations == (1 << game.players) - 1


@pytest.mark.parametrize("seed", SEEDS)
def test_lm_error_bound(seed: int) -> None:
    """Values wrong by at most ε per epoch give totals wrong by at most ε × (epochs the client took part in)."""
    run = seeded_run(seed, epochs=6)
    rng = np.random.default_rng(seed)
    exact, sampled = np.zeros((2, run.clients))
    worst, took_part = 0.0, np.zeros(run.clients)
    for game, (participants, _, _) in zip(run.games(), run.epochs, strict=True):
        table = evaluate_all(CoalitionOracle(game))[:, :1]
        truth = shapley_from_table(table)[:, 0]
        guess = np.zeros(game.players)
        for _ in range(3):  # an honest approximation: three random orders
            mask = 0
            for player in rng.permutation(game.players).tolist():
                guess[player] += (table[mask | 1 << player, 0] - table[mask, 0]) / 3
                mask |= 1 << player
        worst = max(worst, float(np.abs(guess - truth).max()))
        exact[participants] += truth
        sampled[participants] += guess
        took_part[participants] += 1
    assert (np.abs(sampled - exact) <= worst * took_part + 1e-12).all()
