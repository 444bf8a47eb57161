"""Is a real NVFlare job recorded by its one line, and the planted site named?"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import flcontrib_core as fl
from flcontrib_core.runs import RunLog
from tests.frameworks.conftest import PYTHON
from tests.patience import PATIENCE_SECONDS

EXAMPLE = Path(__file__).parents[2] / "examples" / "nvflare"


def test_a_job_in_the_simulator_with_one_site_that_flips_labels(tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.skip("the frameworks' environment is not set up (make frameworks)")
    folder = tmp_path / "job"
    shutil.copytree(EXAMPLE, folder)
    # The simulator's clients import the script's neighbours from their own path.
    ours = {"FLIPPING_SITE": "site-4", "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    with (tmp_path / "said.txt").open("w") as said:
        subprocess.run(
            [PYTHON, "job.py"],
            cwd=folder,
            env={**os.environ, **ours},
            stdout=said,
            stderr=said,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
    run = fl.read_run_log(folder / "my-run")
    assert isinstance(run, RunLog)
    assert run.client_ids == tuple(f"site-{i}" for i in range(1, 5))
    assert run.epoch_count == 14
    assert run.participated()[1:].all()
    assert not any(e.has_global for e in run.epochs), "the steps of each site are its weight"
    assert set(run.epochs[0].data_sizes) == {12}
    assert run.manifest["source"]["weights"] == "steps"
    accused = {alert.client for alert in fl.audit(run).detection.alerts if alert.accuses}
    assert accused == {"site-4"}
