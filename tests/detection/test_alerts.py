"""What a person is told: kinds, windows, reasons, counter-evidence, and silence where there is nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.detection.alerts import read_verdicts
from flcontrib_core.detection.channels import CHANNEL_NAMES
from flcontrib_core.detection.facts import (
    AlwaysAlone,
    NeverTookPart,
    StandsOutByReflection,
    ValuesPartlyComputed,
)
from flcontrib_core.detection.findings import Alert, Detection, VerdictKind
from flcontrib_core.detection.objections import (
    AskFirst,
    FewComputed,
    HappenedOnce,
    LooksLikeLowQuality,
    NotComputedInside,
    NotHarmfulOnAverage,
    OrdinaryCause,
    OrdinaryCauses,
    OthersMovedToo,
    OtherUtilityHelped,
    SmallValidation,
    TouchesEnd,
    TouchesStart,
)
from flcontrib_core.detection.reasons import HarmfulThroughout, MarginLowered, SizeChanged, ValueInWindow
from flcontrib_core.errors import SettingsError
from flcontrib_core.tagged import Others
from tests.detection.made_histories import CLASSES, made_history, with_participants, with_values


def _only(detection: Detection) -> Alert:
    assert len(detection.alerts) == 1, [(a.client, a.verdict, a.window) for a in detection.alerts]
    return detection.alerts[0]


def test_a_planted_window_is_found_where_it_is() -> None:
    alert = _only(read_verdicts(made_history(poisoned=[(5, 12, 19)])))
    assert (alert.client, alert.verdict, alert.window) == ("client-05", VerdictKind.POISONING_WINDOW, (12, 19))
    assert alert.probability is not None
    assert 0.9 < alert.probability <= 0.99
    value = alert.reason(ValueInWindow)
    assert value is not None
    assert value.mean_outside is not None
    assert value.half_width is not None
    assert value.mean_inside - value.half_width > 0 > value.mean_outside
    assert (value.harmful, value.computed, value.utility) == (8, 8, "loss")
    assert (alert.computed_in_window, alert.participated_in_window) == (8, 8)
    assert tuple(c.name for c in alert.channels) == CHANNEL_NAMES


@pytest.mark.parametrize("seed", range(12))
def test_honest_noise_raises_no_alert(seed: int) -> None:
    detection = read_verdicts(made_history(seed=seed, participation=0.7 if seed % 2 else 1.0))
    assert detection.alerts == ()
    assert {c.verdict for c in detection.clients} == {VerdictKind.NOTHING_FOUND}
    assert detection.smallest_visible_shift is not None
    assert 0 < detection.smallest_visible_shift < 0.2


def test_two_windows_of_one_client_come_apart() -> None:
    detection = read_verdicts(made_history(epochs=40, poisoned=[(2, 8, 12), (2, 26, 31)], shift=8))
    assert {a.window for a in detection.alerts} == {(8, 12), (26, 31)}
    assert {a.client for a in detection.alerts} == {"client-02"}


def test_others_that_moved_too_are_named() -> None:
    detection = read_verdicts(made_history(poisoned=[(1, 12, 18), (6, 12, 18)]))
    first = next(a for a in detection.alerts if a.client == "client-01")
    assert OthersMovedToo(Others.named(["client-06"])) in first.evidence_against


def test_every_alert_has_something_against_it_and_something_for_it() -> None:
    histories = [
        made_history(poisoned=[(1, 12, 18)]),
        made_history(poisoned=[(1, 24, 30)], participation=0.5, seed=3, rows=50),
        made_history(persistent=[4], shift=10.0),
        made_history(poisoned=[(1, 12, 18)], computed=range(1, 31, 3)),
    ]
    for history in histories:
        detection = read_verdicts(history)
        assert detection.alerts
        for alert in detection.alerts:
            assert alert.evidence_against
            assert alert.evidence_for


def test_counter_evidence_names_small_validation_sets_edges_and_skipped_epochs() -> None:
    history = made_history(poisoned=[(1, 24, 30)], rows=50, computed=[*range(1, 25), 30])
    against = _only(read_verdicts(history)).evidence_against
    assert SmallValidation(50) in against
    assert TouchesEnd(30) in against
    assert NotComputedInside((25, 26, 27, 28, 29), computed=2, participated=7) in against
    assert FewComputed(2) in against


def test_a_window_without_any_value_rests_on_the_margin_and_says_so() -> None:
    history = made_history(poisoned=[(1, 12, 20)], computed=[*range(1, 12), *range(21, 31)])
    alert = _only(read_verdicts(history))
    assert alert.verdict is VerdictKind.POISONING_WINDOW
    assert alert.reason(ValueInWindow) is None
    assert alert.reason(MarginLowered) is not None
    assert FewComputed(0) in alert.evidence_against


def test_a_change_without_measured_harm_is_a_question() -> None:
    history = made_history()
    assert history.channels is not None
    norm = history.channels.norm.copy()
    norm[12:20, 1] *= 6.0
    detection = read_verdicts(replace(history, channels=replace(history.channels, norm=norm)))
    alert = _only(detection)
    assert (alert.client, alert.verdict, alert.window) == ("client-01", VerdictKind.BEHAVIOUR_CHANGED, (12, 19))
    assert not alert.accuses
    assert alert.reason(SizeChanged) is not None
    causes = OrdinaryCauses((OrdinaryCause.LOCAL_STEPS, OrdinaryCause.OPTIMISER))
    assert alert.evidence_against[0] == causes
    assert any(isinstance(fact, NotHarmfulOnAverage) for fact in alert.evidence_against)
    assert detection.clients[1].verdict is VerdictKind.BEHAVIOUR_CHANGED


def test_help_by_another_utility_speaks_against_a_window() -> None:
    history = made_history(poisoned=[(5, 12, 19)])
    values = history.values.copy()
    values[12:19, 5, 1] = 0.01
    alert = _only(read_verdicts(replace(history, values=values)))
    assert OtherUtilityHelped("accuracy", helped=7, of=8) in alert.evidence_against
    assert not any(isinstance(f, OtherUtilityHelped) for f in _only(read_verdicts(history)).evidence_against)


def test_outside_holds_no_other_window_of_the_client() -> None:
    """Either window alone has the same outside as both together."""
    alerts = read_verdicts(made_history(epochs=40, poisoned=[(2, 8, 12), (2, 26, 31)], shift=8)).alerts
    assert len(alerts) == 2
    values = [a.reason(ValueInWindow) for a in alerts]
    assert values[0] is not None
    assert values[1] is not None
    assert values[0].mean_outside == values[1].mean_outside
    assert values[0].mean_outside is not None
    assert values[0].mean_outside < 0


def test_sensitivity_counts_alternative_settings() -> None:
    alert = _only(read_verdicts(made_history(poisoned=[(5, 12, 19)])))
    assert alert.sensitivity is not None
    assert alert.sensitivity.settings >= 10
    assert alert.sensitivity.holds >= 9
    quick = _only(read_verdicts(made_history(poisoned=[(5, 12, 19)]), check_sensitivity=False))
    assert quick.sensitivity is None


def test_persistent_harm_is_told_from_a_window_and_is_a_question_for_low_quality_does_the_same() -> None:
    alert = _only(read_verdicts(made_history(persistent=[3], shift=10.0)))
    assert (alert.client, alert.verdict, alert.window) == ("client-03", VerdictKind.PERSISTENTLY_HARMFUL, None)
    assert not alert.accuses
    assert alert.evidence_against[0] == LooksLikeLowQuality()
    assert alert.reason(HarmfulThroughout) is not None
    assert not any(isinstance(f, TouchesEnd | TouchesStart) for f in alert.evidence_against)


def test_classes_that_moved_both_ways_are_a_question_unless_the_updates_turned() -> None:
    history, honest = made_history(poisoned=[(5, 12, 19)]), made_history()
    assert history.channels is not None
    assert honest.channels is not None
    margins = history.channels.solo_class_margin.copy()
    margins[12:20, 5, : CLASSES // 2] += 1.0
    margins[12:20, 5, CLASSES // 2 :] -= 0.7
    turned = replace(history.channels, solo_class_margin=margins)
    # drift moves the classes against each other, and neither their mean nor the values
    steady = replace(turned, own_cosine=honest.channels.own_cosine, solo_margin=honest.channels.solo_margin)
    alert = _only(read_verdicts(replace(history, channels=steady, values=honest.values)))
    assert alert.verdict is VerdictKind.CLASS_MIX_CHANGED
    assert alert.evidence_against[0] == AskFirst()
    assert not alert.accuses
    accused = _only(read_verdicts(replace(history, channels=turned)))
    assert accused.verdict is VerdictKind.POISONING_WINDOW


def test_repeats_under_noise_are_heard_by_their_echo() -> None:
    history = made_history()
    assert history.channels is not None
    assert history.channels.closest_own_cosine is not None
    cosine = history.channels.closest_own_cosine.copy()
    cosine[14:22, 4] = 0.995
    alert = _only(read_verdicts(replace(history, channels=replace(history.channels, closest_own_cosine=cosine))))
    assert (alert.client, alert.window, alert.expert) == ("client-04", (14, 21), "repetition")


def test_a_client_harmed_by_an_oversized_one_is_not_accused() -> None:
    history = made_history()
    assert history.channels is not None
    norm, values, margin = (
        history.channels.norm.copy(),
        history.of("loss").values.copy(),
        history.channels.solo_margin.copy(),
    )
    norm[12:20, 1] *= 5.0
    values[12:20, 6] += 0.03
    margin[12:20, 6] -= 0.3
    pushed = replace(
        with_values(history, loss=values),
        channels=replace(history.channels, norm=norm, solo_margin=margin),
    )
    detection = read_verdicts(pushed)
    assert {a.client for a in detection.alerts} == {"client-01"}
    assert StandsOutByReflection(Others.named(["client-06"]), (12, 19)) in detection.remarks


def test_exact_findings_are_facts_without_probability() -> None:
    history = made_history()
    assert history.channels is not None
    repeat = np.zeros(history.participated.shape, dtype=np.int64)
    repeat[14, 2] = 13
    alert = _only(read_verdicts(replace(history, channels=replace(history.channels, repeat_of=repeat))))
    assert (alert.verdict, alert.window, alert.probability) == (VerdictKind.EXACT_FINDING, (14, 14), None)
    assert alert.finding == "repeat"
    assert HappenedOnce(14) in alert.evidence_against


def test_opposed_updates_are_an_advisory_not_an_alert() -> None:
    history = made_history()
    assert history.channels is not None
    cosine = history.channels.peer_cosine.copy()
    cosine[:, 6] = -np.abs(cosine[:, 6])
    detection = read_verdicts(replace(history, channels=replace(history.channels, peer_cosine=cosine)))
    assert detection.alerts == ()
    assert detection.clients[6].verdict is VerdictKind.PERSISTENTLY_OPPOSED


def test_a_table_is_read_by_the_value_only_expert() -> None:
    detection = read_verdicts(made_history(poisoned=[(5, 12, 19)], with_channels=False, shift=9))
    alert = _only(detection)
    assert alert.expert == "value-only"
    assert alert.window == (12, 19)
    assert [c.name for c in alert.channels if c.score is not None] == ["Shapley value"]
    assert len(detection.channels_unavailable) == len(CHANNEL_NAMES) - 1


def test_a_single_client_gets_no_verdict() -> None:
    detection = read_verdicts(made_history(clients=1))
    assert detection.alerts == ()
    assert detection.clients[0].verdict is VerdictKind.NO_VERDICT
    assert detection.clients[0].facts == (AlwaysAlone(),)


def test_a_client_that_never_took_part_gets_no_verdict() -> None:
    history = made_history()
    took_part = history.participated.copy()
    took_part[:, 4] = False
    verdict = read_verdicts(with_participants(history, took_part)).clients[4]
    assert verdict.verdict is VerdictKind.NO_VERDICT
    assert verdict.facts == (NeverTookPart(),)


def test_a_short_run_gets_no_verdict_and_does_not_fail() -> None:
    for epochs in (1, 2, 3):
        detection = read_verdicts(made_history(epochs=epochs))
        assert detection.alerts == ()
        assert {c.verdict for c in detection.clients} == {VerdictKind.NO_VERDICT}


def test_skipped_epochs_leave_the_cheap_channels() -> None:
    detection = read_verdicts(made_history(poisoned=[(5, 12, 19)], computed=range(1, 31, 2)))
    alert = _only(detection)
    assert alert.window == (12, 19)
    assert (alert.computed_in_window, alert.participated_in_window) == (4, 8)
    assert detection.value_coverage == pytest.approx(0.5)
    assert ValuesPartlyComputed(0.5, values_alone=False) in detection.remarks


def test_the_strict_preset_asks_for_more() -> None:
    faint = [made_history(poisoned=[(5, 12, 19)], shift=s, seed=1) for s in np.linspace(1.0, 4.0, 13)]
    default = [len(read_verdicts(h, check_sensitivity=False).alerts) for h in faint]
    strict = [len(read_verdicts(h, "strict", check_sensitivity=False).alerts) for h in faint]
    assert sum(strict) < sum(default)
    with pytest.raises(SettingsError, match="default"):
        read_verdicts(faint[0], "paranoid")
