"""What people decided about alerts, in words: the same line on every page, in the report, the extract and the terminal.

Who said what is repeated as it was recorded; the tool adds no judgement of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from flcontrib_core.detection.findings import Alert
from flcontrib_core.detection.review import AlertReview, AlertState, DeclaredNote, Reviews, ReviewStep, StepKind
from flcontrib_core.words import numbers

STATE_NAMES = {
    AlertState.NEW: "New",
    AlertState.ACKNOWLEDGED: "Acknowledged",
    AlertState.DISMISSED: "Dismissed",
    AlertState.CONFIRMED: "Confirmed",
}
WITHHELD = "(the text is not part of this extract)"
NOT_DECIDED = "Nobody has decided on it yet."


def state_name(state: AlertState) -> str:
    """The state's one name."""
    return STATE_NAMES[state]


def step_line(step: ReviewStep) -> str:
    """'2026-11-17 15:46 UTC: dismissed by ada: maintenance': one entry of the record."""
    return f"{numbers.moment(step.at)}: {_what(step)}"


def _what(step: ReviewStep) -> str:
    said = WITHHELD if step.text is None else step.text
    match step.kind:
        case StepKind.DECISION:
            what = f"{(step.state or AlertState.NEW).value} by {step.by}"
            return f"{what}: {said}" if said else what
        case StepKind.COMMENT:
            return f"{step.by} commented: {said}"
        case StepKind.REPLY:
            return f"the client replied, filed by {step.by}: {said}"
        case StepKind.ASSIGNMENT:
            return f"given to {step.owner} by {step.by}" if step.owner else f"given to nobody by {step.by}"


DECLARED = "Declared by the operator: may explain a change, says nothing against measured harm"


def note_line(note: DeclaredNote) -> str:
    """'epochs 12–20: new GPU (declared by ada on 2026-11-17)'."""
    return f"{numbers.span(note.epochs)}: {note.text} (declared by {note.by} on {note.at[:10]})"


def decision_sentence(review: AlertReview | None) -> str:
    """'Dismissed by ada on 2026-11-17: maintenance.': where an alert stands now; its owner beside it."""
    decision = None if review is None else review.decision
    owner = f" {review.owner} looks after it." if review is not None and review.owner else ""
    if decision is None:
        return f"{NOT_DECIDED}{owner}"
    said = WITHHELD if decision.text is None else decision.text
    reason = f": {said}" if said else ""
    stop = "" if reason.endswith((".", "!", "?", ")")) else "."
    name = state_name(decision.state or AlertState.NEW)
    return f"{name} by {decision.by} on {decision.at[:10]}{reason}{stop}{owner}"


def decided_sentence(alerts: Sequence[Alert], reviews: Reviews) -> str:
    """'Of 3 alerts 1 is confirmed, 1 dismissed, 1 not yet decided.'; empty where there is no alert."""
    if not alerts:
        return ""
    states = [reviews.state(alert) for alert in alerts]
    parts = [
        f"{numbers.count(states.count(state))} {'not yet decided' if state is AlertState.NEW else state.value}"
        for state in (AlertState.CONFIRMED, AlertState.ACKNOWLEDGED, AlertState.DISMISSED, AlertState.NEW)
        if state in states
    ]
    return f"Of {numbers.several(len(alerts), 'alert')}: {', '.join(parts)}."
