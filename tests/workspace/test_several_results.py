"""Does a run keep every result of its own, by name, and does a budget never take the place of the full one?"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from flcontrib_core.bundled_files import bundled
from flcontrib_core.cli import flcontrib
from flcontrib_core.commands.serving import own_folder
from flcontrib_core.errors import WorkspaceError
from flcontrib_core.words import result_cost, result_label
from flcontrib_core.workspace import Workspace

TABLE = bundled("sample_runs") / "contributions-table.csv"
FULL: dict[str, object] = {"estimator": "auto", "budget": {"budget": None, "epochs": None}}
HALF: dict[str, object] = {"estimator": "auto", "budget": {"epochs": [1, 2, 3], "fairness": "two-sided", "gamma": 0.5}}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "workspace")


def test_budget_never_replaces_the_full_result(workspace: Workspace) -> None:
    run = workspace.add_run(TABLE).digest
    full = workspace.store_result(run, FULL, "note", {"a": 1})
    half = workspace.store_result(run, HALF, "note", {"a": 2})
    assert workspace.latest_result(run, "note") == half
    assert workspace.default_result(run, "note") == full


def test_pin_and_name_hold_and_survive(workspace: Workspace) -> None:
    run = workspace.add_run(TABLE).digest
    full = workspace.store_result(run, FULL, "note", {"a": 1})
    half = workspace.store_result(run, HALF, "note", {"a": 2})
    workspace.name_result(half, b"  before\\n the   move ".decode("unicode_escape"))
    workspace.pin_result(half)
    (workspace.path / "index.sqlite").unlink()
    with Workspace(workspace.path) as again:
        first = again.default_result(run, "note")
        assert first is not None
        assert (first.digest, first.name, first.pinned) == (half.digest, "before the move", True)
        again.pin_result(first, pinned=False)
        unpinned = again.default_result(run, "note")
        assert unpinned is not None
        assert unpinned.digest == full.digest


def test_names_of_a_deleted_run_do_not_come_back(workspace: Workspace) -> None:
    run = workspace.add_run(TABLE).digest
    workspace.pin_result(workspace.store_result(run, HALF, "note", {"a": 2}))
    workspace.delete_run(run)
    workspace.add_run(TABLE)
    workspace.store_result(run, HALF, "note", {"a": 2})
    (only,) = workspace.results(run, "note")
    assert not only.pinned


def test_label_says_what_tells_results_apart() -> None:
    assert result_label(FULL) == "all epochs"
    assert result_label(HALF, "mine") == "mine · 3 epochs · two-sided, γ 0.5"
    assert (
        result_label({**FULL, "estimator": "gtg", "preset": "strict", "seed": 4})
        == "all epochs · gtg · strict · seed 4"
    )
    assert result_cost({"evaluations": 1200, "seconds": 3.0}) == "1\u2009200 evaluations, 3.0 s"


def test_command_line_results_are_the_workspaces(tmp_path: Path) -> None:
    """Audit, assess and schedule with a named workspace leave a run and a result that the page shows."""
    folder = tmp_path / "audits"
    log = bundled("sample_runs") / "clean-iid.flrun"
    for command in (["audit", "--preset", "strict"], ["assess", "--epochs", "1,2"], ["schedule", "--budget", "5"]):
        said = CliRunner().invoke(flcontrib, [command[0], str(log), *command[1:], "--workspace", str(folder)])
        assert said.exit_code == 0, said.output
        assert "kept in" in said.stderr
    with Workspace(folder) as workspace:
        (run,) = workspace.runs()
        half, full = workspace.results(run.digest, "audit")
        assert (full.settings["preset"], half.settings["budget"]["epochs"]) == ("strict", [1, 2])
        assert workspace.default_result(run.digest) == full
        assert workspace.latest_result(run.digest, "measurement") is not None


def test_filled_totals_say_so_on_the_command_line() -> None:
    log = bundled("sample_runs") / "clean-iid.flrun"
    said = CliRunner().invoke(flcontrib, ["assess", str(log), "--epochs", "1,2", "--no-memory"])
    assert "(22 epochs filled in)" in said.stdout


def test_demonstration_refuses_a_folder_of_somebody_else(tmp_path: Path) -> None:
    assert own_folder(tmp_path / "data" / "demo").is_dir()
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(WorkspaceError, match="not a folder of yours alone"):
        own_folder(shared)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "data" / "demo")
    with pytest.raises(WorkspaceError, match="not a folder of yours alone"):
        own_folder(link)


def test_what_is_asked_of_one_run_does_not_read_the_entries_of_all(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = workspace.add_run(TABLE).digest
    result = workspace.store_result(run, FULL, "note", {"a": 1})
    asked: list[tuple[str, Sequence[object]]] = []
    read = workspace._index.read

    def noting(statement: str, parameters: Sequence[object] = ()) -> list[sqlite3.Row]:
        asked.append((statement, parameters))
        return read(statement, parameters)

    monkeypatch.setattr(workspace._index, "read", noting)
    assert workspace.default_result(run, "note") == workspace.latest_result(run, "note") == result
    assert workspace.find_run(run) is not None
    assert workspace.alerts.list(run) == ()
    assert len(asked) > 5
    for statement, parameters in asked:
        steps = [row["detail"] for row in read(f"EXPLAIN QUERY PLAN {statement}", parameters)]
        assert not [step for step in steps if "(kind=?)" in step], statement  # of whichever run
