"""Is there one price, that of the estimator which will run, and is it what the assessment then spends?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from flcontrib_core.bundled_files import bundled
from flcontrib_core.cli import flcontrib
from flcontrib_core.errors import CostRefusal, MissingPart
from flcontrib_core.history import (
    AssessSettings,
    RunMeasurement,
    assess_contributions,
    measure,
    price,
    price_of,
    problem_of,
    problem_of_history,
    scheduling_problem,
)
from flcontrib_core.history.preflight import epoch_costs
from flcontrib_core.laboratory.simulation import Attack, SimulationSettings, simulate
from flcontrib_core.laboratory.simulation.settings import AttackKind
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.scheduling import BudgetSettings, choose_epochs
from flcontrib_core.shapley import Auto, Exact, MonteCarlo, Surrogate, cost_of
from flcontrib_core.words import price_notes

SCALED = Attack(AttackKind.SCALE, clients=(2,), windows=((2, 3),), strength=30.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("priced")


@pytest.fixture(scope="module")
def many(folder: Path) -> Path:
    """Twenty clients with half of them in every epoch, one far too long in two epochs."""
    settings = SimulationSettings(
        name="many", clients=20, epochs=5, participation=0.5, train_rows=400, hidden=(4,), more_attacks=(SCALED,)
    )
    simulate(settings, folder / "many.flrun")
    return folder / "many.flrun"


@pytest.fixture(scope="module")
def measured(many: Path) -> RunMeasurement:
    return measure(read_run_log(many))


@pytest.mark.parametrize(
    "estimator", [Auto(), Auto(evaluations=60), Surrogate(), MonteCarlo(evaluations=50), Exact(most_players=12)]
)
def test_price_is_what_is_spent(many: Path, measured: RunMeasurement, estimator: Auto) -> None:
    settings = AssessSettings(estimator=estimator, budget=BudgetSettings(epochs=(1, 2, 4)))
    priced = price(measured, settings, (1, 2, 4))
    spent = int(assess_contributions(read_run_log(many), settings).evaluations.sum())
    assert priced.evaluations is not None
    assert spent / 2 <= priced.evaluations <= 2 * spent
    assert priced.most_evaluations is not None
    assert spent <= priced.most_evaluations


def test_every_place_tells_the_same_price(many: Path, measured: RunMeasurement) -> None:
    """Pre-flight, the scheduler and the schedule's own prediction, for the same settings."""
    run = read_run_log(many)
    settings = AssessSettings(budget=BudgetSettings(budget=3))
    schedule = choose_epochs(scheduling_problem(run, settings), settings.budget)
    assert schedule.predicted_evaluations == price(measured, settings, schedule.chosen).evaluations
    assert schedule.predicted_evaluations == price_of(run, settings).evaluations
    assert np.array_equal(problem_of(measured, settings).movement, scheduling_problem(run, settings).movement)


def test_flagged_epoch_is_priced_apart(measured: RunMeasurement) -> None:
    """An update thirty times too long makes the surrogate spend more, which is known before it starts."""
    assert measured.flagged.any()
    assert not measured.flagged.all()
    costs = epoch_costs(measured, AssessSettings(estimator=Surrogate()))
    for cost, flagged, size in zip(costs, measured.flagged, measured.sizes, strict=True):
        assert cost.likely == min((8 if flagged else 4) * size, cost.most)


def test_sixty_clients_are_not_priced_as_exact() -> None:
    for flagged in (False, True):
        cost = cost_of(Auto(), 60, 1e6, flagged=flagged)
        assert cost.most <= 16 * 60
    assert cost_of(Auto(), 18, 5e5, flagged=False).likely == 72
    assert cost_of(Auto(), 18, 5e5, flagged=True).likely == 2**18 - 1  # rescued by exact, as the rule says


def test_skipped_epochs_of_a_history_take_the_price_of_their_like(many: Path) -> None:
    """One dear epoch does not make all others as dear."""
    history = assess_contributions(read_run_log(many), AssessSettings(budget=BudgetSettings(epochs=(1, 2, 3))))
    spent = history.evaluations.copy()
    spent[1:4] = [40, 2**18 - 1, 40]
    problem = problem_of_history(replace(history, evaluations=spent))
    assert problem.evaluations is not None
    assert problem.evaluations.tolist() == [40, 2**18 - 1, 40, 40, 40]


def test_exponential_request_is_refused_by_its_price(measured: RunMeasurement) -> None:
    with pytest.raises(CostRefusal, match="2\\^10"):
        price(measured, AssessSettings(estimator=Exact(most_players=8)), (1,))


def test_workers_share_the_time_and_not_the_memory(measured: RunMeasurement) -> None:
    slow = replace(measured, pace=replace(measured.pace, evaluation_seconds=1.0)) if measured.pace else measured
    one, two = (price(slow, AssessSettings(), (1, 2, 3, 4, 5), workers) for workers in (1, 2))
    assert one.evaluations == two.evaluations
    assert one.seconds is not None
    assert two.seconds is not None
    assert two.seconds < one.seconds
    assert one.memory_bytes is not None
    assert two.memory_bytes == 2 * one.memory_bytes


def test_table_has_no_price() -> None:
    table = read_run_log(bundled("sample_runs") / "contributions-table.csv")
    priced = price_of(table)
    assert priced.evaluations is None
    assert price_notes(priced, table.epoch_count, "auto") == (
        "The table holds the values already; only reading them takes a moment.",
    )
    with pytest.raises(MissingPart):
        measure(table)


def test_command_prints_the_price(many: Path) -> None:
    """The same object as the page shows, before anything is computed."""
    said = CliRunner().invoke(flcontrib, ["price", str(many), "--budget", "2", "--workers", "1", "--json"])
    assert said.exit_code == 0, said.output
    told = json.loads(said.stdout)
    assert told["epochs"] == 2
    expected = price_of(read_run_log(many), AssessSettings(budget=BudgetSettings(budget=2)))
    assert told["evaluations"] == expected.evaluations
    assert told["seconds"] > 0
    assert told["bytes"] > 0
    assert told["nodes"] == 1
    plain = CliRunner().invoke(flcontrib, ["price", str(many), "--budget", "2"])
    assert "evaluations:" in plain.stdout
    assert "The price is that of 2 of 5 epochs." in plain.stdout
