"""Is a chart there at once, does Plotly take over in place, can it be zoomed and panned, and does it keep its size?"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.app.filled_workspace import wait_until
from tests.browser.conftest import Opener, Served
from tests.browser.steps import SOON, WIDE, choose, own_window, place_of, still

pytestmark = pytest.mark.browser
PAGES_WITH_CHARTS = ("", "contributions", "change_points", "clusters", "scheduler", "compare")
LEAST_WIDTH = 230
WIDTHS = (375, 800, 1024, 1440)
CHARTS_FIT = """least => {
  const charts = [...document.querySelectorAll(".chart")]
  const drawn = (chart) => chart.querySelector(".js-plotly-plot")?._fullLayout?.width
  return charts.length && charts.every((chart) => chart.clientWidth >= least && drawn(chart) === chart.clientWidth)
}"""
FOCUS_RING = """() => {
  const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement)
  return document.activeElement !== document.body && outlineStyle === "solid" && parseFloat(outlineWidth) === 2
}"""
RANGE = "key => document.querySelector(`.st-key-${key} .js-plotly-plot`).layout.xaxis.range.map(Number)"
DRAGMODE = "key => document.querySelector(`.st-key-${key} .js-plotly-plot`).layout.dragmode"
TICKS = "key => [...document.querySelectorAll(`.st-key-${key} .xtick text`)].map(t => t.textContent)"


def live(page: Page, key: str) -> Locator:
    chart = page.locator(f".st-key-{key}").last
    expect(chart.locator(".main-svg").first).to_be_visible()
    still(page)
    return chart


def drag(page: Page, chart: Locator, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Drags from one place of the drawn area to another, both as shares of its width and height."""
    area = place_of(chart.locator(".nsewdrag").first)

    def at(share: tuple[float, float]) -> tuple[float, float]:
        return area["x"] + share[0] * area["width"], area["y"] + share[1] * area["height"]

    page.mouse.move(*at(start))
    page.mouse.down()
    page.mouse.move(*at(end), steps=8)
    page.mouse.up()


def take_tool(page: Page, key: str, tool: str) -> None:
    """Chooses what a drag does; returns when the chart says the same."""
    chart = live(page, key)
    chart.hover()
    chart.locator(f'.modebar-btn[data-attr="dragmode"][data-val="{tool}"]').last.click()
    page.wait_for_function(f"([key, tool]) => ({DRAGMODE})(key) === tool", arg=[key, tool])


def test_chart_is_there_before_plotly_and_stays_where_it_is(served: Served, browser: Browser) -> None:
    with own_window(browser) as page:
        held: list[Route] = []
        released = False
        page.route("**/drawing/**", lambda route: route.continue_() if released else held.append(route))
        page.goto(served.url(""))
        chart = page.locator(".st-key-cumulative .chart").last
        label = chart.get_by_text("Epoch", exact=True).last
        expect(chart.locator(".still .room").last).to_be_visible()
        expect(label).to_be_visible()
        assert page.evaluate("window.Plotly") is None
        still(page)
        before = place_of(chart), place_of(label)
        released = True
        for route in held:
            route.continue_()
        expect(chart.locator(".main-svg").first).to_be_visible()
        expect(chart.locator(".still svg")).to_have_count(0)
        after = place_of(chart), place_of(label)
        assert after[0] == before[0], "nothing below the chart moves"
        assert abs(after[1]["x"] - before[1]["x"]) < 4
        assert abs(after[1]["y"] - before[1]["y"]) < 4


def test_mouse_zooms_pans_and_resets_the_epochs(served: Served, open_page: Opener) -> None:
    page = open_page(served.url("contributions"))
    chart = live(page, "heat")
    whole = page.evaluate(RANGE, "heat")
    drag(page, chart, (0.4, 0.5), (0.8, 0.6))
    page.wait_for_function(f"([key, whole]) => ({RANGE})(key)[0] > whole[0] + 1", arg=["heat", whole])
    zoomed = page.evaluate(RANGE, "heat")
    assert zoomed[1] < whole[1]
    page.wait_for_function(
        f"([key, low, high]) => ({TICKS})(key).slice(0, 4).every((t) => low <= Number(t) && Number(t) <= high)",
        arg=["heat", *zoomed],
    )
    take_tool(page, "heat", "pan")
    drag(page, chart, (0.7, 0.5), (0.5, 0.5))
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
    whole = page.evaluate(RANGE, "cumulative")
    drag(page, chart, (0.3, 0.2), (0.7, 0.2))
    page.wait_for_function(f"([key, whole]) => ({RANGE})(key)[0] > whole[0] + 1", arg=["cumulative", whole])
    zoomed = page.evaluate(RANGE, "cumulative")
    page.get_by_role("radio", name="Accuracy").or_(page.get_by_role("button", name="Accuracy")).first.click()
    expect(page.get_by_text("Accuracy gain credited").last).to_be_visible()
    still(page)
    assert page.evaluate(RANGE, "cumulative") == pytest.approx(zoomed)
    choose(page, "Run", served.filled.runs["table"].name)
    expect(page).to_have_url(re.compile(served.filled.runs["table"].digest[:16]))
    page.wait_for_function(f"key => Math.abs(({RANGE})(key)[0]) < 1e-6", arg="cumulative")
    assert page.evaluate(RANGE, "cumulative")[1] > 13


def test_finger_scrolls_the_page_until_a_tool_is_chosen(served: Served, browser: Browser) -> None:
    with own_window(browser, viewport={"width": 800, "height": 1000}, has_touch=True, is_mobile=True) as page:
        page.goto(served.url("contributions"))
        chart = live(page, "heat")
        assert page.evaluate(DRAGMODE, "heat") is False
        tool = chart.locator('.modebar-btn[data-attr="dragmode"][data-val="zoom"]').last
        expect(tool).to_be_visible()
        tool.tap()
        page.wait_for_function(f"key => ({DRAGMODE})(key) === 'zoom'", arg="heat")
        area, whole = place_of(chart.locator(".nsewdrag").first), page.evaluate(RANGE, "heat")
        session = page.context.new_cdp_session(page)

        def touch(kind: str, at: float) -> None:
            point = {"x": area["x"] + at * area["width"], "y": area["y"] + 0.5 * area["height"]}
            points = [] if kind == "touchEnd" else [point]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        touch("touchStart", 0.3)
        for step in range(1, 9):
            touch("touchMove", 0.3 + 0.05 * step)
        touch("touchEnd", 0.7)
        page.wait_for_function(f"([key, whole]) => ({RANGE})(key)[0] > whole[0] + 1", arg=["heat", whole])


@pytest.mark.parametrize("view", PAGES_WITH_CHARTS)
def test_charts_are_drawn_as_wide_as_their_place_and_that_is_never_narrow(
    served: Served, open_page: Opener, view: str
) -> None:
    page = open_page(served.url(view), width=WIDTHS[0])
    expect(page.locator(".chart .main-svg").first).to_be_visible()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": WIDE["height"]})
        expect(page.locator("html").last).to_have_js_property("clientWidth", width)
        still(page)
        page.wait_for_function(CHARTS_FIT, arg=LEAST_WIDTH)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_keyboard_focus_is_seen(served: Served, open_page: Opener, theme: str) -> None:
    page = open_page(served.url(""), theme=theme)
    expect(page.get_by_role("heading", level=1).last).to_be_visible()
    still(page)

    def ringed() -> bool:
        page.keyboard.press("Tab")
        try:
            page.wait_for_function(FOCUS_RING, timeout=SOON)
        except PlaywrightTimeout:  # what had the focus was drawn anew
            return False
        return True

    wait_until(ringed, "a ring around what has the focus")
