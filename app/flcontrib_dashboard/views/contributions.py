"""Contributions: every client in every epoch, curves, and the totals with what they rest on."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts import (
    MOST_IN_FOCUS,
    Following,
    cumulative_alt,
    cumulative_facts,
    cumulative_rows,
    draw_cumulative,
    draw_heat_map,
    fill_of,
    heat_map_alt,
    heat_map_facts,
    heat_map_rows,
    ranking_facts,
)
from flcontrib_core.reports import AXIOMS, axioms_table
from flcontrib_core.vocabulary import FillPolicy, Orientation
from flcontrib_core.words import contribution_title, numbers, pending_epochs, so_far
from flcontrib_dashboard import client_table, controls, selection, state

ORDERS = {"alerts": "Alerts first", "total": "By total", "name": "By name"}
ORIENTATIONS = {Orientation.HELP_UP.value: "Help is up", Orientation.PAPER.value: "The paper's sign"}
FILLS = {"equal": "an equal split", "zero": "zero (the paper)", "leave-one-out": "what leaving it out would change"}
VIEWS = {"heat-map": "Heat map", "curves": "Curves"}


def title_of(report: AuditReport, utility: str) -> str:
    """Who contributed most, and who is clearly below zero."""
    history = report.history
    facts = ranking_facts(report, utility, fill_of(history))
    skipped, empty = int((~history.computed).sum()), int(history.of(utility).missing.sum())
    words = f"{skipped} of {numbers.several(history.epoch_count, 'epoch')} {numbers.have(skipped)}" if skipped else ""
    if empty and not skipped:  # a table with empty cells
        taken = int(history.participated[1:].sum())
        words = f"{numbers.count(empty)} of {numbers.several(taken, 'participation')} {numbers.have(empty)}"
    intervals = any(row.half_width == row.half_width for row in facts.rows)
    return contribution_title([row.client for row in facts.rows], facts.clearly_below, words, intervals)


def curves(shown: state.Shown, utility: str, following: Following, orientation: Orientation) -> None:
    """The running credit of the clients in focus over the band of the others."""
    report, mode = shown.report, state.theme()
    words = f"Clients in colour (at most {MOST_IN_FOCUS}); all others are the grey band"
    default = selection.in_focus(report, following, MOST_IN_FOCUS)
    pinned = controls.pick_clients(words, report.history.client_ids, default, "pinned", MOST_IN_FOCUS)
    key = (shown.result.digest, utility, pinned, orientation)
    facts = state.cached(
        (*key, "curves"),
        lambda: cumulative_facts(report, utility, pinned, orientation=orientation),
    )
    controls.card_title("Cumulative contribution", facts.axis)
    controls.chart(
        lambda: draw_cumulative(facts, mode, following=following),
        cumulative_alt(facts),
        lambda: cumulative_rows(facts),
        "curves",
        name="curves",
        cache_key=(*key, following, mode),
        report=report,
    )
    controls.legend_of_states()


def heat_map(shown: state.Shown, utility: str, order: str, following: Following, orientation: Orientation) -> None:
    """Every client's value in every epoch."""
    report, mode = shown.report, state.theme()
    key = (shown.result.digest, utility, order, following.client, orientation)
    cells = state.cached(
        (*key, "cells"),
        lambda: heat_map_facts(
            report, utility, order, fill_of(report.history), also=following.client, orientation=orientation
        ),
    )
    controls.card_title("Contribution per client and epoch", cells.axis)
    st.markdown(
        ":small[:red[■] harmed\u2003:blue[■] helped\u2003▨ took part, not computed (budget)\u2003"
        "· absent\u2003outlined: window with an alert]"
    )
    if cells.left_out:
        st.caption(
            f"{numbers.count(cells.left_out)} more clients are in the table below; follow one to see its row here."
        )
    controls.chart(
        lambda: draw_heat_map(cells, mode, following=following),
        heat_map_alt(cells),
        lambda: heat_map_rows(cells),
        "heat",
        name="heat-map",
        cache_key=(*key, following.epochs, mode),
        report=report,
        row_clients=cells.clients,
    )


def totals(shown: state.Shown, utility: str, following: Following, orientation: Orientation) -> None:
    """The table of totals, with the fill of skipped epochs to choose."""
    controls.card_title("Totals")
    skipped = int((~shown.report.history.computed).sum())
    fill = fill_of(shown.report.history)
    if pending_epochs(shown.report):
        st.caption(f"So far: the {skipped} epochs without a value count as nothing until they are computed.")
    elif skipped:
        picked = st.segmented_control(
            f"{numbers.several(skipped, 'skipped epoch')} count as",
            list(dict.fromkeys((fill.value, FillPolicy.EQUAL.value, FillPolicy.ZERO.value))),
            default=fill.value,
            format_func=FILLS.__getitem__,
        )
        fill = FillPolicy(picked or fill)
    client_table.show_totals(shown, utility, following, fill, orientation)


def promises(report: AuditReport) -> None:
    """The axioms, checked on the values on screen."""
    controls.card_title("Checks of the values")
    controls.table(axioms_table(report), key="axioms")
    st.caption(f"{AXIOMS} The best group S* of an epoch stands on its page.")


shown = controls.need_report("Contributions", unfinished=True)
if shown is not None and shown.report.history.without_values is not None:
    st.title("This result has no Shapley values")
    controls.no_values(shown)
    controls.next_steps(("change_points", "When did a client change?"), ("alerts", "What was alerted"))
elif shown is not None:
    report = shown.report
    top = st.container()
    following = selection.follow_bar(report)
    with st.container(horizontal=True, gap="medium"):
        utility = controls.pick_utility(report.history.utilities)
        order = controls.pick("Order", "order", ORDERS)
        view = controls.pick("View", "show", VIEWS)
        orientation = Orientation(controls.pick("Sign", "sign", ORIENTATIONS))
    title = state.cached((shown.result.digest, utility, "who contributed"), lambda: title_of(report, utility))
    top.title(controls.text_of(so_far(report) + title))
    with st.container(border=True, gap="xsmall"):
        if view == "curves":
            curves(shown, utility, following, orientation)
        else:
            heat_map(shown, utility, order, following, orientation)
    with st.container(border=True, gap="xsmall"):
        totals(shown, utility, following, orientation)
    if report.axioms:
        with st.container(border=True, gap="xsmall"):
            promises(report)
    controls.words_here("Shapley value", "Cumulative contribution", "Null client", "Not computed")
    controls.next_steps(("change_points", "When did a client change?"), ("report", "Take the numbers with you"))
