"""How much earlier work was remembered is said where somebody looks, and changes no result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from flcontrib_core.auditing import AuditSettings
from flcontrib_core.commands.assessing import assess, audit
from flcontrib_core.laboratory.simulation import SimulationSettings, simulate
from flcontrib_core.workspace import Workspace, audit_in_workspace
from tests.workspace.recorded import scratch_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder() as path:
        simulate(SimulationSettings(clients=3, epochs=4, train_rows=60, validation_rows=20, hidden=(2,)), path / "run")
        yield path


def test_the_terminal_says_how_many_evaluations_were_remembered(folder: Path) -> None:
    options = [str(folder / "run"), "--workspace", str(folder / "workspace")]
    first = CliRunner().invoke(assess, options)
    assert "28 evaluations, none of them remembered" in first.stdout
    for command in (assess, audit):
        assert "28 evaluations, 28 (100%) of them remembered" in CliRunner().invoke(command, options).stdout
    fewer = CliRunner().invoke(assess, [*options, "--budget", "2"])
    assert "14 evaluations, 14 (100%) of them remembered" in fewer.stdout, "models of other epochs are no evaluations"
    seeded = CliRunner().invoke(audit, [*options, "--seed", "7", "--estimator", "monte-carlo"])
    assert "(100%) of them remembered" in seeded.stdout, "another question about coalitions that are known"


def test_a_stored_result_keeps_it_beside_its_digest(folder: Path) -> None:
    with Workspace(folder / "workspace") as workspace:
        run = workspace.add_run(folder / "run").digest
        settings = AuditSettings().record()
        entry = audit_in_workspace(workspace, run, settings)
        assert entry.remarks["recalled"] == 0
        other = audit_in_workspace(workspace, run, {**settings, "preset": "strict"})
        assert other.remarks["recalled"] == 28
        again = audit_in_workspace(workspace, run, settings)
        assert again.digest == entry.digest, "what was remembered is no part of a result"
