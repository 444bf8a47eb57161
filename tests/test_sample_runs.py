"""Are the sample runs what their README says, and can they be made again?"""

from __future__ import annotations

import csv
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from flcontrib_core.auditing import audit
from flcontrib_core.errors import RunLogError
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import ContributionTable, RunLog

SAMPLES = Path(__file__).resolve().parents[1] / "sample_runs"
RECORD = json.loads((SAMPLES / "digests.json").read_text(encoding="utf-8"))
RUNS = [name for name in RECORD["digests"] if name.endswith(".flrun")]
WINDOWS = {
    "clean-iid.flrun": [],
    "two-poisoned.flrun": [("label-flip", (12, 20)), ("label-flip", (12, 20))],
    "late-window.flrun": [("label-flip", (29, 37))],
    "heterogeneous-honest.flrun": [],
    "free-rider-and-scaled.flrun": [("scale", (9, 16)), ("zero", (14, 22))],
}


@pytest.fixture(scope="module")
def rebuild() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rebuild_sample_runs", SAMPLES / "rebuild.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rebuilt(rebuild: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("sample_runs")
    return folder, rebuild.rebuild(folder)


def opened(path: Path) -> RunLog:
    run = read_run_log(path)
    assert isinstance(run, RunLog)
    return run


def test_the_folder_is_small_and_its_readme_names_every_file() -> None:
    files = [f for f in SAMPLES.iterdir() if f.suffix in (".flrun", ".csv")]
    assert sum(f.stat().st_size for f in files) < 6_000_000
    text = (SAMPLES / "README.md").read_text(encoding="utf-8")
    assert {f.name for f in files} == {*RUNS, "contributions-table.csv", "broken.flrun"}
    assert all(f"`{f.name}`" in text for f in files)


@pytest.mark.parametrize("name", RUNS)
def test_each_run_opens_with_its_truth(name: str) -> None:
    run = opened(SAMPLES / name)
    assert run.digest == RECORD["digests"][name]
    assert run.model is not None
    assert run.has_validation
    assert "created" not in run.manifest
    assert run.truth is not None
    assert sorted((d.attack, window) for d in run.truth.dishonest for window in d.windows) == WINDOWS[name]


@pytest.mark.parametrize("name", RUNS)
def test_a_rebuilt_run_is_the_shipped_one(name: str, rebuild: ModuleType, rebuilt: tuple[Path, dict[str, str]]) -> None:
    folder, digests = rebuilt
    if rebuild.this_platform() == RECORD["platform"]:
        assert digests[name] == RECORD["digests"][name]
    shipped, made = opened(SAMPLES / name), opened(folder / name)
    for part in ("name", "clients", "parameters", "classes", "model", "truth"):
        assert getattr(made, part) == getattr(shipped, part), part
    np.testing.assert_allclose(made.initial(), shipped.initial(), atol=1e-4)
    assert [e.participants for e in made.epochs] == [e.participants for e in shipped.epochs]
    for epoch in range(1, shipped.epoch_count + 1):
        np.testing.assert_allclose(made.epoch_data(epoch).updates, shipped.epoch_data(epoch).updates, atol=1e-4)


def test_the_rebuilt_table_is_the_shipped_one(rebuild: ModuleType, rebuilt: tuple[Path, dict[str, str]]) -> None:
    def rows(path: Path) -> tuple[list[list[str]], np.ndarray]:
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
        return [line[:2] for line in lines], np.array([[float(v) for v in line[2:]] for line in lines[1:]])

    folder, _ = rebuilt
    (keys, values), (made_keys, made) = rows(SAMPLES / rebuild.TABLE), rows(folder / rebuild.TABLE)
    assert made_keys == keys
    np.testing.assert_allclose(made, values, atol=1e-4)
    table = read_run_log(SAMPLES / rebuild.TABLE)
    assert isinstance(table, ContributionTable)
    assert table.digest == RECORD["digests"][rebuild.TABLE]
    assert table.utilities == ("loss", "accuracy")
    assert table.participated[1:].sum(axis=1).tolist() == [5] * 25


def test_the_broken_bundle_is_refused_for_six_reasons(
    rebuild: ModuleType, rebuilt: tuple[Path, dict[str, str]]
) -> None:
    folder, _ = rebuilt
    for path in (SAMPLES / rebuild.BROKEN, folder / rebuild.BROKEN):
        with pytest.raises(RunLogError) as refused:
            read_run_log(path)
        codes = {problem.code for problem in refused.value.problems}
        assert codes == {"E_CLIENT_SIZE", "E_EPOCH_ORDER", "E_SHAPE", "E_LABEL", "E_NONFINITE", "E_HASH"}


@pytest.mark.parametrize("name", RUNS)
def test_an_audit_finds_what_the_readme_promises(name: str) -> None:
    run = opened(SAMPLES / name)
    assert run.truth is not None
    alerts = audit(run).detection.alerts
    assert {a.client for a in alerts} == {d.client for d in run.truth.dishonest}
    for label in run.truth.dishonest:
        (alert,) = (a for a in alerts if a.client == label.client)
        assert alert.window is not None
        ((first, last),) = label.windows
        shared = min(last, alert.window[1]) - max(first, alert.window[0]) + 1
        assert shared > (last - first + 1) / 2, "most of the window is found"
