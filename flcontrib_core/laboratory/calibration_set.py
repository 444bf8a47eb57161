"""The simulated federations that thresholds are measured on, and those they are reported on.

Every run is drawn from its group, its place and a seed base; two sets with different bases share no run. Regimes,
training set-ups and heterogeneity are drawn at random, so that no threshold fits one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flcontrib_core.laboratory.simulation.settings import AttackKind, DifficultyKind, SimulationSettings, Split

BUNDLED = ("digits", "breast-cancer", "wine")
SYNTHETIC = "synthetic"
CALIBRATED = (*BUNDLED, SYNTHETIC)
"""What the thresholds are measured on: real data, and tables of made-up people, whose classes overlap."""
TABULAR = ("adult", "compas")
SPARSE_GROUP = "honest, sparse"
SPARSE_REGIMES = ((16, 0.3), (20, 0.3), (24, 0.3), (24, 0.4))
"""Clients and participation of federations in which a client is asked every third epoch or so."""

HONEST_GROUPS = (
    "honest, iid",
    "honest, Dirichlet 1",
    "honest, Dirichlet .3",
    "honest, low quality",
    "honest, rare",
    "honest, drop-out",
    SPARSE_GROUP,
)
"""Runs without any dishonest client and without drift: those the false-alarm rate counts."""
DRIFT_GROUP = "honest, drift"
ATTACK_GROUPS = (
    "flip .3",
    "flip .5",
    "flip .7",
    "flip 1",
    "Dirichlet 1 flip",
    "Dirichlet .3 flip",
    "colluding flip",
    "two windows",
    "from the start",
    "to the end",
    "whole-run flip",
    "scale",
    "targeted flip",
    "sign flip",
    "whole-run sign flip",
    "pure noise",
    "added noise",
    "zero",
    "repeat",
    "noisy repeat",
    "copy",
)

MOST_WINE_CLIENTS = 16
"""Wine has too few rows for a batch per client with more."""


@dataclass(frozen=True)
class LabelledSettings:
    """One federation to simulate and the group it is counted in."""

    group: str
    settings: SimulationSettings


def draw_runs(
    group: str, count: int, base: int, datasets: Sequence[str] = BUNDLED, **fixed: Any
) -> tuple[LabelledSettings, ...]:
    """``count`` federations of one group; ``fixed`` pins settings (clients, epochs, participation, …)."""
    known = (*HONEST_GROUPS, DRIFT_GROUP, *ATTACK_GROUPS)
    place = known.index(group)
    return tuple(
        LabelledSettings(group, _draw(group, np.random.default_rng([base, place, k]), datasets, fixed))
        for k in range(count)
    )


def _draw(group: str, rng: np.random.Generator, datasets: Sequence[str], fixed: dict[str, Any]) -> SimulationSettings:
    dataset = str(rng.choice(list(datasets)))
    settings = _federation(rng, dataset, _sparse(rng) | fixed if group == SPARSE_GROUP else fixed)
    if rng.random() < 0.3:  # near-iid: a mild Dirichlet split counts as iid
        settings = replace(settings, split=Split.DIRICHLET, alpha=10.0)
    if "Dirichlet 1" in group:
        settings = replace(settings, split=Split.DIRICHLET, alpha=1.0)
    if "Dirichlet .3" in group:
        settings = replace(settings, split=Split.DIRICHLET, alpha=0.3)
    difficulty = {
        "honest, low quality": DifficultyKind.LOW_QUALITY,
        "honest, rare": DifficultyKind.RARE,
        "honest, drop-out": DifficultyKind.DROP_OUT,
        DRIFT_GROUP: DifficultyKind.DRIFT,
    }.get(group)
    if difficulty is not None:
        return replace(settings, difficulty=difficulty, difficulty_strength=None)
    return settings if group in HONEST_GROUPS else replace(settings, **_attack(group, settings, rng))


def _federation(rng: np.random.Generator, dataset: str, fixed: dict[str, Any]) -> SimulationSettings:
    regimes = ((8, 1.0), (8, 1.0), (8, 0.5), (4, 1.0), (6, 1.0), (10, 0.5), (10, 0.8), (12, 0.5), (16, 0.5))
    clients, participation = regimes[int(rng.integers(len(regimes)))]
    adam = rng.random() < 0.15
    drawn: dict[str, Any] = {
        "dataset": dataset,
        "clients": clients,
        "participation": participation,
        "epochs": int(rng.choice([20, 30, 30, 40])),
        "hidden": ((16,), (32,), (64, 32))[int(rng.integers(3))],
        "optimizer": "adam" if adam else "sgd",
        "lr": float(rng.choice([0.003, 0.01]) if adam else rng.choice([0.05, 0.1, 0.2])),
        "local_epochs": int(rng.choice([1, 2, 3])),
        "batch": 8 if dataset == "wine" else int(rng.choice([8, 16, 32] if dataset != "breast-cancer" else [8, 16])),
        "sizes": "unequal" if rng.random() < 0.2 else "equal",
        "seed": int(rng.integers(2**31)),
    }
    if dataset in (*TABULAR, SYNTHETIC):
        drawn["train_rows"] = int(rng.choice([1600, 3200]))
        drawn["validation_rows"] = 300
    if dataset == "wine" and (drawn | fixed)["clients"] > MOST_WINE_CLIENTS:
        fixed = fixed | {"clients": MOST_WINE_CLIENTS}
    return SimulationSettings(**(drawn | fixed))


def _sparse(rng: np.random.Generator) -> dict[str, Any]:
    clients, participation = SPARSE_REGIMES[int(rng.integers(len(SPARSE_REGIMES)))]
    return {"clients": clients, "participation": participation, "epochs": int(rng.choice([30, 40, 50]))}


def _attack(group: str, settings: SimulationSettings, rng: np.random.Generator) -> dict[str, Any]:
    epochs = settings.epochs
    number = 1 if settings.clients < 6 or rng.random() < 0.6 else 2
    length = int(rng.integers(max(3, round(0.15 * epochs)), round(0.4 * epochs) + 1))
    first = int(rng.integers(4, epochs - length))
    plan: dict[str, Any] = {
        "attack": AttackKind.LABEL_FLIP,
        "strength": float(rng.choice([0.5, 0.7, 1.0])),
        "dishonest": number,
        "windows": ((first, first + length - 1),),
    }
    kinds = {
        "scale": (AttackKind.SCALE, 5.0),
        "targeted flip": (AttackKind.TARGETED_FLIP, 1.0),
        "sign flip": (AttackKind.SIGN_FLIP, 1.0),
        "whole-run sign flip": (AttackKind.SIGN_FLIP, 1.0),
        "pure noise": (AttackKind.PURE_NOISE, 1.0),
        "added noise": (AttackKind.ADDITIVE_NOISE, 1.0),
        "zero": (AttackKind.ZERO, None),
        "repeat": (AttackKind.REPEAT, 0.0),
        "noisy repeat": (AttackKind.REPEAT, 0.1),
        "copy": (AttackKind.COPY, 0.0),
    }
    if group in kinds:
        plan["attack"], plan["strength"] = kinds[group]
    elif group.startswith("flip "):
        plan["strength"] = float(group.removeprefix("flip "))
    elif group == "colluding flip":
        plan |= {"clients": 8, "dishonest": 3, "collude": True}
    elif group == "two windows":
        short = max(3, epochs // 6)
        second = int(rng.integers(4 + 2 * short, epochs - short))
        early = int(rng.integers(4, second - short - 2))
        plan |= {"dishonest": 1, "windows": ((early, early + short - 1), (second, second + short - 1))}
    elif group == "from the start":
        plan["windows"] = ((1, length),)
    elif group == "to the end":
        plan["windows"] = ((epochs - length + 1, epochs),)
    if group.startswith("whole-run"):
        plan["windows"] = ()
    return plan
