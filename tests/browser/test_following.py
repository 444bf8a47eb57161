"""Does a client or a window chosen on one plot stay chosen on the others, over the pages and in a copied link?"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Opener, Served
from tests.browser.steps import place_of, still, turn_to
from tests.browser.test_charts import DRAGMODE, live, take_tool

pytestmark = pytest.mark.browser


def click_mark(page: Page, mark: Locator) -> None:
    """A click where the mark is drawn: Plotly's own layer lies above it and takes the event."""
    expect(mark).to_be_attached()
    still(page)
    box = place_of(mark)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x - 1, y)
    page.mouse.move(x, y)
    page.mouse.click(x, y)


def followed(page: Page) -> Locator:
    return page.get_by_role("combobox", name="Follow a client").last


def test_clicked_client_is_followed_over_pages_and_links(served: Served, open_page: Opener) -> None:
    page = open_page(served.url("", run="table"))
    click_mark(page, page.locator(".st-key-ranking path.point").nth(2))
    expect(page).to_have_url(re.compile("client="))
    expect(followed(page)).not_to_have_value("")
    name = followed(page).input_value()
    run = served.filled.runs["table"].digest[:16]
    for link in ("Contributions", "Change points", "Clusters"):
        turn_to(page, link)
        expect(page).to_have_url(re.compile(rf"run={run}.*client=|client=.*run={run}"))
        expect(followed(page)).to_have_value(name)
    copied = open_page(page.url)
    expect(followed(copied)).to_have_value(name)
    copied.get_by_role("button", name="Clear", exact=True).last.click()
    expect(copied).not_to_have_url(re.compile("client="))
    expect(followed(copied)).to_have_value("")


def test_mark_chosen_twice_among_the_knobs_opens_its_client(served: Served, open_page: Opener) -> None:
    page = open_page(served.url("scheduler"))
    bars = page.locator(".st-key-exposure .bars path")
    click_mark(page, bars.first)
    expect(page).to_have_url(re.compile("client="))
    expect(followed(page)).not_to_have_value("")
    name = followed(page).input_value()
    click_mark(page, bars.first)
    expect(page).to_have_url(re.compile(rf"/client\?.*client={name}"))
    expect(page.get_by_role("heading", level=1).last).to_contain_text(name)


def test_cell_of_the_heat_map_names_its_client(served: Served, open_page: Opener) -> None:
    page = open_page(served.url("contributions"))
    cells = page.locator(".st-key-heat .scatterlayer path.point")
    click_mark(page, cells.last)
    expect(page).to_have_url(re.compile("client=client-06"))
    expect(followed(page)).to_have_value("client-06")
    page.locator(".st-key-follow-window").get_by_text("Epochs 5–8").last.click()
    expect(page).to_have_url(re.compile("window=5-8"))
    page.reload()
    expect(followed(page)).to_have_value("client-06")
    expect(page).to_have_url(re.compile("window=5-8"))


def test_boxed_epochs_are_followed_and_the_tool_stays_chosen(served: Served, open_page: Opener) -> None:
    page = open_page(served.url("contributions"))
    chart = live(page, "heat")
    take_tool(page, "heat", "select")
    cells = place_of(chart.locator(".nsewdrag").first)
    left, top = cells["x"] + cells["width"] * 0.3, cells["y"] + cells["height"] * 0.2
    page.mouse.move(left, top)
    page.mouse.down()
    page.mouse.move(left + cells["width"] * 0.3, top + cells["height"] * 0.5, steps=8)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"window=\d+-\d+"))
    expect(page.get_by_role("button", name="Clear", exact=True).last).to_be_visible()
    still(page)
    assert page.evaluate(DRAGMODE, "heat") == "select"
