"""kill −9 at random moments, and what must hold afterwards: for the tests and for the campaign of faults."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np

from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.workspace import Job, JobState, Workspace
from flcontrib_core.workspace.job_status import read_status
from tests.workspace.recorded import bundle_run, scratch_folder
from tests.workspace.runners import ALL, epoch_arrays, epoch_key, epoch_utilities
from tests.workspace.scenario import check_sound


def acknowledged(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def wait_until_ended(workspace: Workspace, job: Job) -> Job:
    while (found := workspace.jobs.find(job.id)).active:
        time.sleep(0.01)
        workspace.jobs.poll()
    return found


def check_nothing_lost(workspace: Workspace, settings: dict[str, object], ledger: Path) -> None:
    """Every acknowledged epoch and its utilities are there, every object is whole, the log holds."""
    checkpoints, memory = workspace.checkpoints(), workspace.utility_memory()
    for epoch in acknowledged(ledger):
        key = epoch_key(settings, epoch)
        kept = checkpoints.recall(key)
        assert kept is not None, f"epoch {epoch} was acknowledged and is lost"
        np.testing.assert_array_equal(kept["values"], epoch_arrays(settings, epoch)["values"])
        remembered = memory.recall_epoch(key)
        assert remembered.keys() == epoch_utilities(settings, epoch).keys()
    for name in workspace.objects.names():
        workspace.objects.read(name)
    assert workspace.verify_chain() is None
    assert workspace.log.entries("damage") == ()


def kill_worker(workspace: Workspace, job: Job, rng: np.random.Generator) -> bool:
    """Kills the job's worker at a random moment of its life; False when it was done before."""
    path = workspace.path / "jobs" / job.id / "status"
    while workspace.jobs.find(job.id).active:
        status, _ = read_status(path)
        if status.pid is not None and status.outcome is None:
            if rng.random() < 0.8:  # usually in the middle of its epochs, sometimes while it opens the workspace
                goal = (0 if status.progress is None else status.progress.done) + int(rng.integers(1, 4))
                while status.outcome is None and (status.progress is None or status.progress.done < goal):
                    time.sleep(0.001)
                    status, alive = read_status(path)
                    if not alive:
                        return False
            time.sleep(float(rng.uniform(0, 0.01)))
            if status.outcome is None and read_status(path)[1]:
                os.kill(status.pid, signal.SIGKILL)
                return True
        time.sleep(0.001)
    return False


def kill_again_and_again(kills: int, epochs: int, seed: int) -> None:
    """A job's worker is killed so many times; the job ends as if nothing had happened."""
    rng = np.random.default_rng(seed)
    with scratch_folder() as folder:
        bundle = bundle_run(folder / "run")
        settings = {"seed": seed, "epochs": epochs, "numbers": 2000}
        with Workspace(folder / "unbroken", runners=ALL) as workspace:
            run = workspace.add_run(bundle, "a run").digest
            undisturbed = wait_until_ended(workspace, workspace.jobs.submit(run, settings, "epochs"))
            assert undisturbed.state is JobState.DONE
            objects = sorted(workspace.objects.names())
        ledger = folder / "acknowledged"
        with Workspace(folder / "killed", runners=ALL) as workspace:
            workspace.add_run(bundle, "a run")
            survived = 0
            job = workspace.jobs.submit(run, {**settings, "acknowledged": str(ledger)}, "epochs")
            while survived < kills and kill_worker(workspace, job, rng):
                survived += 1
                ended = wait_until_ended(workspace, job)
                assert ended.state in (JobState.LOST, JobState.DONE)
                check_nothing_lost(workspace, settings, ledger)
                workspace.jobs.resume(job.id)
            assert survived == kills, "the job was long enough for all its kills"
            assert wait_until_ended(workspace, job).state is JobState.DONE
            check_nothing_lost(workspace, settings, ledger)
            done = acknowledged(ledger)
            kept = workspace.checkpoints()
            assert all(kept.recall(epoch_key(settings, epoch)) is not None for epoch in range(1, epochs + 1))
            # A kill may fall between an epoch's being kept and its runner's noting it: then it is not done again.
            assert epochs - len(set(done)) <= kills
            assert len(done) - len(set(done)) <= kills, "at most one epoch was redone per kill"
            # The ledger is the only difference between the two questions: the same question is answered equally.
            final = wait_until_ended(workspace, workspace.jobs.submit(run, settings, "epochs"))
            assert final.result == undisturbed.result, "the digest of an unbroken run"
            assert set(objects) <= set(workspace.objects.names())
        with Workspace(folder / "killed"):
            assert list((folder / "killed" / "incoming").iterdir()) == [], "what the killed left half written is swept"


KILLED_WRITER = """
import sys
from pathlib import Path
from tests.workspace.scenario import run_scenario
while True:
    run_scenario(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), lambda step: print(step, flush=True))
"""


def kill_writers(folder: Path, kills: int, seed: int) -> None:
    """Uploads, results, decisions and deletions are broken off at random moments of a web process's life."""
    first, second = bundle_run(folder / "first"), bundle_run(folder / "second", seed=7, epochs=1)
    rng = np.random.default_rng(seed)
    steps: list[str] = []
    for _ in range(kills):
        writer = subprocess.Popen(
            python_command("-c", KILLED_WRITER, str(folder / "workspace"), str(first), str(second)),
            stdout=subprocess.PIPE,
            text=True,
            env=child_environment(),
        )
        assert writer.stdout is not None
        for _ in range(int(rng.integers(1, 30))):
            steps.append(writer.stdout.readline().strip())
        time.sleep(float(rng.uniform(0, 0.02)))
        writer.kill()
        steps += [line for line in writer.stdout.read().splitlines() if line]
        writer.wait()
        writer.stdout.close()
        check_sound(folder / "workspace", [s for s in set(steps) if s != "deleted"])
