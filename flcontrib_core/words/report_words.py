"""How are numbers and findings said in what leaves the house?

Help is up: contributions are turned so that a positive number helped the model, and every axis says so in words.
The tool never calls a client dishonest; it says what was observed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from flcontrib_core.auditing import AuditReport
from flcontrib_core.detection.findings import Alert, VerdictKind
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.words.numbers import credited as credited_for
from flcontrib_core.words.numbers import epoch_list, half_width, probability, span
from flcontrib_core.words.numbers import several as counted

VERDICTS = {
    VerdictKind.POISONING_WINDOW: "Harmful change in a window",
    VerdictKind.EXACT_FINDING: "Exact finding",
    VerdictKind.CLASS_MIX_CHANGED: "Mix of classes changed",
    VerdictKind.PERSISTENTLY_HARMFUL: "Harmful throughout",
    VerdictKind.PERSISTENTLY_OPPOSED: "Points away from the others (advisory)",
    VerdictKind.NOTHING_FOUND: "Nothing found",
    VerdictKind.NO_VERDICT: "No verdict: the data cannot decide",
}
OBSERVED_ONLY = "This describes what was observed in the log. It does not say why."
_SENT = {
    "zero": "sent updates that are all zero",
    "repeat": "repeated an earlier update of its own",
    "copy": "sent the same update as another client",
}


def total_status(standard_error: float, skipped: int) -> str:
    """Exact, ± or unknown, and how many of the client's epochs are filled in rather than computed."""
    how = half_width(standard_error)
    if not skipped:
        return how
    return f"{skipped} filled" if how == "exact" else f"{how}, {skipped} filled"


def gathered(notes: Sequence[str]) -> list[str]:
    """Notes that repeat over epochs, each once: "epochs 1–17, 21: exact is cheap"."""
    epochs: dict[str, list[int]] = {}
    for note in notes:
        found = re.fullmatch(r"epoch (\d+): (.*)", note, re.DOTALL)
        epochs.setdefault(note if found is None else found[2], []).extend([int(found[1])] if found else [])
    return [f"{epoch_list(at)}: {text}" if at else text for text, at in epochs.items()]


def credited(history: ContributionHistory, utility: str) -> str:
    """What a contribution means when help is up."""
    return credited_for(utility, utility in history.lower_is_better)


def main_utility(history: ContributionHistory) -> str:
    return "loss" if "loss" in history.utilities else history.utilities[0]


def headline(report: AuditReport) -> str:
    """The finding in one sentence with its numbers."""
    alerts, clients = report.detection.alerts, len(report.history.client_ids)
    if not alerts:
        return (
            f"No change above the threshold in {counted(clients, 'client')} over {report.history.epoch_count} epochs."
        )
    flagged = len({a.client for a in alerts})
    windows = all(a.window is not None for a in alerts)
    verb = (
        "changed during this run"
        if windows
        else ("stands out in this run" if flagged == 1 else "stand out in this run")
    )
    return f"{flagged} of {counted(clients, 'client')} {verb}. Strongest: {where_and_how_sure(alerts[0])}."


def where_and_how_sure(alert: Alert) -> str:
    parts = [alert.client]
    if alert.window is not None:
        parts.append(span(alert.window))
    sure = "a fact about the file" if alert.probability is None else f"probability {probability(alert.probability)}"
    return ", ".join([*parts, sure])


def alert_title(alert: Alert) -> str:
    """What was seen, in the fewest words that stay true."""
    where = "" if alert.window is None else f" in {span(alert.window)}"
    if alert.verdict is VerdictKind.EXACT_FINDING:
        return f"{alert.client} {_SENT.get(alert.finding, 'sent updates with an exact finding')}{where}"
    if alert.verdict is VerdictKind.CLASS_MIX_CHANGED:
        return f"{alert.client}'s mix of classes seems to have changed{where}"
    if alert.mean_inside is not None and alert.mean_inside > 0:
        return f"{alert.client} lowered the model's quality{where or ' throughout the run'}"
    return f"{alert.client} changed{where}"


def nothing_found(report: AuditReport) -> str | None:
    shift = report.detection.smallest_visible_shift
    if report.detection.alerts or shift is None:
        return None
    return f"Smallest shift visible with these settings: about {shift:.2g} per epoch over 5 epochs."


def false_alarms(report: AuditReport) -> str:
    """How often this fires on honest runs, as measured."""
    rate, source = report.detection.false_alarm_rate, report.detection.false_alarm_source
    if rate is None:
        return "How often honest runs alert at this setting is not known."
    return f"{rate:.1%} of honest simulated runs alert at the {report.detection.preset} setting ({source})."


def methods(history: ContributionHistory) -> str:
    """Which estimators computed how many epochs."""
    used: dict[str, int] = {}
    for t in range(1, history.epoch_count + 1):
        if history.computed[t]:
            used[history.estimator[t]] = used.get(history.estimator[t], 0) + 1
    return ", ".join(f"{name} in {counted(n, 'epoch')}" for name, n in used.items()) or "no epoch computed"


def worst_status(history: ContributionHistory, utility: str) -> str:
    """Exact, with an error, or partly not computed: what may be said of the totals as a whole."""
    series = history.of(utility)
    errors = series.standard_errors[history.participated & series.computed]
    how = "exact values" if not errors.any() else "values ± 95%"
    if (errors != errors).any():
        how = "values partly without a standard error"
    skipped = int(series.missing.any(axis=1).sum())
    return how if not skipped else f"{how}; {counted(skipped, 'epoch')} not computed"
