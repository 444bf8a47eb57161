"""An upload is checked in a child with ceilings, and the answer is the one the server itself would have given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flcontrib_core.errors import RunLogError
from flcontrib_core.workspace import Workspace, import_run
from tests.workspace.recorded import bundle_run

SAMPLES = Path(__file__).parents[2] / "sample_runs"


@pytest.mark.parametrize("sample", ["clean-iid.flrun", "contributions-table.csv"])
def test_the_entry_is_the_same(sample: str, tmp_path: Path) -> None:
    stages: dict[bool, list[str]] = {True: [], False: []}
    entries = []
    for apart in (False, True):
        with Workspace(tmp_path / str(apart)) as workspace:
            entry = workspace.add_run(SAMPLES / sample, apart=apart, on_stage=stages[apart].append)
            entries.append(replace(entry, added_at=""))
    assert entries[0] == entries[1]
    assert stages[True] == stages[False] != []


def test_a_refusal_says_the_same(tmp_path: Path) -> None:
    problems = []
    for apart in (False, True):
        with Workspace(tmp_path / str(apart)) as workspace, pytest.raises(RunLogError) as refused:
            workspace.add_run(SAMPLES / "broken.flrun", apart=apart)
        problems.append(refused.value.problems)
    assert problems[0] == problems[1]


def test_a_log_that_is_too_costly_is_refused_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_run, "_CHECK_MEMORY", 1 << 20)
    run = bundle_run(tmp_path / "run")
    with Workspace(tmp_path / "workspace") as workspace:
        with pytest.raises(RunLogError) as refused:
            workspace.add_run(run, apart=True)
        assert [p.code for p in refused.value.problems] == ["E_CHECK_COST"]
        assert workspace.runs() == ()
