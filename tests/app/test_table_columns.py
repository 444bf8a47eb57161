"""A table with somebody's own columns through the Upload page: asked about, shown as it will be read, and read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from flcontrib_core.runs import ContributionTable
from flcontrib_core.workspace import Workspace
from tests.app.own_caches import own_caches
from tests.app.test_pages import opened, words

GIVEN = "Wann;Wer;Verlust;Dabei\n1;Nord;-0,25;ja\n1;Süd;;nein\n2;Süd;0,5;ja\n"


@pytest.fixture(autouse=True)
def _own_caches() -> Iterator[None]:
    with own_caches():
        yield


def button(page: AppTest, label: str) -> object:
    return next(b for b in page.button if b.label == label)


def less_is_better(page: AppTest) -> Any:
    return next(m for m in page.multiselect if m.label.startswith("Of these"))


def test_what_the_reader_says_of_a_column_stands_when_another_is_chosen(tmp_path: Path) -> None:
    page = opened(tmp_path / "workspace", "upload")
    given = "Wann;Wer;Verlust;Fehlerrate;Treffer\n1;Nord;-0,25;0,5;0,1\n1;Süd;0,25;0,5;0,2\n"
    page.file_uploader[0].upload("werte.csv", given.encode(), "text/csv").run()
    boxes = {box.label: box for box in page.selectbox}
    boxes["Epoch"].set_value("Wann")
    boxes["Client"].set_value("Wer").run()

    def choose(*names: str) -> None:
        next(m for m in page.multiselect if m.label == "Values").set_value(list(names)).run()

    choose("Treffer", "Verlust")
    assert less_is_better(page).value == ["Verlust"]
    less_is_better(page).set_value([]).run()
    choose("Treffer", "Verlust", "Fehlerrate")
    assert less_is_better(page).value == ["Fehlerrate"]
    choose("Treffer", "Verlust")
    assert less_is_better(page).value == []
    assert [e.value for e in page.exception] == []


def test_columns_are_chosen_and_the_first_rows_shown_before_the_table_is_read(tmp_path: Path) -> None:
    page = opened(tmp_path / "workspace", "upload")
    page.file_uploader[0].upload("werte.csv", GIVEN.encode(), "text/csv").run()
    boxes = {box.label: box for box in page.selectbox}
    assert [boxes[name].value for name in ("Epoch", "Client", "Took part")] == [None, None, None]
    boxes["Epoch"].set_value("Wann")
    boxes["Client"].set_value("Wer")
    boxes["Took part"].set_value("Dabei").run()
    values = next(m for m in page.multiselect if m.label == "Values")
    values.set_value(["Verlust"]).run()
    assert [e.value for e in page.exception] == []
    first = page.dataframe[-1].value
    assert first.to_numpy().tolist() == [["1", "Nord", "-0.25"], ["2", "Süd", "0.5"]]
    assert "separated by semicolons, decimal comma" in words(page)
    assert less_is_better(page).value == ["Verlust"], "a loss is known by its name"
    button(page, "Read it like this").click().run()  # type: ignore[attr-defined]
    assert [e.value for e in page.exception] == []
    assert "Ready: werte" in words(page)
    with Workspace(tmp_path / "workspace") as workspace:
        (entry,) = workspace.runs()
        table = workspace.open_run(entry.digest)
    assert isinstance(table, ContributionTable)
    assert table.lower_is_better == {"Verlust"}
    assert table.participated[1:].tolist() == [[True, False], [False, True]]
    assert "epoch is “Wann”".casefold() in entry.note.casefold()


def test_fifty_equal_problems_are_one_card_and_can_be_mended(tmp_path: Path) -> None:
    page = opened(tmp_path / "workspace", "upload")
    given = "epoch,client,loss\n" + "".join(f'{t},a,"0,5"\n' for t in range(1, 70))
    page.file_uploader[0].upload("t.csv", given.encode(), "text/csv").run()
    said = words(page)
    assert said.count("E_TABLE_VALUE") == 1
    assert 't.csv, column "loss", rows 1–50' in said
    assert "50 times or more" in said
    button(page, "Choose the columns").click().run()  # type: ignore[attr-defined]
    assert page.dataframe[-1].value.to_numpy().tolist()[0] == ["1", "a", "0.5"], "the decimal comma is understood"
