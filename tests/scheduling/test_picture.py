"""Does the picture show what the schedule says, and nothing it should not?"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.errors import SettingsError
from flcontrib_core.scheduling.choose import choose_epochs
from flcontrib_core.scheduling.picture import schedule_picture, write_picture
from flcontrib_core.scheduling.schedule import BudgetSettings, SchedulingProblem
from tests.scheduling.instances import random_problem

SVG = "{http://www.w3.org/2000/svg}"


def drawn(problem: SchedulingProblem, settings: BudgetSettings) -> tuple[ElementTree.Element, str]:
    picture = schedule_picture(problem, choose_epochs(problem, settings))
    return ElementTree.fromstring(picture), picture


def test_bars_and_squares_are_filled_where_computed_and_hatched_where_not() -> None:
    problem = random_problem(20, 6, 0.5, 0)
    schedule = choose_epochs(problem, BudgetSettings(7))
    root = ElementTree.fromstring(schedule_picture(problem, schedule))
    marks = [r for r in root.findall(f"{SVG}rect") if r.get("x") is not None]
    bars, squares = marks[0::2], marks[1::2]
    computed = {t for t, bar in enumerate(bars, 1) if bar.get("fill") == "#171A21"}
    hatched = {t for t, bar in enumerate(bars, 1) if bar.get("fill") == "url(#skipped)"}
    assert computed == set(schedule.chosen)
    assert hatched == set(range(1, 21)) - computed
    assert {t for t, square in enumerate(squares, 1) if square.get("fill") != "none"} == computed
    heights = np.array([float(str(bar.get("height"))) for bar in bars])
    rest = heights < heights.max()
    np.testing.assert_allclose(
        heights[rest] / heights[rest].sum(), problem.movement[rest] / problem.movement[rest].sum(), atol=1e-3
    )


def test_the_title_is_the_finding() -> None:
    root, _ = drawn(random_problem(30, 6, 0.9, 1), BudgetSettings(18))
    title = root.findtext(f"{SVG}title")
    assert title is not None
    assert title.startswith("Computing 18 of 30 epochs covers ")
    assert "every client is seen in at least" in title


def test_unseen_clients_and_unused_budget_are_said() -> None:
    eye = SchedulingProblem(np.ones(18), np.eye(18, dtype=bool), tuple(map(str, range(18))))
    _, picture = drawn(eye, BudgetSettings(9, gamma=50.0, at_most=True))
    assert "18 clients are never seen" in picture
    assert "9 of the budget unused" in picture


def test_a_first_epoch_that_dwarfs_the_others_is_cut_and_labelled() -> None:
    movement = np.array([90.0, 2.0, 3.0, 2.0, 3.0])
    root, picture = drawn(SchedulingProblem(movement, np.ones((5, 2), dtype=bool), ("a", "b")), BudgetSettings(2))
    assert "90%" in picture
    bars = [r for r in root.findall(f"{SVG}rect") if r.get("x") is not None][0::2]
    assert float(str(bars[2].get("height"))) > 100


@pytest.mark.parametrize("epochs", [1, 2, 13, 400])
def test_any_length_is_drawn(epochs: int) -> None:
    root, _ = drawn(random_problem(epochs, 3, 1.0, 0), BudgetSettings(1))
    labels = [t.text for t in root.findall(f"{SVG}text") if (t.text or "").isdigit()]
    assert 1 <= len(labels) <= 14


def test_nothing_moved_is_drawn_without_a_bar() -> None:
    _, picture = drawn(SchedulingProblem(np.zeros(3), np.ones((3, 1), dtype=bool), ("a",)), BudgetSettings(1))
    assert "covers 0%" in picture


def test_files_by_ending(tmp_path: Path) -> None:
    problem = random_problem(10, 3, 0.5, 0)
    schedule = choose_epochs(problem, BudgetSettings(4))
    assert write_picture(problem, schedule, tmp_path / "s.svg") == tmp_path / "s.svg"
    write_picture(problem, schedule, tmp_path / "s.html")
    picture = (tmp_path / "s.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg")
    page = (tmp_path / "s.html").read_text(encoding="utf-8")
    assert picture in page
    assert "<script" not in page
    with pytest.raises(SettingsError, match=r"\.svg or \.html"):
        write_picture(problem, schedule, tmp_path / "s.png")
    assert not (tmp_path / "s.png").exists()
