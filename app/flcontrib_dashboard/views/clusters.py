"""Clusters: how the cumulative series group – a view, never an alert."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.auditing import AuditReport, settings_from_record
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
from flcontrib_core.detection import (
    METRICS,
    GroupingSettings,
    JaccardScore,
    Mark,
    Separation,
    jaccard_of_marked,
    separate,
)
from flcontrib_core.errors import FLContribError
from flcontrib_core.words import grouping_sentence, numbers, separation_remark, so_far
from flcontrib_dashboard import accounts, controls, selection, state

MOST_NAMES = 30
MOST_GROUPS = 8
DISTANCES = {"euclidean": "Euclidean", "dtw": "DTW", "softdtw": "Soft-DTW"}
DISTANCE_HELP = (
    "Euclidean compares epoch by epoch. DTW and soft-DTW warp the series in time: they cost clients × epochs², and the "
    "first use compiles for about half a minute. The number of groups is always decided by Euclidean distances."
)


def asked(report: AuditReport) -> GroupingSettings:
    """How many groups and by which distance: the result's own choice, or the knobs', which stay in the URL."""
    own = settings_from_record(dict(report.provenance.settings)).grouping
    most = min(len(report.history.client_ids) // 2, MOST_GROUPS)
    numbers_of = ["auto", *map(str, range(1, most + 1))]
    k = state.from_url("groups", numbers_of, "auto" if own.k is None else str(own.k))
    metric = state.from_url("metric", list(METRICS), own.metric)
    st.session_state.setdefault("group-count", k)
    st.session_state.setdefault("group-metric", metric)
    with st.container(horizontal=True, gap="medium"):
        picked = st.segmented_control("Groups", numbers_of, key="group-count", format_func=str.capitalize, wrap=True)
        distance = st.segmented_control(
            "Distance",
            list(METRICS),
            key="group-metric",
            format_func=DISTANCES.__getitem__,
            help=DISTANCE_HELP,
            wrap=True,
        )
    k, metric = str(picked or k), str(distance or metric)
    state.remember(groups=k, metric=metric)
    return GroupingSettings(None if k == "auto" else int(k), metric, own.calibrated)


def groups(
    shown: state.Shown, found: Separation, facts: ClusterFacts, utility: str, settings: GroupingSettings
) -> None:
    """The panels, how well each number of groups fits, and what the grouping is worth."""
    report, mode = shown.report, state.theme()
    following = selection.of_url(report)
    key = (shown.result.digest, utility, following, mode, settings)
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
        st.caption(f"Silhouette: 1 = groups far apart, 0 = they touch. {grouping_sentence(found)}")
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
            names = ", ".join(map(numbers.named, members[:MOST_NAMES])) + (" …" if len(members) > MOST_NAMES else "")
            here = ", with the client you follow" if following.client in members else ""
            st.markdown(f"**Group {g + 1}** ({numbers.count(len(members))}{here}): {controls.text_of(names)}")


def regrouped(shown: state.Shown, utility: str, settings: GroupingSettings) -> Separation | None:
    """The series grouped as asked; the result's own grouping where that is what was asked."""
    report = shown.report
    own = settings_from_record(dict(report.provenance.settings)).grouping
    if settings == own:
        return report.detection.separation
    dishonest = None if report.truth is None else [d.client for d in report.truth.dishonest]
    with st.spinner("Grouping …"):
        return state.cached(
            (shown.result.digest, utility, settings, "separation"),
            lambda: separate(report.history, utility, settings, dishonest, report.provenance.seed),
        )


def worth(found: Separation) -> None:
    """Against the truth where it is known, otherwise how stable the grouping is."""
    if found.k == 1 and found.jaccard is None:
        controls.card_title("One group")
        st.caption("Nothing was separated, so there is nothing whose stability could be asked for.")
        return
    if found.jaccard is None:
        controls.card_title("How stable is it?")
        stability = "not known" if found.stability is None else f"{found.stability:.2f}"
        st.metric("Agreement over resampled epochs", stability)
        st.caption("1 = the same groups whichever 80% of the epochs are looked at; near 0 = chance.")
        return
    controls.card_title("Against the known truth", "Jaccard index")
    adjusted = found.jaccard.adjusted
    jaccard_metrics(found.jaccard)
    st.caption(
        "A raw value near the single-cluster one means nothing was separated; 0 adjusted is chance."
        + (" Where one cluster is already the truth, there is no chance to adjust for." if adjusted is None else "")
    )


def marking(shown: state.Shown, found: Separation) -> None:
    """Clients marked by hand: an operator's word, which gives an index on runs whose truth nobody recorded."""
    marks = state.workspace().alerts.marks(shown.entry.digest)
    lists = {kind: [m.client for m in marks if m.mark is kind] for kind in (Mark.DISHONEST, Mark.HONEST)}
    controls.card_title("Marked by hand")
    st.caption(
        "An operator's word, not truth; no verdict reads it. "
        + "; ".join(
            controls.text_of(f"{numbers.named(m.client)} marked {m.mark} by {m.by}") for m in marks[:MOST_NAMES]
        )
    )
    score = jaccard_of_marked(found, lists[Mark.HONEST], lists[Mark.DISHONEST])
    if score is not None:
        jaccard_metrics(score)
    if accounts.reads_only():
        return
    with st.form("marking", border=False):
        names = numbers.in_order(found.labels)
        picked = {
            kind: st.multiselect(f"Marked as {kind}", names, chosen, format_func=numbers.visible)
            for kind, chosen in lists.items()
        }
        by = accounts.your_name() or st.text_input("Marked by", max_chars=100, placeholder="your name")
        if accounts.operator_button("Record the marking", submits=True):
            wanted = {c: kind for kind, clients in picked.items() for c in clients}
            before = {m.client: m.mark for m in marks}
            changed = [c for c in {**before, **wanted} if wanted.get(c) is not before.get(c)]
            try:
                for client in changed:
                    state.workspace().alerts.mark(shown.entry.digest, client, wanted.get(client, Mark.UNMARKED), by)
            except FLContribError as refused:
                st.error(controls.text_of(str(refused)))
            else:
                st.rerun()


def jaccard_metrics(score: JaccardScore) -> None:
    """The index adjusted for chance first, then raw beside that of one single group."""
    with st.container(horizontal=True, gap="small"):
        st.metric("Chance-adjusted", "no value" if score.adjusted is None else f"{score.adjusted:.2f}")
        st.metric("Raw", f"{score.raw:.2f}")
        st.metric("Raw, one single group", f"{score.single_cluster:.2f}")


def title_of(report: AuditReport, found: Separation, facts: ClusterFacts) -> str:
    """'The series fall into 2 groups; client-05 is grouped with 9 others', where one client has an alert."""
    if found.k == 1:
        return (
            "The series form one group" if found.asked else "No grouping: no number of groups fits better than chance"
        )
    words = f"The series fall into {numbers.several(found.k, 'group')}"
    marked = tuple(dict.fromkeys(a.client for a in report.detection.alerts))
    if len(marked) == 1:
        beside = next((len(members) - 1 for members in facts.groups if marked[0] in members), 0)
        where = f"is grouped with {numbers.several(beside, 'other')}" if beside else "is in a group of its own"
        return f"{words}; {numbers.named(marked[0])} {where}"
    together = sum(1 for members in facts.groups if set(marked) & set(members))
    if len(marked) > 1 and together:
        where = "the same one" if together == 1 else f"{together} of them"
        return f"{words}; the {numbers.several(len(marked), 'client')} with an alert are in {where}"
    return words


shown = controls.need_report("Clusters", unfinished=True)
if shown is not None:
    report = shown.report
    utility = report.detection.change_points.utility or report.history.utilities[0]
    top, found, facts = st.container(), None, None
    followed = selection.of_url(report).client
    if report.history.without_values is None:
        selection.follow_bar(report)
        settings = asked(report)
        found = regrouped(shown, utility, settings)
        facts = state.cached(
            (shown.result.digest, utility, followed, settings, "groups"),
            lambda: None if found is None else cluster_facts(report, utility, followed, found),
        )
    if report.history.without_values is not None:
        st.title("There are no values whose series could be grouped")
        controls.no_values(shown)
    elif found is None or facts is None:
        top.title("Too few different series to group")
        st.text("Grouping needs at least four clients whose series differ.")
    else:
        top.title(controls.text_of(f"{so_far(report)}{title_of(report, found, facts)}"))
        st.caption(
            "K-means on the cumulative series. Groups form among honest clients too, so this view raises no alert."
            + (f" {remark}" if (remark := separation_remark(found)) else "")
        )
        groups(shown, found, facts, utility, settings)
        with st.container(border=True, gap="xsmall"):
            marking(shown, found)
    controls.words_here("Jaccard index", "Cumulative contribution")
    controls.next_steps(("alerts", "What was alerted, with its evidence"), ("compare", "Compare with another result"))
