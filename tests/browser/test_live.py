"""A training that goes on: the page follows it without a reload, its alert is provisional, and settles at the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.app.filled_workspace import TINY, make_tiny_log
from tests.browser.conftest import MILLISECONDS, Opener, Served

pytestmark = pytest.mark.browser
expect.set_options(timeout=MILLISECONDS)


def test_a_growing_recording_is_followed_and_its_alert_settles(
    served: Served, open_page: Opener, tmp_path: Path
) -> None:
    folder = make_tiny_log(tmp_path / "live", replace(TINY, name="A training at work", seed=9))
    lines = (folder / "epochs.jsonl").read_bytes().splitlines(keepends=True)

    def recorded(epochs: int) -> None:
        """As a recorder leaves it: an epoch belongs to the run as soon as its line is there."""
        (folder / "epochs.jsonl").write_bytes(b"".join(lines[:epochs]))

    recorded(3)
    page = open_page(served.url("upload"))
    page.get_by_text("Larger than 200 MB").last.click()
    page.get_by_role("textbox", name="A path on the server").last.fill(str(folder))
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Follow it while it grows").last.click()
    title = page.get_by_role("heading", level=1).last
    expect(title).to_contain_text("After 3 epochs: ")
    main = page.get_by_test_id("stMain")
    recorded(9)
    expect(title).to_contain_text("After 9 epochs: 1 of 6 clients stands out")
    expect(main.get_by_text("Provisional", exact=True).first).to_be_visible()
    expect(main.get_by_text("See the evidence").first).to_be_visible()
    recorded(12)
    expect(title).to_contain_text("After 12 epochs: ")
    page.get_by_role("button", name="The training has ended").last.click()
    expect(title).to_have_text(
        "1 of 6 clients stands out during this run. Strongest: client-03, epochs 5–\u20608, a fact about the file"
    )
    expect(main.get_by_text("Provisional", exact=True)).to_have_count(0)
    page.get_by_role("link", name="Alerts", exact=True).last.click()
    expect(main.get_by_text("Told while it was being recorded").last).to_be_visible()
    expect(main.get_by_text("told after epoch 9; it stands, epochs 5–8").last).to_be_visible()
