"""The three jobs by keyboard alone: no mouse, no focus set by a script, only keys a reader has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from flcontrib_core.laboratory.simulation import Attack, SimulationSettings
from flcontrib_core.laboratory.simulation.settings import AttackKind
from flcontrib_core.workspace import Workspace
from tests.app.filled_workspace import make_tiny_log
from tests.browser.conftest import Opener, Served, wait_for_price, wait_for_result
from tests.browser.steps import SOON, still

pytestmark = pytest.mark.browser
NEW = SimulationSettings(
    name="By keyboard",
    clients=6,
    epochs=10,
    participation=0.7,
    train_rows=240,
    hidden=(4,),
    seed=33,
    more_attacks=(Attack(AttackKind.ZERO, clients=(2,), windows=((4, 7),)),),
)
MOST_TABS = 200
FOCUSED = """() => {
    const at = document.activeElement, label = at.labels?.[0]?.textContent ?? '';
    const what = at.closest('[data-testid]')?.dataset.testid ?? '';
    return [what, at.getAttribute('aria-label') ?? '', label, at.tagName === 'BODY' ? '' : at.textContent].join(' ');
}"""


def tab_to(page: Page, name: str) -> None:
    """Presses Tab until what has the focus is called so."""
    still(page)
    seen: list[str] = []
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        seen.append(str(page.evaluate(FOCUSED)))
        if re.search(name, seen[-1]):
            return
    raise AssertionError(f"no Tab leads to {name!r}, only to {[s[:40] for s in dict.fromkeys(seen)]}")


def choose_file(page: Page, log: Path) -> None:
    """A key pressed while the page is still being put together is lost; a reader presses it again."""
    for _ in range(20):
        tab_to(page, "(?!stSidebarNav)^st.*Upload$")
        try:
            with page.expect_file_chooser(timeout=SOON) as chooser:
                page.keyboard.press("Enter")
        except PlaywrightTimeout:
            continue
        chooser.value.set_files(log)
        return
    raise AssertionError("Enter opens no file chooser")


def test_upload_plan_compute_inspect_and_decide_without_a_mouse(
    served: Served, open_page: Opener, tmp_path: Path
) -> None:
    log = make_tiny_log(tmp_path / "keys.flrun", NEW)
    page = open_page(served.url())
    title = page.get_by_role("heading", level=1).last
    tab_to(page, "stSidebarNavLink .*Upload$")
    page.keyboard.press("Enter")
    expect(title).to_have_text("Bring in a run")
    choose_file(page, log)
    expect(page.get_by_text("Ready: By keyboard").last).to_be_visible()
    wait_for_price(served, str(NEW.name))
    expect(title).to_contain_text("Computing 10 of 10 epochs")

    tab_to(page, "Epochs to compute")
    for budget in (9, 8):
        page.keyboard.press("ArrowLeft")
        expect(title).to_contain_text(f"Computing {budget} of 10 epochs")
    tab_to(page, "Compute these 8 epochs")
    page.keyboard.press("Enter")
    wait_for_result(served, str(NEW.name))
    expect(page.get_by_text("8 of 10 epochs computed").last).to_be_visible()
    expect(title).to_contain_text("client-03")

    tab_to(page, "See the evidence")
    page.keyboard.press("Enter")
    expect(title).to_contain_text("client-03 sent empty updates")
    tab_to(page, "New$")  # a group of choices is one stop; arrows move inside it
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    tab_to(page, "Reason or comment")
    page.keyboard.type("asked by telephone")
    tab_to(page, "Your name")
    page.keyboard.type("Hedy")
    tab_to(page, "Record the decision")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Acknowledged by Hedy: asked by telephone").last).to_be_visible()
    with Workspace(served.filled.folder) as workspace:
        run = next(r for r in workspace.runs() if r.name == NEW.name)
        assert [str(a.state) for a in workspace.alerts.list() if a.run_digest == run.digest] == ["acknowledged"]
