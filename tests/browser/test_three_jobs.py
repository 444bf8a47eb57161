"""Do the reader's three jobs work from end to end: bring in a run, inspect an alert, tune the budget?"""

from __future__ import annotations

import csv
import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from flcontrib_core.workspace import JobState, Workspace
from tests.app.filled_workspace import RUNNERS, TINY, make_tiny_log, wait_until
from tests.browser.conftest import ROOT, Opener, Served, wait_for_price, wait_for_result
from tests.browser.steps import still, turn_to

pytestmark = pytest.mark.browser
VERDICT = "1 of 6 clients stands out during this run. Strongest: client-03, epochs 5–\u20608, a fact about the file"
EVIDENCE = "client-03 sent empty updates in epochs 5–\u20608"


def test_first_screen_says_the_verdict_and_draws_it(served: Served, open_page: Opener) -> None:
    page = open_page(served.address)
    expect(page.get_by_role("heading", level=1).last).to_have_text(VERDICT)
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
    expect(page.get_by_text("See the evidence").first).to_be_visible()


def test_good_log_from_upload_to_result(served: Served, open_page: Opener, tmp_path: Path) -> None:
    log = make_tiny_log(
        tmp_path / "other.flrun", replace(TINY, name="Another tiny run", epochs=6, seed=7, more_attacks=())
    )
    page = open_page(served.url("upload"))
    page.get_by_test_id("stFileUploaderDropzoneInput").last.set_input_files(log)
    expect(page.get_by_text("Ready: Another tiny run").last).to_be_visible()
    wait_for_price(served, "Another tiny run")
    expect(page.get_by_test_id("stMetric").filter(has_text="Evaluations").last).to_contain_text(re.compile(r"\d"))
    still(page)
    page.get_by_role("button", name=re.compile("^Compute")).last.click()
    wait_for_result(served, "Another tiny run")
    expect(page.get_by_role("heading", level=1).last).to_have_text(
        re.compile("of 6 clients stands? out|None of the 6 clients|of 6 clients changed")
    )
    expect(page.get_by_text("6 of 6 epochs computed").last).to_be_visible()


def test_broken_log_shows_all_faults_and_the_page_lives(served: Served, open_page: Opener) -> None:
    page = open_page(served.url("upload"))
    page.get_by_test_id("stFileUploaderDropzoneInput").last.set_input_files(ROOT / "sample_runs" / "broken.flrun")
    expect(page.get_by_text("broken.flrun was refused: 6 problems").last).to_be_visible()
    said = page.get_by_test_id("stMain")
    for code in ("E_CLIENT_SIZE", "E_NONFINITE", "E_SHAPE", "E_HASH", "E_EPOCH_ORDER", "E_LABEL"):
        expect(said.get_by_text(code, exact=True).first).to_be_visible()
    turn_to(page, "Help")
    expect(page.get_by_role("heading", level=1).last).to_have_text(re.compile("What the words mean"))
    with Workspace(served.filled.folder) as workspace:
        assert "A recording that went wrong" not in [r.name for r in workspace.runs()]


def test_table_from_upload_to_result(served: Served, open_page: Opener, tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(-0.02, 0.004, size=(10, 5))
    with (tmp_path / "five-clients.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["epoch", "client", "loss"])
        rows.writerows([t + 1, f"c{i}", f"{values[t, i]:.6f}"] for t in range(10) for i in range(5))
    page = open_page(served.url("upload"))
    page.get_by_test_id("stFileUploaderDropzoneInput").last.set_input_files(tmp_path / "five-clients.csv")
    expect(page.get_by_text("Ready: five-clients").last).to_be_visible()
    still(page)
    page.get_by_role("button", name=re.compile("^Compute")).last.click()
    wait_for_result(served, "five-clients")
    expect(page.get_by_role("heading", level=1).last).to_have_text(re.compile("of (the )?5 clients"))


def test_job_is_the_workspaces_not_the_browsers(served: Served, open_page: Opener, tmp_path: Path) -> None:
    """A reload, a second browser and a killed worker: both see the same, and a lost worker is said at once."""
    with Workspace(served.filled.folder, runners=RUNNERS) as workspace:
        wait_until(lambda: not any(j.active for j in workspace.jobs.poll()), "an empty queue")
        settings = {"starts": str(tmp_path / "starts"), "name": "gated", "gate": str(tmp_path / "gate")}
        job = workspace.jobs.submit(served.filled.runs["failed"].digest, settings, "gated")
        wait_until(lambda: workspace.jobs.find(job.id).progress is not None, "progress of the job")
        page = open_page(served.url("jobs"))
        expect(page.get_by_role("heading", level=1).last).to_have_text("1 job at work")
        expect(page.get_by_text("1 of 2 epochs").first).to_be_visible()
        page.reload()
        expect(page.get_by_text("1 of 2 epochs").first).to_be_visible()
        other = open_page(served.url("", run="failed"))
        expect(other.get_by_role("heading", level=1).last).to_have_text("Computing the contributions of this run")
        os.kill(int((tmp_path / "starts").read_text().split()[1]), signal.SIGKILL)
        expect(page.get_by_role("heading", level=1).last).to_have_text("No job is running")
        expect(page.get_by_text("its process ended unexpectedly").first).to_be_visible()
        expect(other.get_by_role("heading", level=1).last).to_have_text("This run has no result yet")
        assert workspace.jobs.find(job.id).state is JobState.LOST


def test_alert_to_evidence_to_decision(served: Served, open_page: Opener) -> None:
    page = open_page(served.address)
    expect(page.get_by_role("heading", level=1).last).to_have_text(VERDICT)
    still(page)
    page.get_by_role("link", name="See the evidence").first.click()
    expect(page.get_by_role("heading", level=1).last).to_have_text(EVIDENCE)
    expect(page.get_by_text("What speaks against it").last).to_be_visible()
    still(page)
    page.get_by_role("radio", name="Acknowledged").or_(page.get_by_role("button", name="Acknowledged")).first.click()
    page.get_by_label("Your name").last.fill("Grace")
    page.get_by_label("Reason").last.fill("asked the client")
    page.get_by_role("button", name="Record the decision").last.click()
    expect(page.get_by_text("Acknowledged by Grace: asked the client").last).to_be_visible()
    page.reload()
    expect(page.get_by_text("Acknowledged by Grace: asked the client").last).to_be_visible()
    inbox = open_page(served.url("alerts"))
    expect(inbox.get_by_test_id("stMain").get_by_text("Acknowledged", exact=True).last).to_be_visible()


def test_arrow_key_moves_the_budget_and_the_link(served: Served, open_page: Opener) -> None:
    page = open_page(served.url("scheduler"))
    title = page.get_by_role("heading", level=1).last
    expect(title).to_contain_text("Computing 7 of 12 epochs")
    still(page)
    for budget in (8, 9):
        page.get_by_role("slider").first.press("ArrowRight")
        expect(title).to_contain_text(f"Computing {budget} of 12 epochs")
        expect(page).to_have_url(re.compile(rf"[?&]k={budget}(&|$)"))
    still(page)
    second = open_page(page.url)
    expect(second.get_by_role("heading", level=1).last).to_have_text(title.inner_text())
