"""Contributions: every client in every epoch, curves, and the totals with what they rest on."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app import controls, findings, state, wording
from app.charts.cumulative import MOST_IN_FOCUS, cumulative_alt, cumulative_facts, cumulative_rows, draw_cumulative
from app.charts.heat_map import draw_heat_map, heat_map_alt, heat_map_facts, heat_map_rows
from app.charts.ranking import ranking_facts
from flcontrib_core import AuditReport, FillPolicy

ORDERS = {"alerts": "Alerts first", "total": "By total", "name": "By name"}
VIEWS = ["Heat map", "Curves"]


def title_of(report: AuditReport, utility: str) -> str:
    rows = ranking_facts(report, utility).rows
    if not rows:
        return "Nobody took part in this run"
    below = [r for r in rows if r.clear and r.total < 0]
    words = f"{rows[0].client} contributed most"
    if len(below) == 1:
        return f"{words}; {below[0].client} is the only one clearly below zero"
    return words + (f"; {len(below)} clients are clearly below zero" if below else "; nobody is clearly below zero")


def totals_table(report: AuditReport, utility: str, fill: FillPolicy) -> list[dict[str, object]]:
    """One row per client: credit, interval, share of the improvement, participation, data size."""
    history = report.history
    sign = -history.harm_sign(utility)
    credit = sign * (history.totals(utility, fill) - history.values[utility][0])
    half = 1.96 * history.total_standard_errors(utility)
    positive = float(credit[credit > 0].sum())
    took_part = history.participated.sum(axis=0)
    computed = (history.participated & history.computed[:, None]).sum(axis=0)
    digits = max(3, wording.digits_for(*credit.tolist()))
    rows = []
    for i in np.argsort(-credit, kind="stable"):
        size = history.data_sizes[i] if history.data_sizes else None
        rows.append(
            {
                "Client": history.client_ids[i],
                "Total": wording.signed(float(credit[i]), digits),
                "± 95 %": "exact"
                if half[i] == 0
                else ("no interval" if np.isnan(half[i]) else f"{half[i]:.{digits}f}"),
                "Share of the help": float(100 * max(credit[i], 0.0) / positive) if positive > 0 else None,
                "Took part": int(took_part[i]),
                "Computed": int(computed[i]),
                "Rows": size,
                "Per 100 rows": wording.signed(float(credit[i]) / size * 100) if size else "–",
            }
        )
    return rows


shown = controls.need_report("Contributions", unfinished=True)
if shown is not None:
    report, mode = shown.report, state.theme()
    history = report.history
    top = st.container()
    with st.container(horizontal=True, gap="medium"):
        utility = controls.pick_utility(history.utilities)
        order = st.segmented_control(
            "Order", list(ORDERS), default="alerts", format_func=ORDERS.__getitem__, label_visibility="collapsed"
        )
        view = st.segmented_control("View", VIEWS, default="Heat map", label_visibility="collapsed")
    top.title(controls.text_of(findings.so_far(report) + title_of(report, utility)))
    with st.container(border=True, gap="xsmall"):
        if view == "Curves":
            marked = list(dict.fromkeys(a.client for a in report.detection.alerts))
            pinned = [c for c in st.query_params.get_all("pin") if c in history.client_ids]
            words = f"Clients in colour (at most {MOST_IN_FOCUS}); all others are the grey band"
            focus = controls.pick_clients(words, history.client_ids, (pinned or marked)[:MOST_IN_FOCUS], "pinned")
            facts = cumulative_facts(report, utility, focus)
            controls.chart(
                draw_cumulative(facts, mode), cumulative_alt(facts), cumulative_rows(facts), "curves", name="curves"
            )
            controls.legend_of_states()
        else:
            cells = heat_map_facts(report, utility, str(order or "alerts"))
            st.markdown(f"**Contribution per client and epoch** ({cells.axis})")
            st.markdown(
                ":small[:red[■] harmed\u2003:blue[■] helped\u2003▨ took part, not computed (budget)\u2003"
                "· absent\u2003outlined: window with an alert]"
            )
            if cells.left_out:
                st.caption(f"{cells.left_out} more clients are in the table below.")
            controls.chart(
                draw_heat_map(cells, mode), heat_map_alt(cells), heat_map_rows(cells), "heat", name="heat-map"
            )
    with st.container(border=True, gap="xsmall"):
        st.markdown("**Totals**")
        skipped = int((~history.computed).sum())
        fill = FillPolicy.EQUAL
        if skipped:
            picked = st.segmented_control(
                f"{skipped} skipped epochs count as",
                [FillPolicy.EQUAL.value, FillPolicy.ZERO.value],
                default=FillPolicy.EQUAL.value,
                format_func=lambda f: "an equal split" if f == "equal" else "zero (the paper)",
            )
            fill = FillPolicy(picked or FillPolicy.EQUAL.value)
        rows = totals_table(report, utility, fill)
        search = st.text_input("Find a client", placeholder="part of its name") if len(rows) > 20 else ""
        found = [r for r in rows if search.lower() in str(r["Client"]).lower()]
        st.dataframe(
            found,
            hide_index=True,
            width="stretch",
            column_config={
                "Share of the help": st.column_config.ProgressColumn(
                    "Share of the help",
                    help="Each client's part of all positive totals; a negative total counts as zero here.",
                    format="%.0f %%",
                    min_value=0,
                    max_value=100,
                ),
                "Took part": st.column_config.NumberColumn("Took part", help="epochs"),
            },
        )
        st.download_button(
            "Totals as CSV", controls.as_csv(rows), file_name="totals.csv", mime="text/csv", on_click="ignore"
        )
