"""Can a chart leave as SVG, and one client get an extract that shows nothing of the others?"""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Opener, Served
from tests.browser.steps import choose, still

pytestmark = pytest.mark.browser


def saved(page: Page, name: str) -> bytes:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=name, exact=True).last.click()
    return waiting.value.path().read_bytes()


def test_camera_saves_a_chart_as_svg(served: Served, open_page: Opener) -> None:
    page = open_page(served.url(""))
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
    still(page)
    page.get_by_role("button", name="Export").first.click()
    page.get_by_role("radio", name="SVG").or_(page.get_by_role("button", name="SVG")).first.click()
    page.keyboard.press("Escape")
    camera = page.locator('.modebar-btn[data-title="Download plot"]').first
    expect(camera).to_be_attached()
    with page.expect_download() as waiting:
        camera.dispatch_event("click")
    assert waiting.value.suggested_filename.endswith(".svg")
    content = waiting.value.path().read_bytes()
    assert content.startswith(b"<svg")
    assert b"http://outside" not in content


def test_the_report_names_who_took_it_and_an_extract_nobody_else(served: Served, open_page: Opener) -> None:
    page = open_page(served.url("report"))
    expect(page.get_by_text("For one client").last).to_be_visible()
    page.get_by_label("Your name").last.fill("Grace Höpfner")
    page.get_by_label("Your name").last.press("Enter")
    expect(page.locator('[data-testid="stApp"][data-test-script-state="notRunning"]').last).to_be_attached()
    report = json.loads(saved(page, "Report (JSON)"))
    assert report["written_by"] == "Grace Höpfner"
    choose(page, "Client", "client-03")
    html = saved(page, "Extract (HTML)")
    facts = json.loads(saved(page, "Extract (JSON)"))
    everything = html.decode() + json.dumps(facts)
    assert "client-03" in everything
    for other in ("client-01", "client-02", "client-04", "client-05", "client-06"):
        assert other not in everything
