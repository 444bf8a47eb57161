"""How long does a reader wait? A real Chromium on the real server: first screen, knobs, clients, many readers at once.

Times are taken inside the page: from the start of the navigation to heading and chart, and from the key or click to
the last change of any chart, so the driver's own delays do not count. Readers and server share this machine's cores.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from websockets.sync.client import ClientConnection

from benchmarks.bare_browser import BarePage, bare_browser
from benchmarks.measurement import Measurement
from benchmarks.reader_sessions import answers_to_clicks
from flcontrib_core.auditing import AuditSettings
from flcontrib_core.bundled_files import bundled
from flcontrib_core.commands.serving import prepare_samples
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.history import AssessSettings
from flcontrib_core.laboratory.simulation import SimulationSettings, simulate
from flcontrib_core.runs.recorder import RunRecorder
from flcontrib_core.workspace import RunEntry, Workspace, measure_in_workspace
from tests.app.filled_workspace import add_large_table, keep_report, wait_until
from tests.browser.conftest import answers, cancel_jobs, free_port, serving
from tests.browser.provide_browser import on_path
from tests.conftest import FLAGS
from tests.detection.made_histories import made_history
from tests.reports.made_reports import made_report

EPOCHS, CLIENTS = 100, 64
MANY_CLIENTS, MANY_EPOCHS = 10_000, 50
SECONDS_BETWEEN_CLICKS = 10.0
ROUNDS = 3
PAGES_CLICKED = (
    ("Contributions", "contributions"),
    ("Change points", "change_points"),
    ("Scheduler", "scheduler"),
    ("Overview", ""),
)
"""name in the navigation, path"""
WATCH = """
window.waited = {armed: false, began: 0, changed: 0, first: 0, heading: 0, picture: 0}
for (const kind of ["keydown", "pointerdown"])
  addEventListener(kind, () => { if (waited.armed) { waited.began = performance.now(); waited.armed = false } }, true)
new MutationObserver(changes => {
  if (!waited.heading && document.querySelector("h1")) waited.heading = performance.now()
  if (!waited.picture && waited.heading && document.querySelector(".chart .room, .js-plotly-plot .main-svg"))
    waited.picture = performance.now()
  if (changes.some(c => c.target.closest && c.target.closest(".js-plotly-plot"))) {
    waited.changed = performance.now()
    if (!waited.first && document.querySelector(".js-plotly-plot .main-svg") && document.querySelector("h1"))
      waited.first = waited.changed
  }
}).observe(document, {subtree: true, childList: true, attributes: true})
"""
"""When did the last key or button go down, and when did a chart last change?"""
ARM = "waited.armed = true; waited.changed = 0"
SETTLED = "!waited.armed && waited.changed > waited.began && performance.now() - waited.changed > 400"
TOOK = f"{SETTLED} ? (waited.changed - waited.began) / 1000 : 0"
PAINTED = "window.waited ? waited.first / 1000 : 0"
READ_ON = """
(async (begin, pause, names) => {
  window.answers = []
  const sleep = (ms) => new Promise((done) => setTimeout(done, ms))
  const started = performance.now() + begin
  for (const [n, name] of names.entries()) {
    await sleep(Math.max(0, started + n * pause - performance.now()))
    const links = [...document.querySelectorAll('[data-testid="stSidebarNavLink"]')]
    waited.began = performance.now()
    waited.changed = 0
    links.find((link) => link.textContent.includes(name)).click()
    do await sleep(50); while (!(waited.changed > waited.began && performance.now() - waited.changed > 400))
    answers.push((waited.changed - waited.began) / 1000)
  }
  window.read = true
})"""
"""One reader's clicks in the navigation, made and timed inside the page: nobody outside asks it for anything meanwhile.
Each starts so many milliseconds after the one before, or when that one was answered."""


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
    sample: RunEntry
    log: RunEntry
    crowd: RunEntry
    unpaid: RunEntry

    def url(self, page: str, run: RunEntry | None = None) -> str:
        """A page of a run; of the audited sample where none is named: the latest run may have nothing to draw."""
        return f"{self.address}/{page}?run={(run or self.sample).digest[:16]}"


def run(scale: str) -> list[Measurement]:
    """p95 over the repetitions, in seconds."""
    size = SCALES[scale]
    with bench() as served, bare_browser(on_path() or "chromium", FLAGS) as socket:
        return [
            *first_screens(socket, served, size),
            knobs(socket, served.url("scheduler", served.log), size, "computed", 0.3),
            knobs(socket, served.url("scheduler", served.unpaid), size, "uncomputed", 0.4),
            clients(socket, served, size),
            *many_readers(socket, served, size),
        ]


@contextmanager
def bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="flcontrib-bench-") as place:
        folder = Path(place) / "workspace"
        prepare_samples(folder)
        with Workspace(folder) as workspace:
            sample = next(r for r in workspace.runs() if workspace.results(r.digest, "audit"))
            log = add_log(workspace, Path(place))
            crowd = add_large_table(workspace, Path(place), MANY_CLIENTS, MANY_EPOCHS)
            unpaid = add_unpaid_log(workspace, Path(place))
        port = free_port()
        try:
            with serving(folder, port, Path(place) / "server.txt"):
                yield Bench(f"http://localhost:{port}", folder, sample, log, crowd, unpaid)
        finally:
            cancel_jobs(folder)


def add_unpaid_log(workspace: Workspace, folder: Path) -> RunEntry:
    """A run of the same size with a model, measured as a plan needs it, of which nothing is computed."""
    settings = SimulationSettings(
        name="Nothing computed yet", clients=CLIENTS, epochs=EPOCHS, participation=0.5, train_rows=1280, hidden=(4,)
    )
    simulate(settings, folder / "unpaid.flrun")
    entry = workspace.add_run(folder / "unpaid.flrun")
    measure_in_workspace(workspace, entry.digest, {})
    return entry


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


def first_screens(socket: ClientConnection, served: Bench, size: Scale) -> list[Measurement]:
    """From the start of the navigation: to verdict and first picture, against a page that shows nothing but a heading,
    and to Plotly's chart, for the very first visitor, later ones, and the crowd.
    """
    first = _opened(socket, served.url(""), "first")
    empty, picture, live = [], [], []
    with empty_streamlit(served.folder.parent) as address:
        for _ in range(size.visits):  # in turn: whatever else the machine does, it does to both
            empty.append(_opened(socket, address, "heading"))
            picture.append(_opened(socket, served.url(""), "picture"))
            live.append(_opened(socket, served.url(""), "first"))
    crowd = [_opened(socket, served.url("", served.crowd), "picture") for _ in range(size.visits)]
    return [
        late("for comparison: a Streamlit page with a heading and nothing else", empty, None),
        late("verdict and first picture, later visitors", picture, None),
        replace(
            late(
                "verdict and first picture, share of the empty page",
                [float(np.median(picture) / np.median(empty))],
                1.3,
            ),
            unit="×",
            note="median over median, visits in turn",
        ),
        late("Plotly's chart, first visitor of a new server", [first], 2.0),
        late("Plotly's chart, later visitors", live, 2.0),
        late(f"verdict and first picture of {MANY_CLIENTS:,} clients × {MANY_EPOCHS} epochs", crowd, 2.5),
    ]


def _opened(socket: ClientConnection, address: str, until: str) -> float:
    """Seconds from the start of the navigation to the 'heading', to it and a 'picture', or to Plotly's 'first'."""
    page = fresh_page(socket, address)
    seconds = page.wait_for_number(f"window.waited ? waited.{until} / 1000 : 0")
    page.close()
    return seconds


def fresh_page(socket: ClientConnection, address: str) -> BarePage:
    """A page in a browser without cache, on its way."""
    page = BarePage(socket, width=1440, height=1000)
    page.before_each_page(WATCH)
    page.go(address)
    return page


@contextmanager
def empty_streamlit(folder: Path) -> Iterator[str]:
    """What Streamlit itself takes on this machine: the floor under every first screen."""
    script, port = folder / "heading.py", free_port()
    script.write_text('import streamlit as st\n\nst.title("A heading")\n', encoding="utf-8")
    options = ["--server.port", str(port), "--server.headless", "true", "--browser.gatherUsageStats", "false"]
    server = subprocess.Popen(
        python_command("-m", "streamlit", "run", str(script), *options),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=child_environment(),
    )
    try:
        wait_until(lambda: answers(f"http://localhost:{port}"), "an answer of the empty page")
        yield f"http://localhost:{port}"
    finally:
        server.terminate()
        server.wait()


def knobs(socket: ClientConnection, address: str, size: Scale, state: str, goal: float) -> Measurement:
    """Arrow keys on the budget, each to a value never shown before and answered by every chart of the page."""
    page = quiet_page(socket, address)
    page.value("document.querySelector('[role=slider], input[type=range]').focus()")
    seconds = []
    for _ in range(size.moves):
        page.value(ARM)
        page.press("ArrowLeft")
        seconds.append(page.wait_for_number(TOOK))
    page.close()
    return late(f"scheduler knob to redrawn charts, {state} run, T = {EPOCHS}, m = {CLIENTS}", seconds, goal)


def clients(socket: ClientConnection, served: Bench, size: Scale) -> Measurement:
    """Another client to follow, on the page of contributions."""
    page = quiet_page(socket, served.url("contributions", served.log))
    box = """document.querySelector('input[aria-label="Follow a client"]')"""
    seconds = []
    for move in range(size.moves):
        page.value(f"{box}.focus(); {box}.select()")
        page.write(f"client-{(7 * move + 3) % CLIENTS:02d}")
        time.sleep(0.4)
        page.value(ARM)
        page.press("Enter")
        seconds.append(page.wait_for_number(TOOK))
    page.close()
    return late("another highlighted client", seconds, 0.3)


def quiet_page(socket: ClientConnection, address: str) -> BarePage:
    """A page that has painted and come to rest."""
    page = fresh_page(socket, address)
    page.wait_for_number(PAINTED)
    time.sleep(1.5)
    return page


def many_readers(socket: ClientConnection, served: Bench, size: Scale) -> list[Measurement]:
    """Readers who click every ten seconds through the pages while jobs are computed one after the other.

    Three times: as sessions that draw nothing, which is what the server is asked; with one of them a browser, which is
    what a reader sees whose browser runs on a machine of its own; and all as browsers on the server's two cores.
    """
    with Workspace(served.folder) as workspace:
        sample = workspace.add_run(bundled("sample_runs") / "heterogeneous-honest.flrun")
        for seed in range(1, 400):
            workspace.jobs.submit(sample.digest, AuditSettings(AssessSettings(seed=seed)).record())
            if seed > size.clicks * (20 + 10 * ROUNDS):
                break
        rows = []
        for kind, readers in (
            ("answer complete", lambda: _sessions(served, size, size.readers)),
            ("redrawn charts, one of them a browser", lambda: _one_browser(socket, served, size)),
            ("redrawn charts, all on the server's cores", lambda: _browsers(socket, served, size, size.readers)),
        ):
            seconds = readers()
            busy = any(j.active for j in workspace.jobs.poll())
            row = late(f"{size.readers} readers, click to {kind}", seconds, 1.5)
            rows.append(replace(row, note=row.note + (", a job ran all the time" if busy else ", jobs ran out")))
    return rows


def _sessions(served: Bench, size: Scale, readers: int) -> list[float]:
    query = f"run={served.log.digest[:16]}"
    pages = tuple(path for _, path in PAGES_CLICKED)
    return asyncio.run(
        answers_to_clicks(
            served.address, pages, query, readers=readers, clicks=size.clicks, pause=SECONDS_BETWEEN_CLICKS
        )
    )


def _one_browser(socket: ClientConnection, served: Bench, size: Scale) -> list[float]:
    """Three rounds of one browser's clicks, so that there are enough of them to speak of a percentile."""
    longer = replace(size, clicks=ROUNDS * size.clicks)
    with ThreadPoolExecutor(1) as aside:
        others = aside.submit(_sessions, served, longer, size.readers - 1)
        seconds = _browsers(socket, served, longer, 1)
        others.result()
    return seconds


def _browsers(socket: ClientConnection, served: Bench, size: Scale, readers: int) -> list[float]:
    pages = [quiet_page(socket, served.url("", served.log)) for _ in range(readers)]
    names = [PAGES_CLICKED[click % len(PAGES_CLICKED)][0] for click in range(size.clicks)]
    for n, page in enumerate(pages):
        begin = 1000 * (1 + n * SECONDS_BETWEEN_CLICKS / readers)
        page.value(f"void {READ_ON}({begin}, {1000 * SECONDS_BETWEEN_CLICKS}, {json.dumps(names)})")
    time.sleep(SECONDS_BETWEEN_CLICKS * (size.clicks + 1))
    seconds = []
    for page in pages:
        page.wait_for_number("window.read ? 1 : 0")
        seconds += page.value("answers")
        page.close()
    return seconds


def late(name: str, seconds: list[float], goal: float | None) -> Measurement:
    """The 95th percentile, with the median beside it."""
    note = f"median {np.median(seconds):.3f} s of {len(seconds)}"
    return Measurement(f"{name}, p95", float(np.percentile(seconds, 95)), goal, at_least=False, unit="s", note=note)
