"""The first page of a report, for who has to decide: what was observed, how sure, what it does not mean, what was
decided by whom and when; and the record of every decision behind it."""

from __future__ import annotations

from flcontrib_core.auditing import AuditReport
from flcontrib_core.detection.review import alert_key
from flcontrib_core.reports.page import bullets, grid, markup, paragraph, section
from flcontrib_core.reports.record import Record
from flcontrib_core.words import (
    alert_title,
    decided_sentence,
    decision_sentence,
    false_alarm_sentence,
    manager_line,
    step_line,
    undecided_sentence,
)
from flcontrib_core.words.decisions import NOT_DECIDED
from flcontrib_core.words.numbers import named, several
from flcontrib_core.words.readers import IN_THE_REPORT, NOT_MEANT

MOST_IN_SUMMARY = 5


def summary_section(report: AuditReport, record: Record) -> str:
    """One page: the strongest alerts in plain words with what was decided, then what none of it means."""
    reviews = record.reviews
    alerts = reviews.ordered(report.detection.alerts)
    rows = [[manager_line(a), decision_sentence(reviews.of(a))] for a in alerts[:MOST_IN_SUMMARY]]
    more = len(alerts) - len(rows)
    header = ["What was observed, and how sure", "What was decided, by whom and when"]
    parts = [grid(header, rows, words=2)] if rows else []
    left = f"{several(more, 'more alert')} in the evidence below." if more > 0 else ""
    parts.append(paragraph(left, "second small"))
    parts.append(paragraph(decided_sentence(alerts, reviews)))
    parts.append(paragraph(undecided_sentence(report) or ""))
    rate = false_alarm_sentence(report.detection.false_alarms)
    return section("Summary", *parts, paragraph(rate), f"<h3>What this does not mean</h3>{bullets(NOT_MEANT)}")


def decisions_section(report: AuditReport, record: Record) -> str:
    """What people recorded about each alert, as the sealed log holds it; reviews of alerts this result lacks too."""
    reviews, alerts = record.reviews, report.detection.alerts
    if not alerts and not reviews.recorded():
        return ""
    parts = []
    for alert in reviews.ordered(alerts):
        steps = review.steps if (review := reviews.of(alert)) is not None else ()
        lines = bullets([step_line(step) for step in steps]) if steps else paragraph(NOT_DECIDED, "second")
        parts.append(f"<h3>{markup(alert_title(alert))}</h3>{lines}")
    here = {alert_key(alert) for alert in alerts}
    elsewhere = [r for r in reviews.recorded() if r.key not in here]
    if elsewhere:
        parts.append(paragraph("Recorded about alerts that another computation of this run raised:", "second small"))
        parts.append(
            bullets([f"{named(r.client)}, {r.verdict}: {step_line(step)}" for r in elsewhere for step in r.steps])
        )
    source = "As recorded in the audit log; no computation confirms what people decided."
    return section("Record of decisions", *parts, paragraph(source, "second small"))


def protection_section() -> str:
    """What is in the report about people, and who may have it."""
    return section("Data protection", paragraph(IN_THE_REPORT))
