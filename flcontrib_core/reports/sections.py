"""Sections behind the finding: totals, verdicts, schedule, the log, checks of the values, origin, how to check."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts import Chart, fill_of, main_utility, total_credit
from flcontrib_core.detection.findings import ALERT_KINDS
from flcontrib_core.reports.page import bullets, command, drawn, facts_list, flattened, grid, markup, paragraph, section
from flcontrib_core.reports.record import Record
from flcontrib_core.reports.tables import AXIOMS, axioms_table
from flcontrib_core.words import (
    blind_spot_lines,
    credited,
    enough_lines,
    history_remarks,
    method_words,
    methods,
    proof_words,
    sentences,
    total_status,
    verdict_name,
    verdict_reason,
    worst_status,
)
from flcontrib_core.words.numbers import capital, count, probability, share, signed

MOST_TABLE_ROWS = 200


@dataclass(frozen=True)
class Seal:
    """What ties a page to its JSON twin."""

    report_digest: str
    json_name: str


def totals_section(report: AuditReport, ranking: Chart | None) -> str:
    """Every client's totals with their intervals, under the ranking where it is drawn."""
    history, first, fill = report.history, main_utility(report), fill_of(report.history)
    totals = {u: total_credit(history, u, fill) for u in history.utilities}
    errors = {u: history.total_standard_errors(u) for u in history.utilities}
    worst = {u: history.worst_case_errors(u) for u in history.utilities}
    took_part = history.participated.sum(axis=0)
    computed = (history.of(first).computed & history.participated).sum(axis=0)
    header = ["Client", "Data size", "Took part", "Computed"]
    for u in history.utilities:
        header += [capital(credited(history, u)), "95%", "Worst case"]
    rows = []
    order = sorted(
        range(len(history.client_ids)), key=lambda i: (not took_part[i], -totals[first][i], history.client_ids[i])
    )
    for i in order[:MOST_TABLE_ROWS]:
        row = [history.client_ids[i], count(history.data_sizes[i]) if history.data_sizes else "–"]
        row += [str(took_part[i]), str(computed[i])]
        for u in history.utilities:
            far = float(worst[u][i])
            row.append(signed(float(totals[u][i])) if took_part[i] else "never took part")
            row.append(total_status(float(errors[u][i]), int(took_part[i] - computed[i])) if took_part[i] else "–")
            row.append("–" if far != far else "0" if far == 0 else f"{far:.3f}")
        rows.append(row)
    words = (
        "Help is up; the initial model's share v(F⁰)/m is left out. "
        f"{worst_status(history, first).capitalize()} "
        f"({methods(history)}). 95%: 1.96 · √Σ SE² over epochs; worst case: the linear sum of the half-widths."
    )
    if not history.computed.all():
        words += f" Skipped epochs are filled by the policy '{fill}' in totals only; no detector sees filled values."
    more = len(history.client_ids) - MOST_TABLE_ROWS
    shown = paragraph(f"{count(more)} more clients stand in the JSON.", "second small") if more > 0 else ""
    picture = "" if ranking is None else f'<div class="card"><h3>{markup(ranking.title)}</h3>{drawn(ranking)}</div>'
    return section("Totals", paragraph(words, "second small"), picture, grid(header, rows), shown)


def verdicts_section(report: AuditReport) -> str:
    """The verdicts on the clients without an alert, and remarks on the reading."""
    rows = [
        [c.client, verdict_name(c.verdict), probability(c.probability), verdict_reason(c)]
        for c in report.detection.clients[:MOST_TABLE_ROWS]
        if c.verdict not in ALERT_KINDS
    ]
    notes = bullets(sentences(report.detection.remarks, "")) if report.detection.remarks else ""
    table = grid(["Client", "Verdict", "Probability", "Why"], rows, words=4) if rows else ""
    return section("Every other client", table, notes)


def schedule_section(report: AuditReport) -> str:
    """Which epochs were computed, how fairly, and what they leave unseen; nothing without a budget."""
    plan = report.history.schedule
    if plan is None:
        return ""
    exposure = [e for e in plan.exposure.values() if e is not None]
    how_many = f"{'at most' if plan.at_most else 'exactly'} {plan.k}"
    spots = [*blind_spot_lines(plan, 10), *enough_lines(plan)]
    return section(
        "Which epochs were computed",
        facts_list(
            [
                ("chosen", ", ".join(map(str, plan.chosen))),
                ("how", f"{plan.fairness}, γ = {plan.gamma:g}, {how_many}, {method_words(plan)}"),
                ("quality", proof_words(plan)),
                ("coverage", f"{share(plan.coverage)} of the model's movement"),
                (
                    "exposure",
                    f"{share(min(exposure))} to {share(max(exposure))} of a client's epochs, "
                    f"gap {plan.exposure_gap:.3f}"
                    if exposure
                    else "–",
                ),
            ]
        ),
        f"<h3>Blind spots</h3>{bullets(spots)}" if spots else "",
    )


def server_share_section(report: AuditReport) -> str:
    """What the server's own rule moved; nothing where it is plain averaging."""
    history = report.history
    rows = []
    for u in history.utilities:
        of_server = history.of(u).server_share
        if history.server_moved(u):
            total, sign = float(of_server[1:].sum()), -history.harm_sign(u)
            rows.append([u, signed(sign * total), str(int(np.count_nonzero(of_server[1:])))])
    if not rows:
        return ""
    words = (
        "The model recorded after an epoch is not the weighted mean of the updates. Contributions are of the "
        "recomputed mean; the rest is the server's own share, so that the sum still equals the whole change."
    )
    return section("The server's share", paragraph(words), grid(["Utility", "Share (help is up)", "Epochs"], rows))


def warnings_section(report: AuditReport) -> str:
    """Evidence about the log itself."""
    rows = [[w.code, w.where, w.found, w.expected, w.fix] for w in report.warnings]
    return (
        section("About the log itself", grid(["Code", "Where", "Found", "Expected", "What to do"], rows, words=5))
        if rows
        else ""
    )


def axioms_section(report: AuditReport) -> str:
    """Whether the Shapley axioms hold for these values."""
    rows = axioms_table(report)
    if not rows:
        return ""
    table = grid(list(rows[0]), [list(row.values()) for row in rows], words=3)
    return section("Checks of the values", paragraph(AXIOMS, "second small"), table)


def provenance_section(report: AuditReport) -> str:
    """What is needed to compute the result again."""
    origin, history = report.provenance, report.history
    lines = [
        ("run digest", origin.run_digest),
        ("estimator", f"{methods(history)}; {count(int(history.evaluations.sum()))} evaluations"),
        ("epochs computed", ", ".join(map(str, origin.epochs_computed)) or "none"),
        ("seed", str(origin.seed)),
        ("version", f"flcontrib {origin.version}"),
        ("platform", origin.platform + (f", {origin.processor}" if origin.processor else "")),
        ("packages", ", ".join(f"{k} {v}" for k, v in origin.packages.items())),
        *((f"recipe: {k}", v) for k, v in flattened(origin.recipe)),
    ]
    notes = bullets(history_remarks(history)[:20]) if history.remarks else ""
    settings = f"<h3>All settings</h3>{facts_list(flattened(origin.settings), 'two')}"
    return section("Where these numbers come from", facts_list(lines), notes, settings)


def verify_section(report: AuditReport, seal: Seal, record: Record) -> str:
    return section(
        "How to check this report",
        paragraph(
            "Whoever holds the run log can compute every number again. The command reads settings and seed from "
            "the JSON beside this page, replays every computed epoch and names each place where the two differ."
        ),
        command(f"flcontrib verify {seal.json_name} RUN.flrun"),
        facts_list(
            [
                ("run digest", report.provenance.run_digest),
                ("report digest", f"{seal.report_digest} (sha256 of the JSON's content)"),
                (
                    "audit-log head",
                    record.chain_head or "written without a workspace: no decision log stands behind this report",
                ),
            ]
        ),
        paragraph(
            "The audit-log head fixes every decision and alert recorded before this report: keep it, and a later edit, "
            "cut or rewrite of that log is found when it is checked against this line."
            if record.chain_head
            else "",
            "second small",
        ),
    )
