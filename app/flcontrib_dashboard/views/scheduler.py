"""Scheduler: move every knob and watch what is computed, who is seen and what it costs – before it is paid for."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.workspace import RECORDING
from flcontrib_dashboard import capacity_card, controls, job_progress, state
from flcontrib_dashboard.plan_answer import planned
from flcontrib_dashboard.plan_board import awaiting, board, watch_measurement


def show() -> None:
    """The plan of the run on screen, whether it has values or not."""
    entry = state.current_run()
    if entry is None or entry.kind == RECORDING:
        controls.need_report("Scheduler")
        return
    if entry.kind == "contribution-table":
        controls.head(entry, "Scheduler")
        st.title("A contribution table is already computed: there is nothing to schedule")
        st.markdown(
            "A budget chooses which epochs of a run log are evaluated. A table brings its values along, so there is no "
            "cost to save here."
        )
        controls.next_steps(("contributions", "See the table's values"), ("upload", "Bring in a run log"))
        return
    shown = state.shown_report(entry)
    if shown is None and (not entry.available or state.lacking(entry.digest) is not None):
        controls.need_report("Scheduler")
        return
    without = None if shown is None else shown.report.history.without_values
    if shown is not None and without is not None and not without.measurable:
        controls.need_report("Scheduler")
        st.title("There are no values to schedule")
        controls.no_values(shown)
        return
    run = planned(entry, shown)
    if run is None:
        job = state.measuring(entry)
        controls.head(entry, "Scheduler")
        failed = job is not None and not job.active and bool(job.error)
        st.title("This run cannot be planned" if failed else "Measuring this run")
        awaiting(entry)
        return
    if run.measurement is None:
        watch_measurement(entry)
    if shown is None:
        at_work = state.active_audit(entry)
        stands = "Nothing is computed yet" if at_work is None else "No result yet"  # a job may have some epochs
        controls.head(entry, "Scheduler", (stands, "gray"))
        if at_work is not None:
            job_progress.follow(at_work, previewed=False)
    else:
        controls.need_report("Scheduler")
    board(run)
    found = state.measurement(entry)
    capacity_card.draw(None if found is None else found[1])


show()
