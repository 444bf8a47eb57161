"""What a federation of another size would take: it grows as it must, and the command says it with its assumptions."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from flcontrib_core.bundled_files import bundled
from flcontrib_core.cli import flcontrib
from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.history.capacity import (
    FederationSize,
    Machine,
    capacity,
    federation_of,
    federation_with,
    standing_questions,
)
from flcontrib_core.history.measurement import PLANNED_SIZES, Pace, RunMeasurement, measure
from flcontrib_core.history.trajectory import evaluator_for
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog

PLAYERS, ROWS, PARAMETERS = 6, 100, 1000
MEASURED = RunMeasurement(
    run_digest="",
    client_ids=tuple("abcdefgh"),
    participated=np.arange(8)[None, :].repeat(4, axis=0) < PLAYERS,
    utilities=("loss",),
    initial=np.ones(1),
    moved=np.ones((4, 1)),
    flagged=np.zeros(4, dtype=bool),
    multiply_adds=np.full(4, float(PARAMETERS * (ROWS + PLAYERS))),
    planned_adds=PARAMETERS * (ROWS + np.array(PLANNED_SIZES, dtype=np.float64)),
    parameter_count=PARAMETERS,
    outputs=ROWS * 3,
    pace=Pace(1e-3, 1e-4, 1e-3, 0.0, 200 << 20),
)
NODE = Machine(cores=8, memory=32 << 30)
OWN = federation_of(MEASURED)


def test_hours_follow_epochs_and_parameters_and_bytes_follow_participants() -> None:
    own, longer, wider = (
        capacity(MEASURED, f, machine=NODE)
        for f in (OWN, replace(OWN, epochs=4000), replace(OWN, parameters=10 * PARAMETERS))
    )
    assert own.evaluations == 4 * 63
    assert own.core_hours * 3600 == pytest.approx(4 * (65 * 1e-3 + PLAYERS * 1e-3))
    assert longer.core_hours == pytest.approx(1000 * own.core_hours)
    assert wider.core_hours == pytest.approx(10 * own.core_hours)
    assert wider.log_bytes == 10 * own.log_bytes == 10 * 4 * PARAMETERS * (4 * PLAYERS + 1)
    assert (own.nodes, own.workers_per_node) == (1, 8)


def test_machines_follow_the_deadline_and_memory_bounds_the_workers_of_one() -> None:
    wanted = FederationSize(10_000, 100, 1000, 100_000_000)
    found = capacity(MEASURED, wanted, within_hours=24.0, machine=Machine(8, 256 << 30))
    assert found.workers_per_node == (256 << 30) // found.process_bytes < 8
    assert found.nodes > 1
    assert found.hours <= 24.0
    later = capacity(MEASURED, wanted, within_hours=24.0 * found.nodes, machine=Machine(8, 256 << 30))
    assert later.nodes == 1
    assert later.core_hours == found.core_hours


@pytest.mark.parametrize("wrong", [(10, 11, 1, 1), (10, 0, 1, 1), (10, 1, 0, 1), (10, 1, 1, 0)])
def test_a_federation_that_cannot_be_is_refused(wrong: tuple[int, int, int, int]) -> None:
    with pytest.raises(SettingsError, match="each is at least one"):
        FederationSize(*wrong)


def test_a_table_needs_no_capacity() -> None:
    with pytest.raises(MissingPart, match="looked up"):
        capacity(replace(MEASURED, pace=None), OWN)


@pytest.mark.parametrize("participants", [1, 6, 40, 1000, 25_000])
def test_an_evaluation_is_priced_by_the_participants_it_mixes(participants: int) -> None:
    assert MEASURED.adds_for(participants) == pytest.approx(PARAMETERS * (ROWS + participants))


def test_a_model_of_another_log_is_priced_by_its_own_evaluator() -> None:
    runs = bundled("sample_runs")
    measured, other = measure(read_run_log(runs / "late-window.flrun")), read_run_log(runs / "clean-iid.flrun")
    assert isinstance(other, RunLog)
    wanted = federation_with(other, 100, 10, 50)
    adds = evaluator_for(other, ("loss",)).multiply_adds(10)
    assert (wanted.parameters, wanted.multiply_adds) == (other.parameter_count, adds)
    doubled = replace(wanted, multiply_adds=2 * adds)
    evaluating = [capacity(measured, size, machine=NODE) for size in (wanted, doubled)]
    assert evaluating[1].core_hours > 1.2 * evaluating[0].core_hours
    other.close()


def test_the_command_answers_the_standing_questions_and_others() -> None:
    run = str(bundled("sample_runs") / "late-window.flrun")
    asked = ["price", run, "--json", "--workers", "1", "--within", "12"]
    asked += ["--federation", "100,10,50,5000", "--federation", f"100,10,50,{run}"]
    done = CliRunner().invoke(flcontrib, asked)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert list(told["capacity"]) == [*standing_questions(MEASURED), "100,10,50,5000", f"100,10,50,{run}"]
    assert told["within_hours"] == 12
    assert all(c["hours"] <= 12 and c["nodes"] >= 1 for c in told["capacity"].values())
    for wrong in ("many", "10,1,1", "10,1,1,nowhere.flrun", "10,1,x,5"):
        refused = CliRunner().invoke(flcontrib, ["price", run, "--federation", wrong])
        assert refused.exit_code != 0
        assert "four whole numbers" in str(refused.exception) + refused.output
