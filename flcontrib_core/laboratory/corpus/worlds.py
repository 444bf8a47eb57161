"""Federations to draw from: data, size, length, heterogeneity and training, by part and by regime.

The two parts draw from disjoint seeds *and* from different set-ups (rates, batches, widths, numbers of clients,
optimisers), so that a figure of the report part is one of federations that nobody tuned on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from flcontrib_core.laboratory.simulation.kinds import DatasetName

SEEDS_PER_PART = 2**30
"""Seeds of the tuning part lie below, those of the report part at or above this number."""
ROWS_PER_CLIENT = 16
"""At least; a data set that has fewer for so many clients gets fewer clients."""
TRAINING_ROWS = {DatasetName.BREAST_CANCER: 455, DatasetName.WINE: 142, DatasetName.DIGITS: 1437}
"""Rows there are to share out in the sets that come with scikit-learn."""
DRAWN_ROWS = (1600, 2400, 3200)
"""Training rows of the larger tables and image sets; 300 more are for validation."""

PARTICIPATION = {5: (1.0,), 15: (1.0, 1.0, 0.8, 0.5), 20: (0.5, 0.3, 0.3, 0.2), 40: (0.3, 0.2, 0.2)}
"""Shares that take part, for federations of up to so many clients."""
EVERYBODY = 0.03
"""Share of the larger federations in which all clients take part in every epoch: their values cost the most."""


class Part(StrEnum):
    """What a run is for; no run is in both."""

    TUNING = "tuning"
    REPORT = "report"

    @property
    def first_seed(self) -> int:
        """Where this part's seeds begin."""
        return 0 if self is Part.TUNING else SEEDS_PER_PART


@dataclass(frozen=True)
class _Ranges:
    """What one part draws its set-ups from; repeated values come more often."""

    datasets: tuple[str, ...]
    clients: tuple[int, ...]
    epochs: tuple[int, ...]
    hidden: tuple[tuple[int, ...], ...]
    batch: tuple[int, ...]
    local_epochs: tuple[int, ...]
    sgd: tuple[float, ...]
    adam: tuple[float, ...]
    other_optimizers: tuple[tuple[str, float], ...]
    """Optimisers and rates beside SGD and Adam."""


_TABLES = ("adult-like", "adult-like", "compas-like", "compas-like")
_RANGES = {
    Part.TUNING: _Ranges(
        datasets=(*_TABLES, "digits", "digits", "digits", "breast-cancer", "breast-cancer", "wine", "synthetic"),
        clients=(4, 6, 8, 8, 8, 10, 12, 16, 20, 30),
        epochs=(10, 20, 30, 30, 40, 60),
        hidden=((16,), (32,), (64, 32)),
        batch=(8, 16, 32),
        local_epochs=(1, 1, 2, 3),
        sgd=(0.05, 0.1, 0.2),
        adam=(0.003, 0.01),
        other_optimizers=(("momentum", 0.03),),
    ),
    Part.REPORT: _Ranges(
        datasets=(*_TABLES, "digits", "digits", "breast-cancer", "breast-cancer", "wine", "synthetic"),
        clients=(4, 5, 7, 8, 9, 11, 14, 18, 25, 40),
        epochs=(8, 12, 18, 25, 35, 50, 70),
        hidden=((24,), (48,), (40, 20)),
        batch=(10, 20, 24),
        local_epochs=(1, 2, 4),
        sgd=(0.03, 0.07, 0.15, 0.25),
        adam=(0.002, 0.006),
        other_optimizers=(("momentum", 0.02), ("adamw", 0.004)),
    ),
}


class Regime(StrEnum):
    """What is held fixed about a federation, or nothing."""

    ANY = "any"
    NEAR_IID = "near-iid"
    DIRICHLET_1 = "dirichlet-1"
    DIRICHLET_03 = "dirichlet-0.3"
    BETA = "beta"
    UNEQUAL = "unequal-sizes"
    SMALL = "small"
    SPARSE = "sparse"
    SHORT = "short"
    LONG = "long"
    ADAM = "adam"
    ADAPTIVE_SERVER = "adaptive-server"
    CNN = "cnn"
    PAPER_MLP = "paper-mlp"
    ADULT_LIKE = "adult-like"
    COMPAS_LIKE = "compas-like"
    ADULT = "adult"
    COMPAS = "compas"
    MNIST = "mnist"
    FASHION_MNIST = "fashion-mnist"
    CIFAR10 = "cifar10"

    @property
    def needs_data(self) -> bool:
        """Does it need the data folder?"""
        return self in (Regime.ADULT, Regime.COMPAS, Regime.MNIST, Regime.FASHION_MNIST, Regime.CIFAR10)


def draw_world(part: Part, regime: Regime, rng: np.random.Generator) -> dict[str, Any]:
    """The settings of one federation, without changes or attacks."""
    ranges = _RANGES[part]

    def one(values: tuple[Any, ...]) -> Any:
        return values[int(rng.integers(len(values)))]

    world: dict[str, Any] = {"dataset": one(ranges.datasets), "clients": one(ranges.clients)}
    world |= {"epochs": one(ranges.epochs), "hidden": one(ranges.hidden)}
    world |= {"batch": one(ranges.batch), "local_epochs": one(ranges.local_epochs)}
    chance = rng.random()
    if chance < 0.15:
        world |= {"optimizer": "adam", "lr": one(ranges.adam)}
    elif chance < 0.25:
        world |= dict(zip(("optimizer", "lr"), one(ranges.other_optimizers), strict=True))
    else:
        world |= {"optimizer": "sgd", "lr": one(ranges.sgd)}
    world |= _split(rng)
    world["sizes"] = "unequal" if rng.random() < 0.2 else "equal"
    if rng.random() < 0.07:
        world |= {"aggregation": one(("fedadam", "fedyogi", "fedavgm"))}
    if regime in _FIXED:
        world |= _FIXED[regime](rng)
    world = _fitted(world, rng)
    return {**world, "seed": part.first_seed + int(rng.integers(SEEDS_PER_PART))}


def _split(rng: np.random.Generator) -> dict[str, Any]:
    """Half of the federations are iid; the others from hardly to very heterogeneous."""
    chance = rng.random()
    if chance < 0.5:
        return {"split": "iid"}
    if chance < 0.93:
        alpha = 10.0 if chance < 0.7 else 1.0 if chance < 0.85 else 0.3
        return {"split": "dirichlet", "alpha": alpha}
    return {"split": "beta", "alpha": 0.5}


def _near_iid(rng: np.random.Generator) -> dict[str, Any]:
    return {"split": "iid"} if rng.random() < 0.7 else {"split": "dirichlet", "alpha": 10.0}


def _either(**choices: tuple[Any, ...]) -> Callable[[np.random.Generator], dict[str, Any]]:
    """Draws each named setting from its values."""

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        return {name: values[int(rng.integers(len(values)))] for name, values in choices.items()}

    return draw


_FIXED: dict[Regime, Callable[[np.random.Generator], dict[str, Any]]] = {
    Regime.NEAR_IID: _near_iid,
    Regime.DIRICHLET_1: lambda _: {"split": "dirichlet", "alpha": 1.0},
    Regime.DIRICHLET_03: lambda _: {"split": "dirichlet", "alpha": 0.3},
    Regime.BETA: lambda _: {"split": "beta", "alpha": 0.5},
    Regime.UNEQUAL: lambda _: {"sizes": "unequal"},
    Regime.SMALL: _either(clients=(4, 5), participation=(1.0, 1.0, 0.75)),
    Regime.SPARSE: _either(
        clients=(24, 30, 40),
        participation=(0.2, 0.3),
        epochs=(40, 60),
        dataset=("digits", "digits", "synthetic", "adult-like", "compas-like"),
    ),
    Regime.SHORT: _either(epochs=(8, 10, 12)),
    Regime.LONG: _either(epochs=(80, 100), clients=(6, 8, 10)),
    Regime.ADAM: _either(optimizer=("adam",), lr=(0.002, 0.005, 0.01)),
    Regime.ADAPTIVE_SERVER: _either(aggregation=("fedadam", "fedadagrad", "fedyogi", "fedavgm")),
    Regime.CNN: _either(
        dataset=("digits",),
        model=("cnn",),
        width=(4, 6),
        clients=(5, 8),
        epochs=(12, 20),
        optimizer=("sgd",),
        lr=(0.05, 0.1),
        local_epochs=(1,),
        batch=(16, 32),
    ),
    Regime.PAPER_MLP: _either(
        dataset=("adult-like", "compas-like"),
        model=("paper-mlp",),
        clients=(6, 8),
        epochs=(12, 20),
        optimizer=("adam",),
        lr=(0.001,),
        local_epochs=(1, 2),
        batch=(32,),
    ),
    **{
        regime: _either(dataset=(regime.value,))
        for regime in Regime
        if regime.needs_data or regime in (Regime.ADULT_LIKE, Regime.COMPAS_LIKE)
    },
}
_FIXED[Regime.CIFAR10] = _either(
    dataset=("cifar10",),
    model=("cnn",),
    width=(8,),
    clients=(4, 6),
    epochs=(8, 10),
    optimizer=("sgd",),
    lr=(0.05,),
    local_epochs=(1,),
)


def _fitted(world: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """The same federation where its data has rows enough for everybody, and with who takes part."""
    dataset = DatasetName(world["dataset"])
    rows = TRAINING_ROWS.get(dataset)
    if rows is None:
        rows = DRAWN_ROWS[int(rng.integers(len(DRAWN_ROWS)))]
        world = {**world, "train_rows": rows, "validation_rows": 300}
    clients = min(world["clients"], rows // ROWS_PER_CLIENT)
    batch = max(4, min(world["batch"], rows // clients // 2))
    if "participation" not in world:
        shares = next(shares for most, shares in PARTICIPATION.items() if clients <= most)
        everybody = rng.random() < EVERYBODY
        world = {**world, "participation": 1.0 if everybody else shares[int(rng.integers(len(shares)))]}
    world = {**world, "clients": clients, "batch": batch}
    if world["split"] != "iid" and world["alpha"] <= 1:
        # Very different clients that train long drift apart until the mean of their models swings; nobody keeps that.
        world["local_epochs"] = 1
    return world
