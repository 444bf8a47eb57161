"""Do the simulator's own losses agree with what the engine computes from the recorded run?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.laboratory.simulation import SimulationSettings, simulate_in_memory
from flcontrib_core.laboratory.simulation.aggregation import subset_models

SMALL = SimulationSettings(clients=4, epochs=4, train_rows=200, validation_rows=80, hidden=(8,), seed=1)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"attack": "sign-flip", "aggregation": "greedy"},
        {"model": "cnn", "width": 3, "epochs": 2},
        {"dataset": "wine", "train_rows": None, "validation_rows": None, "participation": 0.5},
    ],
    ids=str,
)
def test_losses_and_accuracies_are_the_engine_s(changes: dict[str, Any]) -> None:
    run = simulate_in_memory(replace(SMALL, **changes))
    history = assess_contributions(run)
    for utility in ("loss", "accuracy"):
        shares = history.of(utility).values.sum(axis=1) + np.nan_to_num(history.of(utility).server_share)
        reached = np.cumsum(shares)[1:]
        told = [record.metrics[utility] for record in run.epochs]
        np.testing.assert_allclose(reached, told, atol=2e-5)


def test_the_greedy_server_took_the_subset_the_engine_finds_best() -> None:
    run = simulate_in_memory(replace(SMALL, attack="sign-flip", strength=3.0, aggregation="greedy"))
    history = assess_contributions(run)
    model, left_out = run.initial(), 0
    for record in run.epochs:
        best = history.best_subset[record.epoch]
        assert best is not None
        members = np.isin(np.array(record.participants), best)
        data = run.epoch_data(record.epoch)
        expected = subset_models(model, data.updates, np.array(record.data_sizes), members[None])[0]
        assert data.global_model is not None
        np.testing.assert_allclose(data.global_model, expected, atol=1e-6)
        left_out += int(not members.all())
        model = data.global_model
    assert left_out > 0, "the attacker was left out"
