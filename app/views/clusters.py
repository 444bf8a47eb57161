"""Clusters: how the cumulative series group – a view, never an alert."""

from __future__ import annotations

import streamlit as st

from app import controls, state, wording
from app.charts.clusters import cluster_alt, cluster_facts, cluster_rows, draw_clusters, draw_silhouette

shown = controls.need_report("Clusters")
if shown is not None:
    report = shown.report
    found = report.detection.separation
    utility = report.detection.change_points.utility or report.history.utilities[0]
    facts = cluster_facts(report, utility)
    if found is None or facts is None:
        st.title("Too few different series to group")
        st.text("Grouping needs at least four clients whose series differ.")
    else:
        st.title(f"The series fall into {wording.several(found.k, 'group')}")
        st.caption(
            "K-means on the cumulative series. Groups form among honest clients too, so this view raises no alert."
            + (f" {found.note}" if found.note else "")
        )
        with st.container(border=True, gap="xsmall"):
            controls.chart(
                draw_clusters(facts, state.theme()), cluster_alt(facts), cluster_rows(facts), "groups", name="groups"
            )
        left, right = st.columns([1, 1.4], gap="small")
        with left, st.container(border=True, height="stretch", gap="xsmall"):
            st.markdown("**How well each number of groups fits**")
            st.plotly_chart(
                draw_silhouette(facts, state.theme()),
                theme=None,
                config={"displayModeBar": False},
                key="silhouette",
                alt="Silhouette score per number of groups: "
                + ", ".join(f"{k}: {s:.2f}" for k, s in sorted(facts.silhouette.items())),
            )
        with right, st.container(border=True, height="stretch", gap="xsmall"):
            if found.jaccard is not None:
                st.markdown("**Against the known truth** (Jaccard index)")
                a, b, c = st.columns(3)
                a.metric("Of this grouping", f"{found.jaccard.raw:.2f}")
                b.metric("One single cluster", f"{found.jaccard.single_cluster:.2f}")
                adjusted = found.jaccard.adjusted
                c.metric("Chance-adjusted", "–" if adjusted is None else f"{adjusted:.2f}")
                st.caption("A raw value near the single-cluster one means nothing was separated; 0 adjusted is chance.")
            else:
                st.markdown("**How stable is it?**")
                st.metric(
                    "Agreement over resampled epochs", "–" if found.stability is None else f"{found.stability:.2f}"
                )
                st.caption("1 = the same groups whichever 80 % of the epochs are looked at; near 0 = chance.")
            for g, members in enumerate(facts.groups):
                names = ", ".join(members[:30]) + (" …" if len(members) > 30 else "")
                st.markdown(f"**Group {g + 1}** ({len(members)}): {controls.text_of(names)}")
