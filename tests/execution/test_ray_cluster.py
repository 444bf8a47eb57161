"""The same work on Ray: same answers, same errors; and a clear word where Ray is not installed."""

from __future__ import annotations

import operator
import re
import sys

import numpy as np
import pytest

from flcontrib_core.errors import MissingPart
from flcontrib_core.execution.ray_cluster import ClusterUnreachable, run_tasks_on_ray
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.laboratory.simulation.settings import SimulationSettings
from flcontrib_core.laboratory.simulation.simulated_run import simulate_in_memory


def test_without_ray_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPart, match=r"pip install 'flcontrib\[ray\]', or use --engine local"):
        list(run_tasks_on_ray(operator.add, 1, [1, 2]))


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere", "host:port", "no-such-host.invalid:6379"]
)
def test_an_address_that_does_not_answer_is_named(address: str) -> None:
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'flcontrib[ray]'")
    with pytest.raises(ClusterUnreachable, match=re.escape(address)):
        list(run_tasks_on_ray(operator.add, 1, [1, 2], address=address))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of a library that is not installed by default
def test_ray_gives_the_answers_and_the_errors_of_local_processes() -> None:
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'flcontrib[ray]'")
    assert sorted(run_tasks_on_ray(operator.add, 100, iter(range(7)), workers=2)) == list(range(100, 107))
    with pytest.raises(ZeroDivisionError):
        list(run_tasks_on_ray(operator.truediv, 1, [1, 0], workers=2))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_assessment_on_ray_has_the_bits_of_a_local_one() -> None:
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'flcontrib[ray]'")
    run = simulate_in_memory(SimulationSettings(clients=6, epochs=4, hidden=(16,), seed=3))
    settings = AssessSettings(estimator="surrogate")
    local = assess_contributions(run, settings)
    spread = assess_contributions(run, settings, engine="ray", workers=2)
    for utility in local.utilities:
        np.testing.assert_array_equal(spread.of(utility).values, local.of(utility).values)
        np.testing.assert_array_equal(spread.of(utility).standard_errors, local.of(utility).standard_errors)
