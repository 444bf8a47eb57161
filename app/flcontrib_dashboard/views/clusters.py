"""Clusters: how the cumulative series group – a view, never an alert."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts import (
    ClusterFacts,
    cluster_alt,
    cluster_facts,
    cluster_rows,
    draw_clusters,
    draw_silhouette,
    silhouette_alt,
    silhouette_rows,
)
from flcontrib_core.detection import Separation
from flcontrib_core.words import numbers, separation_remark, so_far
from flcontrib_dashboard import controls, selection, state

MOST_NAMES = 30


def groups(shown: state.Shown, found: Separation, facts: ClusterFacts, utility: str) -> None:
    """The panels, how well each number of groups fits, and what the grouping is worth."""
    report, mode = shown.report, state.theme()
    following = selection.follow_bar(report)
    key = (shown.result.digest, utility, following, mode)
    with st.container(border=True, gap="xsmall"):
        controls.card_title("Cumulative series by group", facts.axis)
        st.caption("Wide grey: the group's centre. In colour: clients with an alert and the one you follow.")
        controls.chart(
            lambda: draw_clusters(facts, mode, following=following),
            cluster_alt(facts),
            lambda: cluster_rows(facts),
            "groups",
            name="groups",
            cache_key=key,
            report=report,
        )
    left, right = st.columns([1, 1.4], gap="small")
    with left, st.container(border=True, height="stretch", gap="xsmall"):
        controls.card_title("How well each number of groups fits")
        st.caption("Silhouette score: 1 = groups far apart, 0 = they touch.")
        controls.chart(
            lambda: draw_silhouette(facts, mode),
            silhouette_alt(facts),
            lambda: silhouette_rows(facts),
            "silhouette",
            name="silhouette",
            cache_key=key,
        )
    with right, st.container(border=True, height="stretch", gap="xsmall"):
        worth(found)
        for g, members in enumerate(facts.groups):
            names = ", ".join(members[:MOST_NAMES]) + (" …" if len(members) > MOST_NAMES else "")
            here = ", with the client you follow" if following.client in members else ""
            st.markdown(f"**Group {g + 1}** ({numbers.count(len(members))}{here}): {controls.text_of(names)}")


def worth(found: Separation) -> None:
    """Against the truth where it is known, otherwise how stable the grouping is."""
    if found.jaccard is None:
        controls.card_title("How stable is it?")
        stability = "not known" if found.stability is None else f"{found.stability:.2f}"
        st.metric("Agreement over resampled epochs", stability)
        st.caption("1 = the same groups whichever 80% of the epochs are looked at; near 0 = chance.")
        return
    controls.card_title("Against the known truth", "Jaccard index")
    adjusted = found.jaccard.adjusted
    with st.container(horizontal=True, gap="small"):
        st.metric("Of this grouping", f"{found.jaccard.raw:.2f}")
        st.metric("One single cluster", f"{found.jaccard.single_cluster:.2f}")
        st.metric("Chance-adjusted", "no value" if adjusted is None else f"{adjusted:.2f}")
    st.caption(
        "A raw value near the single-cluster one means nothing was separated; 0 adjusted is chance."
        + (" Where one cluster is already the truth, there is no chance to adjust for." if adjusted is None else "")
    )


def title_of(report: AuditReport, found: Separation, facts: ClusterFacts) -> str:
    """'The series fall into 2 groups; client-05 is grouped with 9 others', where one client has an alert."""
    words = f"The series fall into {numbers.several(found.k, 'group')}"
    marked = tuple(dict.fromkeys(a.client for a in report.detection.alerts))
    if len(marked) == 1:
        beside = next((len(members) - 1 for members in facts.groups if marked[0] in members), 0)
        where = f"is grouped with {numbers.several(beside, 'other')}" if beside else "is in a group of its own"
        return f"{words}; {marked[0]} {where}"
    together = sum(1 for members in facts.groups if set(marked) & set(members))
    if len(marked) > 1 and together:
        where = "the same one" if together == 1 else f"{together} of them"
        return f"{words}; the {numbers.several(len(marked), 'client')} with an alert are in {where}"
    return words


shown = controls.need_report("Clusters", unfinished=True)
if shown is not None:
    report = shown.report
    found = report.detection.separation
    utility = report.detection.change_points.utility or report.history.utilities[0]
    followed = selection.of_url(report).client
    facts = state.cached(
        (shown.result.digest, utility, followed, "groups"), lambda: cluster_facts(report, utility, followed)
    )
    if report.history.without_values is not None:
        st.title("There are no values whose series could be grouped")
        controls.no_values(shown)
    elif found is None or facts is None:
        st.title("Too few different series to group")
        st.text("Grouping needs at least four clients whose series differ.")
    else:
        st.title(controls.text_of(f"{so_far(report)}{title_of(report, found, facts)}"))
        st.caption(
            "K-means on the cumulative series. Groups form among honest clients too, so this view raises no alert."
            + (f" {remark}" if (remark := separation_remark(found)) else "")
        )
        groups(shown, found, facts, utility)
    controls.next_steps(("alerts", "What was alerted, with its evidence"), ("compare", "Compare with another result"))
