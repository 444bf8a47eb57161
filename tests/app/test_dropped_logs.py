"""Do the pages of a run whose log was dropped show its results, and offer nothing that needs the log?"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from flcontrib_dashboard import accounts, api, extracts, state

from flcontrib_core.words import wording
from flcontrib_core.workspace import RunEntry, Workspace
from tests.app.filled_workspace import Filled
from tests.app.test_pages import PAGES, _own_caches, opened, title, words

__all__ = ["_own_caches"]


@pytest.fixture
def dropped(filled: Filled, tmp_path: Path) -> tuple[Path, RunEntry]:
    """The filled workspace after every log with a result was dropped."""
    folder = tmp_path / "workspace"
    shutil.copytree(filled.folder, folder)
    with Workspace(folder) as workspace:
        workspace.drop_logs(0, by="ada")
        run = workspace.find_run(filled.runs["report"].digest)
    assert run is not None
    assert run.dropped_at is not None
    return folder, run


def test_every_page_stands_without_the_log(dropped: tuple[Path, RunEntry]) -> None:
    folder, run = dropped
    for view in PAGES:
        shown = opened(folder, view, run)
        assert not shown.error, view
    assert title(opened(folder, "overview", run)).endswith("client-03, epochs 5–8, a fact about the file")


def test_nothing_that_needs_the_log_can_be_asked_for(dropped: tuple[Path, RunEntry]) -> None:
    folder, run = dropped
    plan = opened(folder, "scheduler", run)
    (button,) = [b for b in plan.button if b.label.startswith(("Compute", "Show"))]
    assert button.disabled
    assert button.help == wording.LOG_NOT_KEPT
    evidence = opened(folder, "alerts", run, client="client-03", window="5-8")
    assert wording.LOG_NOT_KEPT in words(evidence)
    assert "Ask them" not in [t.label for t in evidence.toggle]
    assert "Removes what was computed from it." in words(opened(folder, "report", run)), "there is no stored log"


def test_an_extract_is_written_without_the_updates_and_says_so(
    dropped: tuple[Path, RunEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, run = dropped
    monkeypatch.setenv("FLCONTRIB_WORKSPACE", str(folder))
    monkeypatch.setenv("FLCONTRIB_SAMPLES", "0")
    shown = state.shown_to_client(run)
    assert shown is not None
    record = extracts.record_now(shown, "Kim")
    written = extracts.files(shown.result.digest, "client-03", "Kim", str(record.chain_head), shown, record)
    assert wording.NO_UPDATES in written["html"].decode()
    assert json.loads(written["json"])["updates"] is None
    with Workspace(folder) as workspace:
        told = api.extract_of(workspace, accounts.ANYBODY, {"digest": run.digest, "client": "client-03"})
    assert isinstance(told, dict)
    assert told["updates"] is None
