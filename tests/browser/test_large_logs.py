"""Does a log that comes by the streaming route end where an ordinary upload ends: checked, priced, computed?"""

from __future__ import annotations

import http.client
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from flcontrib_dashboard.uploads import ROUTE, TOKEN_HEADER
from playwright.sync_api import Page, expect

from tests.app.filled_workspace import TINY, make_tiny_log
from tests.browser.conftest import ROOT, Opener, Served, wait_for_price, wait_for_result
from tests.browser.steps import still
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.browser


def opened_zone(served: Served, open_page: Opener) -> Page:
    page = open_page(served.url("upload"))
    expect(page.get_by_role("heading", level=1).last).to_be_visible()
    still(page)
    page.get_by_text("Larger than 200 MB").last.click()
    expect(page.get_by_text("Drop a log here, or choose one").last).to_be_visible()
    return page


def test_dropped_log_is_checked_priced_and_computed(served: Served, open_page: Opener, tmp_path: Path) -> None:
    log = make_tiny_log(
        tmp_path / "streamed.flrun", replace(TINY, name="A streamed run", epochs=5, seed=11, more_attacks=())
    )
    page = opened_zone(served, open_page)
    page.get_by_label("Drop a log here, or choose one").last.set_input_files(log)
    expect(page.get_by_text("streamed.flrun: received and checked").last).to_be_visible()
    expect(page.get_by_text("Ready: A streamed run").last).to_be_visible()
    wait_for_price(served, "A streamed run")
    still(page)
    page.get_by_role("button", name=re.compile("^Compute")).last.click()
    wait_for_result(served, "A streamed run")
    expect(page.get_by_text("5 of 5 epochs computed").last).to_be_visible()


def test_dropped_bad_log_shows_all_its_faults(served: Served, open_page: Opener) -> None:
    page = opened_zone(served, open_page)
    page.get_by_label("Drop a log here, or choose one").last.set_input_files(ROOT / "sample_runs" / "broken.flrun")
    expect(page.get_by_text("broken.flrun was refused: 6 problems").last).to_be_visible()
    for code in ("E_CLIENT_SIZE", "E_NONFINITE", "E_SHAPE", "E_HASH", "E_EPOCH_ORDER", "E_LABEL"):
        expect(page.get_by_test_id("stMain").last).to_contain_text(code)


def test_log_from_a_terminal_shows_on_the_page_that_gave_the_token(
    served: Served, open_page: Opener, tmp_path: Path
) -> None:
    log = make_tiny_log(tmp_path / "sent.flrun", replace(TINY, name="Sent by curl", epochs=3, seed=12, more_attacks=()))
    page = opened_zone(served, open_page)
    page.get_by_role("button", name="From a terminal").last.click()
    command = page.get_by_test_id("stCode").filter(has_text="curl").last.inner_text()
    token = re.search(rf"{TOKEN_HEADER}: ([^']+)'", command)
    assert token is not None
    assert f"{served.address}{ROUTE}/" in command
    connection = http.client.HTTPConnection(urlsplit(served.address).netloc, timeout=PATIENCE_SECONDS)
    connection.request("PUT", f"{ROUTE}/sent.flrun", log.read_bytes(), {TOKEN_HEADER: token[1]})
    assert connection.getresponse().status == 201
    connection.close()
    expect(page.get_by_text("Ready: Sent by curl").last).to_be_visible()
