"""The scorecard says what the boosted stumps say, never against a measurement's meaning, at the promised rate."""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.detection.scorecard import Scorecard
from flcontrib_core.detection.weighing import MEANING
from flcontrib_core.laboratory.scorecard_fit import WINDOW_RATES, HarmfulWindows, _boosted, fit_scorecard

NAMES = list(MEANING)
WINDOWS = 600


@pytest.fixture(scope="module")
def windows() -> HarmfulWindows:
    """Dishonest windows have a larger value and a lower margin; some measurements are unknown."""
    rng = np.random.default_rng(0)
    measured = rng.normal(size=(WINDOWS, len(NAMES)))
    right = rng.random(WINDOWS) < 0.6
    measured[right, NAMES.index("value, in standard errors")] += 2.0
    measured[right, NAMES.index("own step's margin, in standard errors")] -= 1.5
    measured[rng.random(measured.shape) < 0.1] = np.nan
    families = tuple(("plain", "changing", "attacked")[k % 3] for k in range(WINDOWS))
    return HarmfulWindows(measured, np.arange(WINDOWS), right, ~right, families)


@pytest.fixture(scope="module")
def card(windows: HarmfulWindows) -> Scorecard:
    return fit_scorecard(windows)


def log_odds(card: Scorecard, row: np.ndarray) -> float:
    return card.base + sum(card.points(dict(zip(NAMES, row.tolist(), strict=True))).values())


def test_the_card_adds_up_to_what_the_stumps_say(windows: HarmfulWindows, card: Scorecard) -> None:
    said = _boosted(windows.measured, windows.right).decision_function(windows.measured)
    summed = [log_odds(card, row) for row in windows.measured]
    np.testing.assert_allclose(summed, said, atol=5e-3)


def test_no_ladder_is_bent_against_what_its_measurement_means(card: Scorecard) -> None:
    for name, ladder in card.ladders.items():
        steps = np.diff(ladder.points)
        assert (MEANING[name] * steps >= 0).all() or MEANING[name] == 0, name
    assert card.ladders["value, in standard errors"].points[-1] > card.ladders["value, in standard errors"].points[0]


def test_few_runs_accuse_an_innocent_above_the_limit(windows: HarmfulWindows, card: Scorecard) -> None:
    above = np.array([log_odds(card, row) for row in windows.measured]) > card.limit
    for family in ("plain", "changing", "attacked"):
        mine = np.array([name == family for name in windows.families])
        # the card was fitted to these windows, so it accuses no more of their innocents than one that was not
        assert (above & windows.innocent & mine).sum() <= int(WINDOW_RATES[family] * mine.sum())
    assert above[windows.right].mean() > 0.3


def test_a_handful_of_windows_teaches_nothing(windows: HarmfulWindows) -> None:
    few = HarmfulWindows(windows.measured[:20], windows.run[:20], windows.right[:20], windows.innocent[:20], ())
    assert windows.suffice
    assert not few.suffice
