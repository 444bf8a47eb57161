"""How long does a page take in a browser that nobody watches?

A test driver listens to everything a page says and throws, and V8 then looks up where in the source each exception
came from: with a script of Plotly's size that alone takes most of a second, which no reader pays. Here Chromium is
given an address over its DevTools socket, and is asked for one number when the page has had its time.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

PATIENCE = 60.0
BETWEEN_QUESTIONS = 0.25
"""Each question costs the page a little; few are asked."""


KEYS = {"ArrowLeft": 37, "Enter": 13}


class BarePage:
    """One tab in a profile of its own, without cache, history or listeners."""

    def __init__(self, socket: ClientConnection, width: int, height: int) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        context = self._ask("Target.createBrowserContext")["browserContextId"]
        place = {"url": "about:blank", "browserContextId": context, "width": width, "height": height}
        target = self._ask("Target.createTarget", **place)["targetId"]
        self._context = context
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    _session: str | None = None

    def before_each_page(self, script: str) -> None:
        self._ask("Page.enable")  # without it the script is taken and never run
        self._ask("Page.addScriptToEvaluateOnNewDocument", source=script)

    def go(self, address: str) -> None:
        self._ask("Page.navigate", url=address)

    def value(self, expression: str) -> Any:
        return self._ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def number(self, expression: str) -> float:
        return float(self.value(expression) or 0.0)

    def press(self, key: str) -> None:
        """A key goes down and up, as from a keyboard."""
        what = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        self._ask("Input.dispatchKeyEvent", type="keyDown", **what, **({"text": "\r"} if key == "Enter" else {}))
        self._ask("Input.dispatchKeyEvent", type="keyUp", **what)

    def write(self, text: str) -> None:
        """Text goes to where the keyboard is, as if it were pasted."""
        self._ask("Input.insertText", text=text)

    def wait_for_number(self, expression: str) -> float:
        """The first value above zero."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            time.sleep(BETWEEN_QUESTIONS)
            if (found := self.number(expression)) > 0:
                return found
        raise TimeoutError(f"{expression} stayed at zero for {PATIENCE:.0f} s")

    def close(self) -> None:
        self._session = None
        self._ask("Target.disposeBrowserContext", browserContextId=self._context)

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        self._socket.send(json.dumps(message | ({"sessionId": self._session} if self._session else {})))
        while True:
            told = json.loads(self._socket.recv(timeout=PATIENCE))
            if told.get("id") == number:
                if "error" in told:
                    raise RuntimeError(f"{method}: {told['error'].get('message')}")
                return dict(told["result"])


@contextmanager
def bare_browser(command: str, flags: tuple[str, ...]) -> Iterator[ClientConnection]:
    """A Chromium without a window; the socket it listens on."""
    with tempfile.TemporaryDirectory(prefix="flcontrib-profile-", ignore_cleanup_errors=True) as profile:
        options = ["--headless=new", "--remote-debugging-port=0", f"--user-data-dir={profile}", *flags]
        browser = subprocess.Popen([command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with connect(_address(Path(profile) / "DevToolsActivePort"), max_size=None, ping_interval=None) as socket:
                yield socket
        finally:
            browser.terminate()
            browser.wait()


def _address(told: Path) -> str:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if told.exists() and len(lines := told.read_text().split()) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(0.05)
    raise TimeoutError("Chromium did not open its DevTools socket")
