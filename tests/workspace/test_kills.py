"""kill −9 at random moments: the work ends as if nothing had happened. ``benchmarks faults`` does it 200 times."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.workspace import JobState, Workspace
from tests.workspace.killing import kill_again_and_again, kill_worker, kill_writers, wait_until_ended
from tests.workspace.runners import ALL

SAMPLE_RUNS = Path(__file__).parents[2] / "sample_runs"


def test_a_worker_killed_five_times_loses_nothing() -> None:
    kill_again_and_again(kills=5, epochs=60, seed=1)  # so many that a starved test still finds it at work


@pytest.mark.slow
def test_a_killed_assessment_of_a_real_run_ends_like_an_unbroken_one(folder: Path) -> None:
    run = SAMPLE_RUNS / "clean-iid.flrun"
    rng = np.random.default_rng(5)
    results = []
    for name, kills in (("unbroken", 0), ("killed", 4)):
        with Workspace(folder / name, runners=ALL) as workspace:
            digest = workspace.add_run(run).digest
            job = workspace.jobs.submit(digest, {"name": "assessment"}, "assessment")
            for _ in range(kills):
                assert kill_worker(workspace, job, rng)
                assert wait_until_ended(workspace, job).state is JobState.LOST
                workspace.jobs.resume(job.id)
            done = wait_until_ended(workspace, job)
            assert (done.state, done.attempt) == (JobState.DONE, kills + 1), workspace.jobs.output(job.id)
            results.append(done.result)
            for object_name in workspace.objects.names():
                workspace.objects.read(object_name)
    assert results[0] == results[1]


SERVER = """
import sys, time
from flcontrib_core.workspace import Workspace
from tests.workspace.runners import ALL
workspace = Workspace(sys.argv[1], runners=ALL)
run = workspace.runs()[0].digest
job = workspace.jobs.submit(run, {"seed": 3, "epochs": 8, "gate": sys.argv[2], "gate_at": 5}, "epochs")
print(job.id, flush=True)
while True:
    workspace.jobs.poll()
    time.sleep(0.01)
"""


def test_a_killed_server_takes_no_job_with_it(folder: Path, bundle: Path) -> None:
    path, gate = folder / "workspace", folder / "gate"
    with Workspace(path, runners=ALL) as workspace:
        workspace.add_run(bundle)
        server = subprocess.Popen(
            python_command("-c", SERVER, str(path), str(gate)),
            stdout=subprocess.PIPE,
            text=True,
            env=child_environment(),
        )
        assert server.stdout is not None
        job = workspace.jobs.find(server.stdout.readline().strip())
        while (progress := workspace.jobs.find(job.id).progress) is None or progress.done < 4:
            time.sleep(0.01)
        server.kill()
        server.wait()
        server.stdout.close()
        assert workspace.jobs.find(job.id).state is JobState.RUNNING
        gate.touch()
        assert wait_until_ended(workspace, job).state is JobState.DONE
        assert workspace.jobs.find(job.id).attempt == 1


def test_a_server_killed_while_it_writes_leaves_a_sound_workspace(folder: Path) -> None:
    kill_writers(folder, kills=4, seed=11)
