"""A window below the threshold accuses only where harm was measured and weighs more than is asked of others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.detection.alerts import raise_alerts, read_verdicts
from flcontrib_core.detection.calibration import Calibration, shipped_calibration
from flcontrib_core.detection.experts import EXPERTS
from flcontrib_core.detection.faint_windows import FAINT_ASKS, faint_windows, oversized_harm, stands_alone
from flcontrib_core.detection.findings import Alert, VerdictKind
from flcontrib_core.detection.objections import FaintChange, HoldsUnder
from flcontrib_core.detection.reading import reading_of
from flcontrib_core.detection.reasons import ExpertScore, WeighedEvidence
from flcontrib_core.detection.search import FoundWindow
from flcontrib_core.detection.weighing import window_case
from flcontrib_core.detection.windows import WindowModel
from flcontrib_core.history.contribution_history import ContributionHistory
from tests.detection.made_histories import made_history


def _faint_attack() -> ContributionHistory:
    return made_history(poisoned=[(3, 12, 15)], shift=2.0, seed=2)


def _limited(limit: float) -> Calibration:
    shipped = shipped_calibration()
    assert shipped.scorecard is not None
    return replace(shipped, scorecard=replace(shipped.scorecard, limit=limit))


def _alerts(limit: float, check: bool = False) -> tuple[Alert, ...]:
    return read_verdicts(_faint_attack(), calibration=_limited(limit), check_sensitivity=check).alerts


def _log_odds() -> float:
    (alert,) = _alerts(-99.0)
    fact = alert.reason(WeighedEvidence)
    assert fact is not None
    return fact.log_odds


def test_harm_in_a_faint_window_accuses_where_it_weighs_enough_and_says_that_the_change_is_faint() -> None:
    (alert,) = _alerts(-99.0)
    assert alert.verdict is VerdictKind.POISONING_WINDOW
    assert alert.client == "client-03"
    assert alert.window == (12, 15)
    (faint,) = [fact for fact in alert.evidence_against if isinstance(fact, FaintChange)]
    score = alert.reason(ExpertScore)
    assert score is not None
    assert score.score < score.threshold
    assert 0 < faint.below < 3


@pytest.mark.parametrize(("spare", "accused"), [(0.1, 1), (-0.1, 0)])
def test_a_faint_window_must_weigh_a_unit_of_a_preset_more_than_others(spare: float, accused: int) -> None:
    card = shipped_calibration().scorecard
    assert card is not None
    limit = _log_odds() - FAINT_ASKS * card.scale - spare
    alerts = _alerts(limit)
    assert len(alerts) == accused, "where it weighs too little it is nothing, not even a question"
    for alert in alerts:
        fact = alert.reason(WeighedEvidence)
        assert fact is not None
        assert fact.accuses_at == pytest.approx(limit + FAINT_ASKS * card.scale)


def test_a_faint_window_is_held_against_the_alternative_settings_too() -> None:
    (alert,) = _alerts(-99.0, check=True)
    (held,) = [fact for fact in alert.context if isinstance(fact, HoldsUnder)]
    assert 0 < held.holds <= held.settings


def test_no_faint_window_of_a_growing_run_nor_where_nothing_is_weighed() -> None:
    history, calibration = _faint_attack(), _limited(-99.0)
    growing = reading_of(history, calibration, 0.0, WindowModel(), online=True)
    table = reading_of(replace(history, channels=None), calibration, 0.0, WindowModel())
    without_card = reading_of(history, replace(calibration, scorecard=None), 0.0, WindowModel())
    assert faint_windows(reading_of(history, calibration, 0.0, WindowModel()))
    assert not faint_windows(growing)
    assert not faint_windows(table)
    assert not faint_windows(without_card)


def test_a_client_with_a_window_above_the_threshold_has_no_faint_one() -> None:
    reading = reading_of(made_history(poisoned=[(3, 12, 19)]), shipped_calibration(), 0.0, WindowModel())
    assert [w.client for w in reading.search.windows] == [3]
    assert 3 not in {w.client for w in faint_windows(reading)}


def test_a_faint_window_of_size_stands_alone_only_where_the_own_updates_grew() -> None:
    reading = reading_of(_faint_attack(), _limited(-99.0), 0.0, WindowModel())
    (window,) = [w for w in faint_windows(reading) if w.client == 3]
    assert stands_alone(reading, window)
    size = next(e for e in EXPERTS if e.name == "size")
    of_size: FoundWindow = replace(window, expert=size)
    assert not stands_alone(reading, of_size), "the planted updates have the size they always had"
    raw = reading.history.channels
    assert raw is not None
    norm = raw.norm.copy()
    norm[12:16, 3] *= 4.0
    grown = replace(reading, history=replace(reading.history, channels=replace(raw, norm=norm)))
    assert stands_alone(grown, of_size)


@pytest.mark.parametrize(("steps", "accused"), [(40.0, True), (15.0, False)])
def test_grown_updates_need_no_weighing_in_a_faint_window_only_at_twice_the_harm(steps: float, accused: bool) -> None:
    reading = reading_of(_faint_attack(), _limited(99.0), 0.0, WindowModel())
    (window,) = [w for w in faint_windows(reading) if w.client == 3]
    raw = reading.history.channels
    assert raw is not None
    norm, loss = raw.norm.copy(), raw.solo_loss.copy()
    norm[12:16, 3] *= 9.0
    loss[12:16, 3] = steps * np.nanmedian(np.abs(loss)) + 0.1 * np.arange(4)
    grown = replace(reading, history=replace(reading.history, channels=replace(raw, norm=norm, solo_loss=loss)))
    case = window_case(grown.history, grown.channels, grown.search, window, grown.model)
    assert case.oversized_harm is not None
    assert (oversized_harm(grown, case) is not None) == accused
    above = replace(grown, threshold=window.u - 1.0)
    assert oversized_harm(above, case) is not None


def test_honest_histories_have_no_faint_accusation() -> None:
    accused = [
        seed
        for seed in range(20)
        if any(
            a.accuses
            for a in raise_alerts(reading_of(made_history(seed=seed), shipped_calibration(), 0.0, WindowModel()), False)
        )
    ]
    assert not accused
