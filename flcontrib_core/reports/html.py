"""The report as one HTML file that opens offline, prints, and says how to check it."""

from __future__ import annotations

from collections.abc import Sequence

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts import MOST_ALERTS_DRAWN, MOST_HEAT_ROWS, Chart, has_epoch_values, report_charts
from flcontrib_core.detection.findings import Alert
from flcontrib_core.detection.review import AlertReview, DeclaredNote, Reviews
from flcontrib_core.reports.naming import plain_letters
from flcontrib_core.reports.page import badge, bullets, drawn, grid, markup, page, paragraph, section
from flcontrib_core.reports.record import NO_RECORD, Record
from flcontrib_core.reports.sections import (
    Seal,
    axioms_section,
    provenance_section,
    schedule_section,
    server_share_section,
    totals_section,
    verdicts_section,
    verify_section,
    warnings_section,
)
from flcontrib_core.reports.summary import decisions_section, protection_section, summary_section
from flcontrib_core.words import (
    OBSERVED_ONLY,
    alert_line,
    alert_title,
    channel_meaning,
    computed_badge,
    context,
    counter_evidence,
    engineer_line,
    headline,
    meaning_line,
    stands_on,
    values_behind,
    verdict_name,
    visible_shift,
    why,
    without_values,
)
from flcontrib_core.words.decisions import DECLARED, note_line
from flcontrib_core.words.numbers import count, moment, probability, several, signed


def html_report(report: AuditReport, seal: Seal, record: Record = NO_RECORD) -> str:
    """The page as text."""
    charts = report_charts(report)
    run, when = report.history.run_digest[:12], moment(record.written_at or "")
    return page(
        f"{report.run_name}: audit of contributions",
        [
            _head(report, record),
            summary_section(report, record),
            *_evidence(report, charts, record),
            *_method(report, seal, record),
        ],
        seal.json_name,
        seal.report_digest,
        f"FLContrib report, {plain_letters(report.run_name)} run {run} {when}".strip(),
    )


def _evidence(report: AuditReport, charts: dict[str, Chart], record: Record) -> list[str]:
    """For who trains the model: alerts with their pictures, contributions, the record."""
    totals = totals_section(report, charts.get("ranking")) if report.history.without_values is None else ""
    return [
        _alerts(report, charts, record.reviews),
        _run_charts(report, charts),
        totals,
        verdicts_section(report),
        decisions_section(report, record),
    ]


def _method(report: AuditReport, seal: Seal, record: Record) -> list[str]:
    """For who checks the numbers: how they were made, how to make them again."""
    return [
        schedule_section(report),
        server_share_section(report),
        warnings_section(report),
        axioms_section(report),
        provenance_section(report),
        verify_section(report, seal, record),
        protection_section(),
    ]


def _head(report: AuditReport, record: Record) -> str:
    history = report.history
    computed = int(history.computed[1:].sum())
    badges = [
        badge(f"{several(len(history.client_ids), 'client')} · {several(history.epoch_count, 'epoch')}"),
        badge(
            computed_badge(history) if computed < history.epoch_count else "all epochs computed",
            "care" if computed < history.epoch_count else "",
        ),
        badge(f"{report.detection.preset} threshold"),
    ]
    if report.warnings:
        badges.append(badge(several(len(report.warnings), "warning") + " about the log", "care"))
    if any(history.server_moved(u) for u in history.utilities):
        badges.append(badge("the server's own step is part of the change", "care"))
    quiet = "" if report.detection.alerts else visible_shift(report) or ""
    broken = [a for a in report.axioms if not a.holds]
    if broken:
        badges.append(badge(f"the values miss {several(len(broken), 'check')}", "care"))
    by = f" by {record.written_by}" if record.written_by else ""
    written = f" · written {moment(record.written_at)}{by}" if record.written_at else ""
    return (
        f'<header><p class="crumbs">{markup(report.run_name)} · audit of contributions · run '
        f"{markup(history.run_digest[:12])}…{markup(written)}</p>"
        f"<h1>{markup(headline(report, reviews=record.reviews))}</h1>"
        f"{paragraph(quiet)}{paragraph(stands_on(report) or '', 'second')}{paragraph(OBSERVED_ONLY, 'second')}"
        f'<div class="badges">{"".join(badges)}</div></header>'
    )


def _alerts(report: AuditReport, charts: dict[str, Chart], reviews: Reviews) -> str:
    alerts = report.detection.alerts
    cards = [
        alert_card(alert, charts.get(f"evidence-{n}"), reviews.of(alert), reviews.notes_on(alert.client, alert.window))
        for n, alert in enumerate(alerts[:MOST_ALERTS_DRAWN], start=1)
    ]
    rest = [[a.client, verdict_name(a.verdict), alert_line(a), " ".join(why(a))] for a in alerts[MOST_ALERTS_DRAWN:]]
    if rest:
        cards.append(grid(["Client", "Finding", "Where and how sure", "Why"], rest, words=4))
    return section("Evidence: what was observed and what speaks against it", *cards, look="onward")


def alert_card(
    alert: Alert, chart: Chart | None, review: AlertReview | None = None, notes: Sequence[DeclaredNote] = ()
) -> str:
    """One alert: evidence and counter-evidence side by side, same size, same type; then the picture."""
    sure = "exact: a fact about the file"
    if alert.probability is not None:
        sure = f"probability {probability(alert.probability)} (calibrated)"
    badges = [
        badge(verdict_name(alert.verdict), "alert" if alert.accuses else "care"),
        badge(sure),
        badge(values_behind(alert)),
        badge("new" if review is None else review.state.value),
    ]
    scores = [signed(c.score, 1) if c.score is not None else "unavailable" for c in alert.channels]
    rows = [[c.name, channel_meaning(c.name), s] for c, s in zip(alert.channels, scores, strict=True)]
    table = grid(["Channel", "What it measures", "Log Bayes factor"], rows, words=2)
    channels = (
        f"<details open><summary>Every channel: above zero speaks for a change</summary>{table}</details>"
        if scores
        else ""
    )
    declared = f"<h3>{DECLARED}</h3>{bullets([note_line(note) for note in notes])}" if notes else ""
    return (
        f'<div class="card"><h3>{markup(alert_title(alert))}</h3><div class="badges">{"".join(badges)}</div>'
        f"{paragraph(meaning_line(alert))}{paragraph(engineer_line(alert), 'second')}"
        f'<div class="pair"><div><h3>What was observed</h3>{bullets(why(alert))}</div>'
        f"<div><h3>What speaks against it</h3>{bullets(counter_evidence(alert))}</div></div>"
        f"{paragraph(' '.join(context(alert)), 'second small')}{declared}{drawn(chart)}{channels}</div>"
    )


def _run_charts(report: AuditReport, charts: dict[str, Chart]) -> str:
    parts = []
    if (lacking := without_values(report.history)) is not None:
        return section("Contributions", paragraph(lacking))
    if not has_epoch_values(report):
        return section("Contributions", paragraph("This method gives totals only: there are no values per epoch."))
    for name, words in (
        (
            "cumulative",
            "Coloured: clients with an alert. Grey: median, middle 50% and 80% of the others. A sign stands at every "
            "computed epoch; a thin dotted stretch is filled in, not computed.",
        ),
        (
            "heat-map",
            "Filled: computed (neutral colour = 0). Hatched: took part, not computed. Dot: absent, exactly 0.",
        ),
    ):
        title = markup(charts[name].title)
        parts.append(f'<div class="card"><h3>{title}</h3>{paragraph(words, "second small")}{drawn(charts[name])}</div>')
    if len(report.history.client_ids) > MOST_HEAT_ROWS:
        parts.append(
            paragraph(
                f"{MOST_HEAT_ROWS} of {count(len(report.history.client_ids))} clients are drawn: alerted ones and the "
                "largest totals. The JSON beside this file holds all.",
                "second small",
            )
        )
    return section("Contributions", *parts)
