"""Results stay and logs go: what is dropped, what stays and why, and that a dropped run can be brought back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from flcontrib_core.auditing import AuditSettings
from flcontrib_core.bundled_files import bundled
from flcontrib_core.cli import flcontrib
from flcontrib_core.errors import SettingsError, WorkspaceError
from flcontrib_core.workspace import Workspace, audit_in_workspace, stored_report

TABLE = bundled("sample_runs") / "contributions-table.csv"
NOW = datetime(2026, 6, 1, tzinfo=UTC)


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.at = NOW

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def workspace(tmp_path: Path, clock: Clock) -> Workspace:
    """An audited run and one without a result, a hundred days old."""
    other = tmp_path / "other.csv"
    other.write_text("epoch,client,loss\n1,a,0.1\n1,b,0.2\n")
    workspace = Workspace(tmp_path / "workspace", now=clock)
    audited = workspace.add_run(TABLE)
    workspace.checkpoints(workspace.open_run(audited.digest)).keep("0" * 64, {})
    workspace.add_run(other)
    audit_in_workspace(workspace, audited.digest, AuditSettings().record())
    clock.at = NOW + timedelta(days=100)
    return workspace


def test_a_dry_run_says_what_would_go_and_changes_nothing(workspace: Workspace) -> None:
    head = str(workspace.head())
    assert workspace.old_logs(101) == ()
    goes, stays = workspace.old_logs(99)
    assert goes.bytes_freed > goes.entry.size  # the finished epoch goes too
    assert "no result" in stays.stays
    assert stays.bytes_freed == 0
    assert str(workspace.head()) == head
    assert all(entry.available for entry in workspace.runs())
    with pytest.raises(SettingsError, match="-1 days"):
        workspace.old_logs(-1)


def test_results_alerts_and_names_stay_when_the_log_goes(workspace: Workspace, clock: Clock) -> None:
    first, _ = workspace.runs()
    result = workspace.latest_result(first.digest, "audit")
    assert result is not None
    alerts = workspace.alerts.list(first.digest)
    dropped, kept = workspace.drop_logs(99, by="ada")
    assert (dropped.entry.digest, bool(kept.stays)) == (first.digest, True)
    assert first.object is not None
    assert not workspace.objects.holds(first.object)
    assert workspace.checkpoints().recall("0" * 64) is None
    gone = workspace.find_run(first.digest)
    assert gone is not None
    assert (gone.available, gone.name, gone.dropped_at is not None) == (False, first.name, True)
    assert stored_report(workspace, result).run_name == first.name
    assert workspace.alerts.list(first.digest) == alerts
    with pytest.raises(WorkspaceError, match="was dropped on 2026-09-09; its results stay"):
        workspace.open_run(first.digest)
    assert [e.body["by"] for e in workspace.log.entries("log-dropped")] == ["ada"]
    assert workspace.old_logs(99) == (kept,)
    assert workspace.verify_chain() is None


def test_a_dropped_run_that_is_added_again_is_what_it_was(workspace: Workspace) -> None:
    first, _ = workspace.runs()
    workspace.drop_logs(99, by="")
    again = workspace.add_run(TABLE)
    assert (again.digest, again.dropped_at, again.available) == (first.digest, None, True)
    workspace.mend()  # carries out whatever removals were left
    assert workspace.open_run(first.digest).digest == first.digest
    assert workspace.latest_result(first.digest, "audit") is not None
    assert [old.entry.digest for old in workspace.old_logs(99)] != [first.digest]  # its days count anew


def test_a_rebuilt_index_still_knows_what_was_dropped(workspace: Workspace, clock: Clock) -> None:
    first, _ = workspace.runs()
    workspace.drop_logs(99, by="")
    path = workspace.path
    workspace.close()
    (path / "index.sqlite").unlink()
    with Workspace(path, now=clock) as again:
        found = again.find_run(first.digest)
        assert found is not None
        assert found.dropped_at is not None


def test_a_run_that_is_being_computed_keeps_its_log(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = workspace.runs()
    monkeypatch.setattr(workspace.jobs, "_start_next", lambda: False)
    workspace.jobs.submit(first.digest, AuditSettings(preset="strict").record())
    assert next(old.stays for old in workspace.drop_logs(99, by="")) == "it is being computed"
    assert workspace.open_run(first.digest).digest == first.digest


def test_runs_are_found_sorted_tagged_and_dropped_from_the_command_line(workspace: Workspace) -> None:
    folder, (first, second) = str(workspace.path), workspace.runs()
    workspace.close()

    def told(*words: str) -> object:
        answer = CliRunner().invoke(flcontrib, ["runs", *words, "--workspace", folder, "--json"])
        assert answer.exit_code == 0, answer.output
        return json.loads(answer.stdout)

    def names(*words: str) -> list[str]:
        return [run["name"] for run in told("list", *words)]  # type: ignore[attr-defined]

    told("describe", second.digest[:12], "--tag", "pilot", "--tag", "ward 3", "--note", "second try", "--by", "ada")
    told("describe", second.digest[:12], "--untag", "pilot")
    assert names("--tag", "ward 3") == names("--find", "SECOND") == ["other"]
    assert names("--tag", "pilot") == []
    assert names("--sort", "size") == [first.name, "other"]
    assert names("--sort", "name") == sorted([first.name, "other"])
    asked = told("drop-logs", "--older-than", "0", "--dry-run")
    done = told("drop-logs", "--older-than", "0")
    assert isinstance(asked, dict)
    assert isinstance(done, dict)
    assert asked["logs"] == done["logs"]
    assert asked["dry_run"] is True
    assert told("list", "--find", first.name)[0]["dropped_at"] is not None  # type: ignore[index]
