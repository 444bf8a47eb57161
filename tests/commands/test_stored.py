"""``flcontrib runs`` and ``flcontrib results`` list, add and remove what a workspace holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flcontrib_core.auditing import AuditSettings
from flcontrib_core.cli import flcontrib
from flcontrib_core.commands.stored import results, runs
from flcontrib_core.errors import RunLogError, WorkspaceError
from flcontrib_core.workspace import Workspace, audit_in_workspace

TABLE = Path(__file__).parents[2] / "sample_runs" / "contributions-table.csv"


def run(command: Any, *arguments: str | Path, workspace: Path) -> Result:
    given = [*map(str, arguments), "--workspace", str(workspace)]
    return CliRunner().invoke(command, given, standalone_mode=False)


def test_a_run_is_added_listed_and_removed(tmp_path: Path) -> None:
    place = tmp_path / "workspace"
    added = run(
        runs,
        "add",
        TABLE,
        "--name",
        "May",
        "--tag",
        "pilot",
        "--note",
        "first",
        "--by",
        "ada",
        "--json",
        workspace=place,
    )
    one = json.loads(added.stdout)
    assert (one["name"], one["tags"], one["note"], one["results"]) == ("May", ["pilot"], "first", 0)
    with Workspace(place) as workspace:
        audit_in_workspace(workspace, one["digest"], AuditSettings().record())
        raised = len(workspace.alerts.list())
    (listed,) = json.loads(run(runs, "list", "--json", workspace=place).stdout)
    assert (listed["digest"], listed["results"], listed["alerts"]) == (one["digest"], 1, raised)
    assert "May" in run(runs, "list", workspace=place).stdout
    (kept,) = json.loads(run(results, "list", "--run", one["digest"][:8], "--json", workspace=place).stdout)
    assert (kept["run"], kept["kind"], kept["available"]) == (one["digest"], "audit", True)
    assert "all epochs" in run(results, "list", workspace=place).stdout
    (gone,) = json.loads(run(runs, "rm", one["digest"][:8], "--json", workspace=place).stdout)
    assert gone["name"] == "May"
    assert json.loads(run(runs, "list", "--json", workspace=place).stdout) == []
    assert "no run" in run(runs, "list", workspace=place).stdout
    assert "no result" in run(results, "list", workspace=place).stdout


def test_nothing_is_removed_where_one_name_is_wrong(tmp_path: Path) -> None:
    place = tmp_path / "workspace"
    one = json.loads(run(runs, "add", TABLE, "--json", workspace=place).stdout)
    refused = run(runs, "rm", one["digest"], "zzzz", workspace=place)
    assert isinstance(refused.exception, WorkspaceError)
    assert len(json.loads(run(runs, "list", "--json", workspace=place).stdout)) == 1


def test_a_broken_log_is_refused(tmp_path: Path) -> None:
    refused = run(runs, "add", TABLE.with_name("broken.flrun"), workspace=tmp_path / "workspace")
    with pytest.raises(RunLogError):
        raise refused.exception or AssertionError(refused.output)


LOOKING = (
    "runs list", "runs describe 0", "runs drop-logs --older-than 1", "runs rm 0", "runs ended 0", "results list",
    "decide", "token list", "token revoke 0", "share list", "share create 0", "share revoke 0",
)  # fmt: skip


@pytest.mark.parametrize("words", LOOKING)
def test_looking_into_a_mistyped_workspace_makes_none(words: str, tmp_path: Path) -> None:
    place = tmp_path / "audtis"
    answer = CliRunner().invoke(flcontrib, [*words.split(), "--workspace", str(place)], standalone_mode=False)
    assert isinstance(answer.exception, WorkspaceError)
    assert "is no workspace: check the path" in str(answer.exception)
    assert not place.exists()


def test_a_digest_of_no_run_is_answered_with_where_they_stand(tmp_path: Path) -> None:
    Workspace(tmp_path / "workspace").close()
    answer = run(runs, "rm", "123", workspace=tmp_path / "workspace")
    assert isinstance(answer.exception, WorkspaceError)
    assert "no run's digest begins with '123'; flcontrib runs list shows them" in str(answer.exception)
