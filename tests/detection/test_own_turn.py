"""An update that turns from its client's others counts by how much further it turns than the other participants'."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flcontrib_core.detection.calibration import shipped_calibration
from flcontrib_core.detection.own_turn import CLEAREST, mean_turn, turns_beside_others
from flcontrib_core.detection.reading import reading_of
from flcontrib_core.detection.windows import WindowModel
from tests.detection.made_histories import made_history

EPOCHS = np.arange(1, 31)
WINDOW = (EPOCHS >= 12) & (EPOCHS <= 19)
NOTHING = np.zeros(30, dtype=bool)
ALWAYS = np.ones(30, dtype=bool)


def turn_of(cosines: np.ndarray, client: int) -> float:
    raw = made_history().channels
    assert raw is not None
    turns = turns_beside_others(replace(raw, own_cosine=cosines), EPOCHS)
    return mean_turn(turns[:, client], ALWAYS, WINDOW, NOTHING)


def cosines() -> np.ndarray:
    return np.random.default_rng(0).normal(0.5, 0.02, (31, 8))


def test_who_alone_turns_stands_out_and_who_turns_with_everybody_does_not() -> None:
    alone, together = cosines(), cosines()
    alone[12:20, 3] -= 0.3
    together[12:20] -= 0.3
    assert turn_of(alone, 3) > 10
    assert abs(turn_of(together, 3)) < 5
    assert abs(turn_of(cosines(), 3)) < 5


def test_one_participation_borrows_its_spread_from_those_outside_the_client_s_windows() -> None:
    turns = np.where(WINDOW, np.nan, np.random.default_rng(1).normal(0, 0.1, 30))
    once = turns.copy()
    once[14] = 0.5
    other_window = turns.copy()
    other_window[20:23], other_window[14] = 9.0, 0.5
    explained = np.zeros(30, dtype=bool)
    explained[20:23] = True
    clear = mean_turn(once, ALWAYS, WINDOW, NOTHING)
    assert 3 < clear < CLEAREST
    assert mean_turn(other_window, ALWAYS, WINDOW, explained) > mean_turn(other_window, ALWAYS, WINDOW, NOTHING)
    assert np.isnan(mean_turn(turns, ALWAYS, WINDOW, NOTHING)), "no observation inside"
    alone = np.where(np.arange(30) == 14, 0.5, np.nan)
    assert np.isnan(mean_turn(alone, ALWAYS, WINDOW, NOTHING)), "one observation and no spread to hold it against"


def test_a_table_of_contributions_has_no_turns() -> None:
    table = replace(made_history(), channels=None)
    assert reading_of(table, shipped_calibration(), 0.0, WindowModel()).turns is None
