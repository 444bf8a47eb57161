"""The words of a verdict: one name, one badge, one title and one way to say how sure it is, for every skin.

The tool never calls a client dishonest: it says what was observed.
"""

from __future__ import annotations

from flcontrib_core.detection.findings import Alert, VerdictKind
from flcontrib_core.detection.objections import ValuesUnknown
from flcontrib_core.words.numbers import have, listing, named, probability, several, span, window

OBSERVED_ONLY = "This describes what was observed in the log. It does not say why."
VERDICT_NAMES = {
    VerdictKind.POISONING_WINDOW: "Window of suspected poisoning",
    VerdictKind.EXACT_FINDING: "Exact finding",
    VerdictKind.CONTRIBUTES_NOTHING: "Contributes nothing",
    VerdictKind.ACTS_TOGETHER: "Acts together with others",
    VerdictKind.PERSISTENTLY_HARMFUL: "Harmful over the whole run",
    VerdictKind.BEHAVIOUR_CHANGED: "Behaviour changed",
    VerdictKind.CLASS_MIX_CHANGED: "Class mix changed",
    VerdictKind.PERSISTENTLY_OPPOSED: "Opposed over the whole run",
    VerdictKind.NOTHING_FOUND: "Nothing found",
    VerdictKind.NO_VERDICT: "No verdict",
}
_BADGES = {
    VerdictKind.POISONING_WINDOW: "Window",
    VerdictKind.CONTRIBUTES_NOTHING: "No contribution",
    VerdictKind.ACTS_TOGETHER: "Together",
    VerdictKind.PERSISTENTLY_HARMFUL: "Whole run",
    VerdictKind.BEHAVIOUR_CHANGED: "Changed",
    VerdictKind.CLASS_MIX_CHANGED: "Class mix",
}
_SENT = {
    "diverging": "sent an update that breaks the model",
    "zero": "sent empty updates",
    "repeat": "sent an old update again",
    "copy-of-last-step": "sent the last global step",
    "copy-of-client": "sent the same update as another client",
}


def verdict_name(kind: VerdictKind) -> str:
    """The verdict's one name."""
    return VERDICT_NAMES[kind]


def verdict_badge(alert: Alert) -> str:
    """'Window 12–20': the verdict where there is room for two words."""
    short = _BADGES.get(alert.verdict, VERDICT_NAMES[alert.verdict])
    return short if alert.window is None else f"{short} {window(*alert.window)}"


def alert_title(alert: Alert) -> str:
    """What was seen, in the fewest words that stay true: 'client-02 lowered the model's quality in epochs 12–20'."""
    where = " over the whole run" if alert.window is None else f" in {span(alert.window)}"
    return f"{named(alert.client)} {_what(alert)}{where}"


def _what(alert: Alert) -> str:
    match alert.verdict:
        case VerdictKind.EXACT_FINDING:
            return _SENT.get(alert.finding, "sent updates with an exact finding")
        case VerdictKind.POISONING_WINDOW | VerdictKind.PERSISTENTLY_HARMFUL:
            return "lowered the model's quality"
        case VerdictKind.CONTRIBUTES_NOTHING:
            return "contributed nothing"
        case VerdictKind.ACTS_TOGETHER:
            return "acted together with others"
        case VerdictKind.CLASS_MIX_CHANGED:
            return "changed its class mix"
        case _:
            return "behaved differently"


def where_words(alert: Alert) -> str:
    """'epochs 12–20', or 'the whole run'."""
    return "the whole run" if alert.window is None else span(alert.window)


def how_sure(alert: Alert) -> str:
    """'probability 0.97', or that nothing was estimated."""
    return "a fact about the file" if alert.probability is None else f"probability {probability(alert.probability)}"


def values_behind(alert: Alert) -> str:
    """'7 of its 8 participations there have a value': what the alert's numbers rest on."""
    if any(isinstance(fact, ValuesUnknown) for fact in alert.evidence_against):
        return f"{several(alert.participated_in_window, 'participation')} there, without values"
    times = several(alert.participated_in_window, "participation")
    return f"{alert.computed_in_window} of its {times} there {have(alert.computed_in_window)} a value"


def strongest_channels(alert: Alert, most: int = 2) -> str:
    """'peer direction, size and 3 more': the channels that speak for the window; empty where none does."""
    speaking = [(c.score, c.name) for c in alert.channels if c.score is not None and c.score > 0]
    return listing([name for _, name in sorted(speaking, key=lambda pair: -pair[0])], most)


def alert_line(alert: Alert) -> str:
    """'client-02, epochs 12–20, probability 0.99': who, when, how sure."""
    where = [] if alert.window is None else [span(alert.window)]
    return ", ".join([named(alert.client), *where, how_sure(alert)])
