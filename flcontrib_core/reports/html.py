"""What does a person receive? One HTML file that opens offline, prints, and says how to check it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.detection.findings import Alert, VerdictKind
from flcontrib_core.detection.wording import counted
from flcontrib_core.reports import phrases
from flcontrib_core.reports.chart_facts import STATE_ABSENT, STATE_COMPUTED, RunFacts, run_facts
from flcontrib_core.reports.charts import MOST_ROWS, cumulative_chart, heat_map_chart, ranking_chart
from flcontrib_core.reports.client_charts import evidence_chart
from flcontrib_core.reports.drawing import Chart, markup
from flcontrib_core.reports.page import (
    badge,
    bullets,
    command,
    drawn,
    facts_list,
    flattened,
    grid,
    page,
    paragraph,
    section,
)
from flcontrib_core.reports.phrases import probability, signed, thousands, total_status

MOST_ALERTS_DRAWN = 12
MOST_TABLE_ROWS = 200


@dataclass(frozen=True)
class Seal:
    """What ties a page to its JSON twin and to the audit log."""

    report_digest: str
    json_name: str
    chain_head: str | None = None


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
            _totals(report),
            _verdicts(report),
            _schedule(report),
            _server_share(report),
            _warnings(report),
            _axioms(report),
            _provenance(report),
            _verify(report, seal),
        ],
    )


def _head(report: AuditReport) -> str:
    history = report.history
    computed = int(history.computed[1:].sum())
    badges = [
        badge(f"{counted(len(history.client_ids), 'client')} · {counted(history.epoch_count, 'epoch')}"),
        badge(f"{computed} of {history.epoch_count} epochs computed" if computed < history.epoch_count else "all epochs computed",
              "care" if computed < history.epoch_count else ""),
        badge(f"{report.detection.preset} threshold"),
    ]  # fmt: skip
    if report.warnings:
        badges.append(badge(counted(len(report.warnings), "warning") + " about the log", "care"))
    if any(np.any(share) for share in history.server_share.values()):
        badges.append(badge("the server's own step is part of the change", "care"))
    broken = [a for a in report.axioms if not a.holds]
    if broken:
        badges.append(badge(f"the values miss {counted(len(broken), 'check')}", "care"))
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
    rest = [[a.client, phrases.VERDICTS[a.verdict], phrases.where_and_how_sure(a), a.why] for a in alerts[MOST_ALERTS_DRAWN:]]
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
        badge(f"{alert.computed_in_window} of {counted(alert.participated_in_window, 'participation')} computed"
              + (" in the window" if alert.window else "")),
    ]  # fmt: skip
    if alert.sensitivity_settings is not None:
        badges.append(badge(f"holds in {alert.sensitivity_holds} of {alert.sensitivity_settings} alternative settings"))
    scores = [signed(c.score, 1) if c.score is not None else "unavailable" for c in alert.channels]
    channels = grid([c.name for c in alert.channels], [scores], words=0) if scores else ""
    return (
        f'<div class="card"><h3>{markup(title)}</h3><div class="badges">{"".join(badges)}</div>'
        f'<div class="pair"><div><h3>What was observed</h3>{paragraph(why)}</div>'
        f"<div><h3>What speaks against it</h3>{bullets(against)}</div></div>{drawn(chart)}"
        f"{f'<details open><summary>Every channel, log Bayes factor</summary>{channels}</details>' if channels else ''}</div>"
    )


def _run_charts(report: AuditReport, facts: RunFacts, charts: dict[str, Chart]) -> str:
    parts = []
    if not facts.has_epoch_values:
        return section("Contributions", paragraph("This method gives totals only: there are no values per epoch."))
    for name, title, words in (
        (
            "cumulative",
            f"Running {facts.axis} per client",
            "Coloured: clients with an alert. Grey: median, middle 50 % and 80 % of the others. A sign stands at every "
            "computed epoch; a thin dotted stretch is filled in, not computed.",
        ),
        (
            "heat-map",
            f"{facts.axis.capitalize()} per client and epoch",
            "Filled: computed (neutral colour = 0). Hatched: took part, not computed. Dot: absent, exactly 0.",
        ),
    ):
        parts.append(f'<div class="card"><h3>{markup(title)}</h3>{paragraph(words, "second small")}{drawn(charts[name])}</div>')
    if len(facts.client_ids) > MOST_ROWS:
        parts.append(paragraph(f"{MOST_ROWS} of {thousands(len(facts.client_ids))} clients are drawn: alerted ones and the "
                               "largest totals. The JSON beside this file holds all.", "second small"))  # fmt: skip
    return section("Contributions", *parts)


def _totals(report: AuditReport) -> str:
    history = report.history
    facts = {u: run_facts(report, u) for u in history.utilities}
    first = facts[phrases.main_utility(history)]
    header = ["Client", "Data size", "Took part", "Computed"]
    for u in history.utilities:
        header += [f"{phrases.credited(history, u).capitalize()}", "95 %", "Worst case"]
    rows = []
    ranked = first.ranking()
    never = [i for i in range(len(history.client_ids)) if i not in set(ranked)]
    for i in [*ranked, *never][:MOST_TABLE_ROWS]:
        took_part = int((first.state[1:, i] != STATE_ABSENT).sum())
        row = [history.client_ids[i], thousands(history.data_sizes[i]) if history.data_sizes else "–", str(took_part)]
        row.append(str(int((first.state[1:, i] == STATE_COMPUTED).sum())))
        for u, f in facts.items():
            worst = float(history.worst_case_errors(u)[i])
            skipped = took_part - int(row[3])
            row.append(signed(float(f.totals[i])) if took_part else "never took part")
            row.append(total_status(float(f.total_errors[i]), skipped) if took_part else "–")
            row.append("–" if worst != worst else "0" if worst == 0 else f"{worst:.3f}")
        rows.append(row)
    words = (
        f"Help is up; the initial model's share v(F⁰)/m is left out. {phrases.worst_status(history, first.utility).capitalize()} "
        f"({phrases.methods(history)}). 95 %: 1.96 · √Σ SE² over epochs; worst case: the linear sum of the half-widths."
    )
    if not history.computed.all():
        words += f" Skipped epochs are filled by the policy '{first.fill}' in totals only; no detector sees filled values."
    more = len(history.client_ids) - MOST_TABLE_ROWS
    shown = paragraph(f"{thousands(more)} more clients stand in the JSON.", "second small") if more > 0 else ""
    ranking = drawn(ranking_chart(first)) if ranked else ""
    picture = f'<div class="card"><h3>{markup(f"Ranking by {first.axis}")}</h3>{ranking}</div>'
    return section("Totals", paragraph(words, "second small"), picture, grid(header, rows), shown)


def _verdicts(report: AuditReport) -> str:
    rows = [
        [c.client, phrases.VERDICTS[c.verdict], probability(c.probability), c.why]
        for c in report.detection.clients[:MOST_TABLE_ROWS]
        if c.verdict not in {VerdictKind.POISONING_WINDOW, VerdictKind.EXACT_FINDING}
    ]
    notes = bullets(report.detection.notes) if report.detection.notes else ""
    table = grid(["Client", "Verdict", "Probability", "Why"], rows, words=4) if rows else ""
    return section("Every other client", table, notes)


def _schedule(report: AuditReport) -> str:
    plan = report.history.schedule
    if plan is None:
        return ""
    exposure = [e for e in plan.exposure.values() if e is not None]
    spots = [f"{s.client}, epochs {s.first}–{s.last}: {counted(s.missed, 'participation')} without a value"
             for s in plan.blind_spots[:10]]  # fmt: skip
    return section(
        "Which epochs were computed",
        facts_list(
            [
                ("chosen", ", ".join(map(str, plan.chosen))),
                ("how", f"{plan.fairness}, γ = {plan.gamma:g}, {'at most' if plan.at_most else 'exactly'} {plan.k}, {plan.method}"),
                ("quality", "proved optimal" if plan.proved_optimal else f"at most {plan.gap:.4f} below the best"),
                ("coverage", f"{plan.coverage:.0%} of the model's movement"),
                ("exposure", f"{min(exposure):.0%} to {max(exposure):.0%} of a client's epochs, gap {plan.exposure_gap:.3f}" if exposure else "–"),
            ]
        ),  # fmt: skip
        f"<h3>Blind spots</h3>{bullets(spots)}" if spots else "",
    )


def _server_share(report: AuditReport) -> str:
    history = report.history
    rows = []
    for u, share in history.server_share.items():
        if np.any(share):
            total, sign = float(share[1:].sum()), -history.harm_sign(u)
            rows.append([u, signed(sign * total), str(int(np.count_nonzero(share[1:])))])
    if not rows:
        return ""
    words = (
        "The model recorded after an epoch is not the weighted mean of the updates. Contributions are of the recomputed "
        "mean; the rest is the server's own share, so that the sum still equals the whole change."
    )
    return section("The server's share", paragraph(words), grid(["Utility", "Share (help is up)", "Epochs"], rows))


def _warnings(report: AuditReport) -> str:
    rows = [[w.code, w.where, w.found, w.expected, w.fix] for w in report.warnings]
    return section("About the log itself", grid(["Code", "Where", "Found", "Expected", "What to do"], rows, words=5)) if rows else ""


def _axioms(report: AuditReport) -> str:
    rows = [
        [a.name, a.utility, "holds" if a.holds else f"misses ({a.method})", f"{a.gap:.2g}", "–" if a.epoch is None else str(a.epoch)]
        for a in report.axioms
    ]
    words = "Checked on these very values: what the Shapley value promises, and by how much the method misses it."
    table = grid(["Promise", "Utility", "Result", "Largest gap", "Epoch"], rows, words=3)
    return section("Checks of the values", paragraph(words, "second small"), table)


def _provenance(report: AuditReport) -> str:
    origin, history = report.provenance, report.history
    lines = [
        ("run digest", origin.run_digest),
        ("estimator", f"{phrases.methods(history)}; {thousands(int(history.evaluations.sum()))} evaluations"),
        ("epochs computed", ", ".join(map(str, origin.epochs_computed)) or "none"),
        ("seed", str(origin.seed)),
        ("version", f"flcontrib {origin.version}"),
        ("platform", origin.platform + (f", {origin.processor}" if origin.processor else "")),
        ("packages", ", ".join(f"{k} {v}" for k, v in origin.packages.items())),
        *((f"recipe: {k}", v) for k, v in flattened(origin.recipe)),
    ]
    notes = bullets(phrases.gathered(history.notes)[:20]) if history.notes else ""
    settings = f"<h3>All settings</h3>{facts_list(flattened(origin.settings), 'two')}"
    return section("Where these numbers come from", facts_list(lines), notes, settings)


def _verify(report: AuditReport, seal: Seal) -> str:
    return section(
        "How to check this report",
        paragraph(
            "Whoever holds the run log can compute every number again. The command reads the settings and the seed from the "
            "JSON beside this page, replays every computed epoch and names each place where the two differ."
        ),
        command(f"flcontrib verify {seal.json_name} RUN.flrun"),
        facts_list(
            [
                ("run digest", report.provenance.run_digest),
                ("report digest", f"{seal.report_digest} (sha256 of the JSON's content)"),
                ("audit-log head", seal.chain_head or "written without a workspace: no decision log stands behind this report"),
            ]
        ),
        paragraph(
            "The audit-log head fixes every decision and alert recorded before this report: keep it, and a later edit, cut "
            "or rewrite of that log is found when it is checked against this line." if seal.chain_head else "",
            "second small",
        ),
    )  # fmt: skip
