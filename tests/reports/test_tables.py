"""Do tables leave without a live formula, without a lost bit, and come back as the run they describe?"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core import words
from flcontrib_core.detection.review import AlertReview, AlertState, Reviews, ReviewStep, StepKind, alert_key
from flcontrib_core.errors import Problem
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.reports.naming import extract_name, file_name
from flcontrib_core.reports.tables import (
    alerts_table,
    cells_table,
    contributions_table,
    csv_safe,
    history_tables,
    state_names,
    totals_table,
    write_history_tables,
)
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import ContributionTable
from flcontrib_core.vocabulary import FillPolicy
from tests.detection.made_histories import made_history
from tests.reports.hostile import HOSTILE_NAMES
from tests.words.made_facts import full_report

RUNNABLE = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def skipping_history() -> ContributionHistory:
    return made_history(clients=6, epochs=12, participation=0.6, computed=(1, 2, 5, 7, 12), seed=3)


def undo(cell: str) -> str:
    """The documented inverse of ``csv_safe``."""
    return re.sub(r"(\A|[;,|\t\r\n])'", r"\1", cell)


def test_csv_safe_never_begins_a_formula_and_can_be_undone() -> None:
    """Every text of up to five of these characters."""
    for length in range(6):
        for letters in itertools.product("=-'\";\t a", repeat=length):
            text = "".join(letters)
            safe = str(csv_safe(text))
            assert undo(safe) == text
            for piece in re.split(r"[;,|\t\r\n]", safe):
                assert not piece.strip('" ').startswith(RUNNABLE), (text, safe)


@pytest.mark.parametrize("number", [-0.5, 3, True, np.float64(-1.5), None])
def test_csv_safe_leaves_numbers_alone(number: object) -> None:
    assert csv_safe(number) is number


def test_csv_safe_does_not_take_numpy_text_for_a_number() -> None:
    assert csv_safe(np.str_("=1+1")) == "'=1+1"


def test_totals_count_skipped_epochs_as_the_result_was_asked_to(tmp_path: Path) -> None:
    """A result of the paper's settings shows zero fill on every page; its table may not say another total."""
    history = replace(skipping_history(), settings={"fill": "zero"})
    write_history_tables(history, tmp_path)
    with (tmp_path / "totals.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    shown = history.shown_totals("loss", FillPolicy.ZERO)
    assert [float(row["loss reduction total (help is up)"]) for row in rows] == shown.tolist()
    told = json.loads((tmp_path / "history.json").read_text())["utilities"]["loss"]["total"]
    assert told == history.totals("loss", FillPolicy.ZERO).tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_contributions_are_read_again_with_every_state(tmp_path: Path, ending: str) -> None:
    history = skipping_history()
    write_history_tables(history, tmp_path, FillPolicy.EQUAL)
    run = read_run_log(tmp_path / f"contributions.{ending}")
    assert isinstance(run, ContributionTable)
    again = assess_contributions(run)
    order = [again.client_ids.index(c) for c in history.client_ids]
    for utility in history.utilities:
        np.testing.assert_array_equal(again.of(utility).values[:, order], history.of(utility).values)
        np.testing.assert_array_equal(again.filled(utility)[0, order], history.of(utility).values[0])
    np.testing.assert_array_equal(again.participated[:, order], history.participated)
    np.testing.assert_array_equal(state_names(again)[:, order], state_names(history))


def test_cells_say_which_of_three_states_they_are() -> None:
    history = skipping_history()
    table = cells_table(history)
    for epoch, client, state, value in zip(
        table["epoch"], table["client"], table["state"], table["loss reduction (help is up)"], strict=True
    ):
        position = history.client_ids.index(client)
        if not history.participated[epoch, position]:
            assert (state, value) == ("absent", 0.0)
        elif history.computed[epoch]:
            assert state == "computed"
            assert value == -history.of("loss").values[epoch, position], "a rising loss is harm, and harm is down"
        else:
            assert (state, value) == ("not computed", None)
    assert set(table["state"]) == {"computed", "absent", "not computed"}


def test_absent_clients_have_a_plain_zero_in_the_cells() -> None:
    table = cells_table(made_history(participation=0.5))
    column = next(name for name in table if name.startswith("loss reduction"))
    absent = [v for v, state in zip(table[column], table["state"], strict=True) if state == "absent"]
    assert absent
    assert {str(value) for value in absent} == {"0.0"}


def test_warnings_about_the_log_follow_into_the_folder(tmp_path: Path) -> None:
    warning = Problem("W_NORM", "epoch 3, client =x", "=1+1", "about 1", "Look at it.")
    written = write_history_tables(skipping_history(), tmp_path, FillPolicy.EQUAL, (warning,))
    assert tmp_path / "warnings.csv" in written
    assert '"\'=1+1"' in (tmp_path / "warnings.csv").read_text("utf-8-sig")


def test_hostile_names_stay_distinct_and_harmless_in_csv_and_exact_in_parquet(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    history = replace(made_history(clients=len(HOSTILE_NAMES), epochs=4), client_ids=HOSTILE_NAMES)
    write_history_tables(history, tmp_path)
    for name in history_tables(history):
        written = (tmp_path / f"{name}.csv").read_bytes().decode("utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(written, newline="")))
        found = {row["client"] for row in rows}
        assert len(found) == len(HOSTILE_NAMES)
        assert {undo(cell) for cell in found} == set(HOSTILE_NAMES)
        assert not any(cell.startswith(RUNNABLE) for cell in found)
        assert set(pq.read_table(tmp_path / f"{name}.parquet")["client"].to_pylist()) == set(HOSTILE_NAMES)
    again = read_run_log(tmp_path / "contributions.parquet")
    assert set(again.client_ids) == set(HOSTILE_NAMES)
    assert len(read_run_log(tmp_path / "contributions.csv").client_ids) == len(HOSTILE_NAMES)
    assert json.loads((tmp_path / "history.json").read_text())["clients"] == list(HOSTILE_NAMES)


def test_totals_are_those_of_the_page_and_say_their_sign() -> None:
    history = skipping_history()
    table = totals_table(history)
    credit = history.of("loss").values[0] - history.totals("loss")
    np.testing.assert_array_equal(table["loss reduction total (help is up)"], credit)
    shares = table["loss share of the help"]
    assert sum(shares) == pytest.approx(1.0)
    assert all((share == 0) == (total <= 0) for share, total in zip(shares, credit, strict=True))


def test_alerts_leave_with_all_their_facts_and_what_was_decided() -> None:
    report = full_report()
    first = report.detection.alerts[0]
    step = ReviewStep(StepKind.DECISION, 3, "ab" * 32, "2026-11-17T12:00:00+00:00", "ada", "x", AlertState.CONFIRMED)
    reviews = Reviews((AlertReview(*alert_key(first), "cd" * 16, (step,)),))
    table = alerts_table(report, reviews)
    assert table["client"] == [a.client for a in report.detection.alerts]
    for n, alert in enumerate(report.detection.alerts):
        assert json.loads(table["facts"][n]) == json.loads(json.dumps(alert.to_json()["evidence"]))
        assert table["for"][n] == " ".join(words.why(alert))
        assert table["against"][n] == " ".join(words.counter_evidence(alert))
    assert (table["state"][0], table["decided by"][0], table["state"][1]) == ("confirmed", "ada", "new")
    at = table["mean contribution inside the window (help is up)"]
    assert at[0] is None or at[0] == -float(first.mean_inside or 0.0)


def test_names_of_files_hold_the_run_and_are_plain() -> None:
    for hostile in HOSTILE_NAMES:
        name = file_name(hostile, "409cc87e8605e8af", "totals", "csv")
        assert re.fullmatch(r"([a-z0-9-]+-)?409cc87e-totals\.csv", name), name
        assert re.fullmatch(r"409cc87e-extract(-[a-z0-9-]+)?\.html", extract_name("409cc87e8605e8af", hostile, "html"))


def test_every_header_that_has_a_sign_says_which_way_is_up(tmp_path: Path) -> None:
    history = skipping_history()
    assert {"loss (harm is up)", "accuracy (help is up)"} <= set(contributions_table(history))
    write_history_tables(history, tmp_path)
    again = read_run_log(tmp_path / "contributions.csv")
    assert isinstance(again, ContributionTable)
    assert (again.utilities, again.lower_is_better) == (history.utilities, frozenset({"loss"}))


def test_a_stated_sign_is_read_and_a_contradicting_one_stays_in_the_name(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(
        "epoch,client,cost (harm is up),loss (help is up)\n1,a,0.5,0.1\n1,b,-0.5,0.2\n2,a,0.1,0.1\n2,b,0.1,0\n"
    )
    table = read_run_log(path)
    assert isinstance(table, ContributionTable)
    assert table.utilities == ("cost", "loss (help is up)")
    assert table.lower_is_better == frozenset({"cost"})
