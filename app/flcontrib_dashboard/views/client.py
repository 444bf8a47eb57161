"""Client: everything about one of them, in one place with an address."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts import Following, draw_evidence, evidence_alt, evidence_facts, evidence_rows, fill_of
from flcontrib_core.detection import Alert
from flcontrib_core.words import (
    OBSERVED_ONLY,
    alert_title,
    client_headline,
    decision_sentence,
    how_sure,
    note_line,
    numbers,
    step_line,
    verdict_reason,
)
from flcontrib_dashboard import client_table, controls, deciding, extracts, selection, state
from flcontrib_dashboard.addresses import page_file

FIGURE_WIDTH = 210
"""Pixels: room for 'exact · place 30 of 30'."""


def figures(report: AuditReport, client: str) -> None:
    """Participation, data and totals in one row."""
    history = report.history
    i = history.client_ids.index(client)
    took_part = int(history.participated[1:, i].sum())
    row = st.container(horizontal=True, gap="medium")  # wraps on a narrow screen
    row.metric("Epochs taken part", f"{took_part} of {history.epoch_count}", width=FIGURE_WIDTH)
    rows = numbers.several(history.data_sizes[i], "row") if history.data_sizes else "not recorded"
    row.metric("Data", rows, width=FIGURE_WIDTH)
    if history.without_values is not None:
        return
    for utility in history.utilities[:2]:
        totals = client_table.totals_columns(report, utility, fill_of(report.history))
        place = totals["Client"].index(client)
        name = numbers.credited(utility, utility in history.lower_is_better)
        row.metric(
            f"Total {name}",
            numbers.signed(totals["Total"][place]),
            f"{totals['± 95%'][place]} · place {place + 1} of {len(history.client_ids)}",
            width=FIGURE_WIDTH,
            help="Beside it half of its 95% interval, how many of its epochs have no value (open), and its place "
            "among all clients, best first.",
            delta_color="off",
            delta_arrow="off",
        )


def series(shown: state.Shown, client: str, own: list[Alert], following: Following) -> None:
    """Its curve against the others, the probability of a change, and every epoch's value."""
    report, mode = shown.report, state.theme()
    controls.card_title("Its series")
    if report.history.without_values is not None:
        controls.no_values(shown)
        return
    utility = controls.pick_utility(report.history.utilities)
    window = following.epochs if following.epochs in [a.window for a in own] else own[0].window if own else None
    key = (shown.result.digest, utility, client, window)
    facts = state.cached(
        (*key, "evidence"), lambda: evidence_facts(report, client, window, utility, fill_of(report.history))
    )
    controls.chart(
        lambda: draw_evidence(facts, mode, following=following),
        evidence_alt(facts),
        lambda: evidence_rows(facts),
        "client-series",
        name=f"client-{client}-{utility}",
        cache_key=(*key, following.epochs, mode),
        report=report,
    )
    controls.legend_of_states()


def findings(shown: state.Shown, client: str, own: list[Alert]) -> None:
    """Its verdict, its alerts with what was decided, and the way to each one's evidence."""
    controls.card_title("What was observed")
    reviews = state.reviews(shown.entry)
    if not own:
        verdict = next(c for c in shown.report.detection.clients if c.client == client)
        st.text(numbers.visible(verdict_reason(verdict)))
    for alert in reviews.ordered(own):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f"**{controls.title_of(alert_title(alert))}**", width="content")
            deciding.state_badge(reviews.state(alert))
        st.text(numbers.visible(f"{how_sure(alert).capitalize()}. {decision_sentence(reviews.of(alert))}"))
        st.page_link(
            page_file("alerts"),
            label="See the evidence and decide",
            icon=":material/arrow_forward:",
            query_params={
                "run": shown.entry.digest[:16],
                "client": client,
                "window": "" if alert.window is None else f"{alert.window[0]}-{alert.window[1]}",
            },
        )
    st.caption(OBSERVED_ONLY)


def record(shown: state.Shown, client: str) -> None:
    """Everything recorded about the client's alerts, newest first, those of other results included."""
    controls.card_title("Decisions and notes")
    entries = [r for r in state.reviews(shown.entry).entries if r.client == client]
    steps = sorted(((s, r.window) for r in entries for s in r.steps), key=lambda found: -found[0].sequence)
    for step, window in steps:
        where = "the whole run" if window is None else numbers.span(window)
        st.text(numbers.visible(f"On {where}, {step_line(step)}"))
    for note in state.reviews(shown.entry).notes_on(client):
        st.text(numbers.visible(note_line(note)))
    if not steps:
        st.caption("Nothing was recorded about this client yet." if entries else "It has no alert to decide on.")


def warnings(report: AuditReport, client: str) -> None:
    """What the checks of the log found about this client."""
    own = [w for w in report.warnings if client in w.clients]
    if own:
        controls.card_title("Remarks on its part of the log")
        for remark in own:
            st.text(numbers.visible(remark.sentence()))


def extract(shown: state.Shown, client: str) -> None:
    controls.card_title("Its extract")
    st.caption(extracts.WORDS)
    if shown.job is None:
        extracts.downloads(shown, client)


shown = controls.need_report("Client", unfinished=True)
if shown is not None:
    report = shown.report
    top = st.container()
    following = selection.follow_bar(report)
    client = following.client or next((a.client for a in report.detection.alerts), min(report.history.client_ids))
    own = [a for a in report.detection.alerts if a.client == client]
    top.title(controls.title_of(client_headline(report, client, state.reviews(shown.entry))))
    figures(report, client)
    wide, side = st.columns([1.75, 1], gap="small")
    with wide, st.container(border=True, height="stretch", gap="xsmall"):
        series(shown, client, own, following)
    with side:
        with st.container(border=True, gap="xsmall"):
            findings(shown, client, own)
        with st.container(border=True, gap="xsmall"):
            record(shown, client)
        with st.container(border=True, gap="xsmall"):
            extract(shown, client)
    with st.container(gap="xsmall"):
        warnings(report, client)
    controls.words_here("Cumulative contribution", "Shapley value", "Window")
    controls.next_steps(("contributions", "All clients and epochs"), ("epoch", "One epoch in detail"))
