"""Has every fact a sentence with its numbers, a place in the JSON, and a way through the codec and back?"""

from __future__ import annotations

import typing
from dataclasses import fields

import pytest

from flcontrib_core.auditing import AuditReport
from flcontrib_core.codec import pack, unpack
from flcontrib_core.detection.facts import FACTS, Fact, fact_from_json
from flcontrib_core.detection.reasons import ExpertScore
from flcontrib_core.reports.as_json import audit_json
from flcontrib_core.tagged import Others
from flcontrib_core.words import sentence
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
