"""Is a run measured once, planned from that, proved beside other work, and computed as planned and no further?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.auditing import AuditSettings
from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.execution.engine import usual_workers
from flcontrib_core.history import AssessSettings, measure, price, problem_of
from flcontrib_core.laboratory.simulation import SimulationSettings
from flcontrib_core.scheduling import BudgetSettings, choose_epochs
from flcontrib_core.workspace import (
    Execution,
    JobState,
    RunEntry,
    Workspace,
    audit_in_workspace,
    proof_question,
    stored_measurement,
    stored_proof,
    stored_report,
)
from flcontrib_core.workspace.planning_jobs import measure_in_workspace, prove_in_workspace
from tests.app.filled_workspace import RUNNERS, make_tiny_log, wait_until
from tests.workspace.recorded import bundle_run

HALF = SimulationSettings(name="half", clients=6, epochs=20, participation=0.5, train_rows=240, hidden=(4,))


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace(tmp_path / "workspace", runners=RUNNERS) as opened:
        yield opened


@pytest.fixture
def run(workspace: Workspace, tmp_path: Path) -> RunEntry:
    return workspace.add_run(make_tiny_log(tmp_path / "half.flrun", HALF))


def test_measurement_is_stored_and_comes_back(workspace: Workspace, run: RunEntry) -> None:
    entry = measure_in_workspace(workspace, run.digest, {})
    measured = stored_measurement(workspace, entry)
    direct = measure(workspace.open_run(run.digest))
    assert np.array_equal(measured.moved, direct.moved)
    assert np.array_equal(measured.participated, direct.participated)
    assert measured.pace is not None
    assert measured.pace.evaluation_seconds > 0


def test_log_without_a_model_says_so(workspace: Workspace, tmp_path: Path) -> None:
    bare = workspace.add_run(bundle_run(tmp_path / "bare"))
    with pytest.raises(MissingPart):
        measure_in_workspace(workspace, bare.digest, {})


def test_plan_is_computed_as_planned_and_no_further(workspace: Workspace, run: RunEntry) -> None:
    """Knobs before computing; then exactly the chosen epochs are evaluated, at the price that was told."""
    measured = stored_measurement(workspace, measure_in_workspace(workspace, run.digest, {}))
    settings = AssessSettings(budget=BudgetSettings(budget=7, gamma=0.5), seed=3)
    plan = choose_epochs(problem_of(measured, settings), settings.budget)
    asked = AuditSettings(replace(settings, budget=replace(settings.budget, epochs=plan.chosen)))
    history = stored_report(workspace, audit_in_workspace(workspace, run.digest, asked.record())).history
    assert tuple(np.flatnonzero(history.evaluations)) == plan.chosen
    assert tuple(np.flatnonzero(history.computed[1:]) + 1) == plan.chosen
    assert int(history.evaluations.sum()) == price(measured, settings, plan.chosen).evaluations
    kept = workspace.results(run.digest, "audit")[0].remarks
    assert kept["epochs"] == 7
    assert kept["evaluations"] == int(history.evaluations.sum())


def test_proof_is_found_by_its_question(workspace: Workspace, run: RunEntry) -> None:
    measure_in_workspace(workspace, run.digest, {})
    record = AuditSettings(AssessSettings(budget=BudgetSettings(budget=9, gamma=1.0), estimator="exact")).record()
    assert stored_proof(workspace, run.digest, record) is None
    prove_in_workspace(workspace, run.digest, proof_question(record))
    proof = stored_proof(workspace, run.digest, record)
    assert proof is not None
    assert proof.proved_optimal
    other = AuditSettings(AssessSettings(budget=BudgetSettings(budget=9, gamma=1.0))).record()
    assert stored_proof(workspace, run.digest, other) == proof  # the estimator chooses no epoch
    assert stored_proof(workspace, run.digest, AuditSettings().record()) is None


def test_measurement_does_not_wait_behind_an_audit(workspace: Workspace, run: RunEntry, tmp_path: Path) -> None:
    gate = {"starts": str(tmp_path / "starts"), "name": "gated", "gate": str(tmp_path / "gate")}
    long = workspace.jobs.submit(run.digest, gate, "gated")
    wait_until(lambda: workspace.jobs.find(long.id).progress is not None, "the long job at work")
    waiting = workspace.jobs.submit(run.digest, {**gate, "name": "second"}, "gated")
    short = workspace.jobs.submit(run.digest, {}, "measurement")
    wait_until(lambda: bool(workspace.jobs.poll()) and not workspace.jobs.find(short.id).active, "the measurement")
    assert workspace.jobs.find(short.id).state is JobState.DONE
    assert workspace.jobs.find(long.id).state is JobState.RUNNING
    assert workspace.jobs.find(waiting.id).state is JobState.QUEUED
    for job in (waiting, long):
        workspace.jobs.cancel(job.id)


def test_execution_is_the_workspaces_and_moves_no_result(workspace: Workspace, run: RunEntry) -> None:
    assert workspace.preferences.execution() == Execution()
    assert Execution().processes == usual_workers()
    one = audit_in_workspace(workspace, run.digest, AuditSettings().record())
    workspace.preferences.set_execution(Execution(workers=2))
    with Workspace(workspace.path) as again:
        assert again.preferences.execution().processes == 2
        fresh = AuditSettings(AssessSettings(seed=9)).record()
        two = audit_in_workspace(again, run.digest, fresh)
    workspace.preferences.set_execution(Execution(workers=1))
    before = len(workspace.log.entries("preference-changed"))
    workspace.preferences.set_execution(Execution(workers=1))
    assert len(workspace.log.entries("preference-changed")) == before
    values = [stored_report(workspace, r).history.of("loss").values for r in (one, two)]
    assert np.array_equal(values[0], values[1])  # exact values: neither seed nor processes move them
    with pytest.raises(SettingsError):
        Execution(workers=0)
