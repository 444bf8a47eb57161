"""The counting rules: what is a hit, what is a false alarm, and how sure was it?"""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.detection.findings import Alert, ChangePoints, ClientVerdict, Detection, VerdictKind
from flcontrib_core.detection.objections import FalseAlarmRate
from flcontrib_core.laboratory.scoring import (
    alerting_share,
    calibration_error,
    f1,
    mean_iou,
    precision,
    recall,
    score_run,
)


def _alert(client: str, kind: VerdictKind, window: tuple[int, int] | None) -> Alert:
    return Alert(client, kind, window, 0.9, 3.0, "harm", (), (), ())


def _detection(*alerts: Alert) -> Detection:
    clients = tuple(
        ClientVerdict(c, VerdictKind.NOTHING_FOUND, 0.9 if any(a.client == c for a in alerts) else 0.1, None, 0.0, ())
        for c in ("a", "b", "c")
    )
    unread = np.zeros((2, 3))
    rate = FalseAlarmRate(0, 0, None, None, every_epoch=False)
    return Detection(
        alerts, clients, ChangePoints(("a", "b", "c"), "", "", unread, unread), None, "default", rate, None
    )


def test_an_overlapping_window_is_a_hit_and_another_place_is_not() -> None:
    truth = {"a": ((10, 19),)}
    hit = score_run(_detection(_alert("a", VerdictKind.POISONING_WINDOW, (12, 21))), truth)
    miss = score_run(_detection(_alert("a", VerdictKind.POISONING_WINDOW, (1, 9))), truth)
    assert hit.found == (True,)
    assert hit.ious == (pytest.approx(8 / 12),)
    assert miss.found == (False,)
    assert not hit.alerts
    assert not miss.alerts  # the client was dishonest, elsewhere


def test_a_question_is_no_hit_and_persistence_is_counted_apart() -> None:
    truth = {"a": ((1, 30),)}
    asked = score_run(_detection(_alert("a", VerdictKind.PERSISTENTLY_HARMFUL, None)), truth)
    assert (asked.found, asked.persistent) == ((False,), (True,))
    mixed = score_run(_detection(_alert("a", VerdictKind.CLASS_MIX_CHANGED, (1, 30))), truth)
    assert mixed.found == (False,)


def test_kinds_on_honest_clients_are_counted_apart() -> None:
    score = score_run(
        _detection(
            _alert("b", VerdictKind.PERSISTENTLY_HARMFUL, None), _alert("c", VerdictKind.CLASS_MIX_CHANGED, (2, 5))
        ),
        {},
    )
    assert (score.false_positives, score.honest_persistent, score.honest_mix) == (0, 1, 1)
    assert score_run(_detection(_alert("b", VerdictKind.EXACT_FINDING, (2, 2))), {}).alerts


def test_two_windows_are_counted_one_by_one() -> None:
    truth = {"a": ((3, 6), (20, 24))}
    score = score_run(_detection(_alert("a", VerdictKind.POISONING_WINDOW, (20, 24))), truth)
    assert score.found == (True,)
    assert score.windows_found == (False, True)


def test_rates_over_runs() -> None:
    truth = {"a": ((10, 19),)}
    right = score_run(_detection(_alert("a", VerdictKind.POISONING_WINDOW, (10, 19))), truth)
    wrong = score_run(_detection(_alert("b", VerdictKind.POISONING_WINDOW, (10, 19))), truth)
    assert recall([right, wrong]) == 0.5
    assert precision([right, wrong]) == 0.5
    assert f1([right, wrong]) == 0.5
    assert mean_iou([right, wrong]) == 1.0
    assert alerting_share([right, wrong]) == 0.5


def test_calibration_error_of_honest_and_of_boastful_probabilities() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(50_000)
    y = (rng.random(len(p)) < p).astype(float)
    assert calibration_error(p, y) < 0.01
    assert calibration_error(np.full(100, 0.95), np.full(100, 0.5).round()) == pytest.approx(0.95)
