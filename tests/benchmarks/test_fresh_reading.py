"""Runs of three makers, read once: what is kept of a run is true of it, and the tables count what the answers say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.detection_fresh_tables import _at_ends, answer_of, tables
from benchmarks.other_hand.attacks import Attack
from benchmarks.other_hand.draws import draw
from benchmarks.other_hand.examining import labelled
from benchmarks.other_hand.federation import make_run
from benchmarks.other_hand.pools import MADE_UP, PACKAGED
from flcontrib_core.detection.alerts import read_verdicts
from flcontrib_core.history.remarks import NoValues


@pytest.mark.parametrize("with_rows", [True, False])
def test_a_run_of_another_hand_is_assessed_with_its_truth(with_rows: bool, tmp_path: Path) -> None:
    """A log without a model is read by its updates alone, and is kept all the same."""
    setup = replace(draw(0, (*PACKAGED, *MADE_UP)), pool="wine", net="softmax", clients=5, epochs=4, failing=0.0)
    attack = Attack("sign-flip", [2], [[2, 3]], 1.0)
    setup = replace(setup, kind="attacked", participation=1.0, with_rows=with_rows, changes=[], attacks=[attack])
    told = make_run(setup, tmp_path / "00007")
    run = labelled(tmp_path / "00007", "other")
    assert run is not None
    assert run.run_id == "other/attacked/00007"
    assert [(label.client, label.windows) for label in run.truth.dishonest] == [
        (told["attackers"][0]["client"], ((2, 2), (3, 3)))
    ]
    assert run.history.without_values is (None if with_rows else NoValues.NO_MODEL)
    answer = answer_of(run, read_verdicts(run.history, check_sensitivity=False))
    assert [attack for attack, _ in answer["found"]] == ["sign-flip"]
    assert labelled(tmp_path / "absent", "other") is None


def answer(run: str, **said: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {"found": [], "innocents": [], "probabilities": [], "overlaps": [], "changes": []}
    return {"run": run, "group": run.split("/", 1)[1].rpartition("/")[0], "ends": [], "jumps": [], **plain, **said}


def test_the_tables_count_each_hand_family_and_kind() -> None:
    accused = [["site-1", "poisoning-window", [3, 9]]]
    text = tables(
        [
            answer("report/plain/any/1300", jumps=[True, False]),
            answer("report/changing/float16/one/from/1300", innocents=accused, changes=[["site-1", "float16", None]]),
            answer("report/attacked/scale-5/window/any/1300", found=[["scale", True], ["scale", False]]),
            answer("report/mixed/window/1300", found=[["zero", True]], ends=[[0.8, True]]),
            answer("third/attacked/sealed-9", found=[["scale", True]], probabilities=[[0.1, False, "nothing-found"]]),
        ]
    )
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines() if line.startswith("| ")}
    assert "1.000 (1 of 1;" in rows["innocents accused: honestly changing runs"]
    assert "0.000 (0 of 2;" in rows["innocents accused: attacked runs"]
    assert "0.667 (2 of 3;" in rows["attackers found"]
    assert rows["scale"] == "| scale | 1 of 2 | 0 of 0 | 1 of 1 |"
    assert "0.500 (1 of 2;" in rows["scaled ×5 and ×10 in a window"]
    assert "0.500 (1 of 2;" in rows["honest clients of plain runs with any p > .5"]
    assert rows["mass at both ends of a flip's window, mean"].endswith("| 0.80 of 1 |")
    assert "site-1 float16" in rows["report/changing/float16/one/from/1300"]


def test_mass_beside_an_end_counts_and_mass_elsewhere_does_not() -> None:
    mass = np.zeros(30)
    mass[[9, 21]] = 0.6, 0.6  # the window 10..20: its first epoch and the one after its last
    mass[3] = 0.4
    share, both = _at_ends(mass, (10, 20))
    assert share == pytest.approx(0.75)
    assert both
    assert not _at_ends(mass, (10, 25))[1]
