"""What was measured of a harmful window is weighed by a scorecard; only what weighs enough accuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.detection.alerts import read_verdicts
from flcontrib_core.detection.calibration import Calibration, from_json, shipped_calibration, to_json
from flcontrib_core.detection.findings import Alert, VerdictKind
from flcontrib_core.detection.objections import WeighsTooLittle
from flcontrib_core.detection.reading import reading_of
from flcontrib_core.detection.reasons import OversizedHarm, WeighedEvidence
from flcontrib_core.detection.weighing import MEANING, window_case
from flcontrib_core.detection.windows import WindowModel
from tests.detection.made_histories import made_history


def _only(calibration: Calibration, preset: str = "default") -> Alert:
    history = made_history(poisoned=[(3, 12, 19)])
    (alert,) = read_verdicts(history, preset, calibration, check_sensitivity=False).alerts
    return alert


def _limited(limit: float) -> Calibration:
    shipped = shipped_calibration()
    assert shipped.scorecard is not None
    return replace(shipped, scorecard=replace(shipped.scorecard, limit=limit))


def test_every_measurement_has_a_meaning_and_is_finite_where_all_is_known() -> None:
    history = made_history(poisoned=[(3, 12, 19)])
    reading = reading_of(history, shipped_calibration(), 0.0, WindowModel())
    (window,) = reading.search.windows
    measured = window_case(history, reading.channels, reading.search, window, reading.model).measurements()
    assert set(measured) == set(MEANING)
    assert all(np.isfinite(value) for value in measured.values())
    card = shipped_calibration().scorecard
    assert card is not None
    assert set(card.ladders) <= set(MEANING)


def test_an_accusation_says_how_much_its_evidence_weighs_and_what_counted() -> None:
    alert = _only(shipped_calibration())
    fact = alert.reason(WeighedEvidence)
    card = shipped_calibration().scorecard
    assert fact is not None
    assert card is not None
    assert alert.verdict is VerdictKind.POISONING_WINDOW
    assert fact.log_odds > fact.accuses_at == card.limit
    assert alert.score == card.excess(fact.log_odds)
    sizes = [abs(points.points) for points in fact.most]
    assert sizes == sorted(sizes, reverse=True)


def test_harm_that_weighs_too_little_is_a_question_and_says_so() -> None:
    alert = _only(_limited(99.0))
    assert not alert.accuses
    (objection,) = [fact for fact in alert.evidence_against if isinstance(fact, WeighsTooLittle)]
    assert objection.accuses_at == 99.0
    assert alert.reason(WeighedEvidence) is None


def test_a_stricter_preset_asks_for_more_log_odds() -> None:
    shipped = shipped_calibration()
    assert shipped.scorecard is not None
    fact = _only(shipped).reason(WeighedEvidence)
    assert fact is not None
    card = replace(shipped.scorecard, limit=fact.log_odds - 1.5 * shipped.scorecard.scale)
    between = replace(shipped, scorecard=card)
    assert _only(between).accuses
    assert not _only(between, "strict").accuses


def test_accusations_stand_before_questions_however_loud_these_are() -> None:
    history = made_history(poisoned=[(3, 12, 19)])
    assert history.channels is not None
    norm = history.channels.norm.copy()
    norm[22:28, 5] *= 40.0
    alerts = read_verdicts(replace(history, channels=replace(history.channels, norm=norm))).alerts
    assert [a.accuses for a in alerts] == sorted((a.accuses for a in alerts), reverse=True)
    assert len({a.accuses for a in alerts}) == 2


def test_the_card_survives_its_file() -> None:
    shipped = shipped_calibration()
    assert from_json(to_json(shipped)).scorecard == shipped.scorecard


def test_oversized_harm_needs_no_weighing_and_growth_alone_is_no_harm() -> None:
    history = made_history(poisoned=[(3, 12, 19)])
    raw = history.channels
    assert raw is not None
    norm, loss = raw.norm.copy(), raw.solo_loss.copy()
    norm[12:20, 3] *= 9.0
    loss[12:20, 3] = 100.0 * np.nanmedian(np.abs(loss)) + 0.1 * np.arange(8)
    grown = replace(history, channels=replace(raw, norm=norm, solo_loss=loss))
    heavy = _limited(99.0)
    alert, *_ = read_verdicts(grown, calibration=heavy, check_sensitivity=False).alerts
    fact = alert.reason(OversizedHarm)
    assert alert.accuses
    assert fact is not None
    assert fact.growth > 3.5
    assert fact.steps > 10
    assert any(isinstance(fact, WeighsTooLittle) for fact in alert.evidence_against), (
        "what speaks against it stays said"
    )
    again = norm.copy()
    again[[5, 6, 7, 25, 26, 27], 3] *= 9.0  # on and off: its other windows do not hide how much it grew
    off = replace(history, channels=replace(raw, norm=again, solo_loss=loss))
    growth = [a.reason(OversizedHarm) for a in read_verdicts(off, calibration=heavy, check_sensitivity=False).alerts]
    assert [fact.growth for fact in growth if fact is not None] == [pytest.approx(9.0, rel=0.3)]
    harmless = replace(history, channels=replace(raw, norm=norm))
    assert not any(a.accuses for a in read_verdicts(harmless, calibration=heavy, check_sensitivity=False).alerts)
