"""Overview: one sentence of verdict, the strongest alerts, the curves."""

from __future__ import annotations

import streamlit as st

from app import state
from app.charts.cumulative import cumulative_alt, cumulative_facts, draw_cumulative

entry = state.current_run()
found = None if entry is None else state.latest_report(entry)
if entry is None:
    st.title("No run yet")
elif found is None:
    job = state.job_of(entry)
    st.title("Computing the first result")
    st.text(f"{entry.name}: {job.state if job else 'no job'} {job.progress if job else ''}")
    st.button("Look again")
else:
    report, _ = found
    alerts = report.detection.alerts
    st.title(f"{len({a.client for a in alerts})} of {len(report.history.client_ids)} clients changed during this run")
    focus = tuple(dict.fromkeys(a.client for a in alerts))
    facts = cumulative_facts(report, report.history.utilities[0], focus)
    st.plotly_chart(
        draw_cumulative(facts, state.theme()),
        theme=None,
        config={"displayModeBar": False},
        alt=cumulative_alt(facts),
    )
