"""Is a real NVFlare job recorded by its one line, the planted site named and, under a guard, left out?"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import flcontrib_core as fl
from flcontrib_core.errors import RunLogError
from flcontrib_core.runs import RunLog
from flcontrib_core.runs.importing import import_folder
from tests.frameworks.conftest import PYTHON
from tests.patience import PATIENCE_SECONDS

EXAMPLE = Path(__file__).parents[2] / "examples" / "nvflare"
SITES = tuple(f"site-{i}" for i in range(1, 5))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's folder after it ran in the simulator, under a guard; site-4 flipped labels in rounds 7 to 13."""
    if not PYTHON.exists():
        pytest.skip("the frameworks' environment is not set up (make frameworks)")
    folder = tmp_path_factory.mktemp("nvflare") / "job"
    shutil.copytree(EXAMPLE, folder)
    # The simulator's clients import the script's neighbours from their own path.
    ours = {"FLIPPING_SITE": "site-4", "KEEP_MODELS": "1", "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    with (folder / "said.txt").open("w") as said:
        subprocess.run(
            [PYTHON, "job.py", "--guard"],
            cwd=folder,
            env={**os.environ, **ours},
            stdout=said,
            stderr=said,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
    return folder


def opened(path: Path) -> RunLog:
    run = fl.read_run_log(path)
    assert isinstance(run, RunLog)
    return run


def verdicts(path: Path) -> list[dict[str, float]]:
    lines = (path / "epochs.jsonl").read_text().splitlines()
    return [json.loads(line)["source"].get("verdict", {}) for line in lines]


def test_the_job_is_recorded_and_the_site_that_flips_labels_is_named(job: Path) -> None:
    run = opened(job / "my-run")
    assert (run.client_ids, run.epoch_count, run.classes) == (SITES, 14, 10)
    assert run.participated()[1:].all()
    assert set(run.epochs[0].data_sizes) == {12}, "the steps of each site are its weight"
    assert run.manifest["source"]["weights"] == "steps"
    assert [e.has_global for e in run.epochs] == [bool(v) for v in verdicts(job / "my-run")], "else the plain mean"
    accused = {alert.client for alert in fl.audit(run).detection.alerts if alert.accuses}
    assert accused == {"site-4"}


def test_under_the_guard_its_results_are_recorded_and_not_aggregated(job: Path) -> None:
    given = verdicts(job / "my-run")
    assert not any(given[:8]), "before the eighth round nobody looks"
    assert {name for verdict in given for name in verdict} == {"site-4"}
    assert len([v for v in given if v]) >= 3
    run = opened(job / "my-run")
    before = run.initial()
    for record, verdict in zip(run.epochs, given, strict=True):
        data = run.epoch_data(record.epoch)
        after = before + np.mean(data.updates[: 3 if verdict else 4], axis=0, dtype=np.float64)
        if data.global_model is not None:
            np.testing.assert_allclose(data.global_model, after, atol=1e-6)
        before = np.asarray(after if data.global_model is None else data.global_model)


def test_models_that_sites_kept_in_the_workspace_are_imported(job: Path, tmp_path: Path) -> None:
    understood = import_folder(job / "workspace", tmp_path / "imported")
    assert (understood.kind, understood.clients, understood.first_round) == ("models", SITES, 1)
    assert "no epoch" in understood.initial
    recorded, imported = opened(job / "my-run"), opened(tmp_path / "imported")
    for epoch in range(1, 8):  # as long as the server was the plain mean
        ours, theirs = (run.epoch_data(t).updates for run, t in ((imported, epoch), (recorded, epoch + 1)))
        order = [np.concatenate([row[sl] for sl in _slices(imported, recorded)]) for row in theirs]
        np.testing.assert_allclose(ours, order, atol=1e-5)


def test_a_workspace_without_them_is_refused_with_what_was_understood(job: Path, tmp_path: Path) -> None:
    kept = [path for path in (job / "workspace").rglob("FL_global_model.pt")]
    assert kept, "NVFlare keeps the last model of the server"
    for path in kept:
        target = tmp_path / "workspace" / path.relative_to(job / "workspace")
        target.parent.mkdir(parents=True)
        shutil.copy(path, target)
    with pytest.raises(RunLogError, match="0 files of clients, 0 of the server, 1 tensor files"):
        import_folder(tmp_path / "workspace", tmp_path / "imported")


def _slices(wanted: RunLog, given: RunLog) -> list[slice]:
    """Where the wanted run's tensors lie in the other's flat vector."""
    begins, at = {}, 0
    for spec in given.parameters:
        begins[spec.name] = slice(at, at + spec.count)
        at += spec.count
    return [begins[spec.name] for spec in wanted.parameters]
