"""The sentences of a report, made again from the facts that stand beside them in the same report.

A sentence is no statement of its own: it must be what this version says of the facts, and the facts are compared with
the log. So a rewritten accusation is found on any platform, however its numbers are rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flcontrib_core.detection.facts import fact_from_json
from flcontrib_core.history.remarks import remark_from_json
from flcontrib_core.reports.tree_comparison import Difference
from flcontrib_core.words import context_of, remark_line, sentence, sentences, why_of

Content = dict[str, Any]
_ALERT = {"why": "for", "counter_evidence": "against", "context": "context"}
_TOP = {"notes": "remarks", "history_notes": "history_remarks", "false_alarm_source": "false_alarms"}


def without_sentences(content: Content) -> Content:
    """The content without the texts that ``wrong_sentences`` checks, taken from those places and no others."""
    own = {"why"} if "facts" in content else set()  # an extract is its client's verdict
    plain = {key: value for key, value in content.items() if key not in _TOP and key not in own}
    for name, texts in (("alerts", set(_ALERT)), ("clients", {"why"})):
        if isinstance(plain.get(name), list):
            plain[name] = [_less(entry, texts) for entry in plain[name]]
    return plain


def _less(entry: Any, texts: set[str]) -> Any:
    return {k: v for k, v in entry.items() if k not in texts} if isinstance(entry, dict) else entry


def wrong_sentences(content: Content) -> Iterator[Difference]:
    """Every text that is not what its own facts say; facts that nobody knows are named too."""
    for n, alert in enumerate(_entries(content, "alerts")):
        yield from _alert(f"alerts[{n}]", alert)
    for n, verdict in enumerate(_entries(content, "clients")):
        yield from _verdict(f"clients[{n}].why", verdict, str(verdict.get("id")))
    if "facts" in content:
        yield from _verdict("why", content, str(content.get("client")))
    for text, facts in (("notes", "remarks"), ("history_notes", "history_remarks")):
        if text in content or facts in content:
            say = _about("") if facts == "remarks" else _line
            yield from _checked(text, content.get(text), content.get(facts), say, joined=False)
    rate = content.get("false_alarms")
    yield from _checked("false_alarm_source", content.get("false_alarm_source"), [rate], _about(""), joined=True)


def _entries(content: Content, name: str) -> list[Content]:
    entries = content.get(name)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _alert(place: str, alert: Content) -> Iterator[Difference]:
    """An alert's texts, made by the functions that made them: what is told depends on all of its facts."""
    evidence, client = alert.get("evidence"), str(alert.get("client"))
    sides = evidence if isinstance(evidence, dict) else {}
    try:
        facts = {side: [fact_from_json(value) for value in sides[side]] for side in _ALERT.values()}
    except (KeyError, TypeError, ValueError, ArithmeticError) as odd:
        yield Difference(f"{place} (its facts)", evidence, f"no facts of this version: {odd}")
        return
    expected: dict[str, object] = {
        "why": " ".join(why_of(facts["for"], facts["against"], client)),
        "counter_evidence": sentences(facts["against"], client),
        "context": context_of(facts["context"], alert.get("accuses") is True, client),
    }
    for text, made in expected.items():
        if alert.get(text) != made:
            yield Difference(f"{place}.{text}", alert.get(text), made)


def _verdict(place: str, verdict: Content, client: str) -> Iterator[Difference]:
    return _checked(place, verdict.get("why"), verdict.get("facts"), _about(client), joined=True)


def _about(client: str) -> Callable[[object], str]:
    return lambda value: sentence(fact_from_json(value), client)


def _line(value: object) -> str:
    return remark_line(remark_from_json(value))


def _checked(place: str, text: Any, facts: Any, say: Callable[[object], str], joined: bool) -> Iterator[Difference]:
    """``joined``: the sentences stand in one text instead of a list."""
    try:
        said = [say(value) for value in facts]
    except (TypeError, ValueError, ArithmeticError) as odd:
        yield Difference(f"{place} (its facts)", facts, f"no facts of this version: {odd}")
        return
    expected = " ".join(said) if joined else said
    if text != expected:
        yield Difference(place, text, expected)
