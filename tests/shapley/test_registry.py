"""Are all estimators found by name, priced before they start, and open to a third party?"""

from __future__ import annotations

import subprocess
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from flcontrib_core.errors import CostRefusal, MissingPart, SettingsError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.shapley import registry
from flcontrib_core.shapley.auto import predicted_evaluations
from flcontrib_core.shapley.estimate import EstimatorSettings, ShapleyEstimate
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.registry import (
    cost_of,
    epoch_estimator,
    estimator,
    names,
    refuse_if_exponential,
    run_estimator,
)
from tests.shapley.closed_form import additive

DEFAULT = EstimatorSettings()
SURROGATES = ("surrogate", "surrogate-blackbox")
OURS = tuple(name for name in registry.BUILT_IN if name not in SURROGATES)


class EqualShares:
    """A third party's estimator: u(N) in equal parts."""

    name = "equal-shares"

    def estimate(
        self, oracle: CoalitionOracle, rng: np.random.Generator, settings: EstimatorSettings
    ) -> ShapleyEstimate:
        total = oracle.evaluate(np.ones((1, oracle.players), dtype=bool))
        values = np.repeat(total / oracle.players, oracle.players, axis=0)
        return ShapleyEstimate(values, np.full_like(values, np.nan), 1, exact=False, method=self.name)


def test_every_name_of_the_interface_is_there() -> None:
    wanted = (
        "auto exact surrogate surrogate-blackbox complementary complementary-neyman monte-carlo gtg mr tmr one-round "
        "fedsv fedsv-group-testing comfedsv shapiq:SVARM shapiq:KernelSHAP"
    )
    assert set(wanted.split()) <= set(names())


@pytest.mark.parametrize("name", OURS)
def test_an_estimator_knows_its_own_name(name: str) -> None:
    assert estimator(name).name == name


def test_estimators_of_an_epoch_and_of_a_run_are_told_apart() -> None:
    assert {name for name in OURS if registry.is_run_estimator(name)} == {"one-round", "comfedsv"}
    assert run_estimator("comfedsv").name == "comfedsv"
    with pytest.raises(SettingsError, match="run as a whole"):
        epoch_estimator("one-round")
    with pytest.raises(SettingsError, match="one epoch at a time"):
        run_estimator("exact")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"'shapely'.*complementary"):
        estimator("shapely")


def test_a_third_party_registers_without_touching_our_code() -> None:
    registry.register("equal-shares", EqualShares)
    try:
        assert "equal-shares" in names()
        found = epoch_estimator("equal-shares").estimate(
            additive(0, 4).game.oracle(), np.random.default_rng(0), DEFAULT
        )
        assert found.values.sum() == pytest.approx(additive(0, 4).values.sum())
        assert cost_of("equal-shares", 4, None, DEFAULT) == (15, 15)
        assert cost_of("equal-shares", 4, None, EstimatorSettings(evaluations=3)) == (3, 3)
        with pytest.raises(SettingsError, match="already"):
            registry.register("equal-shares", EqualShares)
    finally:
        registry.unregister("equal-shares")
    assert "equal-shares" not in names()
    with pytest.raises(SettingsError, match="no estimator was registered"):
        registry.unregister("equal-shares")


def test_a_built_in_name_cannot_be_taken() -> None:
    for name in ("exact", "shapiq:SVARM"):
        with pytest.raises(SettingsError, match="already"):
            registry.register(name, EqualShares)


def test_entry_points_are_found_and_a_broken_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("theirs", f"{__name__}:EqualShares", registry.ENTRY_POINT_GROUP),
        EntryPoint("broken", "no_such_module:Thing", registry.ENTRY_POINT_GROUP),
        EntryPoint("exact", f"{__name__}:EqualShares", registry.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == registry.ENTRY_POINT_GROUP else [])
    assert estimator("theirs").name == "equal-shares"
    assert {"theirs", "broken"} <= set(names())
    assert type(estimator("exact")).__name__ == "Exact"
    with pytest.raises(MissingPart, match="'broken' \\(no_such_module:Thing\\)"):
        estimator("broken")


@pytest.mark.parametrize("name", [*OURS, *SURROGATES, "shapiq:SVARM"])
def test_every_estimator_has_a_price(name: str) -> None:
    assert predicted_evaluations(0, 1e6, name, DEFAULT) == 0
    for players in (1, 2, 3, 8, 16):
        for multiply_adds in (None, 1e5, 1e9):
            likely, most = cost_of(name, players, multiply_adds, DEFAULT)
            assert 1 <= likely <= most <= 2**players - 1
            assert predicted_evaluations(players, multiply_adds, name, DEFAULT) == likely
    if name not in ("exact", "mr", "tmr"):
        limited = EstimatorSettings(evaluations=64)
        assert cost_of(name, 16, 1e9, limited).most <= 64


@pytest.mark.parametrize("name", ["exact", "mr", "tmr", "one-round"])
def test_an_exponential_request_is_refused_before_it_starts(name: str) -> None:
    with pytest.raises(CostRefusal, match=r"1,073,741,823 evaluations"):
        refuse_if_exponential(name, 30, DEFAULT)
    refuse_if_exponential(name, 20, DEFAULT)


def test_a_budget_that_cannot_work_is_refused_before_it_starts() -> None:
    with pytest.raises(SettingsError, match="needs 20 evaluations"):
        refuse_if_exponential("monte-carlo", 20, EstimatorSettings(evaluations=10))


def test_the_registry_stays_light() -> None:
    code = (
        "import sys, flcontrib_core.shapley.registry as r\n"
        "r.names(); r.estimator('exact'); r.estimator('shapiq:SVARM')\n"
        "print([m for m in ('torch', 'shapiq', 'scipy', 'sklearn', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        python_command("-c", code), capture_output=True, text=True, check=True, env=child_environment()
    )
    assert done.stdout.strip() == "[]"
