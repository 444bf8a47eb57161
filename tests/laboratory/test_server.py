"""Do the server's rules step as their papers say?"""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.laboratory.simulation.aggregation import fedavg
from flcontrib_core.laboratory.simulation.changes.change import ServerRule
from flcontrib_core.laboratory.simulation.kinds import Aggregation
from flcontrib_core.laboratory.simulation.server import Server, rule_of
from flcontrib_core.laboratory.simulation.settings import SimulationSettings

RNG = np.random.default_rng(0)
MODEL = RNG.normal(size=50).astype(np.float32)
UPDATES = [RNG.normal(size=(4, 50)).astype(np.float32) for _ in range(3)]
SIZES = np.array([3, 1, 2, 2])


def server(statistics: np.ndarray | None = None) -> Server:
    return Server(lambda models: np.zeros(len(models)), np.zeros(50, dtype=bool) if statistics is None else statistics)


def stepped(rule: ServerRule, statistics: np.ndarray | None = None) -> list[np.ndarray]:
    one, model, models = server(statistics), MODEL, []
    for updates in UPDATES:
        model = one.step(model, updates, SIZES, rule, np.random.default_rng(1))
        models.append(model)
    return models


def means() -> list[np.ndarray]:
    weights = SIZES / SIZES.sum()
    return [weights @ updates.astype(np.float64) for updates in UPDATES]


def test_a_plain_rule_is_fedavg_to_the_bit() -> None:
    np.testing.assert_array_equal(stepped(ServerRule())[0], fedavg(MODEL, UPDATES[0], SIZES))
    half = stepped(ServerRule(rate=0.5))[0]
    np.testing.assert_allclose(half, MODEL + 0.5 * means()[0], atol=1e-6)


def test_momentum_is_a_running_mean_of_steps() -> None:
    expected, velocity, model = [], np.zeros(50), MODEL.astype(np.float64)
    for mean in means():
        velocity = 0.8 * velocity + 0.2 * mean
        model = model + velocity
        expected.append(model)
    np.testing.assert_allclose(stepped(ServerRule(Aggregation.FEDAVGM, momentum=0.8)), expected, atol=1e-5)


@pytest.mark.parametrize("aggregation", [Aggregation.FEDADAM, Aggregation.FEDADAGRAD, Aggregation.FEDYOGI])
def test_adaptive_rules_are_those_of_adaptive_federated_optimization(aggregation: Aggregation) -> None:
    mean, square, model, expected = np.zeros(50), np.full(50, 1e-6), MODEL.astype(np.float64), []
    for step in means():
        mean = 0.9 * mean + 0.1 * step
        square = {
            Aggregation.FEDADAM: 0.99 * square + 0.01 * step**2,
            Aggregation.FEDADAGRAD: square + step**2,
            Aggregation.FEDYOGI: square - 0.01 * step**2 * np.sign(square - step**2),
        }[aggregation]
        model = model + 0.03 * mean / (np.sqrt(square) + 1e-3)
        expected.append(model)
    np.testing.assert_allclose(stepped(ServerRule(aggregation, 0.03)), expected, atol=1e-5)


def test_running_statistics_are_averaged_and_never_stepped() -> None:
    statistics = np.arange(50) < 10
    models = stepped(ServerRule(Aggregation.FEDADAM, 0.01, noise=0.5), statistics)
    np.testing.assert_allclose(models[0][:10], (MODEL + means()[0])[:10], atol=1e-6)


def test_the_server_s_noise_is_as_long_as_asked() -> None:
    quiet, noisy = stepped(ServerRule())[0], stepped(ServerRule(noise=0.5))[0]
    step = np.linalg.norm(quiet - MODEL)
    assert np.linalg.norm(noisy - quiet) == pytest.approx(0.5 * step, rel=0.3)


def test_the_rate_is_the_rule_s_own_unless_given() -> None:
    assert rule_of(SimulationSettings()).plain
    assert rule_of(SimulationSettings(aggregation=Aggregation.FEDADAM)).rate == 0.01
    assert rule_of(SimulationSettings(aggregation=Aggregation.FEDADAM, server_rate=0.1)).rate == 0.1
    assert not rule_of(SimulationSettings(aggregation=Aggregation.GREEDY)).plain
