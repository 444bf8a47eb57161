"""One server, one Chromium, and a witness of everything a page asks for, prints or pops up."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request, WebError, expect

from flcontrib_core.workspace import Workspace
from tests.app.filled_workspace import Filled, filled_once, wait_until
from tests.browser.steps import WIDE
from tests.hostile_modules import console_script, executed, plant, usual_environment
from tests.made_once import common_folder
from tests.patience import PAGE_MILLISECONDS, PATIENCE_SECONDS
from tests.workspace.recorded import scratch_folder

ROOT = Path(__file__).parents[2]
expect.set_options(timeout=PAGE_MILLISECONDS)


@dataclass(frozen=True)
class Served:
    """A running dashboard, the workspace behind it, and where modules planted in its working folder would tell."""

    address: str
    filled: Filled
    marks: Path

    def url(self, page: str = "", run: str = "report", **query: str) -> str:
        return f"{self.address}/{page}?{urlencode({'run': self.filled.runs[run].digest[:16], **query})}"


def free_port() -> int:
    """A port below those that the system gives to whoever asks: a server that starts again finds it free."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/_stcore/health", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def serving(
    workspace: Path, port: int, output: Path, cwd: Path = ROOT, more: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """``flcontrib serve`` on a workspace, as typed in ``cwd``; ended with everything it started, except jobs."""
    command = [sys.executable, str(console_script(output.parent / "bin")), "serve", "--workspace", str(workspace)]
    with output.open("ab") as out:
        server = subprocess.Popen(
            [*command, "--port", str(port), *more],
            cwd=cwd,
            env=usual_environment(),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        address = f"http://localhost:{port}"
        try:
            wait_until(lambda: answers(address) or server.poll() is not None, "an answer of the server")
            assert server.poll() is None, output.read_text()
            yield server
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(timeout=20)
            except subprocess.TimeoutExpired:  # it waits for a browser that does not hang up
                server.kill()
                server.wait(timeout=PATIENCE_SECONDS)


def wait_for_result(served: Served, name: str) -> None:
    """Waits until the run of this name has a result; how long its job takes is the machine's affair, not the page's."""
    with Workspace(served.filled.folder) as workspace:
        wait_until(lambda: any(workspace.results(r.digest, "audit") for r in workspace.runs() if r.name == name), name)


def wait_for_price(served: Served, name: str) -> None:
    """Waits until the run of this name is there and was measured: by a job, which a busy machine gives little."""
    with Workspace(served.filled.folder) as workspace:
        wait_until(
            lambda: any(workspace.latest_result(r.digest, "measurement") for r in workspace.runs() if r.name == name),
            f"what {name} will cost",
        )


def cancel_jobs(folder: Path) -> None:
    with Workspace(folder) as workspace:
        for job in workspace.jobs.list():
            if job.active:
                workspace.jobs.cancel(job.id)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard on a free port, on a workspace of its own; nothing it started outlives the session."""
    with scratch_folder() as folder:
        filled = filled_once(common_folder(tmp_path_factory), folder)
        port = free_port()
        try:
            with serving(filled.folder, port, folder / "server.txt", plant(folder / "working", folder)) as server:
                yield Served(f"http://localhost:{port}", filled, folder)
                assert server.poll() is None, f"the server ended by itself:\n{(folder / 'server.txt').read_text()}"
        finally:
            cancel_jobs(filled.folder)


_STREAMLIT_LOOKS_FOR_ITSELF = re.compile(r"//[^/]+/\w+/_stcore/(health|host-config)$")
"""A link to a page makes Streamlit ask for its server under the page's own address first; then it asks at the root."""


@dataclass
class Witness:
    """What happened in the browser beside what was asked for."""

    own_host: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    @contextmanager
    def watching(self, context: BrowserContext) -> Iterator[None]:
        seen = {"request": self._request, "console": self._console, "dialog": self._dialog, "weberror": self._error}
        for event, note in seen.items():
            context.on(event, note)  # type: ignore[call-overload]
        yield
        for event, note in seen.items():
            context.remove_listener(event, note)

    def outside(self) -> list[str]:
        """Requests that left for another host; inline data has none."""
        return [u for u in self.requests if urlsplit(u).scheme not in ("data", "blob") and self.own_host not in u]

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)

    def _console(self, message: ConsoleMessage) -> None:
        address = message.location.get("url", "")
        if message.type == "error" and not _STREAMLIT_LOOKS_FOR_ITSELF.search(address):
            self.complaints.append(f"{message.text} ({address})")

    def _dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _error(self, error: WebError) -> None:
        self.complaints.append(str(error.error))


class Windows:
    """Windows that one test after the other uses, each with a browser's data of its own, emptied in between.

    A new window, with its scripts read and compiled anew, takes Chromium as long as most of what a test does in it.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._idle: dict[str, list[Page]] = {}

    @contextmanager
    def window(self, theme: Literal["light", "dark"], width: int) -> Iterator[Page]:
        """An empty page; nothing that it keeps is seen by who has the window next."""
        idle = self._idle.setdefault(theme, [])
        page = idle.pop() if idle else self._open(theme)
        page.set_viewport_size({"width": width, "height": WIDE["height"]})
        yield page
        page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        page.goto("about:blank")
        page.context.clear_cookies()
        idle.append(page)

    def _open(self, theme: Literal["light", "dark"]) -> Page:
        context = self._browser.new_context(color_scheme=theme, accept_downloads=True)
        context.set_default_timeout(PAGE_MILLISECONDS)
        context.set_default_navigation_timeout(PAGE_MILLISECONDS)
        return context.new_page()


@pytest.fixture(scope="session")
def windows(browser: Browser) -> Windows:
    return Windows(browser)


Opener = Callable[..., Page]


@pytest.fixture
def open_page(served: Served, windows: Windows) -> Iterator[Opener]:
    """Opens a page in a browser of its own; no outside request, dialog, console error or planted code is accepted."""
    witness = Witness(urlsplit(served.address).netloc)
    with ExitStack() as opened:

        def opener(url: str, *, theme: Literal["light", "dark"] = "light", width: int = WIDE["width"]) -> Page:
            page = opened.enter_context(windows.window(theme, width))
            opened.enter_context(witness.watching(page.context))
            page.goto(url)
            return page

        yield opener
    assert witness.outside() == []
    assert witness.dialogs == []
    assert witness.complaints == []
    assert executed(served.marks) == []
