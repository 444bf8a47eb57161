"""The paper's page: stored figures with their claims, and one made as a job after its price was shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flcontrib_core.reports import QUESTIONS, REPRODUCTION, read_paper_figures
from flcontrib_core.words import numbers
from flcontrib_core.workspace import JobState, Workspace
from flcontrib_core.workspace.jobs import JobQueue
from tests.app.filled_workspace import Filled
from tests.app.test_pages import _own_caches, opened, pictures, title, words
from tests.workspace.recorded import scratch_folder

__all__ = ["_own_caches"]


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A workspace without runs in which no job starts."""
    monkeypatch.setattr(JobQueue, "_start_next", lambda _: False)
    with scratch_folder() as folder:
        yield folder / "workspace"


def test_stored_figures_stand_with_their_claims_and_their_price(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLCONTRIB_DATA", raising=False)
    stored = read_paper_figures()
    claims = [claim.holds for figure in stored.values() for claim in figure.claims]
    shown = opened(empty, "paper", figure="aggregation")
    assert f"{claims.count(True)} of {len(claims)} claims hold" in title(shown)
    assert QUESTIONS["aggregation"] in words(shown)
    figure = stored["aggregation"]
    (drawn,) = (json.loads(picture) for key, picture in pictures(shown).items() if "paper-drawing" in key)
    assert len(drawn["data"]) >= sum(len(panel.lines) for panel in figure.drawn.panels)
    for words_of_claim, paper, ours, verdict in (claim.cells for claim in figure.claims):
        assert f"[{verdict}] **{words_of_claim}**  \nPaper: {paper}. Ours: {ours}." in words(shown)
    assert f"About {numbers.seconds(figure.price)} of one core" in words(shown)
    (button,) = (b for b in shown.button if b.label == "Make this figure")
    assert button.disabled
    assert "FLCONTRIB_DATA" in words(shown)


def test_a_figure_is_started_as_a_job_and_shown_when_it_is_there(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLCONTRIB_DATA", str(empty.parent))
    stored = read_paper_figures()["aggregation"]
    asked = {"figure": "aggregation", "seeds": stored.seeds}
    shown = opened(empty, "paper", figure="aggregation")
    (button,) = (b for b in shown.button if b.label == "Make this figure")
    button.click().run()
    assert [e.value for e in shown.exception] == []
    with Workspace(empty) as workspace:
        (job,) = workspace.jobs.list()
        assert (job.kind, job.state, job.settings) == (REPRODUCTION, JobState.QUEUED, asked)
        assert "Make this figure" not in [b.label for b in shown.button]
        assert "Figure of the paper: aggregation" in words(opened(empty, "jobs"))
        workspace.jobs.cancel(job.id)
        made = replace(stored, note="made here", further=(replace(stored.drawn, title="Every case"),))
        workspace.store_result("", job.settings, REPRODUCTION, made)
    again = opened(empty, "paper", figure="aggregation")
    assert "Made in this workspace" in words(again)
    assert "made here" in words(again)
    assert len([key for key in pictures(again) if "paper-drawing" in key]) == 1
    (more,) = (toggle for toggle in again.toggle if toggle.label == "Every case")
    more.set_value(True).run()
    assert len([key for key in pictures(again) if "paper-drawing" in key]) == 2


def test_the_axioms_stand_below_the_totals(filled: Filled) -> None:
    shown = opened(filled.folder, "contributions", filled.runs["report"])
    table = shown.dataframe[-1].value
    assert set(table["Utility"]) == {"loss", "accuracy"}
    assert set(table["Result"]) == {"holds"}
    assert "sum of values = increment" in set(table["Promise"])
