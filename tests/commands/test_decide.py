"""``flcontrib decide`` lists alerts, records what people say, and the record reaches audit, report and extract."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flcontrib_core.auditing import AuditSettings
from flcontrib_core.commands.assessing import audit as audit_command
from flcontrib_core.commands.deciding import decide
from flcontrib_core.commands.reporting import report as report_command
from flcontrib_core.commands.reporting import verify as verify_command
from flcontrib_core.errors import SettingsError, WorkspaceError
from flcontrib_core.workspace import Workspace, audit_in_workspace


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in which client 3 harms the model in epochs 12 to 19, and a workspace with its audit."""
    folder = tmp_path_factory.mktemp("audited")
    rows = []
    for epoch in range(1, 31):
        for client in "12345678":
            harm = 0.08 if client == "3" and 12 <= epoch <= 19 else -0.02
            rows.append(f"{epoch},{client},{harm + 0.001 * ((7 * epoch + 3 * int(client)) % 11)}")
    (folder / "table.csv").write_text("\n".join(["epoch,client,loss", *rows]) + "\n")
    with Workspace(folder / "workspace") as opened:
        audit_in_workspace(opened, opened.add_run(folder / "table.csv").digest, AuditSettings().record())
    return folder


@pytest.fixture
def table(audited: Path) -> Path:
    return audited / "table.csv"


@pytest.fixture
def workspace(audited: Path, tmp_path: Path) -> Path:
    """A copy for each test, which may decide what it likes."""
    return shutil.copytree(audited / "workspace", tmp_path / "workspace")


def run(command: Any, *arguments: str | Path, workspace: Path | None = None) -> Result:
    place = [] if workspace is None else ["--workspace", str(workspace)]
    return CliRunner().invoke(command, [*map(str, arguments), *place], standalone_mode=False)


def test_a_dismissal_reaches_audit_report_and_extract(workspace: Path, table: Path, tmp_path: Path) -> None:
    (listed,) = json.loads(run(decide, "--json", workspace=workspace).stdout)
    assert (listed["client"], listed["window"], listed["state"], listed["history"]) == ("3", [12, 19], "new", [])
    told = run(
        decide, listed["id"][:8], "--as", "dismissed", "--by", "ada", "--reason", "announced maintenance",
        "--owner", "alan", "--json", workspace=workspace,
    )  # fmt: skip
    (decided,) = json.loads(told.stdout)
    assert (decided["state"], decided["owner"], decided["history"][0]["by"]) == ("dismissed", "alan", "ada")
    assert "Dismissed" in run(decide, workspace=workspace).stdout
    printed = run(audit_command, table, workspace=workspace).stdout
    assert "No alert stands: 1 alert dismissed." in printed
    assert "dismissed by ada: announced maintenance" in printed
    answer = json.loads(run(audit_command, table, "--json", workspace=workspace).stdout)
    assert [d["state"] for d in answer["decisions"]] == ["dismissed"]
    made = run(report_command, table, "-o", tmp_path / "r.html", "--by", "grace", "--json", workspace=workspace)
    content = json.loads(Path(json.loads(made.stdout)["json"]).read_text())
    assert content["written_by"] == "grace"
    assert content["decisions"][0]["steps"][0]["text"] == "announced maintenance"
    verified = run(verify_command, tmp_path / "r.html", table, "--json")
    assert verified.return_value == 0, verified.output
    assert "decisions" in json.loads(verified.stdout)["unverified"]
    run(report_command, table, "-o", tmp_path / "x.html", "--client", "3", workspace=workspace)
    assert "dismissed by ada: (the text is not part of this extract)" in (tmp_path / "x.html").read_text()
    assert run(verify_command, tmp_path / "x.html", table).return_value == 0


def test_a_build_fails_on_an_alert_until_it_is_dismissed(workspace: Path, table: Path) -> None:
    assert run(audit_command, table, workspace=workspace).return_value == 0
    assert run(audit_command, table, "--fail-on-alert", workspace=workspace).return_value == 1
    with Workspace(workspace) as opened:
        for alert in opened.alerts.list():
            opened.alerts.decide(alert.id, "dismissed", "ada", "known")
    assert run(audit_command, table, "--fail-on-alert", workspace=workspace).return_value == 0


def test_what_is_recorded_lies_on_the_sealed_chain(workspace: Path) -> None:
    with Workspace(workspace) as opened:
        (alert,) = opened.alerts.list()
        opened.alerts.comment(alert.id, "ada", "asked the site", shared=True)
        opened.alerts.reply(alert.id, "client 3", "a new scanner since May")
        hashes = {entry.sequence: entry.hash for entry in opened.log.entries()}
        steps = opened.alerts.find(alert.id).history
        assert [step.kind for step in steps] == ["comment", "reply"]
        assert all(hashes[step.sequence] == step.hash for step in steps)
        assert opened.verify_chain() is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--by", "ada"), "nothing to record"),
        (("--as", "dismissed", "--by", "ada"), "needs a reason"),
        (("--as", "guilty", "--by", "ada"), "is no decision"),
        (("--as", "confirmed"), "needs the name"),
    ],
)
def test_what_cannot_be_recorded_is_said(workspace: Path, arguments: tuple[str, ...], words: str) -> None:
    with Workspace(workspace) as opened:
        (alert,) = opened.alerts.list()
    refused = run(decide, alert.id, *arguments, workspace=workspace)
    assert isinstance(refused.exception, SettingsError)
    assert words in str(refused.exception)


def test_an_unknown_alert_is_said(workspace: Path) -> None:
    refused = run(decide, "zzzz", "--as", "confirmed", "--by", "ada", workspace=workspace)
    assert isinstance(refused.exception, WorkspaceError)
