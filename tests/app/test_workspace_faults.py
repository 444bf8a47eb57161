"""What a page says when its workspace has vanished, and where the trace of a failed job is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flcontrib_core.bundled_files import bundled
from flcontrib_core.workspace import JobState, Workspace
from tests.app.filled_workspace import RUNNERS, wait_until
from tests.app.own_caches import own_caches
from tests.app.test_pages import opened, title, words


@pytest.fixture(autouse=True)
def _own_caches() -> Iterator[None]:
    with own_caches():
        yield


def test_a_vanished_workspace_is_named_and_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    with Workspace(folder) as workspace:
        workspace.add_run(bundled("sample_runs") / "contributions-table.csv")
    shown = opened(folder, "jobs")
    folder.rename(tmp_path / "elsewhere")
    shown.run()
    assert [e.value for e in shown.exception] == []
    assert title(shown) == "The workspace cannot be read"
    (said,) = [str(e.value).replace("\\", "") for e in shown.sidebar.error]
    assert "is gone: bring it back" in said
    assert not folder.exists(), "no empty workspace is put in its place"
    (tmp_path / "elsewhere").rename(folder)
    shown.button[0].click().run()
    assert title(shown) == "No job is running"
    assert not shown.sidebar.error


def test_the_trace_of_a_failed_job_is_on_its_page(tmp_path: Path) -> None:
    with Workspace(tmp_path / "workspace", runners=RUNNERS) as workspace:
        run = workspace.add_run(bundled("sample_runs") / "contributions-table.csv")
        job = workspace.jobs.submit(run.digest, {"how": "bug"}, "failing")

        def ended() -> bool:
            workspace.jobs.poll()
            return not workspace.jobs.find(job.id).active

        wait_until(ended, "the end of the job")
        assert workspace.jobs.find(job.id).state is JobState.FAILED
    shown = opened(tmp_path / "workspace", "jobs")
    assert "Traceback" not in words(shown), "it is read when somebody asks for it"
    (asked,) = shown.toggle
    asked.set_value(True).run()
    assert "Traceback" in words(shown)
    assert "ZeroDivisionError" in words(shown)
