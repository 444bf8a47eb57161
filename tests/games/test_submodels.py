"""Epochs, whole runs and tables as coalition games."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from flcontrib_core.errors import NonFiniteUtility, SettingsError
from flcontrib_core.games.evaluator import Evaluator
from flcontrib_core.games.submodels import (
    EpochGame,
    WholeRunGame,
    aggregate,
    coalition_weights,
    gram_matrix,
)
from flcontrib_core.games.table_game import TableGame
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.vocabulary import CoalitionGame, LogitGame, WeightMode
from tests.games.models import architecture_of, mlp, mlp_spec, random_validation

UTILITIES = ["loss", "accuracy"]


def all_coalitions(players: int) -> np.ndarray:
    return (np.arange(1 << players)[:, None] >> np.arange(players) & 1).astype(bool)


@pytest.fixture
def evaluator() -> Evaluator:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    module = mlp(8, 6, 3)
    return Evaluator(architecture_of(module, mlp_spec(8, 6, 3), 3), random_validation((8,), 3, 40, rng), UTILITIES)


def _epoch(evaluator: Evaluator, players: int, seed: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    rng = np.random.default_rng(seed)
    base = 0.3 * rng.standard_normal(evaluator.parameter_count).astype(np.float32)
    updates = 0.2 * rng.standard_normal((players, evaluator.parameter_count)).astype(np.float32)
    return base, updates, rng.integers(1, 500, players).tolist()


def test_weights_follow_their_definition() -> None:
    sizes = [10, 20, 70]
    coalitions = all_coalitions(3)
    for row, adaptive, fixed in zip(
        coalitions,
        coalition_weights(coalitions, sizes),
        coalition_weights(coalitions, sizes, WeightMode.FIXED),
        strict=True,
    ):
        held = sum(size for size, inside in zip(sizes, row, strict=True) if inside)
        for player in range(3):
            assert adaptive[player] == (sizes[player] / held if row[player] else 0.0)
            assert fixed[player] == (sizes[player] / 100 if row[player] else 0.0)


def test_the_game_is_incremental_and_the_empty_coalition_is_exactly_zero(evaluator: Evaluator) -> None:
    base, updates, sizes = _epoch(evaluator, 4, 1)
    game = EpochGame(base, updates, sizes, evaluator)
    coalitions = all_coalitions(4)
    values = game.evaluate(coalitions)
    assert (values[0] == 0.0).all()
    models = (base + coalition_weights(coalitions, sizes) @ updates.astype(np.float64)).astype(np.float32)
    independent = evaluator.evaluate(models)[0]
    np.testing.assert_allclose(values[:, 0], independent[:, 0] - independent[0, 0], atol=2e-7)
    np.testing.assert_array_equal(game.absolute(coalitions)[0], game.empty_values)


def test_a_known_empty_value_is_taken_as_it_is(evaluator: Evaluator) -> None:
    base, updates, sizes = _epoch(evaluator, 3, 2)
    given = np.array([0.25, 0.5])
    game = EpochGame(base, updates, sizes, evaluator, empty_value=given)
    own = EpochGame(base, updates, sizes, evaluator)
    coalitions = all_coalitions(3)
    assert (game.evaluate(coalitions)[0] == 0.0).all()
    np.testing.assert_array_equal(game.absolute(coalitions)[1:], own.absolute(coalitions)[1:])
    np.testing.assert_array_equal(game.evaluate(coalitions)[1:], game.absolute(coalitions)[1:] - given)


def test_logits_agree_with_the_values_they_come_with(evaluator: Evaluator) -> None:
    base, updates, sizes = _epoch(evaluator, 5, 3)
    game = EpochGame(base, updates, sizes, evaluator)
    assert isinstance(game, LogitGame)
    coalitions = all_coalitions(5)
    values, logits = game.evaluate_with_logits(coalitions)
    assert logits.shape == (32, game.validation_rows, 3)
    np.testing.assert_array_equal(values, game.evaluate(coalitions))
    np.testing.assert_array_equal(values[1:], game.utilities_of_logits(logits)[1:])
    np.testing.assert_allclose(game.utilities_of_logits(logits)[0], 0.0, atol=1e-12)


def test_zero_updates_change_nothing_at_all(evaluator: Evaluator) -> None:
    base, updates, sizes = _epoch(evaluator, 4, 4)
    game = EpochGame(base, 0 * updates, sizes, evaluator)
    assert (game.evaluate(all_coalitions(4)) == 0.0).all()


def test_fixed_weights_shrink_a_coalition_towards_the_base(evaluator: Evaluator) -> None:
    base, updates, sizes = _epoch(evaluator, 3, 5)
    fixed = EpochGame(base, updates, sizes, evaluator, weights=WeightMode.FIXED)
    adaptive = EpochGame(base, updates, sizes, evaluator)
    everyone, one = np.ones((1, 3), dtype=bool), np.array([[True, False, False]])
    np.testing.assert_array_equal(fixed.evaluate(everyone), adaptive.evaluate(everyone))
    shrunk = evaluator.evaluate((base + updates[0] * np.float32(sizes[0] / sum(sizes)))[None])[0]
    np.testing.assert_allclose(fixed.absolute(one), shrunk, rtol=1e-6)


def test_weights_over_all_clients_count_those_who_stayed_away(evaluator: Evaluator) -> None:
    base, updates, sizes = _epoch(evaluator, 3, 5)
    total = 3 * sum(sizes)
    game = EpochGame(base, updates, sizes, evaluator, weights=WeightMode.FIXED_ALL, federation_size=total)
    everyone = np.ones((1, 3), dtype=bool)
    step = (np.array(sizes) / total) @ updates.astype(np.float64)
    expected = evaluator.evaluate((base + step).astype(np.float32)[None])[0]
    np.testing.assert_allclose(game.absolute(everyone), expected, rtol=1e-5)
    with pytest.raises(SettingsError, match="data size"):
        EpochGame(base, updates, sizes, evaluator, weights=WeightMode.FIXED_ALL).evaluate(everyone)


def test_the_gram_matrix_is_exact_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flcontrib_core.games.submodels._BLOCK", 7)
    updates = np.random.default_rng(6).standard_normal((4, 53)).astype(np.float32)
    doubled = updates.astype(np.float64)
    np.testing.assert_allclose(gram_matrix(updates), doubled @ doubled.T, rtol=1e-13)
    base = np.ones(53, dtype=np.float32)
    expected = base + np.average(doubled, axis=0, weights=[1, 2, 3, 4])
    np.testing.assert_array_equal(aggregate(base, updates, [1, 2, 3, 4]), expected.astype(np.float32))
    np.testing.assert_array_equal(aggregate(base, updates[:0], []), base)


def test_a_diverging_sub_model_is_named_by_the_oracle(evaluator: Evaluator) -> None:
    base, updates, sizes = _epoch(evaluator, 3, 7)
    updates[1] *= np.float32(1e30)
    oracle = CoalitionOracle(EpochGame(base, updates, sizes, evaluator))
    fine = np.array([[True, False, True], [True, False, False]])
    assert np.isfinite(oracle.evaluate(fine)).all()
    with pytest.raises(NonFiniteUtility, match=r"players \[1, 2\]"):
        oracle.evaluate(np.array([[True, False, True], [False, True, True]]))


def test_memory_mapped_updates_need_no_copy(evaluator: Evaluator) -> None:
    base, updates, sizes = _epoch(evaluator, 3, 8)
    read_only = updates.copy()
    read_only.setflags(write=False)
    base.setflags(write=False)
    game = EpochGame(base, read_only, sizes, evaluator)
    assert game.mixture.updates.data_ptr() == read_only.ctypes.data
    writable = EpochGame(base, updates, sizes, evaluator)
    np.testing.assert_array_equal(game.evaluate(all_coalitions(3)), writable.evaluate(all_coalitions(3)))


def test_an_epoch_without_participants_is_an_empty_game(evaluator: Evaluator) -> None:
    base, updates, _ = _epoch(evaluator, 3, 9)
    game = EpochGame(base, updates[:0], [], evaluator)
    assert game.players == 0
    assert game.evaluate(np.zeros((1, 0), dtype=bool)).tolist() == [[0.0, 0.0]]
    np.testing.assert_allclose(game.empty_values, evaluator.evaluate(base[None])[0][0], rtol=1e-6)


def test_sizes_must_match_the_updates(evaluator: Evaluator) -> None:
    base, updates, _ = _epoch(evaluator, 3, 10)
    with pytest.raises(SettingsError, match="size"):
        EpochGame(base, updates, [5, 5], evaluator)
    with pytest.raises(SettingsError, match="size"):
        EpochGame(base, updates, [5, 5, 0], evaluator)


def test_cost_counts_mixing_forward_and_reading(evaluator: Evaluator) -> None:
    base, updates, sizes = _epoch(evaluator, 2, 11)
    rows, prepared = 40, 6 * 2 * 40  # two players mix the first layer's outputs
    forward = prepared + 6 * rows + 6 * 3 * rows  # + relu + second layer
    mixing = 2 * (evaluator.parameter_count - 6 * 8)
    assert EpochGame(base, updates, sizes, evaluator).multiply_adds == forward + mixing + 16 * 3 * rows


# -- whole runs -------------------------------------------------------------------------------------------------------


def _run(evaluator: Evaluator, clients: int, epochs: int, seed: int) -> tuple[np.ndarray, list[Any]]:
    rng = np.random.default_rng(seed)
    initial = 0.3 * rng.standard_normal(evaluator.parameter_count).astype(np.float32)
    history = []
    for _ in range(epochs):
        participants = np.flatnonzero(rng.random(clients) < 0.6).tolist()
        updates = 0.1 * rng.standard_normal((len(participants), evaluator.parameter_count)).astype(np.float32)
        history.append((participants, rng.integers(1, 50, len(participants)).tolist(), updates))
    return initial, history


def test_a_whole_run_is_rebuilt_epoch_by_epoch(evaluator: Evaluator) -> None:
    clients = 4
    initial, history = _run(evaluator, clients, 6, 12)
    game = WholeRunGame(initial, clients, lambda: history, evaluator)
    assert isinstance(game, CoalitionGame)
    coalitions = all_coalitions(clients)
    for row, model in zip(coalitions, game.sub_models(coalitions), strict=True):
        expected = initial.astype(np.float64)
        for participants, sizes, updates in history:
            inside = [r for r, client in enumerate(participants) if row[client]]
            if inside:
                weights = np.array([sizes[r] for r in inside], dtype=np.float64)
                expected = expected + (weights / weights.sum()) @ updates[inside]
        np.testing.assert_allclose(model, expected, atol=1e-6)
    values = game.evaluate(coalitions)
    assert (values[0] == 0).all()
    np.testing.assert_allclose(game.absolute(coalitions)[-1], evaluator.evaluate(game.sub_models(coalitions))[0][-1])


def test_whole_run_bits_do_not_depend_on_the_request(evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    initial, history = _run(evaluator, 5, 4, 13)
    game = WholeRunGame(initial, 5, lambda: history, evaluator)
    coalitions = all_coalitions(5)
    together = game.evaluate(coalitions)
    np.testing.assert_array_equal(game.evaluate(coalitions[[19]]), together[[19]])
    monkeypatch.setattr("flcontrib_core.games.submodels._WHOLE_RUN_BYTES", 1)  # eight sub-models per pass
    np.testing.assert_array_equal(game.evaluate(coalitions), together)


# -- tables -----------------------------------------------------------------------------------------------------------


def test_a_table_answers_by_bitmask_and_relative_to_the_empty_coalition() -> None:
    values = np.array([[10.0], [11.0], [13.0], [17.0]])
    game = TableGame(values, ["loss"])
    assert game.players == 2
    asked = np.array([[True, True], [False, True], [False, False], [True, False]])
    assert game.evaluate(asked)[:, 0].tolist() == [7.0, 3.0, 0.0, 1.0]
    assert game.absolute(asked)[:, 0].tolist() == [17.0, 13.0, 10.0, 11.0]


def test_a_table_of_another_size_is_refused() -> None:
    with pytest.raises(SettingsError, match="2\\^players"):
        TableGame(np.zeros((6, 1)), ["loss"])
