"""Do the hand-written networks train exactly as torch does?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from flcontrib_core.laboratory.simulation.batches import LocalBatches, local_batches
from flcontrib_core.laboratory.simulation.cnn import Cnn
from flcontrib_core.laboratory.simulation.mlp import Mlp
from flcontrib_core.laboratory.simulation.settings import Optimizer
from flcontrib_core.runs.encoding import split_flat

RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, 12)).astype(np.float32)
Y = RNG.integers(0, 4, 120)


def client_batches(batch: int = 8, drop_last: bool = True) -> list[LocalBatches]:
    """Clients of 40, 33, 21 and 5 rows: different step counts, one below a batch."""
    owners = np.split(np.arange(99), [40, 73, 94])
    return [local_batches(r, Y[r], batch, 2, drop_last, np.random.default_rng(i)) for i, r in enumerate(owners)]


def trained_by_torch(
    x: np.ndarray,
    network: Callable[[], torch.nn.Module],
    names: Sequence[str],
    start: dict[str, np.ndarray],
    batches: LocalBatches,
    optimizer: Optimizer,
    lr: float,
) -> np.ndarray:
    net = network()
    net.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in start.items()}, strict=False)
    net.train()
    rule = (torch.optim.Adam if optimizer is Optimizer.ADAM else torch.optim.SGD)(net.parameters(), lr=lr)
    for step in range(batches.steps):
        rows, labels = batches.step(step)
        rule.zero_grad()
        torch.nn.functional.cross_entropy(net(torch.from_numpy(x[rows])), torch.tensor(labels)).backward()
        rule.step()
    state = net.state_dict()
    return np.concatenate([(state[n].numpy() - start[n]).reshape(-1) for n in names])


@pytest.mark.parametrize("optimizer", list(Optimizer))
@pytest.mark.parametrize("drop_last", [True, False])
def test_mlp_updates_are_torch_s(optimizer: Optimizer, drop_last: bool) -> None:
    mlp = Mlp((12, 9, 7, 4))
    start = mlp.initial(np.random.default_rng(0))
    batches = client_batches(drop_last=drop_last)
    lr = 0.01 if optimizer is Optimizer.ADAM else 0.2
    updates = mlp.train(start, X, batches, optimizer, lr)

    def network() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Linear(12, 9), torch.nn.ReLU(), torch.nn.Linear(9, 7), torch.nn.ReLU(), torch.nn.Linear(7, 4)
        )

    names = [p.name for p in mlp.parameters]
    assert names == list(network().state_dict())
    for client, own in enumerate(batches):
        expected = trained_by_torch(X, network, names, split_flat(start, mlp.parameters), own, optimizer, lr)
        np.testing.assert_allclose(updates[client], expected, atol=3e-6 if optimizer is Optimizer.SGD else 2e-4)


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
    together = mlp.train(start, X, batches, Optimizer.SGD, 0.1)
    monkeypatch.setattr("flcontrib_core.laboratory.simulation.mlp.TOGETHER", 1)
    alone = mlp.train(start, X, batches, Optimizer.SGD, 0.1)
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("optimizer", list(Optimizer))
def test_cnn_updates_are_torch_s_with_batch_norm_s_statistics(optimizer: Optimizer) -> None:
    cnn = Cnn((1, 8, 8), 5, 4)
    images = np.random.default_rng(1).normal(size=(120, 64)).astype(np.float32)
    start = cnn.initial(np.random.default_rng(0))
    batches = client_batches()[:2]
    updates = cnn.train(start, images, batches, optimizer, 0.01)

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
        flat = trained_by_torch(square, network, names, split_flat(start, cnn.parameters), own, optimizer, 0.01)
        actual, expected = (split_flat(u, cnn.parameters) for u in (updates[client], flat))
        for name in names:
            # BatchNorm cancels the bias before it: its gradient is rounding noise, which Adam blows up to full steps.
            noise = name in ("0.bias", "4.bias", "8.bias") or name.endswith("running_mean")
            if optimizer is Optimizer.SGD or not noise:
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
    kept = local_batches(rows, rows % 3, 16, 3, True, np.random.default_rng(0))
    assert kept.steps == 6
    assert {len(kept.step(s)[0]) for s in range(6)} == {16}
    trailing = local_batches(rows, rows % 3, 16, 1, False, np.random.default_rng(0))
    assert [len(trailing.step(s)[0]) for s in range(trailing.steps)] == [16, 16, 5]
    small = local_batches(rows[:7], rows[:7] % 3, 16, 2, True, np.random.default_rng(0))
    assert [sorted(small.step(s)[0]) for s in range(small.steps)] == [list(rows[:7])] * 2
    for step in range(kept.steps):
        own, labels = kept.step(step)
        np.testing.assert_array_equal(labels, own % 3)
