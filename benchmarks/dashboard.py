"""How long does a reader wait? A real Chromium on the real server: first screen, knobs, clients, many readers at once.

Times are taken inside the page: from the start of the navigation to heading and chart, and from the key or click to
the last change of any chart, so the driver's own delays do not count. Readers and server share this machine's cores.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from websockets.sync.client import ClientConnection

from benchmarks.bare_browser import BarePage, bare_browser
from benchmarks.measurement import Measurement
from benchmarks.reader_sessions import answers_to_clicks
from flcontrib_core import AssessSettings, AuditSettings, RunRecorder, bundled
from flcontrib_core.commands.serving import prepare_samples
from flcontrib_core.workspace import RunEntry, Workspace
from tests.app.filled_workspace import add_large_table, keep_report, wait_until
from tests.browser.conftest import answers, cancel_jobs, free_port, serving
from tests.browser.provide_browser import on_path
from tests.conftest import FLAGS
from tests.detection.made_histories import made_history
from tests.reports.made_reports import made_report

if TYPE_CHECKING:
    from playwright.async_api import Page as AsyncPage
    from playwright.sync_api import Browser, Page

EPOCHS, CLIENTS = 100, 64
MANY_CLIENTS, MANY_EPOCHS = 10_000, 50
SECONDS_BETWEEN_CLICKS = 10.0
PAGES_CLICKED = (
    ("Contributions", "contributions"),
    ("Change points", "change_points"),
    ("Scheduler", "scheduler"),
    ("Overview", ""),
)
"""name in the navigation, path"""
PATIENCE = 60_000
WATCH = """
window.waited = {armed: false, began: 0, changed: 0, first: 0, heading: 0}
for (const kind of ["keydown", "pointerdown"])
  addEventListener(kind, () => { if (waited.armed) { waited.began = performance.now(); waited.armed = false } }, true)
new MutationObserver(changes => {
  if (!waited.heading && document.querySelector("h1")) waited.heading = performance.now()
  if (changes.some(c => c.target.closest && c.target.closest(".js-plotly-plot"))) {
    waited.changed = performance.now()
    if (!waited.first && document.querySelector(".js-plotly-plot .main-svg") && document.querySelector("h1"))
      waited.first = waited.changed
  }
}).observe(document, {subtree: true, childList: true, attributes: true})
"""
"""When did the last key or button go down, and when did a chart last change?"""
ARM = "() => { waited.armed = true; waited.changed = 0 }"
SETTLED = "() => !waited.armed && waited.changed > waited.began && performance.now() - waited.changed > 400"
TOOK = "() => (waited.changed - waited.began) / 1000"
PAINTED = "() => waited.first > 0"


@dataclass(frozen=True)
class Scale:
    visits: int
    moves: int
    readers: int
    clicks: int


SCALES = {"small": Scale(visits=3, moves=12, readers=6, clicks=3), "full": Scale(10, 40, 20, 6)}


@dataclass(frozen=True)
class Bench:
    """A server over a workspace with a sample run, a large log and a table of very many clients."""

    address: str
    folder: Path
    log: RunEntry
    crowd: RunEntry

    def url(self, page: str, run: RunEntry | None = None) -> str:
        return f"{self.address}/{page}" + ("" if run is None else f"?run={run.digest[:16]}")


def run(scale: str) -> list[Measurement]:
    """p95 over the repetitions, in seconds."""
    from playwright.sync_api import sync_playwright

    size = SCALES[scale]
    found: list[Measurement] = []
    with bench() as served:
        found += first_screens(served, size)
        with sync_playwright() as driver:
            browser = driver.chromium.launch(args=list(FLAGS), executable_path=on_path())
            found.append(knobs(browser, served, size))
            found.append(clients(browser, served, size))
            browser.close()
        found += many_readers(served, size)
    return found


@contextmanager
def bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="flcontrib-bench-") as place:
        folder = Path(place) / "workspace"
        prepare_samples(folder)
        with Workspace(folder) as workspace:
            log = add_log(workspace, Path(place))
            crowd = add_large_table(workspace, Path(place), MANY_CLIENTS, MANY_EPOCHS)
        port = free_port()
        try:
            with serving(folder, port, Path(place) / "server.txt"):
                wait_for_samples(folder)
                yield Bench(f"http://localhost:{port}", folder, log, crowd)
        finally:
            cancel_jobs(folder)


def wait_for_samples(folder: Path) -> None:
    """A new server computes the sample runs nobody has computed yet; what is measured here is an idle one."""
    with Workspace(folder) as workspace:
        while any(j.active for j in workspace.jobs.poll()):
            time.sleep(0.5)


def add_log(workspace: Workspace, folder: Path) -> RunEntry:
    """A recorded run of T = 100 epochs and m = 64 participants with its report."""
    rng = np.random.default_rng(0)
    names = tuple(f"client-{i:02d}" for i in range(CLIENTS))
    with RunRecorder(
        folder / "log",
        clients=[(name, 100) for name in names],
        parameters=[("weight", (4,))],
        initial=np.zeros(4, dtype=np.float32),
        name=f"{CLIENTS} clients, {EPOCHS} epochs",
        durable=False,
    ) as recorder:
        for _ in range(EPOCHS):
            recorder.epoch(rng.normal(size=(CLIENTS, 4)).astype(np.float32))
        entry = workspace.add_run(recorder.bundle())
    history = made_history(clients=CLIENTS, epochs=EPOCHS, poisoned=[(1, 8, 12)])
    keep_report(workspace, entry, made_report(replace(history, client_ids=names, run_digest=entry.digest)))
    return entry


def fresh_page(browser: Browser, url: str) -> Page:
    """A page in a browser without cache, opened."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE)
    context.add_init_script(WATCH)
    page = context.new_page()
    page.goto(url, wait_until="commit")
    page.wait_for_function(PAINTED, polling=20)
    return page


def first_screens(served: Bench, size: Scale) -> list[Measurement]:
    """From the start of the navigation to heading and chart: the very first visitor, later ones, and the crowd."""
    with bare_browser(on_path() or "chromium", FLAGS) as socket:
        return _first_screens(socket, served, size)


def _first_screens(socket: ClientConnection, served: Bench, size: Scale) -> list[Measurement]:
    with empty_streamlit(served.folder.parent) as address:
        seconds = [_opened(socket, address, "heading") for _ in range(size.visits)]
    rows = [late("for comparison: a Streamlit page with a heading and nothing else", seconds, None)]
    for name, run, visits, goal in (
        ("first screen, first visitor of a new server", None, 1, 2.0),
        ("first screen, later visitors", None, size.visits, 2.0),
        (f"overview of {MANY_CLIENTS:,} clients × {MANY_EPOCHS} epochs", served.crowd, size.visits, 3.0),
    ):
        seconds = []
        for _ in range(visits):
            seconds.append(_opened(socket, served.url("", run), "first"))
        rows.append(late(name, seconds, goal))
    return rows


def _opened(socket: ClientConnection, address: str, until: str) -> float:
    """Seconds from the start of the navigation to the heading, or to heading and first chart."""
    page = BarePage(socket, width=1440, height=1000)
    page.before_each_page(WATCH)
    page.go(address)
    seconds = page.wait_for_number(f"window.waited ? waited.{until} / 1000 : 0")
    page.close()
    return seconds


@contextmanager
def empty_streamlit(folder: Path) -> Iterator[str]:
    """What Streamlit itself takes on this machine: the floor under every first screen."""
    script, port = folder / "heading.py", free_port()
    script.write_text('import streamlit as st\n\nst.title("A heading")\n', encoding="utf-8")
    options = ["--server.port", str(port), "--server.headless", "true", "--browser.gatherUsageStats", "false"]
    server = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", str(script), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: answers(f"http://localhost:{port}"), "an answer of the empty page")
        yield f"http://localhost:{port}"
    finally:
        server.terminate()
        server.wait()


def knobs(browser: Browser, served: Bench, size: Scale) -> Measurement:
    """Arrow keys on the budget, each to a value never shown before and answered by every chart of the page."""
    page = fresh_page(browser, served.url("scheduler", served.log))
    page.wait_for_timeout(1500)
    seconds = []
    page.get_by_role("slider").first.focus()
    for _ in range(size.moves):
        page.evaluate(ARM)
        page.keyboard.press("ArrowLeft")
        page.wait_for_function(SETTLED, polling=50)
        seconds.append(float(page.evaluate(TOOK)))
    page.context.close()
    return late(f"scheduler knob to redrawn charts, T = {EPOCHS}, m = {CLIENTS}", seconds, 0.3)


def clients(browser: Browser, served: Bench, size: Scale) -> Measurement:
    """Another client to follow, on the page of contributions."""
    page = fresh_page(browser, served.url("contributions", served.log))
    page.wait_for_timeout(1500)
    box = page.get_by_role("combobox", name="Follow a client")
    seconds = []
    for move in range(size.moves):
        box.fill(f"client-{(7 * move + 3) % CLIENTS:02d}")
        page.wait_for_timeout(300)
        page.evaluate(ARM)
        page.keyboard.press("Enter")
        page.wait_for_function(SETTLED, polling=50)
        seconds.append(float(page.evaluate(TOOK)))
    page.context.close()
    return late("another highlighted client", seconds, 0.3)


def many_readers(served: Bench, size: Scale) -> list[Measurement]:
    """Readers who click every ten seconds through the pages while jobs are computed one after the other.

    Once as sessions that draw nothing, which is what the server is asked, and once as browsers on the same cores.
    """
    with Workspace(served.folder) as workspace:
        sample = workspace.add_run(bundled("sample_runs") / "heterogeneous-honest.flrun")
        for seed in range(1, 400):
            workspace.jobs.submit(sample.digest, AuditSettings(AssessSettings(seed=seed)).record())
            if seed > size.clicks * 20:
                break
        rows = []
        for kind, readers in (
            ("answer complete", _sessions(served, size)),
            ("redrawn charts", _browsers(served, size)),
        ):
            seconds = asyncio.run(readers)
            busy = any(j.active for j in workspace.jobs.poll())
            row = late(f"{size.readers} readers, click to {kind}", seconds, 1.5)
            rows.append(replace(row, note=row.note + (", a job ran all the time" if busy else ", jobs ran out")))
    return rows


async def _sessions(served: Bench, size: Scale) -> list[float]:
    query = f"run={served.log.digest[:16]}"
    pages = tuple(path for _, path in PAGES_CLICKED)
    return await answers_to_clicks(
        served.address, pages, query, readers=size.readers, clicks=size.clicks, pause=SECONDS_BETWEEN_CLICKS
    )


async def _browsers(served: Bench, size: Scale) -> list[float]:
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(args=list(FLAGS), executable_path=on_path())
        pages = []
        for _ in range(size.readers):
            context = await browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
            context.set_default_timeout(PATIENCE)
            await context.add_init_script(WATCH)
            page = await context.new_page()
            await page.goto(served.url("", served.log))
            await page.wait_for_function(PAINTED)
            pages.append(page)
        pause = SECONDS_BETWEEN_CLICKS / size.readers
        answers = await asyncio.gather(*(_reader(p, n * pause, size.clicks) for n, p in enumerate(pages)))
        await browser.close()
    return [second for answer in answers for second in answer]


async def _reader(page: AsyncPage, begin: float, clicks: int) -> list[float]:
    """One reader's clicks; each starts ten seconds after the one before, whatever the answer took."""
    await asyncio.sleep(begin)
    started = time.monotonic()
    seconds = []
    for click in range(clicks):
        await asyncio.sleep(max(0.0, started + click * SECONDS_BETWEEN_CLICKS - time.monotonic()))
        target, _ = PAGES_CLICKED[click % len(PAGES_CLICKED)]
        await page.evaluate(ARM)
        await page.get_by_test_id("stSidebarNav").get_by_role("link", name=target).click()
        await page.wait_for_function(SETTLED, polling=50)
        seconds.append(float(await page.evaluate(TOOK)))
    return seconds


def late(name: str, seconds: list[float], goal: float | None) -> Measurement:
    """The 95th percentile, with the median beside it."""
    note = f"median {np.median(seconds):.3f} s of {len(seconds)}"
    return Measurement(f"{name}, p95", float(np.percentile(seconds, 95)), goal, at_least=False, unit="s", note=note)
