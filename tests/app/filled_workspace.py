"""Workspaces for the tests of the dashboard: one of everything a page can meet, small enough to be made in seconds."""

from __future__ import annotations

import csv
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np

from flcontrib_core.auditing import AuditReport, AuditSettings
from flcontrib_core.bundled_files import bundled
from flcontrib_core.history import AssessSettings
from flcontrib_core.laboratory.simulation import Attack, SimulationSettings, simulate
from flcontrib_core.laboratory.simulation.settings import AttackKind
from flcontrib_core.runs.recorder import RunRecorder
from flcontrib_core.workspace import Job, RunEntry, Workspace
from flcontrib_core.workspace.audit_jobs import audit_in_workspace, stored_report
from flcontrib_core.workspace.planning_jobs import measure_in_workspace
from tests.detection.made_histories import made_history
from tests.made_once import made_once
from tests.patience import PATIENCE_SECONDS
from tests.reports.made_reports import made_report
from tests.workspace.recorded import bundle_run, scratch_folder

TINY_NAME = "Six clients, one sends zeros in epochs 5–8"
TINY = SimulationSettings(
    name=TINY_NAME,
    clients=6,
    epochs=12,
    train_rows=240,
    hidden=(4,),
    more_attacks=(Attack(AttackKind.ZERO, clients=(2,), windows=((5, 8),)),),
)
"""Zeros are an exact finding: client-03 stands out whatever the thresholds of the detectors are."""
HOSTILE = (
    "client-00",
    "<img src=x onerror=alert(1)>",
    "![x](http://outside.invalid/x.png)",
    '=HYPERLINK("http://outside.invalid","x")',
    "</title><script>alert(2)</script>",
    "[here](http://outside.invalid) $x^2$ :red[x]",
    "ab\u202egpj.exe",
    "<b>NA</b>",
)
RUNNERS = {"gated": "tests.workspace.runners:gated", "failing": "tests.workspace.runners:failing"}


@dataclass(frozen=True)
class Filled:
    """Where the workspace is, and the runs in it by what they stand for."""

    folder: Path
    runs: dict[str, RunEntry]


def make_tiny_log(path: Path, settings: SimulationSettings = TINY) -> Path:
    simulate(settings, path)
    return path


def keep_report(workspace: Workspace, entry: RunEntry, report: AuditReport) -> None:
    """Stores a report made by hand as the result of a run, with its alerts in the inbox."""
    settings = dict(report.provenance.settings)
    stored = workspace.store_result(entry.digest, settings, "audit", report, remarks={"seconds": 1.5})
    workspace.alerts.raise_alerts(entry.digest, report.detection.alerts, stored.digest)


def add_hostile_run(workspace: Workspace, folder: Path) -> RunEntry:
    """A run whose clients' names try to be markup, links, formulas and scripts, with alerts on two of them."""
    rng = np.random.default_rng(3)
    with RunRecorder(
        folder / "hostile",
        clients=[(name, 100) for name in HOSTILE],
        parameters=[("weight", (4, 2))],
        initial=np.zeros(8, dtype=np.float32),
        name="<b onmouseover=alert(3)>Hostile</b> ![x](http://outside.invalid/run.png)",
        durable=False,
    ) as recorder:
        for _ in range(20):
            recorder.epoch(rng.normal(size=(len(HOSTILE), 8)).astype(np.float32))
        entry = workspace.add_run(recorder.bundle())
    report = made_report()
    keep_report(workspace, entry, made_report(replace(report.history, client_ids=HOSTILE, run_digest=entry.digest)))
    return entry


def add_large_table(workspace: Workspace, folder: Path, clients: int, epochs: int) -> RunEntry:
    """A contribution table of many clients with a report on it; the detectors are not what is looked at."""
    history = made_history(clients=clients, epochs=epochs, with_channels=False, poisoned=[(1, 8, 12)])
    names = tuple(f"client-{i:05d}" for i in range(clients))
    path = folder / "large.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["epoch", "client", "loss"])
        for epoch in range(1, epochs + 1):
            rows.writerows(zip([epoch] * clients, names, history.of("loss").values[epoch].round(9), strict=True))
    entry = workspace.add_run(path)
    keep_report(workspace, entry, made_report(replace(history, client_ids=names, run_digest=entry.digest)))
    return entry


def add_large_log(workspace: Workspace, folder: Path, clients: int, epochs: int) -> RunEntry:
    """A recorded run of many clients, half of them per epoch, with a report on it."""
    rng = np.random.default_rng(4)
    names = tuple(f"client-{i:05d}" for i in range(clients))
    with RunRecorder(
        folder / "large",
        clients=[(name, 100) for name in names],
        parameters=[("weight", (2,))],
        initial=np.zeros(2, dtype=np.float32),
        name="Many clients",
        durable=False,
    ) as recorder:
        for _ in range(epochs):
            recorder.epoch(rng.normal(size=(clients, 2)).astype(np.float32))
        entry = workspace.add_run(recorder.bundle())
    history = made_history(clients=clients, epochs=epochs, participation=0.5, with_channels=False, seed=4)
    keep_report(workspace, entry, made_report(replace(history, client_ids=names, run_digest=entry.digest)))
    return entry


def fill_with_many(folder: Path, clients: int = 10_000, epochs: int = 50) -> Filled:
    """The same large federation as a table and as a log."""
    with Workspace(folder / "workspace") as workspace:
        table = add_large_table(workspace, folder, clients, epochs)
        return Filled(folder / "workspace", {"table": table, "log": add_large_log(workspace, folder, clients, epochs)})


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Asks until it holds; the limit only ends a test that would hang."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"never happened: {what}")
        time.sleep(0.05)


def ended(workspace: Workspace, job: Job) -> Job:
    wait_until(lambda: bool(workspace.jobs.poll()) and not workspace.jobs.find(job.id).active, f"end of job {job.id}")
    return workspace.jobs.find(job.id)


def keep_stale_report(workspace: Workspace, entry: RunEntry, report: AuditReport) -> None:
    """Stores a report as another version would have."""
    with mock.patch("flcontrib_core.workspace.results.software_version", return_value="0.0.1"):
        keep_report(workspace, entry, report)


def fill(folder: Path) -> Filled:
    """A run and a table with their reports, hostile names, updates alone, a run whose only job failed, an old one."""
    scratch = folder / "made"
    scratch.mkdir(parents=True)
    with Workspace(folder / "workspace") as workspace:
        runs = {"report": workspace.add_run(make_tiny_log(scratch / "tiny.flrun"))}
        runs["table"] = workspace.add_run(bundled("sample_runs") / "contributions-table.csv")
        runs["bare"] = workspace.add_run(bundle_run(scratch / "without-model", epochs=12, clients=5))
        for entry in runs.values():
            audit_in_workspace(workspace, entry.digest, AuditSettings().record())
        runs["hostile"] = add_hostile_run(workspace, scratch)
        # A utility that nobody knows: its audit fails by itself, with a typed error.
        failed = replace(TINY, name="Failed", seed=6, clients=3, epochs=3, more_attacks=())
        runs["failed"] = workspace.add_run(make_tiny_log(scratch / "failed.flrun", failed))
        unknown = AuditSettings(AssessSettings(utilities=("popularity",)))
        ended(workspace, workspace.jobs.submit(runs["failed"].digest, unknown.record()))
        for name in ("report", "failed"):
            measure_in_workspace(workspace, runs[name].digest, {})
        runs["stale"] = workspace.add_run(
            make_tiny_log(scratch / "old.flrun", replace(TINY, name="Old result", seed=5))
        )
        old = workspace.latest_result(runs["report"].digest, "audit")
        assert old is not None
        report = stored_report(workspace, old)
        keep_stale_report(
            workspace, runs["stale"], replace(report, history=replace(report.history, run_digest=runs["stale"].digest))
        )
    return Filled(folder / "workspace", runs)


def filled_once(common: Path, folder: Path) -> Filled:
    """The workspace of ``fill``, copied from the one that the first process has made in the common folder."""

    def make(place: Path) -> dict[str, str]:
        with scratch_folder() as scratch:
            filled = fill(scratch)
            shutil.copytree(filled.folder, place / "workspace")
            return {name: entry.digest for name, entry in filled.runs.items()}

    digests = made_once(common / "filled", make)
    shutil.copytree(common / "filled" / "workspace", folder / "workspace")
    with Workspace(folder / "workspace") as workspace:
        entries = {entry.digest: entry for entry in workspace.runs()}
    return Filled(folder / "workspace", {name: entries[digest] for name, digest in digests.items()})
