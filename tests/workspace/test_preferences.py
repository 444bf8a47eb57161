"""A workspace that came from elsewhere names programs, addresses and clusters: none counts until it is named here."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from flcontrib_core.commands.preferring import settings
from flcontrib_core.errors import SettingsError
from flcontrib_core.workspace import Execution, Notices, Workspace, audit_in_workspace
from tests.workspace.recorded import bundle_run

NAMED = Notices("notify --all", "https://hooks.example.org/x")
CLUSTER = Execution(engine="ray", address="198.51.100.7:6379")


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What somebody else set up on another machine."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "of somebody else"))
    with Workspace(tmp_path / "workspace") as workspace:
        workspace.preferences.set_notices(NAMED)
        workspace.preferences.set_execution(CLUSTER)
        assert workspace.preferences.agreed_notices() == NAMED
        assert workspace.preferences.agreed_execution() == CLUSTER
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    return tmp_path / "workspace"


def given(folder: Path, *options: str) -> None:
    answer = CliRunner().invoke(settings, ["--workspace", str(folder), *options])
    assert answer.exit_code == 0, answer.output


def test_looking_at_the_settings_agrees_to_nothing(foreign: Path) -> None:
    given(foreign)
    given(foreign, "--workers", "2")
    with Workspace(foreign) as workspace:
        assert workspace.preferences.agreed_notices() == Notices()
        with pytest.raises(SettingsError, match="nobody has named on this machine"):
            workspace.preferences.agreed_execution()


def test_naming_one_thing_agrees_to_that_alone(foreign: Path) -> None:
    given(foreign, "--webhook", "https://hooks.example.org/x")
    with Workspace(foreign) as workspace:
        assert workspace.preferences.agreed_notices() == Notices(None, NAMED.webhook)
        assert workspace.preferences.notices() == NAMED
    given(foreign, "--address", str(CLUSTER.address))
    with Workspace(foreign) as workspace:
        assert workspace.preferences.agreed_execution() == CLUSTER
    given(foreign, "--engine", "local")
    with Workspace(foreign) as workspace:
        assert workspace.preferences.agreed_execution() == Execution()


def test_no_job_goes_to_a_cluster_that_nobody_named_here(foreign: Path, tmp_path: Path) -> None:
    with Workspace(foreign) as workspace:
        run = workspace.add_run(bundle_run(tmp_path / "run"))
        with pytest.raises(SettingsError, match=r"at 198\.51\.100\.7:6379, which nobody has named"):
            audit_in_workspace(workspace, run.digest, {})
