"""Do the command line's options become the settings they name, and do messages below it stay free of flags?"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flcontrib_core.cli import flcontrib
from flcontrib_core.commands.options import settings_from
from flcontrib_core.errors import SettingsError
from flcontrib_core.history import PAPER_SETTINGS, AssessSettings
from flcontrib_core.scheduling import BudgetSettings
from flcontrib_core.shapley import (
    GTG,
    Auto,
    ComFedSV,
    Complementary,
    FedSV,
    MonteCarlo,
    Shapiq,
    Surrogate,
    TruncatedMultiRound,
)

ROOT = Path(__file__).parents[2]
RUN = str(ROOT / "sample_runs" / "two-poisoned.flrun")


@pytest.mark.parametrize(
    ("options", "estimator"),
    [
        ({}, Auto()),
        ({"precision": 0.1}, Auto(precision=0.1)),
        ({"estimator": "monte-carlo", "truncate": True}, MonteCarlo(truncate=True)),
        (
            {"estimator": "monte-carlo", "antithetic": True, "evaluations": 40},
            MonteCarlo(antithetic=True, evaluations=40),
        ),
        ({"estimator": "surrogate-blackbox"}, Surrogate(outputs="utilities")),
        ({"estimator": "complementary-neyman"}, Complementary(allocation="neyman")),
        ({"estimator": "fedsv-group-testing"}, FedSV(sampling="group-testing")),
        ({"estimator": "comfedsv", "allow_unobserved": True}, ComFedSV(allow_unobserved=True)),
        ({"estimator": "gtg"}, GTG()),
        (
            {"estimator": "gtg", "own_options": ("round_threshold=0.02", "units=range")},
            GTG(round_threshold=0.02, units="range"),
        ),
        ({"estimator": "tmr", "own_options": ("decay=0.9",)}, TruncatedMultiRound(decay=0.9)),
        ({"estimator": "shapiq:svarm", "evaluations": 50}, Shapiq(name="SVARM", evaluations=50)),
        ({"paper": True}, Complementary()),
        ({"paper": True, "evaluations": 90}, Complementary(evaluations=90)),
    ],
    ids=str,
)
def test_flags_become_an_estimator_with_its_options(options: dict[str, Any], estimator: object) -> None:
    assert settings_from(options).estimator == estimator


def test_what_was_not_given_keeps_its_default() -> None:
    unset = {"truncate": False, "utilities": (), "budget": None, "gamma": None, "seed": 0, "nonfinite": "refuse"}
    assert settings_from(unset) == AssessSettings()
    assert settings_from({**unset, "paper": True}) == PAPER_SETTINGS
    given = settings_from({"budget": "0.5", "gamma": 0.0, "seed": 3, "fairness": "stride"}).budget
    assert (given.budget, given.gamma, given.seed, given.fairness.value) == (0.5, 0.0, 3, "stride")
    assert settings_from({"budget": "12"}).budget == BudgetSettings(budget=12)


@pytest.mark.parametrize("text", ["decay", "decay=", "decay=soon", "=1", "momentum=1"])
def test_an_option_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        settings_from({"estimator": "tmr", "own_options": (text,)})


@pytest.mark.parametrize("knob", ["truncate", "antithetic", "allow_unobserved", "precision"])
def test_an_option_of_another_estimator_is_refused(knob: str) -> None:
    with pytest.raises(SettingsError, match=f"exact has no option {knob}; its options: evaluations, most_players"):
        settings_from({"estimator": "exact", knob: 0.1 if knob == "precision" else True})


@pytest.mark.parametrize("limit", [("--budget", "0.5"), ("--epochs", "1,2")])
@pytest.mark.parametrize("name", ["comfedsv", "one-round"])
def test_a_budget_for_a_method_of_the_whole_run_is_refused(name: str, limit: tuple[str, str]) -> None:
    done = CliRunner().invoke(flcontrib, ["assess", RUN, "--estimator", name, *limit, "--no-memory"])
    assert isinstance(done.exception, SettingsError)
    assert f"{name} values the run as a whole" in str(done.exception)


FREE_OF_FLAGS = ("games", "shapley", "scheduling", "history", "notebook.py", "auditing.py")


def test_messages_below_the_commands_name_no_flags() -> None:
    """A person in Python has no command line; docstrings may speak of it."""
    places = [ROOT / "flcontrib_core" / name for name in FREE_OF_FLAGS]
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*.py"))]
    assert len(files) > 60
    for file in files:
        tree = ast.parse(file.read_text())
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
                assert not re.search(r"(^|\s|\()--[a-z]", node.value), f"{file.name} line {node.lineno}"


def test_no_values_takes_no_estimator() -> None:
    assert not settings_from({"no_values": True}).values
    with pytest.raises(SettingsError, match="--evaluations"):
        settings_from({"no_values": True, "evaluations": 40})
