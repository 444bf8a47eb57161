"""A training that goes on: the page follows it without a reload, its alert is provisional, and settles at the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

from flcontrib_core.workspace import Workspace
from flcontrib_core.workspace.audit_jobs import preview_of
from tests.app.filled_workspace import TINY, make_tiny_log, wait_until
from tests.browser.conftest import Opener, Served, wait_for_result
from tests.browser.steps import turn_to
from tests.browser.test_large_logs import opened_zone

pytestmark = pytest.mark.browser
NAME = "A training at work"


def wait_for_epochs(served: Served, name: str, epochs: int) -> None:
    """Until the job that follows the recording has told of so many epochs; a busy machine gives it little."""

    def told() -> bool:
        followed = {run.digest for run in workspace.runs() if run.name == name}
        reports = [preview_of(workspace, job) for job in workspace.jobs.list() if job.run_digest in followed]
        return any(report is not None and report.history.epoch_count >= epochs for report in reports)

    with Workspace(served.filled.folder) as workspace:
        wait_until(told, f"{epochs} epochs of {name}")


def test_a_growing_recording_is_followed_and_its_alert_settles(
    served: Served, open_page: Opener, tmp_path: Path
) -> None:
    folder = make_tiny_log(tmp_path / "live", replace(TINY, name=NAME, seed=9))
    recording = folder / "epochs.jsonl"
    lines = recording.read_bytes().splitlines(keepends=True)
    recording.write_bytes(b"")

    def recorded(first: int, last: int) -> None:
        """As a recorder does it: line after line is added, and nobody ever finds fewer than before."""
        with recording.open("ab", buffering=0) as file:
            file.write(b"".join(lines[first - 1 : last]))

    recorded(1, 3)
    page = opened_zone(served, open_page)
    path = page.get_by_role("textbox", name="A path on the server").last
    path.fill(str(folder))
    path.press("Enter")
    page.get_by_role("button", name="Follow it while it grows").last.click()
    title = page.get_by_role("heading", level=1).last
    wait_for_epochs(served, NAME, 3)
    expect(title).to_contain_text("After 3 epochs: ")
    main = page.get_by_test_id("stMain")
    recorded(4, 9)
    wait_for_epochs(served, NAME, 9)
    expect(title).to_contain_text("After 9 epochs: 1 of 6 clients stands out")
    expect(main.get_by_text("Provisional", exact=True).first).to_be_visible()
    expect(main.get_by_text("See the evidence").first).to_be_visible()
    recorded(10, 12)
    wait_for_epochs(served, NAME, 12)
    expect(title).to_contain_text("After 12 epochs: ")
    page.get_by_role("button", name="The training has ended").last.click()
    wait_for_result(served, NAME)
    expect(title).to_have_text(
        "1 of 6 clients stands out during this run. Strongest: client-03, epochs 5–\u20608, a fact about the file"
    )
    expect(main.get_by_text("Provisional", exact=True)).to_have_count(0)
    turn_to(page, "Alerts")
    expect(main.get_by_text("Told while it was being recorded").last).to_be_visible()
    expect(main.get_by_text("told after epoch 9; it stands, epochs 5–8").last).to_be_visible()
