"""Federations of every kind, simulated, recorded, audited and reported: is the planted attacker found?

Six sites train for 24 epochs; one of them trains on turned targets from the 9th to the 18th. The log declares the model
(one has only adapters, whose base is given at audit time) and the audit reads nothing else; one federation is
scikit-learn's and one of bagged trees, which an own function evaluates. Seeds are the federation's number.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import SGDClassifier
from sklearn.tree import DecisionTreeRegressor
from torch import Tensor, nn
from torch.nn import functional as F

import flcontrib_core as fl
from benchmarks.census_images import ResNet
from benchmarks.census_others import GRUNet, TextTransformer, UNet
from benchmarks.measurement import Measurement

SITES, EPOCHS, ATTACKER, WINDOW = 6, 24, 2, (9, 18)
Data = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Case:
    """One kind of federation."""

    make: Callable[[], nn.Module]
    draw: Callable[[np.random.Generator, int], Data]
    loss: Callable[[Tensor, Tensor], Tensor]
    spoil: Callable[[Tensor], Tensor]
    task: str = "classification"
    rate: float = 0.1
    rows: int = 48
    trained: Callable[[str], bool] = lambda name: True


class Adapters(nn.Module):
    """A frozen body of 20 million parameters, a low-rank step beside each of its layers, and a head."""

    def __init__(self, width: int = 2048, layers: int = 5, rank: int = 4) -> None:
        super().__init__()
        self.first = nn.Linear(32, width)
        self.base = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(width, rank, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(rank, width, bias=False) for _ in range(layers))
        self.head = nn.Linear(width, 4)
        for layer in (self.first, *self.base):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")  # a body whose signal reaches the head
        for step in self.up.parameters():
            nn.init.zeros_(step)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        for base, down, up in zip(self.base, self.down, self.up, strict=True):
            x = F.relu(base(x) + up(down(x)))
        return self.head(x)


def table(classes: int, width: int) -> Callable[[np.random.Generator, int], Data]:
    """Rows around a centre per class, the same for all sites."""
    centres = np.random.default_rng(99).normal(scale=1.0, size=(classes, width))

    def draw(rng: np.random.Generator, rows: int) -> Data:
        y = rng.integers(0, classes, rows)
        x = centres[y] + rng.standard_normal((rows, width))
        return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)

    return draw


def images(rng: np.random.Generator, rows: int) -> Data:
    """A bright quarter in one of three colours."""
    y = rng.integers(0, 5, rows)
    x = 0.4 * rng.standard_normal((rows, 3, 16, 16), dtype=np.float32)
    for row, k in enumerate(y):
        down, across = 8 * (k // 2 % 2), 8 * (k % 2)
        x[row, k % 3, down : down + 8, across : across + 8] += 1.0
    return torch.from_numpy(x), torch.from_numpy(y)


def discs(rng: np.random.Generator, rows: int) -> Data:
    """Bright discs on noise, and which pixels are theirs."""
    at = rng.integers(4, 12, (rows, 2, 1, 1))
    down, across = np.mgrid[0:16, 0:16]
    inside = (down - at[:, 0]) ** 2 + (across - at[:, 1]) ** 2 < 14
    image = inside + 0.5 * rng.standard_normal((rows, 16, 16))
    return torch.from_numpy(image[:, None].astype(np.float32)), torch.from_numpy(inside.astype(np.int64))


def sentences(rng: np.random.Generator, rows: int) -> Data:
    """Ten words, more of them from the vocabulary of their class."""
    y = rng.integers(0, 4, rows)
    own = 1 + 7 * y[:, None] + rng.integers(0, 7, (rows, 10))
    tokens = np.where(rng.random((rows, 10)) < 0.5, own, rng.integers(1, 29, (rows, 10)))
    return torch.from_numpy(tokens), torch.from_numpy(y)


def signals(rng: np.random.Generator, rows: int) -> Data:
    """Waves in four channels, of which the class's own runs higher and higher."""
    y = rng.integers(0, 3, rows)
    phase = 0.6 * np.arange(12)[None, :, None] + rng.uniform(0, 6, (rows, 1, 4))
    x = np.sin(phase) + 0.3 * rng.standard_normal((rows, 12, 4))
    x[np.arange(rows), :, y] += np.linspace(0, 2, 12)
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)


def numbers(rng: np.random.Generator, rows: int) -> Data:
    x = torch.from_numpy(rng.standard_normal((rows, 6), dtype=np.float32))
    noise = torch.from_numpy(rng.standard_normal((rows, 1), dtype=np.float32))
    return x, (x @ torch.arange(-2.0, 4.0))[:, None] + 0.3 * noise


def labels(rng: np.random.Generator, rows: int) -> Data:
    x = torch.from_numpy(rng.standard_normal((rows, 6), dtype=np.float32))
    return x, (2 * x[:, :3] + x[:, 3:] > 0).float()


def perceptron(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, outputs))


CASES: dict[str, Case] = {
    "regression": Case(lambda: perceptron(1), numbers, F.mse_loss, lambda y: -y, "regression", 0.02),
    "multi-label": Case(
        lambda: perceptron(3), labels, F.binary_cross_entropy_with_logits, lambda y: 1 - y, "multi-label", 0.2
    ),
    "GRU": Case(GRUNet, signals, F.cross_entropy, lambda y: (y + 1) % 3, rate=0.5),
    "transformer on text": Case(TextTransformer, sentences, F.cross_entropy, lambda y: (y + 1) % 4, rate=0.1),
    "ResNet with BatchNorm": Case(ResNet, images, F.cross_entropy, lambda y: (y + 1) % 5, rate=0.1),
    "U-Net, Dice": Case(UNet, discs, F.cross_entropy, lambda y: 1 - y, "segmentation", 0.05, 16),
    "LoRA on 20 million frozen": Case(
        Adapters, table(4, 32), F.cross_entropy, lambda y: (y + 1) % 4, rate=0.002, rows=24,
        trained=lambda name: name.startswith(("down", "up", "head")),
    ),
}  # fmt: skip


def record(case: Case, path: Path, seed: int = 0) -> dict[str, Tensor]:
    """Simulates and records one federation; what of its model is not in the log."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    module = case.make()
    sites = [case.draw(rng, case.rows) for _ in range(SITES)]
    names = [f"site-{k}" for k in range(SITES)]
    state = {n: t.detach().clone() for n, t in module.state_dict().items()}
    shared = [n for n, t in state.items() if t.is_floating_point() and case.trained(n)]
    with fl.RunRecorder(
        path,
        clients=[(name, case.rows) for name in names],
        model=module,
        parameters={n: state[n] for n in shared},
        validation=case.draw(rng, 96),
        task=case.task,
        durable=False,
    ) as recorder:
        for epoch in range(1, EPOCHS + 1):
            updates = {}
            for k, (x, y) in enumerate(sites):
                attacked = k == ATTACKER and WINDOW[0] <= epoch <= WINDOW[1]
                module.load_state_dict(state)
                _train(module, x, case.spoil(y) if attacked else y, case)
                updates[names[k]] = {n: module.state_dict()[n] - state[n] for n in shared}
            recorder.epoch(updates)
            for n in shared:
                state[n] = state[n] + sum(update[n] for update in updates.values()) / SITES
    return {n: t for n, t in state.items() if t.is_floating_point() and n not in shared}


def _train(module: nn.Module, x: Tensor, y: Tensor, case: Case) -> None:
    module.train()
    optimiser = torch.optim.SGD([p for n, p in module.named_parameters() if case.trained(n)], case.rate)
    for some in torch.randperm(len(x)).split(16):
        optimiser.zero_grad()
        case.loss(module(x[some]), y[some]).backward()
        optimiser.step()
    module.eval()


def audited(name: str, folder: Path, seed: int = 0) -> Any:
    """Records, audits and reports one of ``CASES`` or of the own functions."""
    path = folder / "run"
    if name in OWN:
        report = fl.audit(path, evaluator=OWN[name](path, seed))
    else:
        frozen = record(CASES[name], path, seed)
        report = fl.audit(path, frozen=frozen or None)
    report.write(folder / "report.html")
    return report


def logistic(path: Path, seed: int) -> fl.FunctionEvaluator:
    """scikit-learn's logistic regression."""
    rng = np.random.default_rng(seed)
    draw = table(4, 12)
    sites = [tuple(part.numpy() for part in draw(rng, 60)) for _ in range(SITES)]
    x, y = (part.numpy() for part in draw(rng, 200))
    state = {"coef": np.zeros((4, 12), np.float32), "intercept": np.zeros(4, np.float32)}
    with fl.RunRecorder(
        path, clients=[(f"site-{k}", 60) for k in range(SITES)], parameters=state, durable=False
    ) as recorder:
        for epoch in range(1, EPOCHS + 1):
            updates = {}
            for k, (own_x, own_y) in enumerate(sites):
                told = (own_y + 1) % 4 if k == ATTACKER and WINDOW[0] <= epoch <= WINDOW[1] else own_y
                local = SGDClassifier(
                    loss="log_loss", learning_rate="constant", eta0=0.01, random_state=epoch * SITES + k
                )
                local.partial_fit(own_x[:1].astype(float), told[:1], classes=np.arange(4))
                local.coef_, local.intercept_ = state["coef"].astype(float), state["intercept"].astype(float)
                local.partial_fit(own_x.astype(float), told)
                updates[f"site-{k}"] = {
                    "coef": (local.coef_ - state["coef"]).astype(np.float32),
                    "intercept": (local.intercept_ - state["intercept"]).astype(np.float32),
                }
            recorder.epoch(updates)
            for key in state:
                state[key] = state[key] + np.mean([u[key] for u in updates.values()], axis=0)

    def evaluate(model: dict[str, np.ndarray]) -> dict[str, float]:
        scores = x @ model["coef"].T + model["intercept"]
        scores -= scores.max(axis=1, keepdims=True)
        loss = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y]
        return {"loss": float(loss.mean()), "accuracy": float((scores.argmax(axis=1) == y).mean())}

    return fl.FunctionEvaluator(evaluate, {"loss": "lower", "accuracy": "higher"}, validation_rows=len(y))


def bagged_trees(path: Path, seed: int) -> fl.FunctionEvaluator:
    """Boosting by bags, as federated XGBoost does: every site fits a tree to what is left, a round adds their mean.

    The logged vector says how much of each tree is in the ensemble; a site's update puts its own in, and the function
    that evaluates has the trees.
    """
    rng = np.random.default_rng(seed)
    sites = [tuple(part.numpy() for part in numbers(rng, 80)) for _ in range(SITES)]
    x, y = (part.numpy() for part in numbers(rng, 200))
    trees: dict[tuple[int, int], Any] = {}

    def predict(rows: np.ndarray, shares: np.ndarray) -> np.ndarray:
        total = np.zeros(len(rows))
        for (epoch, site), tree in trees.items():
            if shares[epoch, site]:
                total += 0.3 * shares[epoch, site] * tree.predict(rows)
        return total

    shares = np.zeros((EPOCHS, SITES), np.float32)
    with fl.RunRecorder(
        path, clients=[(f"site-{k}", 80) for k in range(SITES)], parameters={"trees": shares}, durable=False
    ) as recorder:
        for epoch in range(EPOCHS):
            updates = {}
            for k, (own_x, own_y) in enumerate(sites):
                target = -own_y[:, 0] if k == ATTACKER and WINDOW[0] <= epoch + 1 <= WINDOW[1] else own_y[:, 0]
                fitted = DecisionTreeRegressor(max_depth=3, random_state=0).fit(own_x, target - predict(own_x, shares))
                updates[f"site-{k}"] = {"trees": np.zeros_like(shares)}
                updates[f"site-{k}"]["trees"][epoch, k] = 1.0
                trees[epoch, k] = fitted
            recorder.epoch(updates)
            shares[epoch] = 1 / SITES
    return fl.FunctionEvaluator(
        lambda state: {"mse": float(np.mean((predict(x, state["trees"]) - y[:, 0]) ** 2))},
        {"mse": "lower"},
        validation_rows=len(y),
    )


OWN: dict[str, Callable[[Path, int], fl.FunctionEvaluator]] = {
    "scikit-learn's logistic regression": logistic,
    "bagged trees": bagged_trees,
}


def run(scale: str) -> list[Measurement]:
    """Every federation once (full: three seeds)."""
    rows = []
    seeds = range(3 if scale == "full" else 1)
    for name in (*CASES, *OWN):
        found, honest, notes, began = 0, 0, [], time.perf_counter()
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder:
                report = audited(name, Path(folder), seed)
            accused = {alert.client: alert.window for alert in report.detection.alerts if alert.accuses}
            found += f"site-{ATTACKER}" in accused
            honest += len(accused.keys() - {f"site-{ATTACKER}"})
            notes.append(f"{', '.join(report.history.utilities)}: {accused or 'nobody'}")
        note = f"{'; '.join(notes)}; others accused {honest}; {time.perf_counter() - began:.0f} s"
        rows.append(Measurement(f"{name}: attacker found", found / len(seeds), 1.0, True, "", note))
    return rows
