"""Does every page tell a reader, and a reader's screen reader, what is what and where to go from here?"""

from __future__ import annotations

from pathlib import Path

import pytest

from flcontrib_core.words import numbers
from flcontrib_core.workspace import Workspace
from tests.app.filled_workspace import Filled
from tests.app.test_pages import PAGES, _own_caches, opened, words

__all__ = ["_own_caches"]


@pytest.mark.parametrize("view", PAGES)
def test_cards_are_headings_below_the_one_title(filled: Filled, view: str) -> None:
    shown = opened(filled.folder, view, filled.runs["report"])
    assert len(shown.title) == 1
    assert len(shown.header) >= 1
    assert not shown.subheader, "no level is left out"


@pytest.mark.parametrize("kind", ["report", "table", "hostile"])
@pytest.mark.parametrize("view", PAGES)
def test_no_missing_number_is_shown_as_a_word_of_the_program(filled: Filled, view: str, kind: str) -> None:
    shown = opened(filled.folder, view, filled.runs[kind])
    said = words(shown).replace("None of the", "")
    assert "None" not in said
    assert "nan" not in said.split()
    for metric in shown.metric:
        assert str(metric.value) not in ("None", "nan", "")
    for table in shown.dataframe:
        assert table.proto.placeholder == numbers.NO_VALUE


def test_results_of_one_run_can_be_told_apart(filled: Filled) -> None:
    """A long name must not push what differs out of the list."""
    shown = opened(filled.folder, "compare", filled.runs["report"])
    options = next(s for s in shown.selectbox if s.key == "baseline").options
    assert all(len(option) < 60 for option in options)
    assert all("all epochs" in option for option in options)


def test_help_explains_every_page_and_mark() -> None:
    from flcontrib_core.words.wording import CHARTS, GLOSSARY, MARKS

    assert {"Cumulative contribution", "Heat map", "Evidence", "Change points", "Groups", "Exposure"} <= set(CHARTS)
    promised = {"Shapley value", "Null client", "Change-point probability", "Jaccard index", "k/T", "Exposure"}
    assert promised <= set(GLOSSARY)
    assert {"■ filled", "▨ hatched", "· dot"} <= set(MARKS)


def test_a_table_has_no_interval_and_says_so(filled: Filled) -> None:
    assert "come without an interval" in words(opened(filled.folder, "overview", filled.runs["table"]))
    assert "excludes zero" in words(opened(filled.folder, "overview", filled.runs["report"]))


def test_inbox_can_be_sorted_as_a_table(filled: Filled) -> None:
    shown = opened(filled.folder, "alerts", filled.runs["hostile"])
    assert not shown.dataframe
    next(t for t in shown.toggle if t.key == "inbox-table").set_value(True).run()
    assert len(shown.dataframe[0].value) == 2


def test_the_title_of_the_groups_says_where_the_marked_client_is(filled: Filled) -> None:
    said = opened(filled.folder, "clusters", filled.runs["report"], groups="2").title[0].value.replace("\\", "")
    assert "; client-03 is " in said
    one = opened(filled.folder, "clusters", filled.runs["report"]).title[0].value.replace("\\", "")
    assert one == "No grouping: no number of groups fits better than chance"


def test_remarks_on_the_log_are_read_where_the_verdict_is(filled: Filled) -> None:
    shown = opened(filled.folder, "overview", filled.runs["report"])
    said = words(shown)
    assert ("Remarks on the log" in said) == ("remark on the log" in said or "remarks on the log" in said)


def test_an_empty_workspace_offers_the_samples(tmp_path: Path) -> None:
    shown = opened(tmp_path / "empty", "overview")
    button = next(b for b in shown.button if b.label == "Load the sample runs")
    try:
        button.click().run()
        assert not shown.exception
        assert len(shown.selectbox[0].options) == 6
    finally:
        with Workspace(tmp_path / "empty") as workspace:
            for job in workspace.jobs.list():
                workspace.jobs.cancel(job.id)
