"""Compare: two results side by side, the first one pinned as the baseline."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app import controls, findings, state, wording
from app.charts.comparison import draw_ranks, rank_alt, rank_facts, rank_rows
from flcontrib_core import AuditReport, compare_reports
from flcontrib_core.detection.findings import VerdictKind
from flcontrib_core.workspace import ResultEntry


def label_of(result: ResultEntry, names: dict[str, str]) -> str:
    budget = result.settings.get("budget", {})
    epochs = budget.get("epochs")
    share = (
        "all epochs"
        if not budget.get("budget") and not epochs
        else f"budget {len(epochs) if epochs else budget['budget']}"
    )
    return (
        f"{names.get(result.run_digest, result.run_digest[:8])} · {result.settings.get('estimator', 'table')} · {share}"
    )


def title_of(rows: dict, moved: int) -> str:  # type: ignore[type-arg]
    agreement = rows["alert_agreement"][1]
    alerts = "the alerts agree" if agreement == 1 else f"{agreement:.0%} of the alerts agree"
    return f"{wording.several(moved, 'client')} changed rank; {alerts}"


def difference_table(rows: dict, utility: str, only: bool) -> list[dict[str, object]]:  # type: ignore[type-arg]
    table = []
    for client, (base, other) in rows["utilities"][utility].items():
        if base is None or other is None:
            table.append(
                {
                    "Client": client,
                    "Baseline": "–" if base is None else wording.signed(base["total"]),
                    "Other": "–" if other is None else wording.signed(other["total"]),
                    "Change": "only in one",
                    "Rank": "",
                }
            )
            continue
        if only and abs(other["change"]) < 1e-12 and base["rank"] == other["rank"]:
            continue
        table.append(
            {
                "Client": client,
                "Baseline": wording.signed(base["total"]),
                "Other": wording.signed(other["total"]),
                "Change": wording.signed(other["change"], 4),
                "Rank": f"{base['rank']} → {other['rank']}",
            }
        )
    return table


def alert_words(alert: dict[str, Any]) -> str:
    where = f", epochs {wording.window(*alert['window'])}" if alert["window"] else ""
    return f"{alert['client']}: {findings.KIND_WORDS[VerdictKind(alert['verdict'])].lower()}{where}"


workspace = state.workspace()
names = {r.digest: r.name for r in workspace.runs()}
results = [r for r in workspace.results(kind="audit") if r.available]
if len(results) < 2:
    st.title("Two results are needed to compare")
    st.text("Compute a second run, or the same run with another budget on the scheduler page.")
else:
    top = st.container()
    with st.container(border=True):
        a, b = st.columns(2)
        options = list(range(len(results)))
        first = a.selectbox(
            "Baseline", options, index=min(1, len(results) - 1), format_func=lambda i: label_of(results[i], names)
        )
        second = b.selectbox("Compared with", options, index=0, format_func=lambda i: label_of(results[i], names))
    pair: list[AuditReport] = [state.load_report(results[i].digest, results[i]) for i in (first, second)]
    rows = compare_reports(pair)
    shared = list(rows["utilities"])
    if not shared:
        top.title("These results share no utility")
    else:
        utility = controls.pick_utility(tuple(shared))
        facts = rank_facts(pair[0], pair[1], utility, ("Baseline", "Compared"))
        top.title(title_of(rows, facts.moved) if facts.rows else "The two runs have no client in common")
        left, right = st.columns([1, 1.2], gap="small")
        with left, st.container(border=True, height="stretch", gap="xsmall"):
            st.markdown("**Ranks**")
            if facts.rows:
                mode = state.theme()
                controls.chart(
                    lambda: draw_ranks(facts, mode),
                    rank_alt(facts),
                    lambda: rank_rows(facts),
                    "ranks",
                    name="ranks",
                    kept_as=(results[first].digest, results[second].digest, utility, mode),
                )
            else:
                st.text("Ranks can be compared where the same clients took part.")
        with right, st.container(border=True, height="stretch", gap="xsmall"):
            st.markdown("**Totals**")
            only = st.toggle("Only differences")
            table = difference_table(rows, utility, only)
            if table:
                st.dataframe(table, hide_index=True, width="stretch")
            else:
                st.text("No difference.")
            st.markdown("**Alerts**")
            for words, alerts in zip(("Baseline", "Compared"), rows["alerts"], strict=True):
                st.text(f"{words}: {'; '.join(alert_words(x) for x in alerts) or 'none'}")
