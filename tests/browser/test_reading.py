"""Is the dashboard safe from what it shows, and readable by link, keyboard, small screen, dark theme and machine?"""

from __future__ import annotations

import csv
import io
import re
from urllib.parse import urlsplit

import pyarrow.parquet as parquet
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Download, Page, expect

from tests.app.filled_workspace import HOSTILE, wait_until
from tests.browser.conftest import Opener, Served
from tests.browser.steps import WIDE, own_window, still

pytestmark = pytest.mark.browser
PAGES = {
    "": "clients",
    "alerts": "clients",
    "alerts?evidence": "sent empty updates",
    "contributions": "contributed most",
    "client": "sent empty updates",
    "epoch": "Epoch 1",
    "change_points": "at or above",
    "clusters": "group",
    "compare": "client",
    "scheduler": "Computing",
    "runs": "not yet decided",
    "upload": "Bring in a run",
    "jobs": "No job is running",
    "report": "Take the result",
    "paper": "The paper's evaluation",
    "settings": "Settings",
    "help": "What the words mean",
}
CHARTED = ("", "alerts?evidence", "client", "contributions", "change_points", "clusters", "scheduler", "compare")
UNNAMED = "[data-testid=stSidebarNavItems]:not([role]):has(> div)"
"""The navigation before our script has come: blocks inside a list, which is a list to nobody."""
LOOKS = 3
"""A page that is drawn anew while axe reads it shows, for a moment, what it does not show."""
EVIDENCE = {"client": "client-03", "window": "5-8"}


def settled(page: Page, words: str) -> None:
    """Until the page's own heading stands and no script runs any more."""
    expect(page.get_by_role("heading", level=1).last).to_contain_text(words)
    still(page)


def serious_findings(page: Page) -> list[str]:
    """What axe calls serious or critical on the whole page; only what stands is one."""
    expect(page.locator(UNNAMED)).to_have_count(0)
    for _ in range(LOOKS):
        still(page)
        violations = Axe().run(page).response["violations"]
        serious = [v for v in violations if v["impact"] in ("serious", "critical")]
        if not serious:
            break
    return [
        f"{v['id']}: {n['target']} {n['html'][:160]} {n.get('failureSummary', '')[:200]}"
        for v in serious
        for n in v["nodes"]
    ]


def saved(page: Page, name: str) -> tuple[Download, bytes]:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=name, exact=True).last.click()
    return waiting.value, waiting.value.path().read_bytes()


def test_copied_link_shows_the_same_evidence(served: Served, open_page: Opener) -> None:
    page = open_page(served.url("alerts", **EVIDENCE))
    settled(page, "client-03 sent empty updates in epochs 5–\u20608")
    page.get_by_role("radio", name="Accuracy").or_(page.get_by_role("button", name="Accuracy")).first.click()
    expect(page).to_have_url(re.compile("utility=accuracy"))
    other = open_page(page.url)
    settled(other, "client-03 sent empty updates in epochs 5–\u20608")
    expect(other.get_by_test_id("chart").first).to_contain_text("Accuracy", ignore_case=True)


def test_report_and_tables_can_be_taken_away(served: Served, open_page: Opener) -> None:
    page = open_page(served.url("report"))
    settled(page, "Take the result")
    download, content = saved(page, "Report (HTML)")
    run = served.filled.runs["report"].digest[:8]
    assert re.fullmatch(rf"six-clients-[a-z0-9-]+-{run}-[0-9a-f]{{6}}-report\.html", download.suggested_filename)
    assert content.lstrip().lower().startswith(b"<!doctype html")
    assert b"client-03" in content
    names = [n for n in page.get_by_test_id("stDownloadButton").all_inner_texts() if n.endswith((".csv", ".parquet"))]
    assert {n.rsplit(".")[-1] for n in names} == {"csv", "parquet"}
    # Chromium gives a page ten downloads before it asks: the tables are taken from a page of their own.
    page = open_page(served.url("report"))
    settled(page, "Take the result")
    for name in names:
        _, content = saved(page, name)
        least = 1 if name.startswith(("warnings", "alerts")) else 6
        if name.endswith(".csv"):
            assert len(list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))) > least
        else:
            assert parquet.read_table(io.BytesIO(content)).num_rows >= least


def test_camera_saves_a_chart_as_png(served: Served, open_page: Opener) -> None:
    page = open_page(served.url(""))
    settled(page, "clients")
    camera = page.locator('.modebar-btn[data-attr="format"], .modebar-btn[data-title^="Download"]')
    chart = page.get_by_test_id("chart").filter(has=camera).first
    chart.hover()
    with page.expect_download() as waiting:
        chart.locator(camera).first.click()
    assert waiting.value.suggested_filename.endswith(".png")
    assert waiting.value.path().read_bytes().startswith(b"\x89PNG\r\n")


def test_chart_says_so_when_its_script_does_not_come(served: Served, browser: Browser) -> None:
    with own_window(browser) as page:
        page.route("**/drawing/**", lambda route: route.abort())
        page.goto(served.url(""))
        expect(page.get_by_test_id("chart").first).to_contain_text("Plotly did not load")
        expect(page.get_by_test_id("chart").first.locator(".room").last).to_be_visible()
        still(page)
        page.get_by_text("Show as table").first.click()
        expect(page.get_by_test_id("stDataFrame").first).to_be_visible()


@pytest.mark.parametrize("view", list(PAGES))
def test_hostile_names_stay_text(served: Served, open_page: Opener, view: str) -> None:
    """No element comes out of a name; what would run, pop up or be fetched is caught by the witness."""
    page = open_page(served.url(view, run="hostile"))
    expect(page.get_by_role("heading", level=1).last).to_be_visible()
    still(page)
    page.mouse.move(700, 500)
    assert page.locator('img[src="x"], img[src*="outside"], [onerror], [onmouseover]').count() == 0
    hosts = page.evaluate("[...document.querySelectorAll('a[href]')].map(a => a.host)")
    assert set(hosts) <= {urlsplit(served.address).netloc}, "a name may stand in a link's query, never lead elsewhere"
    assert "alert(" not in " ".join(page.locator("script:not([src])").all_inner_texts())
    if view == "":
        main = page.get_by_test_id("stMain").last
        for name in HOSTILE[1:3]:
            wait_until(lambda name=name: name in main.inner_text().replace("\u2060", ""), f"{name} as text")


def test_hostile_evidence_is_shown_literally(served: Served, open_page: Opener) -> None:
    page = open_page(served.url("alerts", run="hostile", client=HOSTILE[1], window="8-12"))
    expect(page.get_by_role("heading", level=1).last).to_contain_text(HOSTILE[1])
    expect(page.get_by_text(f"Without {HOSTILE[1]}").last).to_be_visible()
    assert page.locator('img[src="x"]').count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", list(PAGES))
def test_machine_and_small_screen_find_nothing_to_object(
    served: Served, open_page: Opener, view: str, theme: str
) -> None:
    """Axe on the wide page, no sideways scrolling on the narrow one; light and dark."""
    page = open_page(served.url(view.split("?")[0], **(EVIDENCE if "?" in view else {})), theme=theme)
    settled(page, PAGES[view])
    if view in CHARTED:
        expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
    assert serious_findings(page) == []
    background = page.get_by_test_id("stApp").last.evaluate("e => getComputedStyle(e).backgroundColor")
    assert background == ("rgb(15, 18, 24)" if theme == "dark" else "rgb(255, 255, 255)")
    page.set_viewport_size({"width": 375, "height": WIDE["height"]})
    for inner in ("html", '[data-testid="stMain"]', '[data-testid="stMainBlockContainer"]'):
        expect(page.locator(inner).last).to_have_js_property("clientWidth", 375)
        expect(page.locator(inner).last).to_have_js_property("scrollWidth", 375)  # as soon as the charts are drawn anew
