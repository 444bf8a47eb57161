"""Are all estimators found by name, priced before they start, recorded, and open to a third party?"""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from flcontrib_core.errors import CostRefusal, MissingPart, SettingsError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.shapley import registry
from flcontrib_core.shapley.costs import Cost, cost_of
from flcontrib_core.shapley.estimate import EpochEstimator, RunEstimator
from flcontrib_core.shapley.registry import epoch_estimator, estimator_by_name, estimator_from_record, names
from tests.shapley.closed_form import additive
from tests.shapley.third_party import EqualShares

OURS = tuple(registry.BUILT_IN)


def test_every_name_of_the_interface_is_there() -> None:
    wanted = (
        "auto exact surrogate surrogate-blackbox complementary complementary-neyman monte-carlo gtg mr tmr one-round "
        "fedsv fedsv-group-testing comfedsv shapiq:SVARM shapiq:KernelSHAP"
    )
    assert set(wanted.split()) <= set(names())


@pytest.mark.parametrize("name", OURS)
def test_an_estimator_knows_its_own_name(name: str) -> None:
    assert estimator_by_name(name).name == name


OTHER_OPTIONS: dict[str, dict[str, object]] = {
    "auto": {"precision": 0.1, "exact_multiply_adds": 1.0},
    "exact": {"most_players": 12},
    "surrogate": {"precision": 0.05},
    "monte-carlo": {"truncate": True, "antithetic": True, "truncation": 0.05},
    "gtg": {"round_threshold": 0.0, "order_threshold": 0.1, "tolerance": 0.2, "window": 5, "fewest_orders": 10},
    "tmr": {"threshold": 0.5, "decay": 0.9},
    "comfedsv": {"allow_unobserved": True, "rank": 3, "ridge": 1.0, "iterations": 7, "orders": 12},
}


@pytest.mark.parametrize("name", [*OURS, "shapiq:KernelSHAP"])
def test_a_record_gives_the_same_estimator_again(name: str) -> None:
    for options in ({}, {"evaluations": 77}, OTHER_OPTIONS.get(name, {})):
        estimator = estimator_by_name(name, **options)
        record = json.loads(json.dumps(estimator.record()))
        assert record["name"] == name
        assert options.items() <= record.items()
        assert estimator_from_record(record) == estimator
        assert hash(estimator) == hash(estimator_from_record(record))


@pytest.mark.parametrize("evaluations", [0, -3, 1.5, True, "20"])
def test_evaluations_that_are_no_number_of_them_are_refused(evaluations: object) -> None:
    for name in ("auto", "complementary", "gtg", "exact"):
        with pytest.raises(SettingsError, match="evaluations is"):
            estimator_by_name(name, evaluations=evaluations)
    counted = estimator_by_name("auto", evaluations=np.int64(20)).record()
    assert json.loads(json.dumps(counted))["evaluations"] == 20


def test_a_record_with_an_option_of_another_time_is_refused() -> None:
    with pytest.raises(SettingsError, match="gtg has no option temperature"):
        estimator_from_record({"name": "gtg", "temperature": 3})


def test_estimators_of_an_epoch_and_of_a_run_are_told_apart() -> None:
    whole = {name for name in OURS if isinstance(estimator_by_name(name), RunEstimator)}
    assert whole == {"one-round", "comfedsv"}
    assert {name for name in OURS if isinstance(estimator_by_name(name), EpochEstimator)} == set(OURS) - whole
    with pytest.raises(SettingsError, match="run as a whole"):
        epoch_estimator("one-round")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"'shapely'.*complementary"):
        estimator_by_name("shapely")


def test_a_third_party_registers_without_touching_our_code() -> None:
    registry.register("equal-shares", EqualShares)
    try:
        assert "equal-shares" in names()
        theirs = epoch_estimator("equal-shares")
        estimate = theirs.estimate(additive(0, 4).game.oracle(), np.random.default_rng(0))
        assert estimate.values.sum() == pytest.approx(additive(0, 4).values.sum())
        assert cost_of(theirs, 4, None) == Cost(15, 15)
        with pytest.raises(SettingsError, match="no option evaluations; its options: none"):
            epoch_estimator("equal-shares", evaluations=3)
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
        EntryPoint("theirs", f"{EqualShares.__module__}:EqualShares", registry.ENTRY_POINT_GROUP),
        EntryPoint("broken", "no_such_module:Thing", registry.ENTRY_POINT_GROUP),
        EntryPoint("exact", f"{EqualShares.__module__}:EqualShares", registry.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == registry.ENTRY_POINT_GROUP else [])
    assert estimator_by_name("theirs").name == "equal-shares"
    assert {"theirs", "broken"} <= set(names())
    assert type(estimator_by_name("exact")).__name__ == "Exact"
    with pytest.raises(MissingPart, match="'broken' \\(no_such_module:Thing\\)"):
        estimator_by_name("broken")


@pytest.mark.parametrize("name", [*OURS, "shapiq:SVARM"])
def test_every_estimator_has_a_price(name: str) -> None:
    assert cost_of(estimator_by_name(name), 0, 1e6) == Cost(0, 0)
    for players in (1, 2, 3, 8, 16):
        for multiply_adds in (None, 1e5, 1e9):
            likely, most, _ = cost_of(estimator_by_name(name), players, multiply_adds)
            assert 1 <= likely <= most <= 2**players - 1
    if name not in ("exact", "mr", "tmr"):
        assert cost_of(estimator_by_name(name, evaluations=64), 16, 1e9).most <= 64


@pytest.mark.parametrize("name", ["exact", "mr", "tmr", "one-round"])
def test_an_exponential_request_is_refused_before_it_starts(name: str) -> None:
    with pytest.raises(CostRefusal, match=r"1,073,741,823 evaluations"):
        cost_of(estimator_by_name(name), 30, None)
    assert cost_of(estimator_by_name(name), 20, None) == Cost(2**20 - 1, 2**20 - 1)


def test_a_budget_that_cannot_work_is_refused_before_it_starts() -> None:
    with pytest.raises(SettingsError, match="needs 20 evaluations"):
        cost_of(estimator_by_name("monte-carlo", evaluations=10), 20, None)


def test_the_registry_stays_light() -> None:
    code = (
        "import sys, flcontrib_core.shapley.registry as r\n"
        "r.names(); r.estimator_by_name('auto'); r.estimator_by_name('shapiq:SVARM')\n"
        "print([m for m in ('torch', 'shapiq', 'scipy', 'sklearn', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        python_command("-c", code), capture_output=True, text=True, check=True, env=child_environment()
    )
    assert done.stdout.strip() == "[]"
