"""Does the headline count only accusations, and say of nobody what the data cannot decide?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.auditing import AuditReport
from flcontrib_core.detection.facts import BelowThreshold, ReflectionOfAnother
from flcontrib_core.detection.findings import ACCUSING_KINDS, ALERT_KINDS, Alert, ClientVerdict, VerdictKind
from flcontrib_core.detection.objections import Objection, SourceUnknown, WeighsTooLittle
from flcontrib_core.detection.online import ProvisionalAlert
from flcontrib_core.detection.review import AlertReview, AlertState, Reviews, ReviewStep, StepKind
from flcontrib_core.vocabulary import CellState
from flcontrib_core.words import (
    client_headline,
    headline,
    meaning_line,
    provisional_lines,
    quiet_badge,
    quiet_sentence,
    stood_out,
    strongest_channels,
    values_behind,
)
from flcontrib_core.words.headlines import alerts_above, so_far, undecided_sentence
from tests.reports.made_reports import made_report
from tests.words.made_facts import full_report


def only(kind: VerdictKind) -> AuditReport:
    """The full report with the alerts of one kind."""
    report = full_report()
    alerts = tuple(a for a in report.detection.alerts if a.verdict is kind)
    return replace(report, detection=replace(report.detection, alerts=alerts))


@pytest.mark.parametrize("kind", ALERT_KINDS)
def test_only_what_accuses_is_counted(kind: VerdictKind) -> None:
    report = only(kind)
    said = headline(report)
    clients = len({a.client for a in report.detection.alerts if a.accuses})
    assert kind.accuses == (kind in ACCUSING_KINDS)
    if kind.accuses:
        assert said.startswith(f"{clients} of 18 clients")
        assert "Strongest: " in said
    else:
        harmful = kind is VerdictKind.PERSISTENTLY_HARMFUL
        assert said.startswith("Nobody is accused" if harmful else "No harm found")
        assert "Strongest" not in said
    assert report.detection.alerts[0].client in said


def question(*against: Objection, computed: int = 4) -> AuditReport:
    """A report whose one alert is a change without accusation, seen in four participations."""
    report = only(VerdictKind.BEHAVIOUR_CHANGED)
    alert = replace(
        report.detection.alerts[0], evidence_against=against, participated_in_window=4, computed_in_window=computed
    )
    return replace(report, detection=replace(report.detection, alerts=(alert,)))


def test_harm_that_was_measured_is_not_called_none() -> None:
    assert headline(question()).startswith("No harm found; 1 of 18 clients changed without it")
    light = headline(question(WeighsTooLittle(-1.0, 0.5, ())))
    assert light.startswith("Nobody is accused; 1 of 18 clients changed, and the harm measured weighs too little")


def test_harm_over_the_whole_run_is_said_and_accuses_nobody() -> None:
    report = only(VerdictKind.PERSISTENTLY_HARMFUL)
    said = "Nobody is accused; 1 of 18 clients did harm over the whole run, as low data quality does"
    assert headline(report).startswith(f"{said}. Ask first about: ")
    changed = only(VerdictKind.BEHAVIOUR_CHANGED).detection.alerts[:1]
    both = replace(report, detection=replace(report.detection, alerts=(*report.detection.alerts, *changed)))
    assert headline(both).startswith(f"{said}; 1 more changed. Ask first about: ")


def test_updates_that_one_of_two_copied_are_not_called_a_change_without_harm() -> None:
    """Which of the two is the copy nobody knows, so nobody is accused; but nobody was seen to change either."""
    report = only(VerdictKind.EXACT_FINDING)
    first = replace(report.detection.alerts[0], evidence_against=(SourceUnknown(),))
    pair = (first, replace(first, client="client-05"))

    def with_alerts(*alerts: Alert) -> str:
        return headline(replace(report, detection=replace(report.detection, alerts=alerts)))

    said = "Nobody is accused; 2 of 18 clients sent updates that one of them copied"
    assert with_alerts(*pair).startswith(f"{said}. Ask first about: ")
    changed = only(VerdictKind.BEHAVIOUR_CHANGED).detection.alerts[:1]
    assert with_alerts(*pair, replace(changed[0], client="client-07")).startswith(f"{said}; 1 more changed. Ask ")
    assert "which of them was copied, the log cannot tell" in meaning_line(first)


def test_who_stands_out_without_an_alert_is_not_said_to_show_nothing() -> None:
    """The evidence beside it says that these clients moved in the same epochs, the report that they stand out."""
    report = only(VerdictKind.BEHAVIOUR_CHANGED)
    marked, nothing = {a.client for a in report.detection.alerts}, VerdictKind.NOTHING_FOUND
    quiet = [c for c in report.detection.clients if c.client not in marked]
    rest = tuple(replace(c, verdict=nothing, facts=(BelowThreshold(-2.0),)) for c in quiet)
    mirrored = (replace(rest[0], facts=(ReflectionOfAnother(),)), replace(rest[1], facts=(BelowThreshold(0.4),)))

    def detected(clients: tuple[ClientVerdict, ...], alerts: tuple[Alert, ...]) -> AuditReport:
        return replace(report, detection=replace(report.detection, clients=clients, alerts=alerts))

    alerts = report.detection.alerts
    assert quiet_sentence(detected(rest, alerts)).startswith(f"The other {len(rest)} show no change")
    beside = detected((*mirrored, *rest[2:]), alerts)
    names = ", ".join(c.client for c in mirrored)
    said = f"{len(rest) - 2} others show no change above the threshold. {names} stand out too, and no alert came of it."
    assert quiet_sentence(beside).startswith(said)
    assert (quiet_badge(detected(rest, alerts)), quiet_badge(beside)) == ("No change", "No alert")
    alone = headline(detected((*mirrored[:1], *rest[2:]), ()))
    assert alone == f"None of the 18 clients is marked; {mirrored[0].client} stands out, and no alert came of it"


def test_a_provisional_alert_is_followed_to_the_alert_of_its_own_epochs() -> None:
    """A client with two windows: what was asked about the first is not answered with the second."""
    alert = only(VerdictKind.POISONING_WINDOW).detection.alerts[0]
    alerts = (replace(alert, window=(17, 21)), replace(alert, window=(6, 10)))
    told = ProvisionalAlert(alert.client, VerdictKind.BEHAVIOUR_CHANGED, (7, 10), "", 12)
    (line,) = provisional_lines([told], alerts)
    assert line.endswith("told after epoch 12; now: Window of suspected poisoning, epochs 6–10.")


def test_what_was_decided_stands_in_the_headline_of_a_client() -> None:
    report = only(VerdictKind.POISONING_WINDOW)
    alert = report.detection.alerts[0]
    step = ReviewStep(StepKind.DECISION, 1, "", "2026-05-01T00:00:00", "ada", "maintenance", AlertState.DISMISSED)
    review = AlertReview(alert.client, alert.verdict.value, alert.window, alert.finding, "a", (step,))
    plain = client_headline(report, alert.client)
    assert client_headline(report, alert.client, Reviews((review,))) == f"{plain}, dismissed"
    later = replace(alert, window=(15, 17))
    both = replace(report, detection=replace(report.detection, alerts=(alert, later)))
    assert client_headline(both, alert.client, Reviews((review,))).endswith(" in epochs 15–17; 1 more alert")


def test_who_changed_without_being_accused_is_not_left_out_of_the_count() -> None:
    report = full_report()
    window = next(a for a in report.detection.alerts if a.verdict is VerdictKind.POISONING_WINDOW)
    asked = next(a for a in report.detection.alerts if a.verdict is VerdictKind.BEHAVIOUR_CHANGED)

    def with_alerts(*alerts: Alert) -> str:
        return headline(replace(report, detection=replace(report.detection, alerts=alerts)))

    assert with_alerts(window).startswith("1 of 18 clients changed during this run. Strongest")
    both = with_alerts(window, asked)
    assert both.startswith("1 of 18 clients stands out during this run. Strongest")
    assert both.endswith(". 1 other raises a question, not an accusation")
    assert with_alerts(window, replace(asked, client=window.client)) == with_alerts(window)


def test_no_value_in_the_window_is_not_called_no_harm() -> None:
    said = headline(question(computed=0))
    assert said.startswith("1 of 18 clients changed; no value was computed there that could show harm. Ask first")


def test_a_stricter_preset_keeps_what_lies_above_it() -> None:
    report = full_report()
    scores = sorted({a.score for a in report.detection.alerts})
    kept = alerts_above(report, scores[0])
    assert {a.score for a in kept} == set(scores[1:])
    assert alerts_above(report, None) == report.detection.alerts


def test_a_preview_says_how_far_it_has_come() -> None:
    report = made_report()
    state = report.history.state.copy()
    state[[4, 6, 7]] = np.where(state[[4, 6, 7]] == CellState.NOT_COMPUTED, CellState.PENDING, state[[4, 6, 7]])
    assert so_far(report) == ""
    assert so_far(replace(report, history=replace(report.history, state=state))) == "After 17 of 20 epochs: "


def test_clients_without_a_verdict_are_named_and_nobody_where_there_is_none() -> None:
    report = full_report()
    decided = tuple(c for c in report.detection.clients if c.verdict is not VerdictKind.NO_VERDICT)
    open_ones = [c.client for c in report.detection.clients if c.verdict is VerdictKind.NO_VERDICT]
    said = undecided_sentence(report)
    assert open_ones
    assert said is not None
    assert said.startswith("No verdict for ")
    assert open_ones[0] in said
    assert undecided_sentence(replace(report, detection=replace(report.detection, clients=decided))) is None


def test_questions_and_advisories_accuse_nobody() -> None:
    quiet = {VerdictKind.BEHAVIOUR_CHANGED, VerdictKind.CLASS_MIX_CHANGED, VerdictKind.PERSISTENTLY_OPPOSED}
    quiet |= {VerdictKind.NOTHING_FOUND, VerdictKind.NO_VERDICT, VerdictKind.PERSISTENTLY_HARMFUL}
    assert {kind for kind in VerdictKind if not kind.accuses} == quiet


def test_nobody_is_called_unchanged_whom_the_data_cannot_judge() -> None:
    report = full_report()
    rest = [c for c in report.detection.clients if c.verdict not in ALERT_KINDS]
    read = [c for c in rest if c.verdict is not VerdictKind.NO_VERDICT and not stood_out(c)]
    assert 1 < len(read) < len(rest)
    assert quiet_sentence(report).startswith(f"{len(read)} others show no change above the threshold.")


def test_where_nobody_is_alerted_the_headline_and_the_badge_tell_the_undecided_apart() -> None:
    report = only(VerdictKind.NO_VERDICT)  # which never is an alert
    clients = report.detection.clients

    def with_undecided(count: int) -> AuditReport:
        told = [VerdictKind.NO_VERDICT] * count + [VerdictKind.NOTHING_FOUND] * (18 - count)
        read = tuple(replace(c, verdict=verdict, facts=()) for c, verdict in zip(clients, told, strict=True))
        return replace(report, detection=replace(report.detection, clients=read))

    said = {count: (headline(with_undecided(count)), quiet_badge(with_undecided(count))) for count in (0, 3, 18)}
    assert said[0] == ("None of the 18 clients changed above the threshold", "No change")
    assert said[3][0].endswith(
        "the 15 clients with a verdict changed above the threshold; about 3 the data cannot decide"
    )
    assert said[3][1] == "No alert"
    assert said[18] == ("No verdict on any of 18 clients: the data cannot decide", "No verdict")


def test_what_an_alert_rests_on_is_said_once() -> None:
    alert = full_report().detection.alerts[0]
    assert values_behind(alert) == "3 of its 5 participations there have a value"
    assert values_behind(replace(alert, computed_in_window=1)) == "1 of its 5 participations there has a value"
    assert strongest_channels(alert) == "size"
