"""Does the browser follow a job by itself: partial curves, restarts of the server, cancel, resume, the final result?"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from flcontrib_core.auditing import AuditSettings
from flcontrib_core.workspace import Job, JobState, RunEntry, Workspace
from tests.app.filled_workspace import TINY_NAME, make_tiny_log, wait_until
from tests.browser.conftest import cancel_jobs, free_port, serving
from tests.browser.steps import own_window, still
from tests.workspace.recorded import scratch_folder
from tests.workspace.runners import gates_of

pytestmark = pytest.mark.browser
STEPWISE = {"audit": "tests.workspace.runners:stepwise_audit"}
FINAL = "1 of 6 clients stands out during this run"


@dataclass
class AtWork:
    """A dashboard of its own over one run whose audit goes on when the test lets it."""

    folder: Path
    workspace: Workspace
    run: RunEntry
    job: Job
    port: int
    servers: ExitStack
    pid: int = 0

    def url(self, page: str, **query: str) -> str:
        extra = "".join(f"&{k}={v}" for k, v in query.items())
        return f"http://localhost:{self.port}/{page}?run={self.run.digest[:16]}{extra}"

    def let(self, epoch: int) -> None:
        """Lets the job pass an epoch; returns when it stands at the next one, its preview kept."""
        (gates_of(self.workspace) / str(epoch)).touch()
        wait_until(lambda: (p := self.now().progress) is not None and p.done > epoch, f"the end of epoch {epoch}")

    def let_all(self) -> None:
        """Lets the job pass all epochs; returns when it has ended."""
        (gates_of(self.workspace) / "all").touch()
        self.ends()

    def ends(self) -> None:
        wait_until(lambda: self.now().state is JobState.DONE, "the end of the job")

    def now(self) -> Job:
        return self.workspace.jobs.find(self.job.id)

    def start_server(self) -> None:
        self.pid = self.servers.enter_context(serving(self.workspace.path, self.port, self.folder / "server.txt")).pid


@contextmanager
def at_work() -> Iterator[AtWork]:
    with scratch_folder() as folder, Workspace(folder / "workspace", runners=STEPWISE) as workspace:
        run = workspace.add_run(make_tiny_log(folder / "tiny.flrun"))
        gates_of(workspace).mkdir()
        job = workspace.jobs.submit(run.digest, AuditSettings().record())
        try:
            with ExitStack() as servers:
                found = AtWork(folder, workspace, run, job, free_port(), servers)
                found.start_server()
                yield found
        finally:
            cancel_jobs(workspace.path)


def shows(page: Page, words: str) -> None:
    expect(page.get_by_role("heading", level=1).last).to_contain_text(words)


def test_results_appear_as_epochs_finish_without_a_reload(browser: Browser) -> None:
    with at_work() as work, own_window(browser) as overview, own_window(browser) as cells:
        overview.goto(work.url(""))
        cells.goto(work.url("contributions"))
        shows(overview, "Computing the contributions of this run")
        work.let(1)
        for page in (overview, cells):
            shows(page, "After 1 of 12 epochs: ")
            expect(page.get_by_text("Provisional").first).to_be_visible()
            expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
        side = overview.get_by_test_id("stSidebar").last
        side.evaluate("e => { e.dataset.seen = 'the same element' }")
        work.let(2)
        shows(overview, "After 2 of 12 epochs: ")
        work.let_all()
        for page in (overview, cells):
            expect(page.get_by_text("12 of 12 epochs computed").last).to_be_visible()
        shows(overview, FINAL)
        expect(overview.get_by_text("Provisional")).to_have_count(0)
        assert side.evaluate("e => e.dataset.seen") == "the same element", "the page was never loaded anew"


def test_a_killed_server_changes_nothing(browser: Browser) -> None:
    """kill −9 of the web process: the job goes on, and the open page comes back where it was."""
    with at_work() as work, own_window(browser) as page, own_window(browser) as copied:
        page.goto(work.url("contributions", utility="accuracy"))
        work.let(1)
        shows(page, "After 1 of 12 epochs: ")
        os.kill(work.pid, signal.SIGKILL)
        work.let(2)
        assert work.now().attempt == 1, "the job never noticed"
        work.start_server()
        shows(page, "After 2 of 12 epochs: ")
        assert "utility=accuracy" in page.url
        copied.goto(page.url)
        shows(copied, "After 2 of 12 epochs: ")
        work.let_all()
        for reader in (page, copied):
            expect(reader.get_by_text("12 of 12 epochs computed").last).to_be_visible()


def test_cancel_and_resume_by_their_buttons(browser: Browser) -> None:
    with at_work() as work, own_window(browser) as page, own_window(browser) as other:
        for reader in (page, other):
            reader.goto(work.url("jobs"))
            shows(reader, "1 job at work")
        still(page)
        page.get_by_role("button", name="Cancel").last.click()
        for reader in (page, other):
            shows(reader, "No job is running")
            expect(reader.get_by_text("cancelled; finished epochs are kept").last).to_be_visible()
        still(other)
        other.get_by_role("button", name="Resume").last.click()
        work.ends()
        for reader in (page, other):
            expect(reader.get_by_role("link", name="Open the result").last).to_be_visible()
        still(page)
        page.get_by_role("link", name="Open the result").last.click()
        shows(page, FINAL)
        expect(page.get_by_text(TINY_NAME).first).to_be_visible()
