"""What does a page show of a run that is still being computed, and of one that an older version computed?"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest import mock

import pytest
from flcontrib_dashboard.job_progress import standing_words

from flcontrib_core.auditing import AuditSettings
from flcontrib_core.workspace import Job, JobState, Progress, Workspace
from flcontrib_core.workspace.audit_jobs import preview_of
from flcontrib_core.workspace.planning_jobs import measure_in_workspace
from tests.app.filled_workspace import Filled, ended, keep_report, make_tiny_log, wait_until
from tests.app.test_pages import _own_caches, opened, pictures, title, words
from tests.reports.made_reports import made_report
from tests.workspace.recorded import scratch_folder
from tests.workspace.runners import gates_of

__all__ = ["_own_caches"]
STEPWISE = {"audit": "tests.workspace.runners:stepwise_audit"}


def test_curves_so_far_are_shown_and_the_rest_is_pending() -> None:
    with scratch_folder() as folder, Workspace(folder / "workspace", runners=STEPWISE) as workspace:
        run = workspace.add_run(make_tiny_log(folder / "tiny.flrun"))
        gates_of(workspace).mkdir()
        job = workspace.jobs.submit(run.digest, AuditSettings().record())
        assert preview_of(workspace, job) is None
        (gates_of(workspace) / "1").touch()
        wait_until(lambda: workspace.previews.stamp(job.id) is not None, "a first preview")
        report = preview_of(workspace, job)
        assert report is not None
        assert report.history.computed.tolist() == [True, True] + [False] * 11
        assert report.provenance.settings["preset"] == "strict"
        for view in ("overview", "contributions", "alerts", "change_points"):
            shown = opened(folder / "workspace", view, run)
            assert title(shown).startswith("After 1 of 12 epochs: ")
            assert "Provisional" in words(shown)
            if view != "alerts":
                assert any(json.loads(figure)["data"] for figure in pictures(shown).values())
        shown = opened(folder / "workspace", "report", run)
        assert title(shown) == "Computing the contributions of this run"
        assert "when the job has ended" in words(shown)
        measure_in_workspace(workspace, run.digest, {})
        shown = opened(folder / "workspace", "scheduler", run)
        assert title(shown).startswith("Computing 12 of 12 epochs"), "a plan needs no values"
        assert [b.label for b in shown.button].count("Cancel") == 1, "and the job is followed above it"
        assert "Nothing is computed yet" not in words(shown)
        totals = opened(folder / "workspace", "contributions", run).dataframe[0].value
        values = report.history.of("loss").values[1]
        assert totals["Client"].iloc[0] == report.history.client_ids[values.argmin()], "most credit in the one epoch"
        assert totals["Total"].to_numpy() == pytest.approx(sorted(-values, reverse=True))
        assert set(totals["± 95%"]) == {"exact + 11 open"}, "no total of an unfinished run is called exact"
        assert workspace.results(run.digest, "audit") == (), "a preview is no result"
        assert workspace.alerts.list(run.digest) == (), "and raises no alert"
        (gates_of(workspace) / "all").touch()
        assert ended(workspace, job).state is JobState.DONE
        assert title(opened(folder / "workspace", "overview", run)).startswith("1 of 6 clients stands out")


def test_a_damaged_preview_does_not_count(filled: Filled) -> None:
    with Workspace(filled.folder) as workspace:
        (job,) = [j for j in workspace.jobs.list() if j.run_digest == filled.runs["failed"].digest][:1]
        workspace.previews.keep(job.id, {})
        path = next((filled.folder / "jobs" / job.id).glob("preview"))
        path.write_bytes(path.read_bytes()[:-1])
        assert workspace.previews.load(job.id) is None
        path.unlink()


@pytest.mark.parametrize("view", ["overview", "contributions", "alerts", "report"])
def test_result_of_an_older_version_says_so_and_offers_to_recompute(filled: Filled, view: str) -> None:
    shown = opened(filled.folder, view, filled.runs["stale"])
    assert "Computed by version 0.0.1" in words(shown)
    assert "Recompute with this version" in [b.label for b in shown.button]


def test_fresh_result_is_not_called_old(filled: Filled) -> None:
    shown = opened(filled.folder, "overview", filled.runs["report"])
    assert "Computed by version" not in words(shown)
    assert "Recompute with this version" not in [b.label for b in shown.button]


def test_job_beside_a_result_is_followed_on_its_page(filled: Filled, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Workspace(filled.folder, runners={"gated": "tests.workspace.runners:gated"}) as workspace:
        settings = {"starts": str(tmp_path / "starts"), "name": "beside", "gate": str(gate)}
        job = workspace.jobs.submit(filled.runs["report"].digest, settings, "gated")
        try:
            wait_until(lambda: workspace.jobs.find(job.id).progress is not None, "progress of the job")
            shown = opened(filled.folder, "scheduler", filled.runs["report"])
        finally:
            workspace.jobs.cancel(job.id)
            gate.touch()
    assert "Computing 7 of 12 epochs covers" in title(shown)
    assert [b.label for b in shown.button].count("Cancel") == 1


def test_result_that_this_version_cannot_read_says_recompute() -> None:
    with scratch_folder() as folder, Workspace(folder / "workspace") as workspace:
        run = workspace.add_run(make_tiny_log(folder / "tiny.flrun"))
        with mock.patch("flcontrib_core.workspace.results.layout_of", return_value="of an older version"):
            keep_report(workspace, run, made_report())
        for view in ("overview", "report"):
            shown = opened(folder / "workspace", view, run)
            assert title(shown) == "The result of this run was computed by an older version"
            assert "Recompute it" in words(shown)
            assert "Compute" in [b.label for b in shown.button]


def test_the_progress_and_the_page_never_count_epochs_against_each_other() -> None:
    job = cast(Job, SimpleNamespace(kind="audit", state=JobState.RUNNING, progress=Progress(29, 36, "", 0.0, 29, 0.0)))
    assert standing_words(job, 3, beside=False) == "29 of 36 epochs, 3 of them shown here"
    assert standing_words(job, 29, beside=False) == "29 of 36 epochs"
    assert standing_words(job, None, beside=True) == "A new result: 29 of 36 epochs"
