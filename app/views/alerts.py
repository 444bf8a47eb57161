"""Alerts: the inbox with its presets; a chosen alert opens its evidence."""

from __future__ import annotations

import streamlit as st

from app import alert_evidence, controls, findings, selection, state, wording
from flcontrib_core import Alert, AlertEntry, AuditReport, preset_rates

MOST_UNDECIDED = 20


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


def pick_preset(report: AuditReport) -> tuple[str, float | None]:
    """Default or strict, each with its rate on honest runs; and the score its alerts pass, None = all of the report's.

    A strict result holds no weaker alert to show.
    """
    rates = {r.preset: r for r in preset_rates(report.history)}
    computed = report.detection.preset
    choices = list(rates) if computed == next(iter(rates)) else [computed]
    if st.session_state.get("preset") not in choices:
        st.session_state["preset"] = state.from_url("preset", choices, computed)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.segmented_control(
            "Preset", choices, key="preset", format_func=str.capitalize, label_visibility="collapsed", required=True
        )
        words = "  \n".join(controls.text_of(line) for line in findings.rate_lines(rates.values()))
        st.markdown(f":small[{words}]", width="stretch")
    chosen = str(st.session_state["preset"])
    state.remember(preset=None if chosen == computed else chosen)
    return chosen, None if chosen == computed else rates[chosen].threshold


CHANNELS_HELP = "The two loudest channels and how many others speak for the window; the evidence page shows all."


def inbox_row(alert: Alert, entry: AlertEntry | None) -> dict[str, object]:
    heard = [c for c in alert.channels if c.score is not None and c.score > 0]
    fired = [c.name for c in sorted(heard, key=lambda c: -(c.score or 0.0))]
    return {
        "Client": alert.client,
        "Observed": findings.KIND_WORDS[alert.verdict],
        "Epochs": "whole run" if alert.window is None else wording.window(*alert.window),
        "Probability": wording.probability(alert.probability) if alert.probability is not None else "a fact",
        "Computed": f"{alert.computed_in_window} of {alert.participated_in_window}",
        "State": alert_evidence.STATES[entry.state] if entry else "New",
        "Channels": ", ".join(fired[:2]) + (f" + {len(fired) - 2}" if len(fired) > 2 else "") if fired else "–",
    }


def inbox(shown: state.Shown) -> None:
    report = shown.report
    top = st.container()
    st.caption(wording.OBSERVED_ONLY)
    selection.follow_bar(report)
    preset, threshold = pick_preset(report)
    alerts = findings.alerts_above(report, threshold)
    if alerts:
        top.title(controls.text_of(findings.verdict_sentence(report, threshold)))
        entries = state.alert_entries(shown.entry)
        rows = [inbox_row(alert, alert_evidence.entry_of(alert, entries)) for alert in alerts]
        picked = controls.table(
            rows,
            on_select="rerun",
            selection_mode="single-row",
            key=f"inbox-{preset}",
            column_config={"Channels": st.column_config.TextColumn(width="medium", help=CHANNELS_HELP)},
        )
        st.caption("Choose a row to see its evidence.")
        if picked.selection.rows:
            alert = alerts[picked.selection.rows[0]]
            state.remember(client=alert.client, window=window_key(alert), list=None)
            st.rerun()
    else:
        top.title("No change above the threshold")
        shift = report.detection.smallest_visible_shift
        if shift is not None:
            st.text(f"Smallest shift visible with these settings: about {shift:.2g} per epoch over 5 epochs.")
    weaker = len(report.detection.alerts) - len(alerts)
    if weaker:
        st.caption(
            f"{wording.several(weaker, 'weaker alert')} of the default preset {'is' if weaker == 1 else 'are'} hidden."
        )
    undecided = [c for c in report.detection.clients if str(c.verdict) in ("no-verdict", "persistently-opposed")]
    if undecided:
        with st.container(border=True, gap="xsmall"):
            st.markdown("**Without an alert, but worth knowing**")
            for client in undecided[:MOST_UNDECIDED]:
                said = f"{client.client}: {findings.KIND_WORDS[client.verdict]}. {client.why}"
                st.text(wording.visible(said))
            if len(undecided) > MOST_UNDECIDED:
                st.caption(f"{wording.count(len(undecided) - MOST_UNDECIDED)} more are in the report's JSON.")


shown = controls.need_report("Alerts")
if shown is not None:
    picked = chosen_alert(shown.report)
    if picked is None:
        inbox(shown)
    else:
        alert_evidence.show(shown, picked)
