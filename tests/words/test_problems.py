"""Are fifty equal problems one line, with the column, the rows and how many there are?"""

from __future__ import annotations

from pathlib import Path

from flcontrib_core.runs.bundle import check_run_log
from flcontrib_core.words import accepted_with, problem_groups


def test_equal_problems_of_a_column_are_one_group(tmp_path: Path) -> None:
    rows = [f'{epoch},a,"0,{epoch}",1\nlast,b,1,1\n' for epoch in range(1, 5)]
    (tmp_path / "t.csv").write_text("epoch,client,loss,recall\n" + "".join(rows))
    errors = check_run_log(tmp_path / "t.csv").errors
    assert len(errors) == 8
    values, epochs = problem_groups(errors)
    assert (values.code, values.count) == ("E_TABLE_VALUE", "4 times")
    assert values.places == 't.csv, column "loss", rows 1, 3, 5, 7'
    assert values.found == '"0,1", "0,2", "0,3" and 1 more'
    assert epochs.places == 't.csv, column "epoch", rows 2, 4, 6, 8'
    assert epochs.found == '"last"'
    assert "\n" not in values.sentence()


def test_a_group_that_ended_the_reading_says_that_there_may_be_more(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("epoch,client,loss\n" + "1,a,x\n" * 70)
    (group,) = problem_groups(check_run_log(tmp_path / "t.csv").errors)
    assert group.count == "50 times or more"
    assert group.places.endswith("rows 1–50")


def test_one_remark_is_not_several() -> None:
    assert accepted_with(1) == "Accepted with 1 remark; it follows into every export."
    assert accepted_with(3) == "Accepted with 3 remarks; they follow into every export."
