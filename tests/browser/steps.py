"""What the tests do on a page. Each step waits for the state it needs: Streamlit draws a page piece by piece."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, FloatRect, Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.app.filled_workspace import wait_until
from tests.patience import PAGE_MILLISECONDS

WIDE = {"width": 1440, "height": 1000}
SOON = PAGE_MILLISECONDS / 20
"""For a click or a key that a page may have missed while it was put together: a reader tries again."""
EQUAL_LOOKS = 4


@contextmanager
def own_window(browser: Browser, **settings: Any) -> Iterator[Page]:
    """A page without a witness, in a window of its own that is closed again: an open page goes on asking its server."""
    context = browser.new_context(**{"viewport": WIDE, **settings})
    context.set_default_timeout(PAGE_MILLISECONDS)
    context.set_default_navigation_timeout(PAGE_MILLISECONDS)
    try:
        yield context.new_page()
    finally:
        context.close()


def still(page: Page) -> None:
    """Until no script of the page runs any more. Right after a click none runs yet: wait for what it changes first."""
    expect(page.locator('[data-testid="stApp"][data-test-script-state="notRunning"]').last).to_be_attached()


def turn_to(page: Page, name: str) -> None:
    """Follows a link of the sidebar, when the page that is left is through."""
    still(page)
    page.get_by_test_id("stSidebarNavItems").get_by_role("link", name=re.compile(rf"{name}$")).last.click()


def place_of(element: Locator) -> FloatRect:
    """Where an element is on the screen, as soon as nothing above it grows any more."""
    looks: list[FloatRect | None] = []

    def stands() -> bool:
        element.scroll_into_view_if_needed()
        looks.append(element.bounding_box())
        last = looks[-EQUAL_LOOKS:]
        return len(last) == EQUAL_LOOKS and last[0] is not None and all(look == last[0] for look in last)

    wait_until(stands, "an element that stands still")
    assert looks[-1] is not None
    return looks[-1]


def choose(page: Page, label: str, name: str) -> None:
    """Takes one entry of a list; a page that is still being drawn may close the list that was opened first."""
    box = page.get_by_role("combobox", name=label, exact=True).last
    option = page.get_by_role("option", name=name, exact=True).last

    def taken() -> bool:
        box.click()  # the list opens on a click, not on a text that a script puts there
        box.fill(name)
        try:
            option.click(timeout=SOON)
        except PlaywrightTimeout:
            box.press("Escape")
            return False
        return True

    still(page)
    wait_until(taken, f"{name} in the list of {label}")
