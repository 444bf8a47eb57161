"""Does the drawing of a schedule show what the schedule says, and nothing it should not?"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from flcontrib_core.charts.palette import LIGHT
from flcontrib_core.charts.schedule_file import schedule_svg, write_schedule
from flcontrib_core.errors import SettingsError
from flcontrib_core.scheduling.choose import choose_epochs
from flcontrib_core.scheduling.schedule import BudgetSettings, SchedulingProblem
from tests.scheduling.instances import random_problem

SVG = "{http://www.w3.org/2000/svg}"


def drawn(problem: SchedulingProblem, settings: BudgetSettings) -> tuple[ElementTree.Element, str]:
    picture = schedule_svg(choose_epochs(problem, settings))
    return ElementTree.fromstring(picture), picture


def written(picture: str) -> str:
    """The words of the drawing; a long line goes on in the next one."""
    return " ".join(t for e in ElementTree.fromstring(picture).iter(f"{SVG}text") for t in e.itertext())


def boxes(path: str) -> list[tuple[float, ...]]:
    """x, y, width, height of the rectangles in a path's steps."""
    number = r"(-?[\d.]+)"
    found = re.findall(rf"M{number} {number}h{number}v{number}h", path)
    return [tuple(float(v) for v in box) for box in found]


def test_bars_are_filled_where_computed_and_hatched_where_not() -> None:
    problem = random_problem(20, 6, 0.5, 0)
    schedule = choose_epochs(problem, BudgetSettings(7))
    picture = schedule_svg(schedule)
    bars = boxes(re.search(rf'<path d="([^"]+)" fill="{LIGHT.ink}"/>', picture)[1])  # type: ignore[index]
    assert len(bars) == len(schedule.chosen) == 7
    hatched = re.search(r'<clipPath[^>]*><path [^>]*d="([^"]+)"', picture)
    assert hatched is not None
    assert hatched[1].count("M") == 13
    heights = np.array([abs(height) for *_, height in bars])
    share = problem.movement[[t - 1 for t in schedule.chosen]]
    rest = heights < heights.max() - 0.5
    np.testing.assert_allclose(heights[rest] / heights[rest].sum(), share[rest] / share[rest].sum(), atol=5e-3)


def test_the_title_is_the_finding() -> None:
    root, picture = drawn(random_problem(30, 6, 0.9, 1), BudgetSettings(18))
    title = root.findtext(f"{SVG}title")
    assert title is not None
    assert title.startswith("Computing 18 of 30 epochs covers ")
    assert "every client is seen in at least" in title
    assert title.partition(";")[0] in written(picture)


def test_unseen_clients_and_unused_budget_are_said() -> None:
    eye = SchedulingProblem(np.ones(18), np.eye(18, dtype=bool), tuple(map(str, range(18))))
    _, picture = drawn(eye, BudgetSettings(9, gamma=50.0, at_most=True))
    assert "18 clients are never seen" in written(picture)
    assert "9 of the budget unused" in written(picture)


def test_a_first_epoch_that_dwarfs_the_others_is_cut_and_labelled() -> None:
    movement = np.array([90.0, 2.0, 3.0, 2.0, 3.0])
    _, picture = drawn(SchedulingProblem(movement, np.ones((5, 2), dtype=bool), ("a", "b")), BudgetSettings(2))
    assert "↑ 90%" in picture
    bars = boxes(re.search(rf'<path d="([^"]+)" fill="{LIGHT.ink}"/>', picture)[1])  # type: ignore[index]
    assert min(abs(height) for *_, height in bars) > 100


@pytest.mark.parametrize("epochs", [1, 2, 13, 400])
def test_any_length_is_drawn(epochs: int) -> None:
    root, _ = drawn(random_problem(epochs, 3, 1.0, 0), BudgetSettings(1))
    labels = [t.text for t in root.iter(f"{SVG}text") if (t.text or "").isdigit()]
    assert 1 <= len(labels) <= 14


def test_nothing_moved_is_drawn_without_a_bar() -> None:
    _, picture = drawn(SchedulingProblem(np.zeros(3), np.ones((3, 1), dtype=bool), ("a",)), BudgetSettings(1))
    assert "covers 0%" in picture


def test_files_by_ending(tmp_path: Path) -> None:
    schedule = choose_epochs(random_problem(10, 3, 0.5, 0), BudgetSettings(4))
    assert write_schedule(schedule, tmp_path / "s.svg") == tmp_path / "s.svg"
    write_schedule(schedule, str(tmp_path / "s.html"))
    picture = (tmp_path / "s.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(picture)
    page = (tmp_path / "s.html").read_text(encoding="utf-8")
    assert picture.partition("?>")[2].strip() in page
    assert "<script" not in page
    assert write_schedule(schedule, tmp_path / "s.png").read_bytes().startswith(b"\x89PNG\r\n")
    with pytest.raises(SettingsError, match=r"\.svg, \.png or \.html"):
        write_schedule(schedule, tmp_path / "s.jpg")
    assert not (tmp_path / "s.jpg").exists()
