"""What does a person receive? One HTML file that opens offline, prints, and says how to check it."""

from __future__ import annotations

from pathlib import Path

from flcontrib_core.auditing import AuditReport
from flcontrib_core.detection.findings import Alert
from flcontrib_core.reports.chart_facts import RunFacts, run_facts
from flcontrib_core.reports.charts import MOST_ROWS, cumulative_chart, ranking_chart
from flcontrib_core.reports.client_charts import evidence_chart
from flcontrib_core.reports.drawing import Chart, markup
from flcontrib_core.reports.heat_map import heat_map_chart
from flcontrib_core.reports.page import badge, bullets, drawn, grid, page, paragraph, section
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
from flcontrib_core.words import report_words as phrases
from flcontrib_core.words.numbers import count, probability, several, signed

MOST_ALERTS_DRAWN = 12


def write_html_report(report: AuditReport, path: Path, *, chain_head: str | None = None) -> Path:
    """Writes the page alone (``write_report`` writes it with its JSON twin); the path written."""
    from flcontrib_core.reports.twin import report_json

    digest = str(report_json(report, chain_head=chain_head)["report_digest"])
    path.write_text(html_report(report, Seal(digest, path.with_suffix(".json").name, chain_head)), encoding="utf-8")
    return path


def report_charts(report: AuditReport) -> dict[str, Chart]:
    """Every chart of the report by name; none of the per-epoch ones for methods that give totals only."""
    facts = run_facts(report)
    charts = [ranking_chart(facts)] if facts.ranking() else []
    if facts.has_epoch_values:
        charts += [cumulative_chart(facts), heat_map_chart(facts)]
        for n, alert in enumerate(report.detection.alerts[:MOST_ALERTS_DRAWN], start=1):
            charts.append(evidence_chart(facts, alert.client, alert.window, n))
    return {chart.name: chart for chart in charts}


def write_charts(report: AuditReport, folder: Path) -> list[Path]:
    """Each chart as an SVG file of its own.

    Departure: no PNG here. A raster needs a browser or a drawing library that would be the heaviest dependency of the
    house; the dashboard makes PNGs in the reader's own browser, and an SVG prints at any size.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, chart in report_charts(report).items():
        path = folder / f"{name}.svg"
        path.write_text(chart.as_file(), encoding="utf-8")
        written.append(path)
    return written


def html_report(report: AuditReport, seal: Seal) -> str:
    """The page as text."""
    facts, charts = run_facts(report), report_charts(report)
    return page(
        f"{report.run_name}: audit of contributions",
        [
            _head(report),
            _alerts(report, charts),
            _run_charts(report, facts, charts),
            totals_section(report),
            verdicts_section(report),
            schedule_section(report),
            server_share_section(report),
            warnings_section(report),
            axioms_section(report),
            provenance_section(report),
            verify_section(report, seal),
        ],
    )


def _head(report: AuditReport) -> str:
    history = report.history
    computed = int(history.computed[1:].sum())
    badges = [
        badge(f"{several(len(history.client_ids), 'client')} · {several(history.epoch_count, 'epoch')}"),
        badge(
            f"{computed} of {history.epoch_count} epochs computed"
            if computed < history.epoch_count
            else "all epochs computed",
            "care" if computed < history.epoch_count else "",
        ),
        badge(f"{report.detection.preset} threshold"),
    ]
    if report.warnings:
        badges.append(badge(several(len(report.warnings), "warning") + " about the log", "care"))
    if any(history.server_moved(u) for u in history.utilities):
        badges.append(badge("the server's own step is part of the change", "care"))
    broken = [a for a in report.axioms if not a.holds]
    if broken:
        badges.append(badge(f"the values miss {several(len(broken), 'check')}", "care"))
    return (
        f'<header><p class="crumbs">{markup(report.run_name)} · audit of contributions · run '
        f"{markup(history.run_digest[:12])}…</p><h1>{markup(phrases.headline(report))}</h1>"
        f"{paragraph(phrases.nothing_found(report) or '')}"
        f"{paragraph(f'{phrases.OBSERVED_ONLY} {phrases.false_alarms(report)}', 'second')}"
        f'<div class="badges">{"".join(badges)}</div></header>'
    )


def _alerts(report: AuditReport, charts: dict[str, Chart]) -> str:
    alerts = report.detection.alerts
    cards = [
        alert_card(alert, charts.get(f"evidence-{n}"), phrases.alert_title(alert), alert.why, alert.counter_evidence)
        for n, alert in enumerate(alerts[:MOST_ALERTS_DRAWN], start=1)
    ]
    rest = [
        [a.client, phrases.VERDICTS[a.verdict], phrases.where_and_how_sure(a), a.why]
        for a in alerts[MOST_ALERTS_DRAWN:]
    ]
    if rest:
        cards.append(grid(["Client", "Finding", "Where and how sure", "Why"], rest, words=4))
    return section("Alerts: what was observed and what speaks against it", *cards)


def alert_card(alert: Alert, chart: Chart | None, title: str, why: str, against: tuple[str, ...]) -> str:
    """One alert: evidence and counter-evidence side by side, same size, same type; then the picture."""
    sure = "exact: a fact about the file"
    if alert.probability is not None:
        sure = f"probability {probability(alert.probability)} (calibrated)"
    badges = [
        badge(phrases.VERDICTS[alert.verdict], "alert"),
        badge(sure),
        badge(
            f"{alert.computed_in_window} of {several(alert.participated_in_window, 'participation')} computed"
            + (" in the window" if alert.window else "")
        ),
    ]
    if alert.sensitivity_settings is not None:
        badges.append(badge(f"holds in {alert.sensitivity_holds} of {alert.sensitivity_settings} alternative settings"))
    scores = [signed(c.score, 1) if c.score is not None else "unavailable" for c in alert.channels]
    table = grid([c.name for c in alert.channels], [scores], words=0)
    channels = f"<details open><summary>Every channel, log Bayes factor</summary>{table}</details>" if scores else ""
    return (
        f'<div class="card"><h3>{markup(title)}</h3><div class="badges">{"".join(badges)}</div>'
        f'<div class="pair"><div><h3>What was observed</h3>{paragraph(why)}</div>'
        f"<div><h3>What speaks against it</h3>{bullets(against)}</div></div>{drawn(chart)}"
        f"{channels}</div>"
    )


def _run_charts(report: AuditReport, facts: RunFacts, charts: dict[str, Chart]) -> str:
    parts = []
    if not facts.has_epoch_values:
        return section("Contributions", paragraph("This method gives totals only: there are no values per epoch."))
    for name, title, words in (
        (
            "cumulative",
            f"Running {facts.axis} per client",
            "Coloured: clients with an alert. Grey: median, middle 50% and 80% of the others. A sign stands at every "
            "computed epoch; a thin dotted stretch is filled in, not computed.",
        ),
        (
            "heat-map",
            f"{facts.axis.capitalize()} per client and epoch",
            "Filled: computed (neutral colour = 0). Hatched: took part, not computed. Dot: absent, exactly 0.",
        ),
    ):
        parts.append(
            f'<div class="card"><h3>{markup(title)}</h3>{paragraph(words, "second small")}{drawn(charts[name])}</div>'
        )
    if len(facts.client_ids) > MOST_ROWS:
        parts.append(
            paragraph(
                f"{MOST_ROWS} of {count(len(facts.client_ids))} clients are drawn: alerted ones and the "
                "largest totals. The JSON beside this file holds all.",
                "second small",
            )
        )
    return section("Contributions", *parts)
