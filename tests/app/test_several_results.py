"""Can a reader choose among a run's results, name and pin one, and be rid of a run that has none?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from flcontrib_dashboard import accounts, api, run_choice, state

from flcontrib_core.auditing import AuditSettings
from flcontrib_core.errors import WorkspaceError
from flcontrib_core.history import AssessSettings
from flcontrib_core.scheduling import BudgetSettings
from flcontrib_core.workspace import RunEntry, Workspace, audit_in_workspace
from tests.app.filled_workspace import RUNNERS, TINY, make_tiny_log
from tests.app.test_pages import _own_caches, opened, title, words

__all__ = ["_own_caches"]


@pytest.fixture
def several(tmp_path: Path) -> tuple[Path, RunEntry]:
    """A run with a full result and, computed after it, one of three epochs."""
    with Workspace(tmp_path / "workspace") as workspace:
        run = workspace.add_run(make_tiny_log(tmp_path / "tiny.flrun", replace(TINY, epochs=8, more_attacks=())))
        for budget in (BudgetSettings(), BudgetSettings(epochs=(1, 2, 3))):
            audit_in_workspace(workspace, run.digest, AuditSettings(AssessSettings(budget=budget)).record())
        return tmp_path / "workspace", run


def test_client_and_api_see_the_result_that_the_operator_sees(
    several: tuple[Path, RunEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget's result is newer; nobody is shown it in place of the full one."""
    folder, run = several
    monkeypatch.setenv("FLCONTRIB_WORKSPACE", str(folder))
    monkeypatch.setenv("FLCONTRIB_SAMPLES", "0")
    shown = state.shown_to_client(run)
    assert shown is not None
    assert shown.report.history.computed.all()
    with Workspace(folder) as workspace:
        told = api.audit_of(workspace, accounts.ANYBODY, {"digest": run.digest})
        assert isinstance(told, dict)
        assert told["provenance"]["settings"] == shown.report.provenance.settings


def badges(shown: object) -> str:
    return words(shown)  # type: ignore[arg-type]


def test_full_result_opens_and_the_budget_is_a_choice(several: tuple[Path, RunEntry]) -> None:
    folder, run = several
    shown = opened(folder, "overview", run)
    assert "8 of 8 epochs computed" in badges(shown)
    picker = next(s for s in shown.selectbox if s.label == "Result")
    assert len(picker.options) == 2
    half = next(o for o in picker.options if "3 epochs" in o)
    picker.select(half).run()
    assert "3 of 8 epochs computed" in badges(shown)
    assert shown.query_params["result"]
    again = opened(folder, "contributions", run, result=shown.query_params["result"])
    assert "3 of 8 epochs computed" in badges(again)
    assert title(again).endswith("least; 5 of 8 epochs have no value")
    assert "clearly below zero" in title(opened(folder, "contributions", run))
    assert "5 open" in str(again.dataframe[0].value["± 95%"].tolist())


def test_the_scheduler_begins_with_the_budget_on_screen(several: tuple[Path, RunEntry]) -> None:
    folder, run = several
    with Workspace(folder) as workspace:
        half = next(r for r in workspace.results(run.digest, "audit") if not r.full)
    assert title(opened(folder, "scheduler", run, result=half.digest[:16])).startswith("Computing 3 of 8 epochs")


def test_pinned_result_opens_first(several: tuple[Path, RunEntry]) -> None:
    folder, run = several
    with Workspace(folder) as workspace:
        half = next(r for r in workspace.results(run.digest, "audit") if not r.full)
        workspace.pin_result(half)
        workspace.name_result(half, "quick look")
    shown = opened(folder, "overview", run)
    assert "3 of 8 epochs computed" in badges(shown)
    assert any("★ quick look" in o for s in shown.selectbox if s.label == "Result" for o in s.options)


def test_a_run_at_work_is_deleted_with_its_jobs(
    several: tuple[Path, RunEntry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page of runs does what the list beside every page does: nobody has to look for the job first."""
    folder, run = several
    monkeypatch.setenv("FLCONTRIB_WORKSPACE", str(folder))
    monkeypatch.setenv("FLCONTRIB_SAMPLES", "0")
    with Workspace(folder, runners=RUNNERS) as workspace:
        gate = {"starts": str(tmp_path / "starts"), "name": "gated", "gate": str(tmp_path / "gate")}
        workspace.jobs.submit(run.digest, gate, "gated")
        with pytest.raises(WorkspaceError, match="being computed"):
            workspace.delete_run(run.digest)
        assert "freed. Kept: " in run_choice.remove(run)
        assert workspace.runs() == ()


def test_link_to_a_deleted_run_says_when(several: tuple[Path, RunEntry]) -> None:
    folder, run = several
    with Workspace(folder) as workspace:
        workspace.delete_run(run.digest)
    shown = opened(folder, "overview", run)
    assert title(shown) == "This run was deleted"
    assert run.name in words(shown)


def test_order_and_view_stand_in_the_link(several: tuple[Path, RunEntry]) -> None:
    folder, run = several
    shown = opened(folder, "contributions", run, order="name", show="curves")
    assert shown.query_params["order"] == "name"
    assert shown.query_params["show"] == "curves"
    assert "all others are the grey band" in str([g.proto.label for g in shown.get("button_group")])


def test_a_strict_result_leaves_no_choice_behind_for_the_next_one(several: tuple[Path, RunEntry]) -> None:
    """What a job shows so far is strict as well: who watched it must not be left with fewer alerts than it found."""
    folder, run = several
    with Workspace(folder) as workspace:
        audit_in_workspace(workspace, run.digest, AuditSettings(preset="strict").record())
        results = {str(r.settings["preset"]): r for r in workspace.results(run.digest, "audit")}
    shown = opened(folder, "alerts", run, result=results["strict"].digest[:16])
    assert [c.value for c in shown.button_group if c.key == "only-preset"] == ["strict"]
    shown.query_params["result"] = results["default"].digest[:16]
    shown.run()
    assert [c.value for c in shown.button_group if c.key == "preset"] == ["default"]
    assert "preset" not in shown.query_params


def test_an_alert_that_two_results_tell_is_counted_once(several: tuple[Path, RunEntry]) -> None:
    folder, run = several
    with Workspace(folder) as workspace:
        budget, full = sorted(workspace.results(run.digest, "audit"), key=lambda r: r.full)
        for result, window in ((full, [2, 5]), (budget, [3, 5])):
            finding = {"client": "client-02", "verdict": "behaviour-changed", "window": window, "probability": 0.9}
            workspace.alerts.raise_alerts(run.digest, [finding], result.digest)
        before = sum(a.finding["client"] != "client-02" for a in workspace.alerts.list(run.digest))
        assert len(workspace.alerts.list(run.digest)) == before + 2
    shown = opened(folder, "runs")
    inbox = shown.dataframe[1].value
    assert inbox[inbox["Client"] == "client-02"]["Epochs"].tolist() == ["2–5"], "what opens first is listed"


def test_a_client_reads_of_the_result_on_its_page_and_of_what_was_decided(
    several: tuple[Path, RunEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alert of another result stands there once people recorded something about it, and says that it is one."""
    folder, run = several
    with Workspace(folder) as workspace:
        budget = next(r for r in workspace.results(run.digest, "audit") if not r.full)
        finding = {"client": "client-02", "verdict": "behaviour-changed", "window": [3, 3], "probability": 0.9}
        (raised,) = workspace.alerts.raise_alerts(run.digest, [finding], budget.digest)
    ward = accounts.Account(accounts.Role.CLIENT, "ward", "client-02", (run.digest[:16],))
    monkeypatch.setattr(accounts, "current", lambda: ward)
    assert "Nobody has decided" not in words(opened(folder, "overview"))
    with Workspace(folder) as workspace:
        workspace.alerts.comment(raised.id, "ada", "please look", shared=True)
    told = words(opened(folder, "overview"))
    assert "About epoch 3 :gray[(not in the result shown here)]" in told
    assert "please look" in told
