"""The sentences a page says about a report: computed, never hard-coded."""

from __future__ import annotations

from collections.abc import Iterable

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.following import Following
from flcontrib_core.detection.findings import Alert, VerdictKind
from flcontrib_core.detection.presets import PresetRate
from flcontrib_core.vocabulary import FillPolicy
from flcontrib_core.words import numbers

KIND_WORDS = {
    VerdictKind.POISONING_WINDOW: "Window of suspected poisoning",
    VerdictKind.EXACT_FINDING: "Exact finding",
    VerdictKind.CLASS_MIX_CHANGED: "Class mix changed",
    VerdictKind.PERSISTENTLY_HARMFUL: "Harmful over the whole run",
    VerdictKind.PERSISTENTLY_OPPOSED: "Opposed over the whole run",
    VerdictKind.NOTHING_FOUND: "Nothing found",
    VerdictKind.NO_VERDICT: "No verdict",
}
FINDING_WORDS = {
    "zero": "sent empty updates",
    "repeat": "sent an old update again",
    "copy": "sent the last global step",
}


def pending_epochs(report: AuditReport) -> int:
    """Epochs that a job has yet to compute; none in a finished result."""
    return int(report.history.pending.sum())


def so_far(report: AuditReport) -> str:
    """'After 12 of 30 epochs: ' while a job is still computing the rest, else nothing."""
    pending = pending_epochs(report)
    total = report.history.epoch_count
    return f"After {total - pending} of {total} epochs: " if pending else ""


def counted(report: AuditReport) -> FillPolicy:
    """How epochs without values count in totals: an equal split, but nothing at all while their gain is unknown."""
    return FillPolicy.ZERO if pending_epochs(report) else FillPolicy.EQUAL


def verdict_sentence(report: AuditReport, above: float | None = None) -> str:
    """'2 of 8 clients changed during this run. Strongest: client-03, epochs 12–20, probability 0.99.'

    ``above``: only alerts with a larger score, where the reader asked for a stricter preset.
    """
    return so_far(report) + _verdict(report, alerts_above(report, above))


def _verdict(report: AuditReport, alerts: tuple[Alert, ...]) -> str:
    clients = len(report.history.client_ids)
    marked = list(dict.fromkeys(a.client for a in alerts))
    if not marked:
        return f"None of the {numbers.count(clients)} clients changed above the threshold"
    subject = f"{numbers.count(len(marked))} of {numbers.count(clients)} clients"
    verb = "stands out" if len(marked) == 1 else "stand out"
    if all(a.verdict is VerdictKind.POISONING_WINDOW for a in alerts):
        verb = "changed"
    top = alerts[0]
    where = "" if top.window is None else f", epochs {numbers.window(*top.window)}"
    sure = "a fact about the file" if top.probability is None else f"probability {numbers.probability(top.probability)}"
    return f"{subject} {verb} during this run. Strongest: {top.client}{where}, {sure}"


def alerts_above(report: AuditReport, threshold: float | None) -> tuple[Alert, ...]:
    """The report's alerts that a preset with this threshold raises as well, strongest first."""
    return tuple(a for a in report.detection.alerts if threshold is None or a.score > threshold)


def rate_lines(rates: Iterable[PresetRate]) -> list[str]:
    """'Default: 17 of 832 honest simulated runs alert (2%; 4–16 clients, similar participation).', and so on."""
    known = [r for r in rates if r.share is not None]
    if not known:
        return ["How often honest runs alert is not known: the shipped calibration holds no honest test run."]
    return [
        f"{r.preset.capitalize()}: {r.alerting} of {r.runs} honest simulated runs alert "
        f"({numbers.percent(r.share or 0.0)}; {r.which})."
        for r in known
    ]


def in_focus(report: AuditReport, following: Following, most: int = 8) -> tuple[str, ...]:
    """The clients that get a line of their own: the followed one, then those with an alert, strongest first."""
    first = () if following.client is None else (following.client,)
    return tuple(dict.fromkeys([*first, *(a.client for a in report.detection.alerts)]))[:most]


def quiet_sentence(report: AuditReport) -> str:
    """What can be said of everybody else, and how often honest runs alert at this setting where that is known."""
    found = report.detection
    others = len(report.history.client_ids) - len({a.client for a in found.alerts})
    quiet = f"The other {numbers.count(others)} show no change above the threshold." if found.alerts else ""
    rate = "" if found.false_alarm_rate is None else found.false_alarm_source.rstrip(".") + "."
    return f"{quiet} {rate}".strip()


def headline(alert: Alert) -> str:
    """The evidence page's title: what was observed."""
    where = "" if alert.window is None else f" in epochs {numbers.window(*alert.window)}"
    if alert.verdict is VerdictKind.EXACT_FINDING:
        return f"{alert.client} {FINDING_WORDS.get(alert.finding, 'sent updates that repeat')}{where}"
    if alert.verdict is VerdictKind.CLASS_MIX_CHANGED:
        return f"{alert.client} changed its class mix{where}"
    if alert.verdict is VerdictKind.PERSISTENTLY_HARMFUL:
        return f"{alert.client} lowered the model's quality over the whole run"
    inside = alert.mean_inside
    if inside is not None and inside > 0:
        return f"{alert.client} lowered the model's quality{where}"
    return f"{alert.client} behaved differently{where}"


def badge_of(alert: Alert) -> tuple[str, str]:
    where = "" if alert.window is None else f" {numbers.window(*alert.window)}"
    short = {
        VerdictKind.POISONING_WINDOW: "Window",
        VerdictKind.EXACT_FINDING: "Exact finding",
        VerdictKind.CLASS_MIX_CHANGED: "Class mix",
        VerdictKind.PERSISTENTLY_HARMFUL: "Whole run",
    }
    return short.get(alert.verdict, KIND_WORDS[alert.verdict]) + where, "red"
