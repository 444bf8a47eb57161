"""Does the headline count only accusations, and say of nobody what the data cannot decide?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from flcontrib_core.auditing import AuditReport
from flcontrib_core.detection.findings import ACCUSING_KINDS, ALERT_KINDS, VerdictKind
from flcontrib_core.words import headline, quiet_badge, quiet_sentence, strongest_channels, values_behind
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
        assert said.startswith("No harm found")
        assert "Strongest" not in said
    assert report.detection.alerts[0].client in said


def test_questions_and_advisories_accuse_nobody() -> None:
    quiet = {VerdictKind.BEHAVIOUR_CHANGED, VerdictKind.CLASS_MIX_CHANGED, VerdictKind.PERSISTENTLY_OPPOSED}
    quiet |= {VerdictKind.NOTHING_FOUND, VerdictKind.NO_VERDICT}
    assert {kind for kind in VerdictKind if not kind.accuses} == quiet


def test_nobody_is_called_unchanged_whom_the_data_cannot_judge() -> None:
    report = full_report()
    rest = [c for c in report.detection.clients if c.verdict not in ALERT_KINDS]
    read = [c for c in rest if c.verdict is not VerdictKind.NO_VERDICT]
    assert 0 < len(read) < len(rest)
    assert quiet_sentence(report).startswith(f"{len(read)} others show no change above the threshold.")


def test_where_nobody_is_alerted_the_headline_and_the_badge_tell_the_undecided_apart() -> None:
    report = only(VerdictKind.NO_VERDICT)  # which never is an alert
    clients = report.detection.clients

    def with_undecided(count: int) -> AuditReport:
        told = [VerdictKind.NO_VERDICT] * count + [VerdictKind.NOTHING_FOUND] * (18 - count)
        read = tuple(replace(c, verdict=verdict) for c, verdict in zip(clients, told, strict=True))
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
    assert strongest_channels(alert) == "size"
