"""The cheap channels: against their formulas on small models, and bounded on long runs."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from flcontrib_core.games import assembled_channels, sketches
from flcontrib_core.games import observations as module_under_test
from flcontrib_core.games import solo_changes as solo
from flcontrib_core.games.assembled_channels import ShorterRun, assemble_channels
from flcontrib_core.games.evaluator import Evaluator
from flcontrib_core.games.observations import EpochObservation, observe_epoch
from flcontrib_core.games.sketches import few_valued, repeated_updates, sketch_updates
from flcontrib_core.games.submodels import EpochGame
from flcontrib_core.runs.run_log import RunLog, Validation
from flcontrib_core.runs.trace import parameters_of
from flcontrib_core.vocabulary import Float32Array, FloatArray
from tests.games.models import architecture_of, flat_vector, load_vector, mlp, mlp_spec, random_validation
from tests.games.runs import MemorySource, memory_run

SIZES = (6, 5, 4)


def _setting(seed: int) -> tuple[nn.Module, Evaluator, Validation, np.ndarray]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    module = mlp(*SIZES)
    validation = random_validation((6,), 3, 50, rng)  # class 3 has no validation row
    evaluator = Evaluator(architecture_of(module, mlp_spec(*SIZES), 4), validation, ["accuracy"])
    return module, evaluator, validation, flat_vector(module).numpy()


def test_solo_channels_follow_their_formulas() -> None:
    module, evaluator, validation, base = _setting(0)
    rng = np.random.default_rng(1)
    updates = 0.3 * rng.standard_normal((3, len(base))).astype(np.float32)
    seen = observe_epoch(EpochGame(base, updates, [1, 5, 9], evaluator), 7, None, seed=3)
    x, y = torch.from_numpy(validation.x), torch.from_numpy(validation.y)

    def observed(vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            z = load_vector(module, vector)(x).double()
        margins = (z - z.mean(1, keepdim=True))[torch.arange(len(y)), y]
        return margins.numpy(), cross_entropy(z, y, reduction="none").numpy()

    margin_before, loss_before = observed(base)
    for player in range(3):
        margin, loss = observed(base + updates[player])
        by_class = [np.mean((margin - margin_before)[validation.y == k]) for k in range(3)]
        rises = [np.mean((loss - loss_before)[validation.y == k]) for k in range(3)]
        assert seen.solo_margin[player] == pytest.approx(np.mean(margin - margin_before), abs=1e-5)
        assert seen.solo_class_margin[player, :3] == pytest.approx(by_class, abs=1e-5)
        assert np.isnan(seen.solo_class_margin[player, 3])
        assert seen.solo_worst_class[player] == pytest.approx(max(rises), abs=1e-5)
        assert seen.solo_loss[player] == pytest.approx(np.mean(loss - loss_before), abs=1e-5)


def test_given_logits_save_the_evaluations() -> None:
    _, evaluator, _, base = _setting(1)
    updates = 0.3 * np.random.default_rng(2).standard_normal((3, len(base))).astype(np.float32)
    game = EpochGame(base, updates, [1, 5, 9], evaluator)
    _, logits = game.evaluate_with_logits(np.vstack([np.zeros((1, 3)), np.eye(3)]).astype(bool))
    given = observe_epoch(game, 1, None, 0, solo_logits=logits[1:])
    own = observe_epoch(game, 1, None, 0)
    for field in fields(EpochObservation):
        np.testing.assert_array_equal(getattr(given, field.name), getattr(own, field.name))


def test_a_single_logit_counts_as_a_pair() -> None:
    rng = np.random.default_rng(3)
    logit = rng.standard_normal((1, 20, 1)).astype(np.float32)
    base = np.zeros((20, 1), dtype=np.float32)
    y = rng.integers(0, 2, 20)
    single = solo.solo_changes(base, logit, y)
    pair = solo.solo_changes(np.zeros((20, 2), np.float32), np.concatenate([np.zeros_like(logit), logit], axis=2), y)
    for one, two in zip(single, pair, strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(single[0], np.mean(np.where(y == 1, 0.5, -0.5) * logit[0, :, 0]), rtol=1e-6)


def test_geometry_channels_follow_their_formulas() -> None:
    _, evaluator, _, base = _setting(2)
    rng = np.random.default_rng(4)
    updates = rng.standard_normal((4, len(base))).astype(np.float32)
    updates[3] = 0.0
    step = rng.standard_normal(len(base)).astype(np.float32)
    seen = observe_epoch(EpochGame(base, updates, [1] * 4, evaluator), 2, step, seed=0)
    size = np.linalg.norm(updates[:3].astype(np.float64), axis=1)
    unit = updates[:3] / size[:, None]
    np.testing.assert_allclose(seen.norm, [*size, 0.0], rtol=1e-6)
    np.testing.assert_allclose(seen.spread[:3], 1 / (len(base) * (unit**4).sum(axis=1)), rtol=1e-5)
    np.testing.assert_allclose(seen.last_step_cosine[:3], unit @ step / np.linalg.norm(step), atol=1e-6)
    cosine = unit @ unit.T
    np.testing.assert_allclose(seen.peer_cosine[:3], (cosine.sum(axis=1) - 1) / 2, atol=1e-6)
    assert np.isnan([seen.spread[3], seen.last_step_cosine[3], seen.peer_cosine[3]]).all()
    without_self = np.where(np.eye(3, dtype=bool), -np.inf, cosine)
    np.testing.assert_allclose(seen.twin_cosine[:3], without_self.max(axis=1), atol=1e-6)
    np.testing.assert_array_equal(seen.twin, [*without_self.argmax(axis=1), -1])
    assert np.isnan(seen.twin_cosine[3])


def test_noise_spreads_over_a_third_of_the_parameters() -> None:
    update = np.random.default_rng(5).standard_normal((1, 200_000)).astype(np.float32)
    spread = module_under_test._spread(update, np.linalg.norm(update.astype(np.float64), axis=1))
    assert spread[0] == pytest.approx(1 / 3, rel=0.01)


def test_a_diverging_solo_model_is_missing_not_wrong() -> None:
    _, evaluator, _, base = _setting(3)
    updates = 0.1 * np.random.default_rng(6).standard_normal((3, len(base))).astype(np.float32)
    updates[1] *= np.float32(1e30)
    seen = observe_epoch(EpochGame(base, updates, [1] * 3, evaluator), 1, None, 0)
    for channel in (seen.solo_margin, seen.solo_loss, seen.solo_worst_class):
        assert np.isnan(channel).tolist() == [False, True, False]


@pytest.mark.parametrize("length", [50, 4096, 4097, 50_000])
def test_sketches_keep_cosines_and_their_seed(length: int) -> None:
    rng = np.random.default_rng(length)
    common = rng.standard_normal(length) * (rng.random(length) < 0.1) * 5  # concentrated, like real updates
    updates = (common + rng.standard_normal((6, length))).astype(np.float32)
    sketch = sketch_updates(updates, seed=11).astype(np.float64)
    assert sketch.shape[1] == min(length, 4096)
    unit = updates / np.linalg.norm(updates, axis=1, keepdims=True)
    tolerance = 2e-3 if length <= 4096 else 4 / np.sqrt(4096)
    np.testing.assert_allclose(sketch @ sketch.T, unit @ unit.T, atol=tolerance)
    assert np.array_equal(sketch_updates(updates[2:3], seed=11)[0], sketch_updates(updates, seed=11)[2])
    if length > 4096:
        assert not np.array_equal(sketch_updates(updates, seed=12), sketch_updates(updates, seed=11))


def test_a_sketch_survives_the_structure_of_layers() -> None:
    """Columns of a weight matrix whose width divides the sketch's must not all fall onto the same cells."""
    rng = np.random.default_rng(7)
    hot = np.zeros((2, 512, 64), dtype=np.float32)
    hot[0, :, 3], hot[1, :, 3] = rng.standard_normal((2, 512))
    sketch = sketch_updates(hot.reshape(2, -1), seed=0).astype(np.float64)
    exact = np.corrcoef(hot[0, :, 3], hot[1, :, 3])[0, 1]
    assert abs(sketch[0] @ sketch[1] - exact) < 0.1


def _observed_run(
    epochs: list[tuple[list[int], np.ndarray]], clients: int, seed: int
) -> tuple[RunLog, dict[int, EpochObservation]]:
    module, evaluator, _, base = _setting(seed)
    run = memory_run(base, clients, epochs, parameters_of(module))
    seen = {
        t: observe_epoch(EpochGame(base, updates, [10] * len(members), evaluator), t, None, seed=0)
        for t, (members, updates) in enumerate(epochs, start=1)
        if members
    }
    return run, seen


def _random_epochs(seed: int, clients: int = 5, count: int = 7) -> list[tuple[list[int], np.ndarray]]:
    rng = np.random.default_rng(seed)
    length = sum(p.count for p in parameters_of(mlp(*SIZES)))
    epochs = []
    for t in range(count):
        members = sorted(rng.permutation(clients)[: 0 if t == 3 else rng.integers(2, clients + 1)].tolist())
        epochs.append((members, (0.1 * rng.standard_normal((len(members), length))).astype(np.float32)))
    return epochs


def test_channels_stand_where_their_clients_took_part() -> None:
    epochs = _random_epochs(8)
    run, seen = _observed_run(epochs, 6, 4)  # client 5 never takes part; epoch 4 has nobody
    channels = assemble_channels(run, seen)
    took_part = run.participated()
    for name in ("solo_margin", "solo_loss", "norm", "spread", "peer_cosine", "solo_worst_class"):
        cells = getattr(channels, name)
        assert cells.shape == (8, 6)
        assert np.array_equal(np.isfinite(cells), took_part)
    assert np.isnan(channels.last_step_cosine).all()
    assert channels.solo_class_margin.shape == (8, 6, 4)
    assert not channels.repeat_of.any()
    assert not channels.copy_of.any()
    assert channels.validation_rows == 50
    for client in range(6):
        times = np.flatnonzero(took_part[:, client])
        updates = [epochs[t - 1][1][epochs[t - 1][0].index(client)] for t in times]
        for t, mine in zip(times, updates, strict=True):
            others = [u for s, u in zip(times, updates, strict=True) if s != t]
            if others:
                cosines = [mine @ u / np.linalg.norm(mine) / np.linalg.norm(u) for u in others]
                assert channels.own_cosine[t, client] == pytest.approx(np.mean(cosines), abs=2e-3)


def test_repeats_and_copies_are_found_exactly() -> None:
    everyone = list(range(4))
    rng = np.random.default_rng(10)
    length = sum(p.count for p in parameters_of(mlp(*SIZES)))
    epochs = [(everyone, rng.standard_normal((4, length)).astype(np.float32)) for _ in range(6)]
    epochs[4][1][0] = epochs[1][1][0]  # bit-equal repeat of epoch 2
    noise = rng.standard_normal(length)
    near = epochs[0][1][1]
    epochs[2][1][1] = near + 5e-4 * np.linalg.norm(near) * noise / np.linalg.norm(noise)  # a repeat
    epochs[3][1][1] = near + 2e-3 * np.linalg.norm(near) * noise / np.linalg.norm(noise)  # close, but no repeat
    epochs[5][1][2] = epochs[5][1][3]  # a copy between clients, not a repeat
    epochs[1][1][2] = epochs[3][1][2] = 0.0  # zero updates repeat and copy nothing
    run, seen = _observed_run(epochs, 4, 5)
    channels = assemble_channels(run, seen)
    expected = np.zeros((7, 4), dtype=np.int64)
    expected[5, 0], expected[3, 1] = 2, 1
    assert np.array_equal(channels.repeat_of, expected)
    copies = np.zeros((7, 4), dtype=np.int64)
    copies[6, 2], copies[6, 3] = 1 + 3, 1 + 2
    assert np.array_equal(channels.copy_of, copies)
    assert np.isnan(channels.own_cosine[2, 2])


def test_steps_of_signs_have_few_values_and_gradients_many() -> None:
    rng = np.random.default_rng(5)
    for length in (42, 900, 20_000):
        gradient = rng.standard_normal((1, length)).astype(np.float32)
        first_of_adam = 0.01 * gradient / (np.abs(gradient) + 1e-8)
        largest = np.where(np.abs(gradient) >= np.sort(np.abs(gradient))[0, -5], first_of_adam, 0)
        quantised = np.round(gradient * 40) / 40
        for update, few in ((gradient, False), (first_of_adam, True), (largest, True), (quantised, False)):
            assert few_valued(sketch_updates(update, 3)[0].astype(np.float32)) is few
    assert not few_valued(np.array([0.5, -0.5, 0.3, -0.3, 0.4, -0.4], dtype=np.float32))  # two opposite classes


def test_signs_sent_again_are_no_repeat_and_a_gradient_is() -> None:
    rng = np.random.default_rng(6)
    shape = (1, 60)
    for update, repeats in (
        (0.01 * np.sign(rng.standard_normal(shape)).astype(np.float32), 0),
        (rng.standard_normal(shape).astype(np.float32), 1),
    ):
        prints = {(1, 0): b"a", (2, 0): b"a"}
        both = sketch_updates(np.vstack([update, update]), 3).astype(np.float32)
        norm = np.ones(2)
        pairs = list(repeated_updates(0, np.array([1, 2]), norm, both, prints, lambda *_: 1.0))
        assert len(pairs) == repeats


def test_only_candidates_are_read_again() -> None:
    everyone = list(range(3))
    rng = np.random.default_rng(11)
    length = sum(p.count for p in parameters_of(mlp(*SIZES)))
    epochs = [(everyone, rng.standard_normal((3, length)).astype(np.float32)) for _ in range(12)]
    epochs[7][1][0] = epochs[3][1][0]
    epochs[9][1][1] = epochs[2][1][1] * np.float32(1 + 1e-4)
    run, seen = _observed_run(epochs, 3, 6)
    channels = assemble_channels(run, seen)
    assert channels.repeat_of[8, 0] == 4
    assert channels.repeat_of[10, 1] == 3
    assert isinstance(run.source, MemorySource)
    assert run.source.reads == 2  # one pair; the bit-equal one needs no reading


def test_groups_of_clients_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run, seen = _observed_run(_random_epochs(12, clients=6, count=9), 6, 7)
    together = assemble_channels(run, seen)
    monkeypatch.setattr(assembled_channels, "_SKETCHES_IN_MEMORY", 1)
    apart = assemble_channels(run, seen)
    np.testing.assert_array_equal(together.own_cosine, apart.own_cosine)
    np.testing.assert_array_equal(together.repeat_of, apart.repeat_of)


@pytest.mark.parametrize("memory", [256 << 20, 1 << 18, 0])
def test_channels_of_a_growing_run_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch, memory: int) -> None:
    rng = np.random.default_rng(3)
    everyone = list(range(5))
    length = sum(p.count for p in parameters_of(mlp(*SIZES)))
    epochs = []
    for t in range(9):
        present = everyone if t % 3 else everyone[:-1]
        epochs.append((present, rng.standard_normal((len(present), length)).astype(np.float32)))
    epochs[2][1][1] = 0.0  # a client that did not move
    epochs[6][1][0] = epochs[1][1][0]  # and one that sends an update again
    run, seen = _observed_run(epochs, 5, 14)
    added: list[int] = []
    real = sketches.unit_rows

    def counted(directions: Float32Array) -> FloatArray:
        added.append(len(directions))
        return real(directions)

    monkeypatch.setattr(sketches, "unit_rows", counted)
    before = ShorterRun(most_bytes=memory)
    for last in (1, 4, 5, 9):
        shorter = replace(run, epochs=run.epochs[:last])
        added.clear()
        grown = assemble_channels(shorter, {t: seen[t] for t in range(1, last + 1)}, before=before)
        if last == 5 and memory == 256 << 20:
            assert added == [1] * 5  # nothing of the earlier epochs is made again
        whole = assemble_channels(shorter, {t: seen[t] for t in range(1, last + 1)})
        for name, cells in vars(whole).items():
            np.testing.assert_array_equal(getattr(grown, name), cells, err_msg=name)
    assert grown.repeat_of[7, 0] == 2


def test_a_run_without_observations_has_empty_channels() -> None:
    run, _ = _observed_run(_random_epochs(13), 5, 8)
    channels = assemble_channels(run, {})
    assert np.isnan(channels.norm).all()
    assert channels.sketch_dimensions == 0
