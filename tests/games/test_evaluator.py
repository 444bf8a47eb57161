"""The evaluator against plain torch modules, and the same bits wherever a model stands."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from flcontrib_core.errors import SettingsError
from flcontrib_core.games import feature_major
from flcontrib_core.games.evaluator import Evaluator, one_thread
from flcontrib_core.games.module_evaluator import ModuleEvaluator
from flcontrib_core.games.submodels import coalition_weights
from tests.games.models import architecture_of, jittered, load_vector, mlp, mlp_spec, random_validation


def _naive(module: nn.Module, vectors: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(models, rows, classes): load each model, run it on all rows."""
    with torch.inference_mode():
        return np.stack([load_vector(module, v)(torch.from_numpy(x)).numpy() for v in vectors])


@pytest.mark.parametrize("sizes", [(7, 3), (12, 5, 2), (20, 16, 9, 4), (6, 8, 1), (105, 64, 128, 256, 512, 2)])
@pytest.mark.parametrize("models", [1, 13])
def test_mlp_equals_the_loaded_module(sizes: tuple[int, ...], models: int) -> None:
    rng = np.random.default_rng(sum(sizes) + models)
    torch.manual_seed(0)
    module = mlp(*sizes)
    validation = random_validation((sizes[0],), sizes[-1], 61, rng)
    vectors = jittered(module, models, rng)
    evaluator = Evaluator(architecture_of(module, mlp_spec(*sizes), sizes[-1]), validation, ["loss", "accuracy"])
    values, logits = evaluator.evaluate(vectors)
    expected = _naive(module, vectors, validation.x)
    np.testing.assert_allclose(logits, expected, rtol=2e-5, atol=2e-5)
    if sizes[-1] > 1:
        for row, z in zip(values, expected, strict=True):
            loss = cross_entropy(torch.from_numpy(z).double(), torch.from_numpy(validation.y))
            assert row[0] == pytest.approx(float(loss), rel=1e-5)
            assert row[1] == pytest.approx(np.mean(z.argmax(axis=1) == validation.y), abs=1.5 / 61)


@pytest.mark.parametrize("players", [3, 40])
def test_mixtures_equal_models_built_one_by_one(players: int) -> None:
    """With 3 players the first layer is prepared, with 40 (more than its inputs) it is not."""
    rng = np.random.default_rng(players)
    torch.manual_seed(1)
    module = mlp(11, 8, 3)
    validation = random_validation((11,), 3, 50, rng)
    evaluator = Evaluator(architecture_of(module, mlp_spec(11, 8, 3), 3), validation, ["loss"])
    base = jittered(module, 1, rng)[0]
    updates = 0.3 * rng.standard_normal((players, len(base))).astype(np.float32)
    weights = coalition_weights(rng.random((21, players)) < 0.5, rng.integers(1, 1000, players))
    mixture = evaluator.mixture(base, updates)
    assert bool(mixture.products) is (players < 11)
    values, logits = evaluator.evaluate_mixture(mixture, weights, keep_logits=True)
    built = (base + weights @ updates.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(logits, _naive(module, built, validation.x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(values, evaluator.evaluate(built)[0], rtol=1e-5)


SHAPES = [
    ((12, 5, 2), 61, 5),
    ((64, 64, 32, 10), 360, 8),
    ((100, 64, 32, 2), 300, 16),
    ((105, 64, 128, 256, 512, 2), 360, 10),
    ((30, 2), 17, 40),
    ((33, 7), 1, 5),
]


@pytest.mark.parametrize(("sizes", "rows", "players"), SHAPES)
@pytest.mark.parametrize("given", [False, True], ids=["mixed", "given"])
def test_bits_do_not_depend_on_position_or_request(
    sizes: tuple[int, ...], rows: int, players: int, given: bool
) -> None:
    rng = np.random.default_rng(rows)
    torch.manual_seed(2)
    module = mlp(*sizes)
    validation = random_validation((sizes[0],), sizes[-1], rows, rng)
    evaluator = Evaluator(architecture_of(module, mlp_spec(*sizes), sizes[-1]), validation, ["loss", "accuracy"])
    chunk = evaluator.recipe()["chunk"]
    assert chunk % 8 == 0
    base = jittered(module, 1, rng)[0]
    updates = 0.05 * rng.standard_normal((players, len(base))).astype(np.float32)
    weights = coalition_weights(rng.random((2 * chunk + 3, players)) < 0.5, rng.integers(1, 90, players))
    mixture = evaluator.mixture(base, updates)

    def run(wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if given:
            return evaluator.evaluate(base + wanted.astype(np.float32) @ updates)
        values, logits = evaluator.evaluate_mixture(mixture, wanted, keep_logits=True)
        assert logits is not None
        return values, logits

    the_one = weights[4]
    value, logits = run(the_one[None])
    for position in [0, 1, 3, chunk - 1, chunk, chunk + 5, 2 * chunk, len(weights) - 1]:
        moved = weights.copy()
        moved[position] = the_one
        if given:  # the model itself must be the same to the bit before it is moved
            models = base + moved.astype(np.float32) @ updates
            models[position] = (base + the_one[None].astype(np.float32) @ updates)[0]
            values_there, logits_there = evaluator.evaluate(models)
        else:
            values_there, logits_there = run(moved)
        assert np.array_equal(values_there[position], value[0])
        assert np.array_equal(logits_there[position], logits[0])


def test_blocks_of_rows_give_the_same_models(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    module = mlp(9, 16, 3)
    architecture = architecture_of(module, mlp_spec(9, 16, 3), 3)
    validation = random_validation((9,), 3, 500, rng)
    base = jittered(module, 1, rng)[0]
    updates = rng.standard_normal((4, len(base))).astype(np.float32)
    weights = coalition_weights(rng.random((30, 4)) < 0.5, [1, 2, 3, 4])
    whole = Evaluator(architecture, validation, ["loss"])
    assert whole.recipe()["block_rows"] == 500
    expected = whole.evaluate_mixture(whole.mixture(base, updates), weights)[0]
    for alone in (1, 1 << 30):
        monkeypatch.setattr(feature_major, "ALONE_BYTES", alone)
        monkeypatch.setattr(feature_major, "BLOCK_BYTES", 1 << 14 if alone == 1 else 1 << 18)
        split = Evaluator(architecture, validation, ["loss"])
        assert split.recipe()["block_rows"] < 500
        assert (split.recipe()["together"] == 1) is (alone == 1)
        values = split.evaluate_mixture(split.mixture(base, updates), weights)[0]
        np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_very_large_models_are_mixed_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    module = mlp(9, 16, 3)
    architecture = architecture_of(module, mlp_spec(9, 16, 3), 3)
    validation = random_validation((9,), 3, 50, rng)
    vectors = jittered(module, 5, rng)
    expected = Evaluator(architecture, validation, ["loss"]).evaluate(vectors)[0]
    monkeypatch.setattr(feature_major, "PARAMETER_BYTES", 100)
    alone = Evaluator(architecture, validation, ["loss"])
    assert alone.recipe()["chunk"] == 1
    np.testing.assert_allclose(alone.evaluate(vectors)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("state", [100, 5_000, 100_000, 524_289, 3_000_000])
@pytest.mark.parametrize("parameters", [1, 1_000, 180_000, 1_500_000, 9_000_000, 50_000_000])
def test_groups_always_fill_their_chunk_within_memory(state: int, parameters: int) -> None:
    chunk, together = feature_major._sizes(state, parameters)
    assert chunk % together == 0
    assert chunk == together == 1 or chunk % 8 == 0
    assert 4 * chunk * parameters <= 256 << 20


def test_a_live_module_gives_the_same_values() -> None:
    rng = np.random.default_rng(6)
    torch.manual_seed(6)
    module = mlp(10, 12, 4)
    validation = random_validation((10,), 4, 77, rng)
    vectors = jittered(module, 11, rng)
    before = {k: v.clone() for k, v in module.state_dict().items()}
    declared = Evaluator(architecture_of(module, mlp_spec(10, 12, 4), 4), validation, ["loss", "accuracy"])
    live = ModuleEvaluator(module, validation, ["loss", "accuracy"])
    np.testing.assert_allclose(live.evaluate(vectors)[1], declared.evaluate(vectors)[1], rtol=1e-4, atol=1e-5)
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())


def test_a_model_that_diverges_is_nan_and_leaves_its_neighbours_alone() -> None:
    rng = np.random.default_rng(7)
    module = mlp(5, 6, 3)
    validation = random_validation((5,), 3, 30, rng)
    evaluator = Evaluator(architecture_of(module, mlp_spec(5, 6, 3), 3), validation, ["loss", "accuracy"])
    vectors = jittered(module, 9, rng)
    clean = evaluator.evaluate(vectors)[0]
    vectors[4] *= np.float32(1e30)
    values = evaluator.evaluate(vectors)[0]
    assert np.isnan(values[4]).all()
    others = [k for k in range(9) if k != 4]
    assert np.array_equal(values[others], clean[others])


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_shapes_that_do_not_fit_are_refused() -> None:
    rng = np.random.default_rng(8)
    module = mlp(5, 3)
    architecture = architecture_of(module, mlp_spec(5, 3), 3)
    with pytest.raises(SettingsError, match="validation rows have shape"):
        Evaluator(architecture, random_validation((6,), 3, 10, rng), ["loss"])
    evaluator = Evaluator(architecture, random_validation((5,), 3, 10, rng), ["loss"])
    with pytest.raises(SettingsError, match="parameters of shape"):
        evaluator.evaluate(np.zeros((2, 17), dtype=np.float32))
    with pytest.raises(SettingsError, match="one model"):
        evaluator.mixture(np.zeros(18, dtype=np.float32), np.zeros((2, 19), dtype=np.float32))
