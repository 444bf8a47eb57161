"""Values on a real training run against an independent enumeration in double precision."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

from flcontrib_core.games.architecture import Architecture
from flcontrib_core.games.evaluator import Evaluator
from flcontrib_core.games.submodels import EpochGame, aggregate
from flcontrib_core.runs.run_log import Validation
from flcontrib_core.runs.trace import flat_parameters, parameters_of, trace_module
from flcontrib_core.shapley.exact_values import shapley_from_table
from tests.games.models import load_vector

CLIENTS = 5


@pytest.fixture(scope="module")
def epochs() -> tuple[nn.Module, Validation, list[tuple[np.ndarray, np.ndarray, list[int]]]]:
    """A small federation on digits: (base, updates, sizes) of its first eight epochs."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x, y = load_digits(return_X_y=True)
    order = rng.permutation(len(x))
    x, y = (x[order] / 16).astype(np.float32), y[order]
    validation = Validation(x[:300], y[:300], None)
    shares = np.split(np.arange(300, 1500), [100, 250, 500, 800])
    module = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    model, history = flat_parameters(module), []
    for _ in range(8):
        updates = []
        for share in shares:
            client = copy.deepcopy(load_vector(module, model))
            optimiser = torch.optim.SGD(client.parameters(), 0.2)
            for batch in np.array_split(rng.permutation(share), 4):
                optimiser.zero_grad()
                cross_entropy(client(torch.from_numpy(x[batch])), torch.from_numpy(y[batch])).backward()
                optimiser.step()
            updates.append(flat_parameters(client) - model)
        history.append((model, np.stack(updates), [len(share) for share in shares]))
        model = aggregate(model, *history[-1][1:])
    return module, validation, history


@pytest.mark.parametrize("epoch", [1, 4, 8])
def test_exact_values_equal_a_double_precision_enumeration(epochs: tuple[Any, ...], epoch: int) -> None:
    module, validation, history = epochs
    base, updates, sizes = history[epoch - 1]
    architecture = Architecture.from_spec(trace_module(module, torch.zeros(1, 64)), parameters_of(module), 10)
    game = EpochGame(base, updates, sizes, Evaluator(architecture, validation, ["loss", "accuracy"]))
    coalitions = (np.arange(1 << CLIENTS)[:, None] >> np.arange(CLIENTS) & 1).astype(bool)
    table = game.absolute(coalitions)

    double = copy.deepcopy(module).double()
    x, y = torch.from_numpy(validation.x).double(), torch.from_numpy(validation.y)
    for row, value in zip(coalitions, table, strict=True):
        held = np.where(row, sizes, 0.0)
        vector = base.astype(np.float64) + (held / max(held.sum(), 1.0)) @ updates.astype(np.float64)
        position = 0
        with torch.no_grad():
            for parameter in double.parameters():
                flat = vector[position : position + parameter.numel()]
                parameter.copy_(torch.from_numpy(flat).reshape(parameter.shape))
                position += parameter.numel()
            logits = double(x)
        best_two = logits.topk(2, dim=1).values
        undecided = int(((best_two[:, 0] - best_two[:, 1]) < 1e-5).sum())
        value_range = np.ptp(table[:, 0])
        assert abs(value[0] - float(cross_entropy(logits, y))) <= 1e-6 * value_range
        assert abs(value[1] - float((logits.argmax(1) == y).double().mean())) <= undecided / len(y) + 1e-12
    values = shapley_from_table(game.evaluate(coalitions))
    np.testing.assert_allclose(values.sum(axis=0), table[-1] - table[0], atol=1e-9)


def test_a_hundred_participants_of_a_small_model(epochs: tuple[Any, ...]) -> None:
    module, validation, history = epochs
    base, updates, _ = history[2]
    rng = np.random.default_rng(1)
    mixed = (rng.random((100, CLIENTS)).astype(np.float32) @ updates) / CLIENTS
    architecture = Architecture.from_spec(trace_module(module, torch.zeros(1, 64)), parameters_of(module), 10)
    game = EpochGame(base, mixed, rng.integers(1, 1000, 100).tolist(), Evaluator(architecture, validation, ["loss"]))
    coalitions = rng.random((150, 100)) < rng.random((150, 1))
    built = base + game.weights(coalitions) @ mixed.astype(np.float64)
    expected = game.evaluator.evaluate(built.astype(np.float32))[0]
    np.testing.assert_allclose(game.absolute(coalitions), expected, rtol=1e-6)
