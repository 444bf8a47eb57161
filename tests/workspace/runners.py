"""What the jobs of these tests do. They wait for files, never for time; their answers depend on settings alone.

Audits are imported by the jobs that make one: most workers here are started to be killed, and need no torch.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from flcontrib_core.errors import CostRefusal, SettingsError
from flcontrib_core.vocabulary import OnProgress
from flcontrib_core.workspace import ResultEntry, Workspace
from tests.patience import PATIENCE_SECONDS

HERE = "tests.workspace.runners"
ALL = {name: f"{HERE}:{name}" for name in ("epochs", "gated", "failing", "greedy", "assessment")}


def epoch_key(settings: dict[str, Any], epoch: int) -> str:
    return hashlib.sha256(f"{settings['seed']}/{epoch}".encode()).hexdigest()


def epoch_arrays(settings: dict[str, Any], epoch: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng([settings["seed"], epoch])
    return {"values": rng.normal(size=settings.get("numbers", 50))}


def epoch_utilities(settings: dict[str, Any], epoch: int) -> dict[bytes, np.ndarray]:
    rng = np.random.default_rng([settings["seed"], epoch, 1])
    return {bytes([number, epoch % 256]): rng.normal(size=2) for number in range(1, 60)}


def wait_for(path: str | Path) -> None:
    """Until the test opens the gate; gives up only when the test itself would have."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not Path(path).exists():
        if time.monotonic() > end:
            raise TimeoutError(f"nobody opened {path}")
        time.sleep(0.01)


def epochs(workspace: Workspace, run_digest: str, settings: dict[str, Any], on_progress: OnProgress) -> ResultEntry:
    """Computes epochs that are not kept yet, notes every acknowledgement in a file of its own, keeps the result."""
    run = workspace.open_run(run_digest)
    checkpoints, memory = workspace.checkpoints(run), workspace.utility_memory(run)
    total = settings["epochs"]
    collected = []
    for epoch in range(1, total + 1):
        key = epoch_key(settings, epoch)
        kept = checkpoints.recall(key)
        if kept is None:
            if "gate" in settings and epoch == settings["gate_at"]:
                wait_for(settings["gate"])
            known = memory.recall_epoch(key)
            fresh = {k: v for k, v in epoch_utilities(settings, epoch).items() if k not in known}
            memory.keep_epoch(key, fresh)
            kept = epoch_arrays(settings, epoch)
            checkpoints.keep(key, kept)
            if "acknowledged" in settings:
                with open(settings["acknowledged"], "ab", buffering=0) as ledger:
                    ledger.write(f"{epoch}\n".encode())
        collected.append(kept["values"])
        on_progress(epoch, total, f"epoch {epoch}")
    return workspace.store_result(run_digest, settings, "epochs", {"epochs": total, "values": np.stack(collected)})


def gated(workspace: Workspace, run_digest: str, settings: dict[str, Any], on_progress: OnProgress) -> None:
    """Says that it runs, waits for its gate, ends. Every start is noted."""
    with open(settings["starts"], "ab", buffering=0) as ledger:
        ledger.write(f"{settings['name']} {os.getpid()}\n".encode())
    on_progress(1, 2, "waiting at the gate")
    wait_for(settings["gate"])


def failing(workspace: Workspace, run_digest: str, settings: dict[str, Any], on_progress: OnProgress) -> None:
    how = settings["how"]
    on_progress(1, 3, "about to fail")
    if how == "cost":
        raise CostRefusal("exact with 40 participants = 2^40 evaluations.", 2.0**40, "the surrogate, 160 evaluations")
    if how == "settings":
        raise SettingsError("k = -1 is outside 0..1; choose a share")
    if how == "bug":
        raise ZeroDivisionError("a fault of the program")
    if how == "memory":
        np.ones(settings["bytes"], dtype=np.uint8)
    if how == "cpu":
        while True:
            sum(range(10_000))
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "file size":
        workspace.checkpoints().keep("ee" * 32, {"large": np.zeros(settings["bytes"], dtype=np.uint8)})


def greedy(workspace: Workspace, run_digest: str, settings: dict[str, Any], on_progress: OnProgress) -> None:
    """Starts a child of its own, as a process pool would, and waits with it."""
    child = os.fork()
    if child == 0:
        wait_for(settings["gate"])
        os._exit(0)
    Path(settings["child"]).write_text(str(child))
    on_progress(0, 1, "child started")
    wait_for(settings["gate"])


def assessment(workspace: Workspace, run_digest: str, settings: dict[str, Any], on_progress: OnProgress) -> ResultEntry:
    """The real engine on a real run: Shapley values of every epoch."""
    from flcontrib_core.history.assess import assess_contributions

    run = workspace.open_run(run_digest)
    history = assess_contributions(
        run, checkpoints=workspace.checkpoints(run), memory=workspace.utility_memory(run), on_progress=on_progress
    )
    arrays = {f"values of {name}": history.of(name).values for name in history.utilities}
    arrays |= {f"errors of {name}": history.of(name).standard_errors for name in history.utilities}
    return workspace.store_result(run_digest, settings, "assessment", {"how": history.estimator, **arrays})


def gates_of(workspace: Workspace) -> Path:
    """The folder in which a test opens the gates of ``stepwise_audit``: a file per epoch, or 'all'."""
    return workspace.path.parent / "gates"


def stepwise_audit(
    workspace: Workspace, run_digest: str, settings: dict[str, Any], on_progress: OnProgress
) -> ResultEntry:
    """The real audit, which finishes each epoch when the test says so. Run it as the kind 'audit'."""
    from flcontrib_core.workspace import audit_in_workspace, audit_jobs

    gates = gates_of(workspace)

    def step(done: int, total: int, label: str) -> None:
        on_progress(done, total, label)
        while not (gates / "all").exists() and not (gates / str(done)).exists():
            time.sleep(0.01)

    audit_jobs.PREVIEW_SECONDS, audit_jobs.PREVIEW_PATIENCE = 0.0, 0  # every epoch is shown, however slow the machine
    return audit_in_workspace(workspace, run_digest, settings, step)


def quick_follow(workspace: Workspace, run_digest: str, settings: dict[str, Any], on_progress: OnProgress) -> None:
    """The real follower, which looks more often. Run it as the kind 'follow'."""
    from flcontrib_core.workspace import follow_jobs

    follow_jobs.LOOK_SECONDS = 0.02
    follow_jobs.follow_in_workspace(workspace, run_digest, settings, on_progress)
