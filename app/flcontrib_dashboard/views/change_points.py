"""Change points: the probability of a change per epoch and client, and the share of mass where truth is known."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.charts import (
    change_point_alt,
    change_point_facts,
    change_point_rows,
    change_words,
    draw_change_points,
)
from flcontrib_core.detection import mass_in_window
from flcontrib_core.words import numbers, so_far
from flcontrib_dashboard import controls, selection, state

SERIES_WORDS = {
    "solo-margin": "solo margin, relative to the other participants of the epoch",
    "relative-value": "value, relative to the other participants of the epoch",
    "peer-direction": "direction, relative to the other participants of the epoch",
    "increments": "value of each epoch",
    "cumulative": "cumulative contribution, as in the paper",
}
COUNTING = (
    "Neighbouring epochs share one change: 20 with 0.49 and 21 with 0.48 count as one change of 0.97 in epochs 20–21. "
    "So a change can pass the threshold although no single epoch of it does."
)

shown = controls.need_report("Change points", unfinished=True)
if shown is not None:
    report = shown.report
    top = st.container()
    following = selection.follow_bar(report)
    threshold = st.slider(
        "Threshold: probability from which a change is counted", 0.05, 0.95, 0.5, 0.05, width=400, help=COUNTING
    )
    default = selection.in_focus(report, following, 5)
    focus = controls.pick_clients("Clients as lines", report.history.client_ids, default, "lines")
    key = (shown.result.digest, threshold, focus)
    facts = state.cached((*key, "changes"), lambda: change_point_facts(report, threshold, focus))
    clients, points = len({c for c, *_ in facts.above}), report.detection.change_points
    found = f"{numbers.several(len(facts.above), 'change')} at or above {threshold:.2f}"
    top.title(
        so_far(report)
        + (f"{found}, in {numbers.several(clients, 'client')}" if clients else f"No change at or above {threshold:.2f}")
    )
    with st.container(border=True, gap="xsmall"):
        controls.card_title("Probability that a new segment starts at this epoch")
        st.caption(
            f"Exact Bayesian posterior (Fearnhead 2006) on each client's {SERIES_WORDS[points.series]}. "
            "A description, not an alert: honest series change too. "
            "The more a cell stands out, the more probable; empty: no value."
        )
        if facts.above:
            more = f"; and {numbers.count(len(facts.above) - 8)} more in the table" if len(facts.above) > 8 else ""
            st.markdown(f":small[{controls.text_of(change_words(facts.above[:8]) + more)}]")
        if facts.left_out:
            st.caption(
                f"The {len(facts.clients)} clients with the highest probabilities; "
                f"{numbers.count(facts.left_out)} more in the report's JSON."
            )
        mode = state.theme()
        controls.chart(
            lambda: draw_change_points(facts, mode, following=following),
            change_point_alt(facts),
            lambda: change_point_rows(facts),
            "changes",
            name="change-points",
            cache_key=(*key, following, mode),
            report=report,
            row_clients=facts.clients,
        )
    if report.truth is not None and report.truth.dishonest:
        with st.container(border=True, gap="xsmall"):
            controls.card_title("Where truth is known: share of the probability mass inside the window")
            rows = []
            for known in report.truth.dishonest:
                for window in known.windows:
                    mass = mass_in_window(report.detection.change_points, known.client, window)
                    rows.append(
                        {
                            "Client": known.client,
                            "Attack": known.attack,
                            "Window": numbers.window(*window),
                            "Share of mass": "no mass" if mass != mass else f"{mass:.2f}",
                        }
                    )
            controls.table(rows)
            st.caption(
                "Of the series named above; the return to normal begins one epoch after the window. The paper's "
                "0.91, 0.97 and 0.82 are of the cumulative series, in which honest clients reach 0.4 to 0.6 as well."
            )
    controls.next_steps(("alerts", "What was alerted, with its evidence"), ("contributions", "Every epoch's value"))
