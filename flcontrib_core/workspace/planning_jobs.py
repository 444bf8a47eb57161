"""Jobs that a plan rests on: the measurement of a run before it is computed, what its numbers mean, and the proof of a
schedule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flcontrib_core.auditing import settings_from_record
from flcontrib_core.errors import WorkspaceError
from flcontrib_core.history.meaning import LogMeaning, read_meaning
from flcontrib_core.history.measurement import RunMeasurement, measure
from flcontrib_core.history.preflight import unpriced_problem
from flcontrib_core.history.settings import assess_settings_from_record
from flcontrib_core.runs.run_log import Run, RunLog
from flcontrib_core.scheduling.choose import choose_epochs
from flcontrib_core.scheduling.schedule import Schedule
from flcontrib_core.vocabulary import OnProgress, no_progress
from flcontrib_core.workspace.results import ResultEntry
from flcontrib_core.workspace.store import Workspace

MEASUREMENT, MEANING, PROOF = "measurement", "meaning", "proof"


def measure_in_workspace(
    workspace: Workspace, run_digest: str, settings: dict[str, Any], on_progress: OnProgress = no_progress
) -> ResultEntry:
    """Walks through a stored run and keeps what plans and prices are made of, and what the log means."""
    run = workspace.open_run(run_digest)
    measured = measure(run, (), on_progress, workspace.preferences.agreed_execution())
    entry = workspace.store_result(run_digest, settings, MEASUREMENT, measured)
    keep_meaning(workspace, run)
    return entry


def keep_meaning(workspace: Workspace, run: Run) -> None:
    """Keeps the rebuilt global model's curve and what speaks against reading the log as it is, where neither is yet."""
    if isinstance(run, RunLog) and stored_meaning(workspace, run.digest) is None:
        workspace.store_result(run.digest, {}, MEANING, read_meaning(run))


def stored_meaning(workspace: Workspace, run_digest: str) -> tuple[str, LogMeaning] | None:
    """What a run's numbers mean, with the digest of that; None before it was measured or audited."""
    entry = workspace.latest_result(run_digest, MEANING)
    return None if entry is None else (entry.digest, workspace.load_result(entry, LogMeaning))


def stored_measurement(workspace: Workspace, entry: ResultEntry) -> RunMeasurement:
    """The measurement of a stored result."""
    measured: RunMeasurement = workspace.load_result(entry, RunMeasurement)
    return measured


def proof_question(record: dict[str, Any]) -> dict[str, Any]:
    """The settings of a proof: the part of an assessment's record that a schedule depends on."""
    settings = settings_from_record(record).assess
    budget = replace(settings.budget, prove=True, epochs=None)
    asked = replace(settings, budget=budget).record()
    return {"budget": asked["budget"], "weight_utility": asked["weight_utility"]}


def prove_in_workspace(
    workspace: Workspace, run_digest: str, settings: dict[str, Any], on_progress: OnProgress = no_progress
) -> ResultEntry:
    """Asks the solver for the best schedule of a measured run, within the settings' ``proof_seconds``."""
    measured = workspace.latest_result(run_digest, MEASUREMENT)
    if measured is None:
        raise WorkspaceError("the run was not measured yet: open its schedule first")
    asked = assess_settings_from_record(settings)
    problem = unpriced_problem(stored_measurement(workspace, measured), asked.weight_utility)
    schedule = choose_epochs(problem, replace(asked.budget, prove=True), on_progress)
    return workspace.store_result(run_digest, settings, PROOF, schedule)


def stored_proof(workspace: Workspace, run_digest: str, record: dict[str, Any]) -> Schedule | None:
    """The proved schedule of exactly these settings, where a job has found it."""
    entry = workspace.latest_result(run_digest, PROOF, proof_question(record))
    if entry is None:
        return None
    schedule: Schedule = workspace.load_result(entry, Schedule)
    return schedule
