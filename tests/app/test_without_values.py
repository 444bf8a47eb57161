"""Does every page show a result without Shapley values, say so, and invent nothing?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from streamlit.testing.v1 import AppTest

from flcontrib_core.auditing import AuditSettings
from flcontrib_core.history import AssessSettings
from flcontrib_core.shapley import BUILT_IN, RunEstimator, estimator_by_name
from flcontrib_core.workspace import Workspace
from flcontrib_core.workspace.audit_jobs import audit_in_workspace
from flcontrib_core.workspace.jobs import JobQueue
from flcontrib_core.workspace.planning_jobs import measure_in_workspace
from tests.app.filled_workspace import Filled, make_tiny_log
from tests.app.test_pages import PAGES, WITHOUT_RUN, _own_caches, opened, title, words
from tests.workspace.recorded import scratch_folder

__all__ = ["_own_caches"]
TITLES = {
    "overview": "1 of 6 clients stands out during this run. Strongest: client-03, epochs 5–8, a fact about the file",
    "alerts": "1 of 6 clients stands out",
    "contributions": "This result has no Shapley values",
    "change_points": "at or above 0.50",
    "clusters": "There are no values whose series could be grouped",
    "compare": "The alerts agree",
    "scheduler": "Computing 7 of 12 epochs covers",
    "report": "Take the result with you",
}


@pytest.fixture(scope="module")
def unvalued() -> Iterator[Filled]:
    """A run with a result without values and one with, which opens first where no link names the other."""
    with scratch_folder() as folder, Workspace(folder / "workspace") as workspace:
        entry = workspace.add_run(make_tiny_log(folder / "tiny.flrun"))
        for values in (True, False):
            audit_in_workspace(workspace, entry.digest, AuditSettings(AssessSettings(values=values)).record())
        yield Filled(folder / "workspace", {"run": entry})


def opened_without(unvalued: Filled, view: str, **url: str) -> AppTest:
    """A page of the result without values, named in the link."""
    with Workspace(unvalued.folder) as workspace:
        (result,) = (r for r in workspace.results(unvalued.runs["run"].digest, "audit") if not r.full)
    return opened(unvalued.folder, view, unvalued.runs["run"], result=result.digest[:16], **url)


@pytest.mark.parametrize("view", PAGES)
def test_page_without_values(unvalued: Filled, view: str) -> None:
    shown = opened_without(unvalued, view)
    assert {**WITHOUT_RUN, **TITLES}.get(view, "") in title(shown)
    if view in ("overview", "contributions", "clusters", "compare"):
        assert "Shapley values were not asked for" in words(shown)
    assert "nan" not in words(shown).lower().split()


BARE = {
    "overview": "None of the 5 clients changed",
    "alerts": "None of the 5 clients",
    "change_points": "at or above 0.50",
    "compare": "Choose a result to compare",
    "scheduler": "There are no values to schedule",
}


def test_the_page_of_an_epoch_without_values_does_not_speak_of_their_sum(unvalued: Filled) -> None:
    said = words(opened_without(unvalued, "epoch", epoch="2"))
    assert "Shapley values were not asked for" in said
    assert "the values add up" not in said


@pytest.mark.parametrize("view", PAGES)
def test_page_of_a_log_of_updates_alone(filled: Filled, view: str) -> None:
    shown = opened(filled.folder, view, filled.runs["bare"])
    assert {**WITHOUT_RUN, **TITLES, **BARE}.get(view, "") in title(shown)
    if view in ("overview", "contributions", "clusters", "scheduler"):
        assert "neither values nor harm can be measured" in words(shown)
        assert "Compute the values" not in [b.label for b in shown.button]
    assert "a larger budget" not in words(shown), "no budget measures what the log has not"
    assert "nan" not in words(shown).lower().split()


def test_evidence_without_values(unvalued: Filled) -> None:
    shown = opened_without(unvalued, "alerts", client="client-03", window="5-8")
    assert "Shapley values were not asked for" in words(shown)


def test_the_values_can_be_asked_for_later(unvalued: Filled) -> None:
    shown = opened_without(unvalued, "contributions")
    assert "Compute the values" in [b.label for b in shown.button]


def test_the_switch_stands_where_an_audit_is_started(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    log = make_tiny_log(tmp_path / "tiny.flrun")
    shown = opened(folder, "upload")
    path = next(t for t in shown.text_input if t.label == "A path on the server")
    path.set_value(str(log))
    with mock.patch("flcontrib_core.workspace.jobs.JobQueue._start_next", return_value=False):
        next(b for b in shown.button if b.label == "Take it in").click().run()
    with Workspace(folder) as workspace:
        (entry,) = workspace.runs()
        measure_in_workspace(workspace, entry.digest, {})
    shown.session_state["plan-more"] = True  # opens "How it is computed"
    shown.run()
    switch = next(t for t in shown.toggle if t.label == "Compute Shapley values")
    assert switch.value
    evaluations = next(m.value for m in shown.metric if m.label == "Evaluations")
    switch.set_value(False).run()
    assert not shown.exception
    assert next(m.value for m in shown.metric if m.label == "Evaluations") != evaluations
    assert "Detection does not need more" in words(shown)
    assert not next(b for b in shown.button if b.label == "Audit without values").disabled
    assert next(s for s in shown.slider if s.label == "Epochs to compute (k)").disabled, "there are none to choose"
    estimator = next(s for s in shown.selectbox if s.label == "Estimator")
    estimator.set_value(next(n for n in BUILT_IN if isinstance(estimator_by_name(n), RunEstimator))).run()
    button = next(b for b in shown.button if b.label == "Audit without values")
    with mock.patch.object(JobQueue, "submit", autospec=True) as submit:
        button.click().run()
    assert submit.call_args.args[2] == AuditSettings(AssessSettings(values=False)).record()
