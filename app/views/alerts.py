"""Alerts: the inbox, and the evidence of one alert beside what speaks against it."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app import controls, findings, selection, state, wording
from app.charts.evidence import draw_evidence, evidence_alt, evidence_facts, evidence_rows
from flcontrib_core import AuditReport
from flcontrib_core.detection.findings import Alert
from flcontrib_core.errors import FLContribError
from flcontrib_core.workspace import AlertEntry, AlertState

STATES = {
    AlertState.NEW: "New",
    AlertState.ACKNOWLEDGED: "Acknowledged",
    AlertState.DISMISSED: "Dismissed",
    AlertState.CONFIRMED: "Confirmed",
}


def window_key(alert: Alert) -> str:
    return "" if alert.window is None else f"{alert.window[0]}-{alert.window[1]}"


def chosen_alert(report: AuditReport) -> Alert | None:
    """The alert of the followed client, of its windows the one that shares most epochs with the followed ones."""
    if st.query_params.get("list"):
        return None
    following = selection.of_url(report)
    of_client = [a for a in report.detection.alerts if a.client == following.client]
    return max(of_client, key=lambda a: _shared(a.window, following.epochs), default=None)


def _shared(one: tuple[int, int] | None, other: tuple[int, int] | None) -> float:
    """How much two windows overlap, as a share of what both cover."""
    if one is None or other is None:
        return 0.0
    both = min(one[1], other[1]) - max(one[0], other[0]) + 1
    return max(0, both) / (max(one[1], other[1]) - min(one[0], other[0]) + 1)


def entry_of(alert: Alert, entries: tuple[AlertEntry, ...]) -> AlertEntry | None:
    wanted = None if alert.window is None else list(alert.window)
    for entry in reversed(entries):
        found = entry.finding
        if (found["client"], found["verdict"], found.get("window")) == (alert.client, str(alert.verdict), wanted):
            return entry
    return None


def inbox(shown: state.Shown) -> None:
    report = shown.report
    alerts = report.detection.alerts
    entries = state.alert_entries(shown.entry)
    if not alerts:
        st.title("No change above the threshold")
        shift = report.detection.smallest_visible_shift
        if shift is not None:
            st.text(f"Smallest shift visible with these settings: about {shift:.2g} per epoch over 5 epochs.")
    else:
        st.title(controls.text_of(findings.verdict_sentence(report)))
    st.caption(wording.OBSERVED_ONLY)
    selection.follow_bar(report)
    rate = report.detection.false_alarm_source
    if rate:
        st.caption(controls.text_of(f"Preset {report.detection.preset}. {rate}"))
    rows = []
    for alert in alerts:
        entry = entry_of(alert, entries)
        fired = [c.name for c in alert.channels if c.score is not None and c.score > 0]
        rows.append(
            {
                "Client": alert.client,
                "Observed": findings.KIND_WORDS[alert.verdict],
                "Epochs": "whole run" if alert.window is None else wording.window(*alert.window),
                "Probability": wording.probability(alert.probability) if alert.probability is not None else "a fact",
                "Channels": ", ".join(fired) or "–",
                "Computed": f"{alert.computed_in_window} of {alert.participated_in_window}",
                "State": STATES[entry.state] if entry else "New",
            }
        )
    if rows:
        picked = controls.table(rows, on_select="rerun", selection_mode="single-row")
        st.caption("Choose a row to see its evidence.")
        if picked.selection.rows:
            alert = alerts[picked.selection.rows[0]]
            state.remember(client=alert.client, window=window_key(alert), list=None)
            st.rerun()
    undecided = [c for c in report.detection.clients if str(c.verdict) in ("no-verdict", "persistently-opposed")]
    if undecided:
        with st.container(border=True, gap="xsmall"):
            st.markdown("**Without an alert, but worth knowing**")
            for client in undecided[:20]:
                st.text(wording.visible(f"{client.client}: {findings.KIND_WORDS[client.verdict]}. {client.why}"))


def what_if(report: AuditReport, alert: Alert) -> None:
    """One step per epoch, v(F_{N∖i}) − v(F_N): not a retraining, and shown also when it contradicts."""
    history = report.history
    st.markdown(f"**Without {controls.text_of(alert.client)}**")
    i = history.client_ids.index(alert.client)
    first, last = alert.window or (1, history.epoch_count)
    columns = st.columns(max(1, min(2, len(history.utilities))))
    known = False
    for place, utility in zip(columns, history.utilities, strict=False):
        given = history.leave_one_out.get(utility)
        if given is None:
            continue
        steps = given[first : last + 1, i]
        steps = steps[np.isfinite(steps)]
        if not len(steps):
            continue
        known = True
        better = float(steps.mean()) * -history.harm_sign(utility) > 0
        place.metric(
            f"{utility.capitalize()} per epoch",
            wording.signed(float(steps.mean()), 4),
            "better without" if better else ("no change" if float(steps.mean()) == 0 else "worse without"),
            delta_color="off",
            delta_arrow="off",
        )
    if known:
        st.caption(
            f"Mean change of the model after epochs {wording.window(first, last)}, had the client been left out "
            "of that one step. Later updates are kept as recorded: this is not a retraining."
        )
    else:
        st.caption(
            "Not evaluated: the estimator did not need these coalitions. Assess with the exact estimator to see it."
        )


def decision(shown: state.Shown, alert: Alert) -> None:
    entry = entry_of(alert, state.alert_entries(shown.entry))
    st.markdown("**Decision**")
    if entry is None:
        st.caption("This alert is not in the inbox of this workspace; compute the run here to decide on it.")
        return
    with st.form(f"decision-{entry.id[:12]}", border=False):
        options = list(STATES)
        wanted = st.segmented_control("State", options, default=entry.state, format_func=STATES.__getitem__)
        by = st.text_input("Your name", max_chars=100, placeholder="who decides")
        reason = st.text_area("Reason", height=70, placeholder="needed for a dismissal; stays in the log")
        if st.form_submit_button("Record the decision"):
            try:
                state.workspace().alerts.decide(entry.id, wanted or entry.state, by, reason)
            except FLContribError as refused:
                st.error(controls.text_of(str(refused)))
            else:
                st.rerun()
    for past in reversed(entry.history):
        st.text(
            f"{past.at[:16].replace('T', ' ')} · {STATES[past.state]} by {past.by}"
            + (f": {past.reason}" if past.reason else "")
        )


def evidence(shown: state.Shown, alert: Alert) -> None:
    report, mode = shown.report, state.theme()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if st.button("All alerts", icon=":material/arrow_back:", type="tertiary"):
            state.remember(list=1)  # what is followed stays followed
            st.rerun()
        _, colour = findings.badge_of(alert)
        st.badge(findings.KIND_WORDS[alert.verdict], icon=":material/flag:", color=colour)  # type: ignore[arg-type]
        if alert.probability is not None:
            st.badge(f"Probability {wording.probability(alert.probability)}", color="gray")
    st.title(controls.text_of(findings.headline(alert)))
    st.caption(wording.OBSERVED_ONLY)
    following = selection.follow_bar(report)
    wide, side = st.columns([1.75, 1], gap="small")
    with wide, st.container(border=True, height="stretch", gap="xsmall"):
        utility = controls.pick_utility(report.history.utilities)
        facts = evidence_facts(report, alert.client, alert.window, utility)
        controls.chart(
            lambda: draw_evidence(facts, mode, following=following),
            evidence_alt(facts),
            lambda: evidence_rows(facts),
            "evidence",
            name="evidence",
            kept_as=(shown.result.digest, utility, alert.client, alert.window, following.epochs, mode),
            report=report,
        )
        st.markdown(":small[:blue[■] helped\u2003:red[■] harmed\u2003▨ took part, not computed\u2003· absent]")
    with side:
        with st.container(border=True, gap="xsmall"):
            st.markdown("**Why it was marked**")
            st.text(wording.visible(alert.why))
            scores = [
                {"Channel": c.name, "Score": "unavailable" if c.score is None else wording.signed(c.score, 1)}
                for c in alert.channels
            ]
            if scores:
                controls.table(scores)
                st.caption("Log Bayes factor of this window; above zero speaks for a change.")
        with st.container(border=True, gap="xsmall"):
            st.markdown("**What speaks against it**")
            for line in alert.counter_evidence:
                st.markdown(f"- {controls.text_of(line)}")
            if alert.sensitivity_settings:
                st.markdown(
                    f"- It holds in {alert.sensitivity_holds} of {alert.sensitivity_settings} alternative settings."
                )
        with st.container(border=True, gap="xsmall"):
            what_if(report, alert)
        with st.container(border=True, gap="xsmall"):
            decision(shown, alert)
    with st.container(border=True, gap="xsmall"):
        st.markdown("**Check it yourself**")
        st.code("flcontrib verify report.json RUN.flrun", language="bash")
        made = report.provenance
        st.caption(
            controls.text_of(
                f"Run {made.run_digest[:8]}… · {', '.join(sorted(set(report.history.estimator[1:])))} · "
                f"{len(made.epochs_computed)} of {report.history.epoch_count} epochs · "
                f"{wording.count(int(report.history.evaluations.sum()))} evaluations · seed {made.seed} · "
                f"version {made.version} · {made.platform}"
            )
        )


shown = controls.need_report("Alerts")
if shown is not None:
    picked = chosen_alert(shown.report)
    if picked is None:
        inbox(shown)
    else:
        evidence(shown, picked)
