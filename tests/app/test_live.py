"""A recording on the pages while a training writes it: one run, provisional alerts, and the same link after its end."""

from __future__ import annotations

from pathlib import Path

from flcontrib_core.runs import RunRecorder, read_run_log
from flcontrib_core.workspace import Workspace, follow_recording
from tests.app.filled_workspace import TINY, make_tiny_log, wait_until
from tests.app.test_pages import _own_caches, opened, title, words
from tests.workspace.recorded import ending_jobs, scratch_folder

assert _own_caches  # each case opens its own workspace
LIVE = ("overview", "contributions", "alerts", "client", "epoch", "change_points", "clusters")


def test_a_recording_is_followed_on_every_page_and_its_link_survives_its_end() -> None:
    with scratch_folder() as folder, Workspace(folder / "workspace") as workspace, ending_jobs(workspace):
        recorded = make_tiny_log(folder / "live", TINY)
        entry, job = follow_recording(workspace, recorded)
        wait_until(lambda: workspace.previews.stamp(job.id) is not None, "a first look")
        for view in LIVE:
            shown = opened(folder / "workspace", view, entry, epoch="3")
            assert not shown.exception, view
            assert "Provisional" in words(shown), view
            assert "this run may still grow" in words(shown), view
        overview = opened(folder / "workspace", "overview", entry)
        assert title(overview).startswith("After 12 epochs: 1 of 6 clients stands out")
        assert "No recorder is at work in its folder" in words(overview)
        assert "epochs computed so far" in words(overview), "more may be in the folder: it is not 'all of so many'"
        assert "when the run has ended" in words(opened(folder / "workspace", "alerts", entry, client="client-03"))
        for view, said in (("report", "final numbers only"), ("scheduler", "every other")):
            assert said in words(opened(folder / "workspace", view, entry)), view
        for view in ("runs", "jobs", "compare", "upload"):
            assert not opened(folder / "workspace", view, entry).exception, view
        with RunRecorder(recorded, **_as_recorded(recorded)):
            assert "A recorder is at work" in words(opened(folder / "workspace", "overview", entry))
        next(b for b in overview.button if b.label == "The training has ended").click().run()
        wait_until(lambda: workspace.settled_as(entry.digest) is not None, "its end")
        final = workspace.settled_as(entry.digest)
        assert final is not None
        assert [r.digest for r in workspace.runs()] == [final.digest]
        wait_until(lambda: bool(workspace.jobs.poll()) and bool(workspace.results(final.digest, "audit")), "its audit")
        settled = opened(folder / "workspace", "overview", entry)
        assert title(settled).startswith("1 of 6 clients stands out")
        assert "Provisional" not in words(settled)
        told = words(opened(folder / "workspace", "alerts", entry))
        assert "Told while it was being recorded" in told
        assert "told after epoch 12; it stands, epochs 5–8" in told


def _as_recorded(folder: Path) -> dict[str, object]:
    """What a recorder of the same run is given again."""
    run = read_run_log(folder)
    return {
        "clients": [(c.id, c.data_size) for c in run.clients],  # type: ignore[union-attr]
        "parameters": [(p.name, p.shape) for p in run.parameters],  # type: ignore[union-attr]
        "durable": False,
    }
