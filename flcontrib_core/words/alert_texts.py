"""Which facts of an alert are told, and where: what speaks for it, what against, what it rests on.

``verify`` makes a report's texts again with the same functions, from the facts that stand beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flcontrib_core.detection import objections as o
from flcontrib_core.detection import reasons as r
from flcontrib_core.detection.facts import Fact
from flcontrib_core.detection.findings import Alert, ClientVerdict
from flcontrib_core.words.facts import sentences
from flcontrib_core.words.numbers import as_times, plain

QUESTIONS_NOT_COUNTED = "A question such as this one accuses nobody: honest runs that raise one are not counted there."


def why(alert: Alert) -> list[str]:
    """What speaks for an alert, a sentence each."""
    return why_of(alert.evidence_for, alert.evidence_against, alert.client)


def why_of(speaking_for: Sequence[Fact], against: Iterable[Fact], client: str) -> list[str]:
    """What speaks for an alert with these reasons and objections.

    A value that did no harm is an objection, and beside other reasons not told as one of them; nor is a difference
    that the digits do not show.
    """
    helped = any(isinstance(fact, o.NotHarmfulOnAverage) for fact in against)
    speaking = [
        fact
        for fact in speaking_for
        if not (helped and isinstance(fact, r.ValueInWindow)) and not _shows_no_difference(fact)
    ]
    return sentences(speaking or speaking_for, client)


def _shows_no_difference(fact: Fact) -> bool:
    """Inside as outside, in the digits that are told: its channel speaks of what the others did meanwhile."""
    if isinstance(fact, r.DirectionChanged):
        return plain(fact.inside, 2) == plain(fact.outside, 2)
    return isinstance(fact, r.SizeChanged | r.SpreadChanged) and as_times(fact.ratio) == as_times(1.0)


def counter_evidence(alert: Alert) -> list[str]:
    """What speaks against it; nothing that speaks for it is ever among these."""
    return sentences(alert.evidence_against, alert.client)


def context(alert: Alert) -> list[str]:
    """What it rests on: how robust it is, how often honest runs accuse somebody; questions are not counted there."""
    return context_of(alert.context, alert.accuses, alert.client)


def context_of(facts: Sequence[Fact], accuses: bool, client: str) -> list[str]:
    """What an alert with these facts rests on, one that accuses or a question."""
    counted = any(isinstance(fact, o.FalseAlarmRate) and fact.runs for fact in facts)
    asks = [QUESTIONS_NOT_COUNTED] if counted and not accuses else []
    return [*sentences(facts, client), *asks]


def verdict_reason(verdict: ClientVerdict) -> str:
    """Why a client has its verdict, as one paragraph."""
    return " ".join(sentences(verdict.facts, verdict.client))
