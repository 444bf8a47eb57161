"""Do the hand-written networks train exactly as torch does?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from flcontrib_core.laboratory.simulation.batches import LocalBatches, local_batches
from flcontrib_core.laboratory.simulation.cnn import Cnn
from flcontrib_core.laboratory.simulation.kinds import Optimizer
from flcontrib_core.laboratory.simulation.local_training import LocalTraining, RowPrivacy, Trainable
from flcontrib_core.laboratory.simulation.mlp import Mlp
from flcontrib_core.laboratory.simulation.precision import to_bfloat16
from flcontrib_core.runs.encoding import split_flat

RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, 12)).astype(np.float32)
Y = RNG.integers(0, 4, 120)


def client_batches(batch: int = 8, drop_last: bool = True) -> list[LocalBatches]:
    """Clients of 40, 33, 21 and 5 rows: different step counts, one below a batch."""
    owners = np.split(np.arange(99), [40, 73, 94])
    way = LocalTraining(Optimizer.SGD, 0.1, local_epochs=2, batch=batch, drop_last=drop_last)
    return [local_batches(r, Y[r], way, np.random.default_rng(i)) for i, r in enumerate(owners)]


ADAPTIVE = (Optimizer.ADAM, Optimizer.ADAMW)


def usual(optimizer: Optimizer) -> LocalTraining:
    return LocalTraining(optimizer, 0.01 if optimizer in ADAPTIVE else 0.2, weight_decay=0.0)


def three_layers() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(12, 9), torch.nn.ReLU(), torch.nn.Linear(9, 7), torch.nn.ReLU(), torch.nn.Linear(7, 4)
    )


def torch_rule(training: LocalTraining, weights: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    lr, decay = training.lr, training.weight_decay
    if training.optimizer is Optimizer.ADAM:
        return torch.optim.Adam(weights, lr=lr, weight_decay=decay)
    if training.optimizer is Optimizer.ADAMW:
        return torch.optim.AdamW(weights, lr=lr, weight_decay=decay)
    momentum = 0.9 if training.optimizer is Optimizer.MOMENTUM else 0.0
    return torch.optim.SGD(weights, lr=lr, momentum=momentum, weight_decay=decay)


def trained_by_torch(
    x: np.ndarray,
    network: Callable[[], torch.nn.Module],
    names: Sequence[str],
    start: dict[str, np.ndarray],
    batches: LocalBatches,
    training: LocalTraining,
    frozen: Sequence[str] = (),
) -> np.ndarray:
    net = network()
    net.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in start.items()}, strict=False)
    net.train()
    for name, weight in net.named_parameters():
        weight.requires_grad_(name not in frozen)
    rule = torch_rule(training, [w for w in net.parameters() if w.requires_grad])
    for step in range(batches.steps):
        rows, labels = batches.step(step)
        rule.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(torch.from_numpy(x[rows])), torch.tensor(labels))
        for name, weight in net.named_parameters():
            loss = loss + training.proximal / 2 * ((weight - torch.from_numpy(start[name])) ** 2).sum()
        (-loss if training.ascend else loss).backward()  # type: ignore[no-untyped-call]
        if training.gradient_clip is not None:
            torch.nn.utils.clip_grad_norm_([w for w in net.parameters() if w.requires_grad], training.gradient_clip)
        rule.step()
    state = net.state_dict()
    return np.concatenate([(state[n].numpy() - start[n]).reshape(-1) for n in names])


@pytest.mark.parametrize("optimizer", list(Optimizer))
@pytest.mark.parametrize("drop_last", [True, False])
def test_mlp_updates_are_torch_s(optimizer: Optimizer, drop_last: bool) -> None:
    mlp = Mlp((12, 9, 7, 4))
    start = mlp.initial(np.random.default_rng(0))
    batches = client_batches(drop_last=drop_last)
    way = usual(optimizer)
    updates = mlp.train(start, X, batches, way)

    names = [p.name for p in mlp.parameters]
    assert names == list(three_layers().state_dict())
    for client, own in enumerate(batches):
        expected = trained_by_torch(X, three_layers, names, split_flat(start, mlp.parameters), own, way)
        np.testing.assert_allclose(updates[client], expected, atol=2e-4 if optimizer in ADAPTIVE else 3e-6)


WAYS = {
    "weight decay": {"weight_decay": 0.1},
    "gradient clip": {"gradient_clip": 0.3},
    "proximal term": {"proximal": 0.7},
    "uphill": {"ascend": True, "gradient_clip": 0.5},
    "all at once": {"weight_decay": 0.05, "gradient_clip": 0.4, "proximal": 0.3},
}


@pytest.mark.parametrize("optimizer", list(Optimizer))
@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("frozen", [(), ("0.weight", "0.bias")], ids=["all layers", "first layer frozen"])
def test_every_way_to_train_an_mlp_is_torch_s(optimizer: Optimizer, way: str, frozen: tuple[str, ...]) -> None:
    mlp = Mlp((12, 9, 7, 4))
    start = mlp.initial(np.random.default_rng(0))
    training = replace(usual(optimizer), **WAYS[way])  # type: ignore[arg-type]
    names = [p.name for p in mlp.parameters]
    if frozen:
        mask = np.concatenate([np.full(p.count, p.name not in frozen) for p in mlp.parameters])
        training = replace(training, trainable=Trainable(mask))
    batches = client_batches()
    updates = mlp.train(start, X, batches, training)
    plain = mlp.train(start, X, batches, usual(optimizer))
    assert np.abs(updates - plain).max() > 1e-3, "it makes a difference"
    for client, own in enumerate(batches):
        expected = trained_by_torch(X, three_layers, names, split_flat(start, mlp.parameters), own, training, frozen)
        np.testing.assert_allclose(updates[client], expected, atol=2e-4 if optimizer in ADAPTIVE else 5e-6)


def test_private_gradients_are_clipped_row_by_row_and_then_blurred() -> None:
    mlp = Mlp((12, 9, 4))
    start = mlp.initial(np.random.default_rng(0))
    rows = np.arange(10)
    batches = [LocalBatches(rows, Y[rows], (0, 10)), LocalBatches(rows[:4], Y[rows[:4]], (0, 4))]
    clip = 0.5
    way = LocalTraining(Optimizer.SGD, 1.0, row_privacy=RowPrivacy(clip, 0.0))
    quiet = mlp.train(start, X, batches, way, [np.random.default_rng(i) for i in range(2)])
    for client, own in enumerate(batches):
        total = np.zeros(len(start))
        for row, label in zip(own.rows, own.labels, strict=True):
            alone = LocalBatches(np.array([row]), np.array([label]), (0, 1))
            one = -mlp.train(start, X, [alone], LocalTraining(Optimizer.SGD, 1.0))[0].astype(np.float64)
            assert np.linalg.norm(one) > clip, "the clip is felt"
            total += one * min(1.0, clip / np.linalg.norm(one))
        np.testing.assert_allclose(quiet[client], -total / len(own.rows), atol=1e-6)
    noisy_way = replace(way, row_privacy=RowPrivacy(clip, 2.0))
    noisy = mlp.train(start, X, batches, noisy_way, [np.random.default_rng(i) for i in range(2)])
    for client, own in enumerate(batches):
        assert (noisy - quiet)[client].std() == pytest.approx(2.0 * clip / len(own.rows), rel=0.15)


def test_half_precision_gradients_keep_eight_bits() -> None:
    mlp = Mlp((12, 9, 4))
    start = mlp.initial(np.random.default_rng(0))
    batches = [LocalBatches(np.arange(10), Y[:10], (0, 10))]
    full = mlp.train(start, X, batches, LocalTraining(Optimizer.SGD, 0.1))[0]
    half = mlp.train(start, X, batches, LocalTraining(Optimizer.SGD, 0.1, half_gradients=True))[0]
    assert 0 < np.linalg.norm(half - full) < 0.004 * np.linalg.norm(full)
    values = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    np.testing.assert_array_equal(to_bfloat16(values), torch.from_numpy(values).bfloat16().float().numpy())


def test_mlp_logits_are_torch_s() -> None:
    mlp = Mlp((12, 9, 4))
    models = np.stack([mlp.initial(np.random.default_rng(s)) for s in range(3)])
    logits = mlp.logits(models, X)
    for position, model in enumerate(models):
        net = torch.nn.Sequential(torch.nn.Linear(12, 9), torch.nn.ReLU(), torch.nn.Linear(9, 4))
        net.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in split_flat(model, mlp.parameters).items()})
        np.testing.assert_allclose(logits[position], net(torch.from_numpy(X)).detach().numpy(), atol=1e-5)


def test_training_together_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    mlp = Mlp((12, 9, 4))
    start = mlp.initial(np.random.default_rng(0))
    batches = client_batches(batch=5)
    way = LocalTraining(Optimizer.SGD, 0.1)
    together = mlp.train(start, X, batches, way)
    monkeypatch.setattr("flcontrib_core.laboratory.simulation.mlp.TOGETHER", 1)
    alone = mlp.train(start, X, batches, way)
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("way", ["plain", *WAYS])
@pytest.mark.parametrize("optimizer", list(Optimizer))
def test_cnn_updates_are_torch_s_with_batch_norm_s_statistics(optimizer: Optimizer, way: str) -> None:
    cnn = Cnn((1, 8, 8), 5, 4)
    images = np.random.default_rng(1).normal(size=(120, 64)).astype(np.float32)
    start = cnn.initial(np.random.default_rng(0))
    batches = client_batches()[:2]
    training = replace(LocalTraining(optimizer, 0.01), **WAYS.get(way, {}))  # type: ignore[arg-type]
    updates = cnn.train(start, images, batches, training)

    def network() -> torch.nn.Module:
        blocks = []
        for channels in (1, 5, 5):
            blocks += [torch.nn.Conv2d(channels, 5, 3, padding=1), torch.nn.BatchNorm2d(5)]
            blocks += [torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
        return torch.nn.Sequential(*blocks, torch.nn.Flatten(), torch.nn.Linear(5, 4))

    names = [p.name for p in cnn.parameters]
    assert names == [n for n in network().state_dict() if "num_batches" not in n]
    square = images.reshape(-1, 1, 8, 8)
    for client, own in enumerate(batches):
        flat = trained_by_torch(square, network, names, split_flat(start, cnn.parameters), own, training)
        actual, expected = (split_flat(u, cnn.parameters) for u in (updates[client], flat))
        for name in names:
            # BatchNorm cancels the bias before it: its gradient is rounding noise, which Adam blows up to full steps.
            noise = name in ("0.bias", "4.bias", "8.bias") or name.endswith("running_mean")
            if optimizer not in ADAPTIVE or not noise:
                np.testing.assert_allclose(actual[name], expected[name], atol=2e-4, err_msg=name)
    moved = split_flat(updates[0], cnn.parameters)
    assert np.abs(moved["1.running_mean"]).max() > 0
    assert np.abs(moved["1.running_var"]).max() > 0


@pytest.mark.parametrize(("width", "weights"), [(32, 24_714), (128, 320_010)])
def test_the_paper_s_cnn_has_its_size(width: int, weights: int) -> None:
    cnn = Cnn((3, 32, 32), width, 10)
    assert sum(p.count for p in cnn.parameters if "running" not in p.name) == weights
    assert len(cnn.initial(np.random.default_rng(0))) == sum(p.count for p in cnn.parameters)


def test_the_paper_s_mlp_has_its_size() -> None:
    assert sum(p.count for p in Mlp((91, 64, 128, 256, 512, 2)).parameters) == 179_842


def test_batches_are_full_or_the_whole_client() -> None:
    rows = np.arange(100, 137)
    way = LocalTraining(Optimizer.SGD, 0.1, local_epochs=3, batch=16)
    kept = local_batches(rows, rows % 3, way, np.random.default_rng(0))
    assert kept.steps == 6
    assert {len(kept.step(s)[0]) for s in range(6)} == {16}
    once = replace(way, local_epochs=1, drop_last=False)
    trailing = local_batches(rows, rows % 3, once, np.random.default_rng(0))
    assert [len(trailing.step(s)[0]) for s in range(trailing.steps)] == [16, 16, 5]
    small = local_batches(rows[:7], rows[:7] % 3, replace(way, local_epochs=2), np.random.default_rng(0))
    assert [sorted(small.step(s)[0]) for s in range(small.steps)] == [list(rows[:7])] * 2
    for step in range(kept.steps):
        own, labels = kept.step(step)
        np.testing.assert_array_equal(labels, own % 3)
