"""Does every reader get a line in its own words, and is every channel explained?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from flcontrib_core.detection.channels import CHANNEL_NAMES
from flcontrib_core.detection.findings import Alert, VerdictKind
from flcontrib_core.detection.objections import (
    FewComputed,
    NotBetterWithout,
    NotHarmfulOnAverage,
    OrdinaryCause,
    OrdinaryCauses,
    ValuesUnknown,
    WeighsTooLittle,
)
from flcontrib_core.detection.reasons import ValueInWindow
from flcontrib_core.history.remarks import NoValues
from flcontrib_core.reports.html import html_report
from flcontrib_core.reports.page import policy, print_style
from flcontrib_core.reports.record import Record
from flcontrib_core.reports.sections import Seal
from flcontrib_core.words import (
    alert_title,
    channel_meaning,
    counter_evidence,
    engineer_line,
    manager_line,
    meaning_line,
    why,
)
from flcontrib_core.words.facts import sentences
from flcontrib_core.words.readers import IN_THE_REPORT, NOT_MEANT
from tests.reports.test_html import Reader
from tests.words.made_facts import full_report

TECHNICAL = ("Bayes", "cosine", "Shapley", "channel", "margin", "gradient", "threshold", "σ")
ALERTS = full_report().detection.alerts


@pytest.mark.parametrize("alert", ALERTS, ids=[f"{n}-{a.verdict}" for n, a in enumerate(ALERTS)])
def test_the_manager_s_line_needs_no_dictionary_and_accuses_nobody(alert: Alert) -> None:
    said = manager_line(alert)
    assert not [word for word in TECHNICAL if word.lower() in said.lower()]
    assert not [word for word in ("dishonest", "guilty", "malicious", "attacker") if word in said.lower()]
    kinds = (ValuesUnknown, WeighsTooLittle)
    said_else = any(isinstance(f, kinds) for f in alert.evidence_against)
    measured = alert.verdict is VerdictKind.PERSISTENTLY_HARMFUL or alert.verdict.accuses  # of a copy not even that
    assert ("No harm" in said) == (not measured and not said_else)


def test_the_engineer_s_line_has_the_values_and_the_channels() -> None:
    said = engineer_line(ALERTS[0])
    assert said.startswith(
        "Loss reduction per epoch −0.061 in epochs 8–12 against +0.011 outside; strongest channels: size"
    )


@pytest.mark.parametrize("name", CHANNEL_NAMES)
def test_every_channel_is_explained_where_it_occurs(name: str) -> None:
    assert channel_meaning(name)


def test_the_manager_is_not_told_of_a_better_model_that_the_counter_evidence_denies() -> None:
    harmful = next(a for a in ALERTS if a.verdict is VerdictKind.POISONING_WINDOW)
    others = tuple(f for f in harmful.evidence_against if not isinstance(f, NotBetterWithout))
    assert "would not have improved" not in manager_line(replace(harmful, evidence_against=others))
    denied = replace(harmful, evidence_against=(*others, NotBetterWithout("loss", -0.1)))
    assert "Leaving it out of single steps, though, would not have improved the model." in manager_line(denied)


def test_nobody_is_surer_than_the_calibration_was_tested() -> None:
    assert "How sure: 99% or more." in manager_line(replace(ALERTS[0], probability=0.9999))
    assert "How sure: 87%." in manager_line(replace(ALERTS[0], probability=0.87))


def test_the_report_begins_with_a_page_for_who_decides() -> None:
    page = html_report(full_report(), Seal("ab" * 32, "report.json"), Record("2026-11-17T12:00:00+00:00", "ada"))
    text = Reader(page).text
    places = [
        text.index(part)
        for part in ("Summary", "What this does not mean", "Evidence:", "How to check", "Data protection")
    ]
    assert places == sorted(places)
    assert all(line in text for line in (*NOT_MEANT, IN_THE_REPORT))
    assert 'counter(page) " of " counter(pages)' in page
    assert "2026-11-17 12:00 UTC" in page.partition("</style>")[0]


def test_a_footer_cannot_leave_its_string() -> None:
    style = print_style('"} body{display:none} \\22 </style><script>')
    assert style.count("{") == style.count("}") == 3
    assert "<" not in style
    assert policy(style) != policy(print_style(""))


def test_a_value_that_did_no_harm_is_an_objection_and_no_reason() -> None:
    alert = next(a for a in ALERTS if a.reason(ValueInWindow) is not None and len(a.evidence_for) > 1)
    value = sentences([f for f in alert.evidence_for if isinstance(f, ValueInWindow)], alert.client)[0]
    others = tuple(f for f in alert.evidence_against if not isinstance(f, NotHarmfulOnAverage))
    assert value in why(replace(alert, evidence_against=others))
    harmless = replace(alert, evidence_against=(*others, NotHarmfulOnAverage("loss", True, -0.01, None)))
    assert value not in why(harmless)
    alone = replace(harmless, evidence_for=tuple(f for f in alert.evidence_for if isinstance(f, ValueInWindow)))
    assert why(alone) == [value], "an alert without a reason would not say what was seen"


def test_where_harm_cannot_be_measured_nobody_is_told_that_none_was() -> None:
    changed = next(a for a in ALERTS if a.verdict is VerdictKind.BEHAVIOUR_CHANGED)
    unknown = manager_line(replace(changed, evidence_against=(ValuesUnknown(NoValues.NO_MODEL),)))
    assert "No harm" not in unknown
    assert "cannot be measured in this log" in unknown
    asked = manager_line(replace(changed, evidence_against=(ValuesUnknown(NoValues.NOT_ASKED),)))
    assert "No harm to the shared model was measured" in asked, "its own step was measured"


def test_harm_that_weighs_too_little_is_not_called_none_in_any_sentence_of_the_alert() -> None:
    changed = next(a for a in ALERTS if a.verdict is VerdictKind.BEHAVIOUR_CHANGED)
    causes = OrdinaryCauses((OrdinaryCause.NEW_DATA,))
    light = replace(changed, evidence_against=(causes, WeighsTooLittle(1.2, 1.7, ())))
    said = " ".join([manager_line(light), *counter_evidence(light)])
    assert "Harm was measured, but all that was measured weighs too little to accuse" in said
    assert "No harm" not in said
    assert "No clear harm" not in said


def test_no_value_in_the_window_is_told_as_that() -> None:
    changed = next(a for a in ALERTS if a.verdict is VerdictKind.BEHAVIOUR_CHANGED)
    assert "No value was computed there" in manager_line(replace(changed, evidence_against=(FewComputed(0),)))
    assert "No harm" in manager_line(replace(changed, evidence_against=(FewComputed(2),)))


def test_the_line_under_a_title_does_not_repeat_it() -> None:
    for alert in ALERTS:
        assert manager_line(alert) == f"{alert_title(alert)}. {meaning_line(alert)}"


def test_no_channel_is_explained_by_the_one_above_it() -> None:
    assert not [name for name in CHANNEL_NAMES if channel_meaning(name).startswith("the same")]
