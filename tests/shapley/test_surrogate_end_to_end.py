"""The logit surrogate on real epochs: near exact at a fraction of the evaluations, and honest where it is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.history import AssessSettings, assess_contributions
from flcontrib_core.laboratory.simulation import SimulationSettings, simulate_in_memory
from flcontrib_core.shapley import Auto, Complementary, Surrogate

PLAIN = AssessSettings(observe=False)


@pytest.fixture(scope="module")
def run():
    return simulate_in_memory(
        SimulationSettings(
            clients=10, epochs=3, hidden=(12,), attack="label-flip", dishonest=2, windows=((2, 3),), seed=3
        )
    )


def test_four_evaluations_per_client_come_close_to_exact_and_the_intervals_hold(run):
    exact = assess_contributions(run, replace(PLAIN, estimator="exact"))
    few = assess_contributions(run, replace(PLAIN, estimator=Surrogate(evaluations=40)))
    assert (few.evaluations[1:] == 40).all()
    for u, worst in (("loss", 0.01), ("accuracy", 0.05)):
        for t in range(1, 4):
            error = few.of(u).values[t] - exact.of(u).values[t]
            assert (error**2).mean() / exact.of(u).values[t].var() < worst
            assert few.of(u).values[t].sum() == pytest.approx(exact.of(u).increments[t], abs=1e-9)
        inside = np.abs(few.of(u).values - exact.of(u).values)[1:] <= 1.96 * few.of(u).standard_errors[1:] + 1e-12
        assert inside.mean() >= 0.9


def test_auto_takes_the_surrogate_where_exact_is_too_slow(run):
    pressed = Auto(exact_multiply_adds=1.0, rescue_multiply_adds=1.0)
    found = assess_contributions(run, replace(PLAIN, estimator=pressed))
    assert all("surrogate" in method for method in found.estimator[1:])
    assert (found.evaluations[1:] < 2**10 - 1).all()
    again = assess_contributions(run, replace(PLAIN, estimator=pressed))
    np.testing.assert_array_equal(found.of("loss").values, again.of("loss").values)


def test_many_participants_are_valued_from_a_sample_of_coalitions():
    crowd = simulate_in_memory(SimulationSettings(clients=40, epochs=1, hidden=(8,), seed=1))
    found = assess_contributions(crowd, replace(PLAIN, estimator="surrogate"))
    assert found.of("loss").values[1].sum() == pytest.approx(found.of("loss").increments[1], abs=1e-9)
    assert np.isfinite(found.of("loss").standard_errors[1]).all()
    reference = assess_contributions(crowd, replace(PLAIN, estimator=Complementary(evaluations=6000)))
    error = found.of("loss").values[1] - reference.of("loss").values[1]
    noise = reference.of("loss").standard_errors[1]
    assert (error**2).mean() < 0.05 * reference.of("loss").values[1].var() + 2 * (noise**2).mean()


def test_the_black_box_variant_needs_no_logits(run):
    exact = assess_contributions(run, replace(PLAIN, estimator="exact"))
    found = assess_contributions(run, replace(PLAIN, estimator=Surrogate(outputs="utilities", evaluations=120)))
    for t in range(1, 4):
        error = found.of("loss").values[t] - exact.of("loss").values[t]
        assert (error**2).mean() / exact.of("loss").values[t].var() < 0.1
