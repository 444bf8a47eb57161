"""Has every fact a sentence with its numbers, a place in the JSON, and a way through the codec and back?"""

from __future__ import annotations

import typing
from dataclasses import fields, replace

import pytest

from flcontrib_core.auditing import AuditReport
from flcontrib_core.codec import pack, unpack
from flcontrib_core.detection import objections as o
from flcontrib_core.detection import reasons as r
from flcontrib_core.detection.facts import FACTS, Fact, fact_from_json
from flcontrib_core.detection.findings import VerdictKind
from flcontrib_core.detection.reasons import ExpertScore
from flcontrib_core.reports.as_json import audit_json
from flcontrib_core.reports.rendered import wrong_sentences
from flcontrib_core.tagged import Others
from flcontrib_core.words import context, sentence, sentences, why
from flcontrib_core.words.alert_texts import QUESTIONS_NOT_COUNTED
from tests.words.made_facts import examples, full_report

THEM = ("another-one", "client-1", "notes")
MADE = examples(THEM)
STATED = (str, int, float, bool, type(None), Others)


def test_the_examples_are_all_facts_there_are() -> None:
    assert set(MADE) == set(FACTS.values())


@pytest.mark.parametrize("fact", MADE.values(), ids=lambda fact: fact.tag)
def test_every_fact_has_a_sentence_and_survives_json(fact: Fact) -> None:
    said = sentence(fact, "client-07")
    assert said.endswith(".")
    assert said[0].isupper() or said[0].isdigit() or said.startswith(("client-07", THEM[0]))
    assert "None" not in said or "None of" in said
    assert "dishonest" not in said
    assert "guilty" not in said
    assert fact_from_json(fact.to_json()) == fact


def test_an_expert_without_channels_of_its_own_lists_none() -> None:
    assert sentence(ExpertScore("size", 53.6, 24.2, ()), "c") == "The size expert scores +53.6 where +24.2 alerts."


@pytest.mark.parametrize("fact", MADE.values(), ids=lambda fact: fact.tag)
def test_others_are_counted_not_named_once_they_are_taken_out(fact: Fact) -> None:
    reduced = fact.without_others()
    said = sentence(reduced, "client-07") + str(reduced.to_json())
    for name in THEM:
        assert name not in said
    named = any(isinstance(getattr(fact, field.name), Others) for field in fields(fact))
    assert (reduced != fact) == named


def test_a_fact_holds_numbers_and_codes_but_no_text_of_others() -> None:
    """Names of other clients can stand in ``Others`` alone: every text field is one of these codes."""
    codes = {"utility", "channel", "expert"}
    for kind in FACTS.values():
        hints = typing.get_type_hints(kind)
        for field in fields(kind):
            assert hints[field.name] is not str or field.name in codes, (kind, field.name)


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        {},
        {"fact": "unheard-of"},
        {"fact": ["zero"]},
        {"fact": "zero"},
        {"fact": "zero", "epochs": [1], "more": 2},
        {"fact": "zero", "epochs": ["one"]},
        {"fact": "few-computed", "computed": 1.5},
        {"fact": "ask-first", "reason": "because"},
    ],
)
def test_json_that_is_no_fact_is_refused(odd: object) -> None:
    with pytest.raises(ValueError):
        fact_from_json(odd)


def test_a_report_with_every_fact_survives_the_codec_and_stands_in_the_json() -> None:
    report = full_report()
    again = unpack(AuditReport, pack(AuditReport, report))
    assert again.detection.alerts == report.detection.alerts
    assert again.detection.clients == report.detection.clients
    assert again.detection.remarks == report.detection.remarks
    content = audit_json(report)
    lists = [facts for a in content["alerts"] for facts in a["evidence"].values()]
    lists += [c["facts"] for c in content["clients"]] + [content["remarks"], [content["false_alarms"]]]
    assert {fact["fact"] for facts in lists for fact in facts} == set(FACTS)


def test_a_stored_report_holds_no_sentence() -> None:
    """Texts in the packed detection are names, codes and settings: none of them ends like a sentence."""
    from flcontrib_core.codec import encode
    from flcontrib_core.detection.findings import Detection

    document, _ = encode(Detection, full_report().detection)
    assert not [text for text in _texts(document) if text.endswith(".")]


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _texts(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _texts(inner)]
    return [value] if isinstance(value, str) else []


def test_a_change_that_the_digits_do_not_show_is_no_reason() -> None:
    alert = next(a for a in full_report().detection.alerts if a.verdict is VerdictKind.BEHAVIOUR_CHANGED)
    seen = (r.DirectionChanged("peer direction", 0.41, 0.62, 9.0), r.SizeChanged(1.7, 2.0))
    unseen = (r.DirectionChanged("own direction", 0.641, 0.639, 3.0), r.SizeChanged(1.004, 2.0))
    assert why(replace(alert, evidence_for=(*unseen, *seen))) == sentences(seen, alert.client)
    assert why(replace(alert, evidence_for=unseen)), "an alert without a reason would not say what was seen"


def test_small_numbers_are_told_in_as_many_digits_as_those_beside_them() -> None:
    value = r.ValueInWindow((10, 22), "loss", True, 0.0016, -0.00042, 0.00028, 6, 6)
    step = r.StepWorse(0.0041, -0.0031, 0.00004)
    assert sentences([value, step], "client-26") == [
        "client-26 contributed −0.0016 ± 0.0003 of loss reduction per epoch inside epochs 10–22, outside +0.0004 "
        "(first epochs left out). 6 of 6 computed epochs are harmful.",
        "Its own step alone changes the validation loss by +0.0041, the usual other participant's by −0.0031 "
        "(their difference to within < 0.0001).",
    ]


def test_without_classes_a_step_is_told_by_what_it_worsens() -> None:
    model = "the model on the validation rows (by their loss, or by the first metric where there is none)"
    margin, step = r.MarginLowered(-0.52, 0.19, 0.08, classes=False), r.StepWorse(0.41, -0.02, 0.11, classes=False)
    assert sentences([margin, step], "a") == [
        f"Its own step alone worsens {model} by +0.52 ± 0.08, outside −0.19.",
        f"Its own step alone worsens {model} by +0.410, the usual other participant's by −0.020 "
        "(their difference to within 0.110).",
    ]


def test_whoever_took_part_in_few_epochs_is_not_told_that_a_budget_left_them_out() -> None:
    said = sentences([o.FewComputed(2), o.FewComputed(1), o.FewComputed(0)], "a")
    told = ("in only 2 epochs", "in only 1 epoch", "in no epoch")
    assert said == [f"Its value there is known {known}." for known in told]


def test_honest_runs_are_counted_for_accusations_and_a_question_says_so() -> None:
    alerts = full_report().detection.alerts
    accusing, question = (next(a for a in alerts if a.accuses is accuses) for accuses in (True, False))
    counted = "2 of 144 honest simulated runs accuse a client at this setting"
    assert any(counted in line for line in context(accusing))
    assert QUESTIONS_NOT_COUNTED not in context(accusing)
    assert QUESTIONS_NOT_COUNTED in context(question)


def test_verify_makes_every_sentence_of_an_alert_as_it_was_made() -> None:
    report = full_report()
    question = next(a for a in report.detection.alerts if not a.accuses)
    helped = replace(
        question,
        evidence_for=(
            r.ValueInWindow((2, 3), "loss", True, -0.1, 0.1, 0.01, 0, 2),
            r.SizeChanged(1.0, 2.0),
            r.SizeChanged(3.0, 2.0),
        ),
        evidence_against=(o.NotHarmfulOnAverage("loss", True, -0.1, 0.01),),
    )
    assert len(why(helped)) == 1, "else nothing that depends on two facts is tried here"
    alerts = (*report.detection.alerts, helped)
    content = audit_json(replace(report, detection=replace(report.detection, alerts=alerts)))
    assert list(wrong_sentences(content)) == []
    content["alerts"][-1]["context"].pop()
    assert [d.where for d in wrong_sentences(content)] == [f"alerts[{len(alerts) - 1}].context"]
