"""Overview: one sentence of verdict, the strongest alerts, the curves, the ranking."""

from __future__ import annotations

import streamlit as st

from app import controls, findings, state, wording
from app.charts.cumulative import cumulative_alt, cumulative_facts, cumulative_rows, draw_cumulative
from app.charts.ranking import draw_ranking, ranking_alt, ranking_facts, ranking_rows
from app.charts.sparkline import draw_sparkline

shown = controls.need_report("Overview", unfinished=True)
if shown is not None:
    report, mode = shown.report, state.theme()
    alerts = report.detection.alerts
    st.title(controls.text_of(findings.verdict_sentence(report)))
    quiet = findings.quiet_sentence(report)
    if quiet:
        st.caption(controls.text_of(quiet))
    if state.is_sample(shown.entry):
        st.caption("This is a sample run with known truth. Bring in your own on the upload page.")
    first = report.history.utilities[0]
    marked = tuple(dict.fromkeys(a.client for a in alerts))
    small = cumulative_facts(report, first, marked)
    cards = st.columns(min(len(alerts), 2) + 1, gap="small")
    for place, alert in zip(cards, alerts[:2], strict=False):
        with place, st.container(border=True, height="stretch", gap="xsmall"):
            with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
                st.markdown(f"**{controls.text_of(alert.client)}**", width="content")
                text, colour = findings.badge_of(alert)
                st.badge(text, icon=":material/flag:", color=colour)  # type: ignore[arg-type]
            if alert.client in [c.client for c in small.focus]:
                st.plotly_chart(
                    draw_sparkline(small, alert.client, alert.window, mode),
                    theme=None,
                    config={"displayModeBar": False},
                    key=f"spark-{alert.client}-{alert.window}",
                    alt=f"Running contribution of {alert.client}",
                )
            if alert.probability is not None:
                st.markdown(f"Probability **{wording.probability(alert.probability)}**")
            if alert.mean_inside is not None and alert.mean_outside is not None:
                st.markdown(
                    f"In the window it contributed **{wording.signed(-alert.mean_inside)}** per epoch, "
                    f"outside **{wording.signed(-alert.mean_outside)}**."
                )
            else:
                st.text(alert.why[:180] + ("…" if len(alert.why) > 180 else ""))
            st.page_link(
                "views/alerts.py",
                label="See the evidence",
                icon=":material/arrow_forward:",
                query_params={
                    "run": shown.entry.digest[:16],
                    "client": alert.client,
                    "window": "" if alert.window is None else f"{alert.window[0]}-{alert.window[1]}",
                },
            )
    rest = [c for c in report.detection.clients if c.client not in marked]
    with cards[min(len(alerts), 2)], st.container(border=True, height="stretch", gap="xsmall"):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.markdown(f"**{len(rest)} other clients**" if alerts else f"**All {len(rest)} clients**", width="content")
            st.badge("No change", icon=":material/check:", color="gray")
        known = sorted((c for c in rest if c.probability is not None), key=lambda c: -(c.probability or 0.0))
        if known:
            st.markdown(
                f"Highest probability **{wording.probability(known[0].probability)}** "
                f"({controls.text_of(known[0].client)})."
            )
        shift = report.detection.smallest_visible_shift
        if shift is not None:
            st.markdown(f"Smallest shift visible with these settings: about **{shift:.2g} per epoch** over 5 epochs.")
        undecided = [c.client for c in rest if str(c.verdict) == "no-verdict"]
        if undecided:
            st.markdown(f":gray[No verdict for {controls.text_of(', '.join(undecided[:5]))}: the data cannot decide.]")
    if len(alerts) > 2:
        st.page_link("views/alerts.py", label=f"All {len(alerts)} alerts", icon=":material/flag:")

    wide, side = st.columns([1.75, 1], gap="small")
    with wide, st.container(border=True, height="stretch", gap="xsmall"):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.markdown("**Cumulative contribution**", width="content")
            utility = controls.pick_utility(report.history.utilities)
        facts = cumulative_facts(report, utility, marked)
        st.caption(f"{facts.axis.capitalize()} credited to each client. Band: middle 50 % and 80 % of the others.")
        controls.chart(
            draw_cumulative(facts, mode), cumulative_alt(facts), cumulative_rows(facts), "cumulative", name="cumulative"
        )
        controls.legend_of_states()
    with side, st.container(border=True, height="stretch", gap="xsmall"):
        st.markdown("**Total contribution**")
        st.caption("Filled: the 95 % interval excludes zero. Open: it does not.")
        ranking = ranking_facts(report, utility)
        controls.chart(
            draw_ranking(ranking, mode), ranking_alt(ranking), ranking_rows(ranking), "ranking", name="ranking"
        )
