"""A workspace of the version before opens: nothing that was stored is lost, what cannot be read says 'recompute'.

``recorded_workspaces/schema-1.zip`` is one, as that version left it: a run of four clients, its audit by a job, an
alert that was dismissed, finished epochs and remembered utilities.
"""

from __future__ import annotations

import shutil
import sqlite3
import zipfile
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.auditing import AuditReport, AuditSettings
from flcontrib_core.codec import OtherLayout
from flcontrib_core.detection import AlertState
from flcontrib_core.workspace import (
    JobState,
    Workspace,
    audit_in_workspace,
    check_log,
    preview_of,
    stored_report,
)

RECORDED = Path(__file__).with_name("recorded_workspaces") / "schema-1.zip"
HEAD = "5:16a28e2faf5d10cf289c02ede5f939493652783364564f79b8e200916f74919e"
RUN = "b6691689591a11578901c11417533d2b465def49b278143bf99557dd5d63948a"
GAME = "1997692ef24a24c88d000798c1c6c7c16f1a123a99880b94915ec5c279a3601e"


@pytest.fixture
def old(folder: Path) -> Path:
    """The recorded workspace, unpacked."""
    path = folder / "old"
    with zipfile.ZipFile(RECORDED) as recorded:
        for name in recorded.namelist():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(recorded.read(name))
    return path


def check_lifted(path: Path) -> None:
    """Everything that was in it, in today's two stores."""
    with Workspace(path) as workspace:
        assert workspace.impaired is None
        assert workspace.verify_chain(HEAD) is None
        (run,) = workspace.runs()
        assert (run.digest, run.name, run.available) == (RUN, "Recorded by the version before", True)
        assert workspace.open_run(RUN).epoch_count == 6
        (alert,) = workspace.alerts.list()
        assert (alert.finding["client"], alert.state) == ("client-03", AlertState.DISMISSED)
        assert (alert.history[0].by, alert.history[0].text) == ("ada", "known maintenance")
        (job,) = workspace.jobs.list()
        assert (job.state, job.kind, job.run_digest, job.attempt) == (JobState.DONE, "audit", RUN, 1)
        assert job.settings["preset"] == "default"
        assert job.submitted_at == "2026-11-17T12:43:55+00:00"
        assert job.progress is not None
        utilities = workspace.utility_memory().recall_epoch(GAME)
        assert len(utilities) == 15, "every coalition of four clients"
        assert {value.shape for value in utilities.values()} == {(2,)}
        assert all(np.isfinite(value).all() for value in utilities.values())
        assert len(workspace.log.entries("job-submitted")) == 1
        assert preview_of(workspace, job) is None
    assert not (path / "memory").exists()
    assert not list(path.glob("jobs/*/job.json"))


def test_it_opens_with_all_that_was_stored(old: Path) -> None:
    assert check_log(old, HEAD).broken is None, "its log is checked as it lies there, before anything is lifted"
    check_lifted(old)
    check_lifted(old)
    with Workspace(old) as workspace:
        (rebuilt,) = workspace.log.entries("index-rebuilt")
        assert "of an older version (schema 1, this one writes 2)" in rebuilt.body["why"]
    with sqlite3.connect(old / "quarantine" / "index.sqlite") as before:
        assert before.execute("SELECT count(*) FROM epochs").fetchone()[0] == 6, "the old index is kept"
    before.close()


def test_its_result_says_recompute_and_computing_it_again_replaces_it(old: Path) -> None:
    with Workspace(old) as workspace:
        (result,) = workspace.results(RUN, "audit")
        assert (result.outdated, result.stale, result.available) == (True, True, False)
        assert workspace.latest_result(RUN, "audit") is None
        with pytest.raises(OtherLayout, match=r"computed by an older version.*recompute"):
            stored_report(workspace, result)
        fresh = audit_in_workspace(workspace, RUN, AuditSettings().record())
        assert (fresh.outdated, fresh.available) == (False, True)
        assert workspace.latest_result(RUN, "audit") == fresh
        assert isinstance(stored_report(workspace, fresh), AuditReport)
        (alert,) = workspace.alerts.list(RUN)
        assert alert.state is AlertState.DISMISSED, "what was decided about the finding stands"


@pytest.mark.parametrize("harm", ["lost", "no database", "cut"])
def test_it_opens_without_its_index(old: Path, harm: str) -> None:
    index = old / "index.sqlite"
    content = index.read_bytes()
    index.unlink()
    if harm != "lost":
        index.write_bytes(b"no database" * 900 if harm == "no database" else content[: len(content) // 2])
    check_lifted(old)


def test_a_lift_that_was_broken_off_is_begun_again(old: Path, folder: Path) -> None:
    for place in ("the old files are still there", "and so is half an index"):
        copy = folder / place
        shutil.copytree(old, copy)
        Workspace(copy).close()
        for name in ("memory", "jobs"):
            shutil.copytree(old / name, copy / name, dirs_exist_ok=True)
        (copy / "index.rebuilding").touch()
        if "half" in place:
            (copy / "index.sqlite").unlink()
        check_lifted(copy)


def test_damaged_memory_is_forgotten_and_nothing_else(old: Path) -> None:
    segments = sorted((old / "memory").glob("??/*/*.seg"))
    content = bytearray(segments[1].read_bytes())
    content[-20] ^= 1
    segments[1].write_bytes(content)
    segments[2].write_bytes(segments[2].read_bytes()[:10])
    segments[3].write_bytes(segments[3].read_bytes()[:-9])
    check_lifted(old)
    with Workspace(old) as workspace:
        for segment in segments[1:4]:
            assert workspace.utility_memory().recall_epoch(segment.parent.name) == {}
