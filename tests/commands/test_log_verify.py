"""``flcontrib log verify`` says where the record of a workspace was changed, and changes nothing itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from flcontrib_core.workspace import Workspace
from tests.in_process import flcontrib
from tests.workspace.forged import append_decision, tamper
from tests.workspace.recorded import bundle_run, scratch_folder


@pytest.fixture
def path() -> Iterator[Path]:
    """Four entries: created, run, alert, decision."""
    with scratch_folder() as folder:
        with Workspace(folder / "workspace") as workspace:
            run = workspace.add_run(bundle_run(folder / "run"), "a run").digest
            (alert,) = workspace.alerts.raise_alerts(run, [{"client": "client-1", "verdict": "exact-finding"}])
            workspace.alerts.decide(alert.id, "confirmed", "ada")
        yield folder / "workspace"


def log_verify(path: Path, *options: str) -> CompletedProcess[str]:
    return flcontrib("log", "verify", "--workspace", path, *options)


def test_a_sound_log_is_exit_code_0(path: Path) -> None:
    told = log_verify(path, "--json")
    answer = json.loads(told.stdout)
    assert told.returncode == 0
    assert answer.pop("head").startswith("4:")
    assert answer == {"ok": True, "entries": 4, "broken": None, "uncopied": [], "stamp": None}
    assert "sound: every one of 4 entries" in log_verify(path).stdout


def test_a_forged_decision_is_exit_code_1_and_named_until_somebody_looks_after_it(path: Path) -> None:
    tamper(path, lambda db: db.execute("UPDATE log SET entry = replace(entry, 'ada', 'eve') WHERE sequence = 4"))
    for _ in range(2):  # asking does not mend
        told = log_verify(path, "--json")
        assert told.returncode == 1
        assert json.loads(told.stdout)["broken"]["entry"] == 4
    assert "broken: log entry 4 was edited" in log_verify(path).stdout


def test_a_perfectly_sealed_forgery_is_told(path: Path) -> None:
    tamper(path, append_decision)
    told = log_verify(path)
    assert told.returncode == 0
    assert "entries without a copy: 5" in told.stderr


def test_a_head_from_a_report_must_lie_on_the_chain(path: Path) -> None:
    head = json.loads(log_verify(path, "--json").stdout)["head"]
    assert log_verify(path, "--head", head).returncode == 0
    assert log_verify(path, "--head", "4:" + "0" * 64).returncode == 1
    assert log_verify(path, "--head", "9:" + "0" * 64).returncode == 1
    refused = log_verify(path, "--head", "nonsense")
    assert (refused.returncode, "not the head" in refused.stderr) == (2, True)


def test_a_folder_that_is_no_workspace_is_exit_code_2(path: Path) -> None:
    told = log_verify(path / "objects")
    assert (told.returncode, "no workspace" in told.stderr) == (2, True)
    (path / "index.sqlite").write_bytes(b"no database" * 1000)
    damaged = log_verify(path)
    assert (damaged.returncode, "Traceback" in damaged.stderr) == (2, False)
