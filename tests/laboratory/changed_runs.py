"""A small plain run, and the same run with one honest change at one site: what the tests of changes share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flcontrib_core.laboratory.simulation import Change, ChangeKind, SimulationSettings
from flcontrib_core.laboratory.simulation.changes import CHANGES
from flcontrib_core.laboratory.simulation.training import SimulatedEpoch, prepare, train

PLAIN = SimulationSettings(clients=5, epochs=6, train_rows=400, validation_rows=100, hidden=(8,), batch=8, seed=4)
SITE = 2
FIRST = 3
"""The change begins in this epoch, so epoch 2 is the last that all runs share."""


def changed(kind: ChangeKind | str, strength: float | None = None, **settings: object) -> list[SimulatedEpoch]:
    """The epochs of a run in which one site (or the server) changes from ``FIRST`` on."""
    windows = () if CHANGES[ChangeKind(kind)].whole_run else ((FIRST, PLAIN.epochs),)
    change = Change(ChangeKind(kind), strength, clients=(SITE,), windows=windows)
    return list(train(prepare(replace(PLAIN, changes=(change,), **settings))))  # type: ignore[arg-type]


def first_updates(epochs: list[SimulatedEpoch], plain: list[SimulatedEpoch]) -> tuple[np.ndarray, np.ndarray]:
    """What the site sent in the change's first epoch, and what it would have sent: both start from the same model."""
    np.testing.assert_array_equal(epochs[FIRST - 2].global_model, plain[FIRST - 2].global_model)
    return epochs[FIRST - 1].updates[SITE], plain[FIRST - 1].updates[SITE]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def ratio(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a) / np.linalg.norm(b))


def first_of(**settings: object) -> list[SimulatedEpoch]:
    return list(train(prepare(replace(PLAIN, **settings))))  # type: ignore[arg-type]
