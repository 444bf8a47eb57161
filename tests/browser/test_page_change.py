"""A page that runs a part of itself again by a timer is left for another one, whenever that timer ticks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import WebSocketRoute, expect

from flcontrib_core.laboratory.simulation import SimulationSettings
from tests.app.filled_workspace import make_tiny_log
from tests.browser.conftest import MILLISECONDS, Opener, Served

pytestmark = pytest.mark.browser
expect.set_options(timeout=MILLISECONDS)
NEW = SimulationSettings(name="Left in mid-tick", clients=4, epochs=6, train_rows=120, hidden=(4,))
RESTLESS = """const every = window.setInterval
window.setInterval = (call, pause, ...more) => every(call, pause >= 500 ? 10 : pause, ...more)"""
"""Timers of a page tick a hundred times a second instead of once in two: whatever they can meet, they meet."""


@dataclass
class SlowAnswers:
    """Holds the server's answers back until the browser, which knows of nothing, has asked so many times more."""

    asked: int = 0
    until: int = 0
    held: list[str | bytes] = field(default_factory=list)

    def route(self, socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def ask(message: str | bytes) -> None:
            server.send(message)
            self.asked += 1
            if self.asked == self.until:
                self.release(socket)

        def answer(message: str | bytes) -> None:
            if self.asked < self.until:
                self.held.append(message)
            else:
                socket.send(message)

        socket.on_message(ask)
        server.on_message(answer)

    def release(self, socket: WebSocketRoute) -> None:
        for message in self.held:
            socket.send(message)
        self.held.clear()

    def hold(self, asks: int) -> None:
        self.until = self.asked + asks


def test_timers_of_the_page_before_do_not_empty_the_new_one(served: Served, open_page: Opener, tmp_path: Path) -> None:
    page, slow = open_page("about:blank"), SlowAnswers()
    page.add_init_script(RESTLESS)
    page.route_web_socket(re.compile("_stcore/stream"), slow.route)
    page.goto(served.url("upload"))
    page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(make_tiny_log(tmp_path / "new.flrun", NEW))
    compute = page.get_by_role("button", name="Compute all 6 epochs")
    expect(compute).to_be_visible()
    slow.hold(400)
    compute.click()
    expect(page.get_by_text(f"{NEW.name} / ", exact=False)).to_be_visible()
    before = slow.asked
    while slow.asked < before + 20:  # the new page has timers too, and they find their place
        page.wait_for_timeout(50)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_text(f"{NEW.name} / ", exact=False)).to_be_visible()
    assert "run=" + served.filled.runs["report"].digest[:8] not in page.url
