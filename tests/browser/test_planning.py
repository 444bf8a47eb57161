"""Plan a log nobody saw before, pay for the chosen epochs only, and find the way back, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from flcontrib_core.laboratory.simulation import SimulationSettings
from flcontrib_core.workspace import Workspace, stored_report
from tests.app.filled_workspace import make_tiny_log
from tests.browser.conftest import Opener, Served, wait_for_price, wait_for_result
from tests.browser.steps import still, turn_to

pytestmark = pytest.mark.browser
NEW = SimulationSettings(
    name="Never seen before", clients=6, epochs=18, participation=0.5, train_rows=240, hidden=(4,), seed=21
)


def test_knobs_before_computing_and_only_the_chosen_epochs(served: Served, open_page: Opener, tmp_path: Path) -> None:
    """By keyboard: k and γ are moved, all three charts are drawn, nothing is computed; then exactly that is."""
    page = open_page(served.url("upload"))
    page.get_by_test_id("stFileUploaderDropzoneInput").last.set_input_files(make_tiny_log(tmp_path / "new.flrun", NEW))
    expect(page.get_by_text("Ready: Never seen before").last).to_be_visible()
    with Workspace(served.filled.folder) as workspace:
        arrived = next(r for r in workspace.runs() if r.name == NEW.name).digest[:16]
    expect(page).to_have_url(re.compile(f"[?&]run={arrived}(&|$)"))
    expect(page.get_by_test_id("stSidebar").get_by_text("6 clients · 18 epochs").last).to_be_visible()
    wait_for_price(served, str(NEW.name))
    title = page.get_by_role("heading", level=1).last
    expect(title).to_contain_text("Computing 18 of 18 epochs")
    still(page)
    for budget in (17, 16, 15):
        page.get_by_role("slider").first.press("ArrowLeft")
        expect(title).to_contain_text(f"Computing {budget} of 18 epochs")
    for chart in ("Chosen epochs over the model's movement", "Exposure per client", "Cost against fairness"):
        expect(page.get_by_role("heading", name=chart).last).to_be_visible()
    expect(
        page.get_by_text(re.compile("point(s)? of exposure|fairness changes nothing|covers as much")).last
    ).to_be_visible()
    button = page.get_by_role("button", name="Compute these 15 epochs").last
    with Workspace(served.filled.folder) as workspace:
        run = next(r for r in workspace.runs() if r.name == NEW.name)
        assert workspace.results(run.digest, "audit") == ()
        still(page)
        button.press("Enter")
        wait_for_result(served, str(NEW.name))
        (result,) = workspace.results(run.digest, "audit")
        history = stored_report(workspace, result).history
        chosen = result.settings["budget"]["epochs"]
        assert len(chosen) == 15
        assert np.flatnonzero(history.evaluations).tolist() == chosen
    expect(page.get_by_text("15 of 18 epochs computed").last).to_be_visible()


def test_two_pages_are_two_presses_of_back(served: Served, open_page: Opener) -> None:
    """Whatever a page writes into its URL replaces its own entry in the browser's history."""
    page = open_page(served.url("scheduler"))
    expect(page.get_by_role("heading", level=1).last).to_contain_text("Computing 7 of 12 epochs")
    still(page)
    for budget in (8, 9):
        page.get_by_role("slider").first.press("ArrowRight")
        expect(page).to_have_url(re.compile(rf"[?&]k={budget}(&|$)"))
    turn_to(page, "Contributions")
    expect(page.get_by_role("heading", level=1).last).to_contain_text("contributed most")
    expect(page).to_have_url(re.compile(r"contributions\?.*run="))
    turn_to(page, "Alerts")
    expect(page).to_have_url(re.compile(r"alerts\?.*run="))
    still(page)
    page.go_back()
    expect(page).to_have_url(re.compile("/contributions"))
    expect(page.get_by_role("heading", level=1).last).to_contain_text("contributed most")
    still(page)
    page.go_back()
    expect(page).to_have_url(re.compile("/scheduler"))
    expect(page.get_by_role("heading", level=1).last).to_contain_text("of 12 epochs")


def test_link_to_a_run_that_is_not_here_says_so(served: Served, open_page: Opener) -> None:
    page = open_page(f"{served.address}/alerts?run=0123456789abcdef")
    heading = page.get_by_role("heading", level=1).last
    expect(heading).to_have_text("This link names a run that is not in this workspace")
    still(page)
    page.get_by_role("link", name=re.compile("^Six clients")).last.click()
    expect(heading).to_contain_text("1 of 6 clients stands out")


def test_the_drawer_of_a_phone_closes_when_a_page_is_opened(served: Served, open_page: Opener) -> None:
    page = open_page(served.url(), width=375)
    expect(page.get_by_role("heading", level=1).last).to_contain_text("of 6 clients")
    still(page)
    page.get_by_test_id("stExpandSidebarButton").last.click()
    drawer = page.get_by_test_id("stSidebar").last
    expect(drawer).to_be_in_viewport()
    turn_to(page, "Contributions")
    expect(page).to_have_url(re.compile("/contributions"))
    expect(drawer).not_to_be_in_viewport()
