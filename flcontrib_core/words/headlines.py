"""The verdict on a run in one sentence, and what can be said of everybody else: the same for every skin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flcontrib_core.auditing import AuditReport
from flcontrib_core.detection.facts import BelowThreshold, ReflectionOfAnother
from flcontrib_core.detection.findings import Alert, ClientVerdict, VerdictKind
from flcontrib_core.detection.objections import WeighsTooLittle
from flcontrib_core.detection.online import ONLINE_PRESET, ProvisionalAlert
from flcontrib_core.detection.presets import PresetRate
from flcontrib_core.detection.review import NO_REVIEWS, AlertState, Reviews
from flcontrib_core.history.standing import CheckOutcome
from flcontrib_core.words import numbers
from flcontrib_core.words.false_alarms import false_alarm_counts, false_alarm_runs, false_alarm_sentence
from flcontrib_core.words.verdicts import alert_line, verdict_name

NO_CHANGE = "No change"


def pending_epochs(report: AuditReport) -> int:
    """Epochs that a job has yet to compute; none in a finished result."""
    return int(report.history.pending.sum())


def is_growing(report: AuditReport) -> bool:
    """Is this one of many looks at a run that is still being recorded?"""
    return report.detection.preset == ONLINE_PRESET


def so_far(report: AuditReport) -> str:
    """'After 12 of 30 epochs: ' while a job is still computing the rest, 'After 12 epochs: ' while the run itself is
    growing, else nothing."""
    pending = pending_epochs(report)
    total = report.history.epoch_count
    if is_growing(report):
        return f"After {numbers.several(total, 'epoch')}: "
    return f"After {total - pending} of {total} epochs: " if pending else ""


def alerts_above(report: AuditReport, threshold: float | None) -> tuple[Alert, ...]:
    """The report's alerts that a preset with this threshold raises as well, strongest first."""
    return tuple(a for a in report.detection.alerts if threshold is None or a.score > threshold)


_CHECKED = {
    "learns": "the rebuilt model learns",
    "slope": "the first updates go down the validation loss",
    "reading": "no other sign, numbering or scale fits better",
    "metrics": "the rebuilt model has the recorded metrics",
    "aggregate": "the updates add up to the stored models",
}
_IN_DOUBT = {
    "learns": "the rebuilt model does not learn",
    "slope": "its first updates lead nowhere on the validation rows",
    "reading": "another reading of it makes a better model",
    "metrics": "the rebuilt model contradicts its metrics",
}
"""An aggregate that does not add up is the server's share, and no doubt about the clients."""


def in_doubt(report: AuditReport) -> str:
    """'The log is in doubt (the rebuilt model does not learn): ' where checks of the log speak against it."""
    doubts = [_IN_DOUBT[c.name] for c in report.log_checks if c.outcome is CheckOutcome.DOUBTED and c.name in _IN_DOUBT]
    return f"The log is in doubt ({'; '.join(doubts)}): " if doubts else ""


def stands_on(report: AuditReport) -> str | None:
    """The checks of the log that the verdicts stand on, in words; None of a table, which has none."""
    if not report.log_checks:
        return None
    begins = {
        CheckOutcome.HELD: "The verdicts stand on these checks of the log",
        CheckOutcome.DOUBTED: "In doubt is whether",
        CheckOutcome.NOT_POSSIBLE: "Could not be checked",
    }
    lines = []
    for outcome, begin in begins.items():
        if named := [_CHECKED[c.name] for c in report.log_checks if c.outcome is outcome]:
            lines.append(f"{begin}: {'; '.join(named)}.")
    if not any(c.outcome is CheckOutcome.HELD for c in report.log_checks):
        lines.insert(0, "The verdicts stand on no check of the log's meaning.")
    return " ".join(lines)


def headline(report: AuditReport, above: float | None = None, reviews: Reviews = NO_REVIEWS) -> str:
    """'2 of 8 clients changed during this run. Strongest: client-03, epochs 12–20, probability 0.99'.

    Only alerts that accuse and were not dismissed are counted; who else is to be asked, and what was dismissed, is
    said beside it. ``above``: only alerts with a larger score, where the reader asked for a stricter preset.
    """
    alerts = alerts_above(report, above)
    clients = len(report.history.client_ids)
    standing = reviews.standing(alerts)
    accusing = [a for a in standing if a.accuses]
    said = _accused(standing, clients, reviews) if accusing else _nobody(standing, report, len(alerts))
    dismissed = len(alerts) - len(standing)
    after = f". {numbers.several(dismissed, 'alert')} dismissed" if dismissed and standing else ""
    return f"{in_doubt(report)}{so_far(report)}{said}{after}"


def _accused(standing: Sequence[Alert], clients: int, reviews: Reviews) -> str:
    alerts = [a for a in standing if a.accuses]
    marked = {a.client for a in alerts}
    asked = len({a.client for a in standing} - marked)
    verb = "stands out" if len(marked) == 1 else "stand out"
    if not asked and all(a.verdict is VerdictKind.POISONING_WINDOW for a in alerts):
        verb = "changed"
    subject = f"{numbers.count(len(marked))} of {numbers.several(clients, 'client')}"
    state = reviews.state(alerts[0])
    decided = "" if state is AlertState.NEW else f", {state.value}"
    raises = "raises" if asked == 1 else "raise"
    also = f". {numbers.several(asked, 'other')} {raises} a question, not an accusation" if asked else ""
    return f"{subject} {verb} during this run. Strongest: {alert_line(alerts[0])}{decided}{also}"


def _nobody(standing: Sequence[Alert], report: AuditReport, raised: int) -> str:
    """Nobody is accused: questions are named as such, harm that could not be measured is not called none, and what was
    dismissed is said."""
    clients, lacking = len(report.history.client_ids), report.history.without_values
    if not standing and raised:
        return f"No alert stands: {numbers.several(raised, 'alert')} dismissed"
    if not standing:
        beside = [numbers.named(c.client) for c in report.detection.clients if stood_out(c)]
        if beside:
            subject = f"None of the {numbers.several(clients, 'client')}"
            return f"{subject} is marked; {numbers.listing(beside)} {_stand(beside)} out, and no alert came of it"
        return _unchanged(clients, sum(c.verdict is VerdictKind.NO_VERDICT for c in report.detection.clients))
    asked = len({a.client for a in standing})
    subject = f"{numbers.count(asked)} of {numbers.several(clients, 'client')}"
    summary = f"No harm found; {subject} changed without it"
    throughout = len({a.client for a in standing if a.verdict is VerdictKind.PERSISTENTLY_HARMFUL})
    alike = len({a.client for a in standing if a.verdict.accuses})  # and yet not this one: see Alert.accuses
    if alike:
        summary = f"Nobody is accused; {numbers.count(alike)} of {numbers.several(clients, 'client')} sent updates "
        summary += f"that one of them copied{_besides(asked - alike)}"
    elif throughout:
        summary = _harmful_throughout(throughout, asked - throughout, clients)
    elif lacking is not None and not lacking.measurable:
        summary = f"{subject} changed; harm is not measurable in this log"
    elif any(isinstance(fact, WeighsTooLittle) for a in standing for fact in a.evidence_against):
        summary = f"Nobody is accused; {subject} changed, and the harm measured weighs too little"
    elif lacking is None and all(a.participated_in_window and not a.computed_in_window for a in standing):
        summary = f"{subject} changed; no value was computed there that could show harm"
    return f"{summary}. Ask first about: {alert_line(standing[0])}"


def _harmful_throughout(harmful: int, others: int, clients: int) -> str:
    """Harm from beginning to end was measured, and accuses nobody."""
    subject = f"{numbers.count(harmful)} of {numbers.several(clients, 'client')}"
    return f"Nobody is accused; {subject} did harm over the whole run, as low data quality does{_besides(others)}"


def _besides(others: int) -> str:
    return f"; {numbers.count(others)} more changed" if others else ""


def _unchanged(clients: int, undecided: int) -> str:
    """Nothing was found; of whom the data cannot decide about, it is not said that they did not change."""
    if undecided == clients:
        return f"No verdict on any of {numbers.several(clients, 'client')}: the data cannot decide"
    if not undecided:
        return f"None of the {numbers.several(clients, 'client')} changed above the threshold"
    read = numbers.several(clients - undecided, "client")
    return f"None of the {read} with a verdict changed above the threshold; about {undecided} the data cannot decide"


def quiet_badge(report: AuditReport) -> str:
    """What holds for everybody without an alert, in two words."""
    marked = {a.client for a in report.detection.alerts}
    rest = [c for c in report.detection.clients if c.client not in marked]
    undecided = {c.verdict is VerdictKind.NO_VERDICT for c in rest}
    if any(map(stood_out, rest)):
        return "No alert"
    return NO_CHANGE if undecided <= {False} else "No verdict" if undecided == {True} else "No alert"


def quiet_sentence(report: AuditReport) -> str:
    """What can be said of everybody else, and how often honest runs accuse somebody at this setting, where known."""
    detection = report.detection
    marked = {a.client for a in detection.alerts}
    rest = [c for c in detection.clients if c.client not in marked]
    beside = [numbers.named(c.client) for c in rest if stood_out(c)]
    # About those without a verdict the data cannot decide.
    read = [c for c in rest if c.verdict is not VerdictKind.NO_VERDICT and not stood_out(c)]
    quiet = ""
    if marked and read:
        who = f"{'The other ' if len(read) == len(rest) else ''}{numbers.count(len(read))}"
        who += "" if len(read) == len(rest) else " other" if len(read) == 1 else " others"
        quiet = f"{who} {'shows' if len(read) == 1 else 'show'} no change above the threshold."
    if marked and beside:
        quiet += f" {numbers.listing(beside)} {_stand(beside)} out too, and no alert came of it."
    return f"{quiet} {false_alarm_sentence(detection.false_alarms)}".strip()


def stood_out(client: ClientVerdict) -> bool:
    """Did a window of it pass the threshold without an alert: as the reflection of another's change, for instance?"""
    return any(
        isinstance(fact, ReflectionOfAnother) or (isinstance(fact, BelowThreshold) and fact.scales > 0)
        for fact in client.facts
    )


def _stand(clients: Sequence[str]) -> str:
    return "stands" if len(clients) == 1 else "stand"


def visible_shift(report: AuditReport) -> str | None:
    """The smallest change that would have been seen; None where that is not known."""
    shift = report.detection.smallest_visible_shift
    return None if shift is None else f"Smallest shift visible with these settings: {shift_words(shift)}."


def shift_words(shift: float) -> str:
    """'about 0.021 per epoch over 5 epochs'"""
    return f"about {shift:.2g} per epoch over 5 epochs"


def rate_lines(rates: Iterable[PresetRate]) -> list[str]:
    """'Default: 17 of 832 honest simulated runs accuse …', a line per preset."""
    with_runs = [r for r in rates if r.rate.runs]
    if not with_runs:
        unknown = "the shipped calibration holds no comparable honest run"
        return [f"How often honest runs accuse a client is not known: {unknown}."]
    return [f"{r.preset.capitalize()}: {false_alarm_counts(r.rate)} ({false_alarm_runs(r.rate)})." for r in with_runs]


def provisional_lines(raised: Sequence[ProvisionalAlert], alerts: Sequence[Alert]) -> list[str]:
    """What was told while the run was recorded, and what the reading of the whole made of each."""
    lines = []
    for provisional in raised:
        when = "the whole run" if provisional.window is None else f"epochs {numbers.window(*provisional.window)}"
        same = next((a for a in alerts if provisional.became(a)), None)
        own = [a for a in alerts if a.client == provisional.client]
        other = max(own, key=lambda a: _shared(a.window, provisional.window), default=None)
        final = same or other
        ends = "" if final is None or final.window is None else f", epochs {numbers.window(*final.window)}"
        outcome = "it stands" if same else "it did not hold" if other is None else f"now: {verdict_name(other.verdict)}"
        settled = f"{outcome}{ends}" if final else outcome
        verdict, epoch = verdict_name(provisional.verdict), provisional.seen_after
        seen = f"{numbers.named(provisional.client)}, {when}: {verdict}, told after epoch {epoch}"
        lines.append(f"{seen}; {settled}.")
    return lines


def _shared(one: tuple[int, int] | None, other: tuple[int, int] | None) -> int:
    """How many epochs two windows have in common; the whole run has at least one in common with each."""
    return 1 if one is None or other is None else max(0, min(one[1], other[1]) - max(one[0], other[0]) + 1)


def undecided_sentence(report: AuditReport, most: int = 5) -> str | None:
    """Clients about which the data cannot decide; None where there are none."""
    names = [numbers.named(c.client) for c in report.detection.clients if c.verdict is VerdictKind.NO_VERDICT]
    return f"No verdict for {numbers.listing(names, most)}: the data cannot decide." if names else None
