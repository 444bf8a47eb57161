"""Do settings survive being stored, given flat, and read from records of the version before?"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from flcontrib_core.errors import SettingsError
from flcontrib_core.history.settings import (
    PAPER_SETTINGS,
    AssessSettings,
    assess_settings,
    assess_settings_from_record,
)
from flcontrib_core.scheduling import BudgetSettings, FairnessMode
from flcontrib_core.scheduling.schedule import AuditSpread
from flcontrib_core.shapley import (
    GTG,
    Auto,
    CoalitionOracle,
    ComFedSV,
    Complementary,
    Exact,
    FedSV,
    MonteCarlo,
    OneRound,
    Shapiq,
    ShapleyEstimate,
    Surrogate,
    TruncatedMultiRound,
    register,
)
from flcontrib_core.shapley.registry import BUILT_IN, unregister
from flcontrib_core.vocabulary import FillPolicy, WeightMode

ESTIMATORS = (
    Auto(precision=0.1, rescue_multiply_adds=0.0),
    Exact(most_players=9),
    Surrogate(evaluations=50, outputs="utilities"),
    MonteCarlo(truncate=True, antithetic=True, evaluations=99),
    Complementary(allocation="neyman"),
    GTG(round_threshold=0.0, most_orders=40),
    TruncatedMultiRound(threshold=0.2, decay=0.5),
    FedSV(sampling="group-testing"),
    ComFedSV(allow_unobserved=True, rank=2),
    OneRound(evaluations=30),
    Shapiq(name="kernelshap"),
)


def as_stored(settings: AssessSettings) -> dict[str, object]:
    record: dict[str, object] = json.loads(json.dumps(settings.record()))
    return record


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: e.name)
def test_a_record_gives_the_same_settings_again(estimator: object) -> None:
    settings = AssessSettings(estimator=estimator, seed=3, weights=WeightMode.FIXED)  # type: ignore[arg-type]
    assert assess_settings_from_record(as_stored(settings)) == settings


def test_every_other_knob_survives_too() -> None:
    budget = BudgetSettings(
        budget=0.5, fairness=FairnessMode.AUDIT, gamma=2.0, epochs=(1, 4), audit_spread=AuditSpread.RANDOM, prove=True
    )
    settings = AssessSettings(
        utilities=("loss",), budget=budget, weight_utility="accuracy", fill=FillPolicy.ZERO, nonfinite="absent"
    )
    again = assess_settings_from_record(as_stored(settings))
    assert again == settings
    assert isinstance(again.budget.audit_spread, AuditSpread)
    assert assess_settings_from_record(as_stored(PAPER_SETTINGS)) == PAPER_SETTINGS


def test_a_word_stands_for_weights_and_fill_and_another_one_is_refused() -> None:
    """A bare string was recorded as given, and computed as something else."""
    settings = AssessSettings(weights="fixed", fill="leave-one-out")  # type: ignore[arg-type]
    assert settings.weights is WeightMode.FIXED
    assert settings.fill is FillPolicy.LEAVE_ONE_OUT
    for odd in ({"weights": "fix"}, {"fill": None}):
        with pytest.raises(SettingsError, match="it is one of"):
            AssessSettings(**odd)  # type: ignore[arg-type]


def test_a_record_names_the_estimator_and_holds_its_own_options_alone() -> None:
    record = as_stored(AssessSettings(estimator=MonteCarlo(truncate=True)))
    assert record["estimator"] == "monte-carlo"
    assert record["estimation"] == {
        "evaluations": None,
        "truncate": True,
        "antithetic": False,
        "truncation": 0.01,
    }


OLD = {
    "evaluations": None,
    "precision": 0.3,
    "truncate": False,
    "antithetic": False,
    "allow_unobserved": False,
    "exact_multiply_adds": 2.5e10,
    "rescue_multiply_adds": 2.5e11,
    "exact_players": 24,
}
"""What version 0.1.0 wrote for every estimator."""


@pytest.mark.parametrize("name", [*BUILT_IN, "shapiq:SVARM"])
def test_records_of_the_version_before_are_understood(name: str) -> None:
    old = {**AssessSettings().record(), "estimator": name, "estimation": OLD}
    assert assess_settings_from_record(old) == AssessSettings(estimator=name)  # type: ignore[arg-type]


def test_options_of_the_version_before_reach_the_estimator_they_belong_to() -> None:
    def read(name: str, **options: object) -> object:
        return assess_settings_from_record({"estimator": name, "estimation": {**OLD, **options}}).estimator

    assert read("monte-carlo", truncate=True, evaluations=40) == MonteCarlo(truncate=True, evaluations=40)
    assert read("auto", precision=0.1) == Auto(precision=0.1)
    assert read("exact", exact_players=12, precision=0.1) == Exact(most_players=12)  # the precision had no effect
    assert read("comfedsv", allow_unobserved=True) == ComFedSV(allow_unobserved=True)
    ignored = {"estimator": "one-round", "estimation": OLD, "budget": {"budget": 0.5}}
    assert assess_settings_from_record(ignored).budget == BudgetSettings()
    with pytest.raises(SettingsError, match="estimation has colour"):
        read("auto", colour="red")


@pytest.mark.parametrize("limit", [{"budget": 0.5}, {"epochs": (1, 2)}])
@pytest.mark.parametrize("name", ["comfedsv", "one-round"])
def test_an_estimator_of_the_whole_run_refuses_a_budget(name: str, limit: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=f"{name} values the run as a whole, so a budget of epochs"):
        assess_settings({"estimator": name, **limit})  # type: ignore[typeddict-item]


def test_flat_options_reach_their_settings() -> None:
    flat = assess_settings(
        {
            "estimator": "exact",
            "utilities": "accuracy",
            "budget": 3,
            "fairness": "stride",
            "gamma": 0.0,
            "weights": "fixed",
            "fill": "zero",
            "seed": 7,
        }
    )
    assert flat == AssessSettings(
        utilities=("accuracy",),
        estimator=Exact(),
        budget=BudgetSettings(budget=3, fairness=FairnessMode.STRIDE, gamma=0.0, seed=7),
        weights=WeightMode.FIXED,
        fill=FillPolicy.ZERO,
        seed=7,
    )
    assert assess_settings({"epochs": [4, 1, 4]}).budget.epochs == (1, 4)
    given = BudgetSettings(budget=0.5, gamma=9.0)
    assert assess_settings({"budget": given, "gamma": 1.0}).budget == replace(given, gamma=1.0)
    assert assess_settings({}, PAPER_SETTINGS) == PAPER_SETTINGS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fairnes": "stride"}, "there is no option fairnes; the options are .*fairness"),
        ({"fairness": "fair"}, "fairness is 'fair'; choose from one-sided"),
        ({"weights": "heavy"}, "weights is 'heavy'; choose from adaptive, fixed"),
        ({"estimator": "shapely"}, "no estimator is called 'shapely'"),
        ({"estimator": 3}, "3 is not an estimator"),
    ],
)
def test_options_that_do_not_exist_are_refused_with_those_that_do(options: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        assess_settings(options)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Shares:
    """A third party's estimator with an option."""

    power: float = 1.0
    name = "shares"

    def record(self) -> dict[str, object]:
        return {"name": self.name, "power": self.power}

    def estimate(self, oracle: CoalitionOracle, rng: np.random.Generator) -> ShapleyEstimate:
        raise NotImplementedError


def test_a_third_partys_estimator_is_recorded_and_found_again_once_it_has_a_name() -> None:
    settings = AssessSettings(estimator=Shares(2.0))
    record = as_stored(settings)
    assert (record["estimator"], record["estimation"]) == ("shares", {"power": 2.0})
    with pytest.raises(SettingsError, match=r"no estimator is called 'shares'.*or register yours"):
        assess_settings_from_record(record)
    register("shares", Shares)
    try:
        assert assess_settings_from_record(record) == settings
    finally:
        unregister("shares")


@pytest.mark.parametrize("seed", [-1, 1 << 32, 10**30])
def test_a_seed_that_no_library_takes_is_refused(seed: int) -> None:
    with pytest.raises(SettingsError, match="seed"):
        AssessSettings(seed=seed)
