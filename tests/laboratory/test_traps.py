"""Do the known traps stay closed: set-ups in which an honest client looks harmful without any dishonesty?"""

from __future__ import annotations

from math import factorial

import numpy as np

from flcontrib_core.laboratory.simulation import SimulationSettings
from flcontrib_core.laboratory.simulation.aggregation import subset_models
from flcontrib_core.laboratory.simulation.datasets import load_dataset
from flcontrib_core.laboratory.simulation.settings import DatasetName
from flcontrib_core.laboratory.simulation.training import prepare, train, validation_losses


def loss_shares(settings: SimulationSettings) -> np.ndarray:
    """Exact Shapley values of the validation loss, summed over the run, by enumeration (full participation)."""
    federation = prepare(settings)
    n = settings.clients
    sizes = np.array([c.data_size for c in federation.clients])
    subsets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1
    model, totals = federation.initial, np.zeros(n)
    for epoch in train(federation):
        losses = validation_losses(federation, subset_models(model, epoch.updates, sizes, subsets))
        for client in range(n):
            for mask in range(2**n):
                if not mask >> client & 1:
                    others = mask.bit_count()
                    weight = factorial(others) * factorial(n - others - 1) / factorial(n)
                    totals[client] += weight * (losses[mask | 1 << client] - losses[mask])
        model = epoch.global_model
    return totals


def test_one_row_trailing_batches_are_dropped() -> None:
    # 1347 rows over 4 clients: three of them hold 337 = 21 · 16 + 1 rows.
    honest = SimulationSettings(clients=4, train_rows=1347, epochs=15, local_epochs=3, lr=0.3, batch=16, seed=0)
    fair = loss_shares(honest)
    assert (fair < 0).all(), "every honest client lowers the loss"
    assert fair.max() - fair.min() < 0.4
    unfair = loss_shares(SimulationSettings(**{**vars(honest), "drop_last": False}))
    assert unfair.max() > 1.0, "the trap is real: with its one-row batches an honest client seems to raise the loss"


def test_constant_pixels_are_not_divided_by_their_deviation() -> None:
    data = load_dataset(DatasetName.DIGITS, np.random.default_rng(0), train_rows=300, validation_rows=700)
    raw_train, raw_validation = data.x_train * 16, data.x_validation * 16
    naive = (raw_validation - raw_train.mean(axis=0)) / (raw_train.std(axis=0) + 1e-6)
    assert np.abs(naive).max() > 1e4, "the trap is real: a pixel that is constant in training and not afterwards"
    assert np.abs(data.x_validation).max() <= 1


def test_small_clients_take_whole_steps_not_fractions() -> None:
    tiny = SimulationSettings(clients=40, train_rows=400, batch=16, epochs=2)
    federation = prepare(tiny)
    assert {c.data_size for c in federation.clients} == {10}
    norms = [np.linalg.norm(e.updates, axis=1) for e in train(federation)]
    assert all((n > 0).all() and n.max() < 3 * np.median(n) for n in norms)
