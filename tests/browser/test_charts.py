"""Is a chart there at once, does Plotly take over in place, can it be zoomed and panned, and does it keep its size?"""

from __future__ import annotations

import re
import threading

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.browser.conftest import MILLISECONDS, WIDE, Opener, Served

pytestmark = pytest.mark.browser
expect.set_options(timeout=MILLISECONDS)
PAGES_WITH_CHARTS = ("", "contributions", "change_points", "clusters", "scheduler", "compare")
LEAST_WIDTH = 230
RANGE = "key => document.querySelector(`.st-key-${key} .js-plotly-plot`).layout.xaxis.range.map(Number)"
TICKS = "key => [...document.querySelectorAll(`.st-key-${key} .xtick text`)].map(t => t.textContent)"


def still(page: Page) -> None:
    expect(page.locator('[data-testid="stApp"][data-test-script-state="notRunning"]').last).to_be_attached()


def live(page: Page, key: str) -> Locator:
    chart = page.locator(f".st-key-{key}")
    expect(chart.locator(".main-svg").first).to_be_visible()
    still(page)
    return chart


def place(chart: Locator) -> tuple[float, float, float, float]:
    """x, y, width, height of the area that can be dragged over."""
    chart.scroll_into_view_if_needed()
    box = chart.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    return box["x"], box["y"], box["width"], box["height"]


def test_chart_is_there_before_plotly_and_stays_where_it_is(served: Served, browser: Browser) -> None:
    context = browser.new_context(viewport=WIDE)
    page = context.new_page()
    held: list[Route] = []
    asked = threading.Event()

    def hold(route: Route) -> None:
        held.append(route)
        asked.set()

    page.route("**/drawing/**", hold)
    page.goto(served.url(""))
    chart = page.locator(".st-key-cumulative .chart").last
    label = chart.get_by_text("Epoch", exact=True).last
    expect(chart.locator(".still .room").last).to_be_visible()
    expect(label).to_be_visible()
    assert page.evaluate("window.Plotly") is None
    still(page)
    before = chart.bounding_box(), label.bounding_box()
    for route in held:
        route.continue_()
    expect(chart.locator(".main-svg").first).to_be_visible()
    expect(chart.locator(".still svg")).to_have_count(0)
    after = chart.bounding_box(), label.bounding_box()
    assert after[0] == before[0], "nothing below the chart moves"
    assert before[1] is not None
    assert after[1] is not None
    assert abs(after[1]["x"] - before[1]["x"]) < 4
    assert abs(after[1]["y"] - before[1]["y"]) < 4
    context.close()


def test_mouse_zooms_pans_and_resets_the_epochs(served: Served, open_page: Opener) -> None:
    page = open_page(served.url("contributions"))
    chart = live(page, "heat")
    x, y, width, height = place(chart)
    whole = page.evaluate(RANGE, "heat")
    page.mouse.move(x + 0.4 * width, y + 0.5 * height)
    page.mouse.down()
    page.mouse.move(x + 0.8 * width, y + 0.6 * height, steps=8)
    page.mouse.up()
    page.wait_for_function(f"([key, whole]) => ({RANGE})(key)[0] > whole[0] + 1", arg=["heat", whole])
    zoomed = page.evaluate(RANGE, "heat")
    assert zoomed[1] < whole[1]
    ticks = page.evaluate(TICKS, "heat")
    assert all(t.isdigit() and zoomed[0] <= int(t) <= zoomed[1] for t in ticks if t in ticks[:4])
    chart.hover()
    chart.locator('.modebar-btn[data-attr="dragmode"][data-val="pan"]').last.click()
    page.mouse.move(x + 0.7 * width, y + 0.5 * height)
    page.mouse.down()
    page.mouse.move(x + 0.5 * width, y + 0.5 * height, steps=8)
    page.mouse.up()
    page.wait_for_function(f"([key, zoomed]) => ({RANGE})(key)[0] > zoomed[0] + 0.5", arg=["heat", zoomed])
    panned = page.evaluate(RANGE, "heat")
    assert panned[1] <= whole[1] + 1e-6, "not beyond the run"
    chart.hover()
    chart.locator('.modebar-btn[data-attr="zoom"][data-val="reset"]').last.click()
    page.wait_for_function(f"([key, whole]) => Math.abs(({RANGE})(key)[0] - whole[0]) < 1e-6", arg=["heat", whole])
    assert page.evaluate(RANGE, "heat") == pytest.approx(whole)


def test_zoom_stays_when_the_picture_changes_and_goes_with_another_run(served: Served, open_page: Opener) -> None:
    page = open_page(served.url(""))
    chart = live(page, "cumulative")
    x, y, width, height = place(chart)
    whole = page.evaluate(RANGE, "cumulative")
    page.mouse.move(x + 0.3 * width, y + 0.2 * height)
    page.mouse.down()
    page.mouse.move(x + 0.7 * width, y + 0.2 * height, steps=8)
    page.mouse.up()
    page.wait_for_function(f"([key, whole]) => ({RANGE})(key)[0] > whole[0] + 1", arg=["cumulative", whole])
    zoomed = page.evaluate(RANGE, "cumulative")
    page.get_by_role("radio", name="Accuracy").or_(page.get_by_role("button", name="Accuracy")).first.click()
    still(page)
    expect(page.get_by_text("Accuracy gain credited").last).to_be_visible()
    assert page.evaluate(RANGE, "cumulative") == pytest.approx(zoomed)
    page.get_by_role("combobox", name="Run").last.click()
    page.get_by_role("option", name="Contribution").first.click()
    expect(page).to_have_url(re.compile(served.filled.runs["table"].digest[:16]))
    page.wait_for_function(f"key => Math.abs(({RANGE})(key)[0]) < 1e-6", arg="cumulative")
    assert page.evaluate(RANGE, "cumulative")[1] > 13


def test_finger_scrolls_the_page_until_a_tool_is_chosen(served: Served, browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 800, "height": 1000}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(served.url("contributions"))
    chart = live(page, "heat")
    assert page.evaluate("document.querySelector('.st-key-heat .js-plotly-plot').layout.dragmode") is False
    tool = chart.locator('.modebar-btn[data-attr="dragmode"][data-val="zoom"]').last
    expect(tool).to_be_visible()
    x, y, width, height = place(chart)
    tool.tap()
    whole = page.evaluate(RANGE, "heat")
    session = context.new_cdp_session(page)

    def touch(kind: str, at: float) -> None:
        points = [] if kind == "touchEnd" else [{"x": x + at * width, "y": y + 0.5 * height}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 0.3)
    for step in range(1, 9):
        touch("touchMove", 0.3 + 0.05 * step)
    touch("touchEnd", 0.7)
    page.wait_for_function(f"([key, whole]) => ({RANGE})(key)[0] > whole[0] + 1", arg=["heat", whole])
    context.close()


@pytest.mark.parametrize("width", [375, 800, 1024, 1440])
@pytest.mark.parametrize("view", PAGES_WITH_CHARTS)
def test_charts_keep_their_size(served: Served, open_page: Opener, view: str, width: int) -> None:
    page = open_page(served.url(view), width=width)
    expect(page.locator(".chart .main-svg").first).to_be_visible()
    still(page)
    sizes = page.evaluate("[...document.querySelectorAll('.chart')].map(c => [c.clientWidth, c.clientHeight])")
    assert sizes
    assert all(wide >= LEAST_WIDTH for wide, _ in sizes), sizes


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_keyboard_focus_is_seen(served: Served, open_page: Opener, theme: str) -> None:
    page = open_page(served.url(""), theme=theme)
    still(page)
    expect(page.get_by_role("heading", level=1).last).to_be_visible()
    page.keyboard.press("Tab")
    page.wait_for_function(  # the ring is there as soon as the style has been computed anew
        "() => (({ outlineStyle, outlineWidth }) => outlineStyle === 'solid' && parseFloat(outlineWidth) === 2)"
        "(getComputedStyle(document.activeElement))"
    )
    assert page.evaluate("document.activeElement !== document.body")
