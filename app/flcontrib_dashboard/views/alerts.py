"""Alerts: the inbox with its presets; a chosen alert opens its evidence."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.auditing import AuditReport
from flcontrib_core.detection import Alert, AlertReview, AlertState, Reviews, VerdictKind, preset_rates
from flcontrib_core.reports import alerts_table, table_csv
from flcontrib_core.words import (
    OBSERVED_ONLY,
    alerts_above,
    decided_sentence,
    decision_sentence,
    false_alarm_sentence,
    headline,
    numbers,
    pending_epochs,
    provisional_lines,
    rate_lines,
    state_name,
    stood_out,
    strongest_channels,
    values_behind,
    verdict_name,
    verdict_reason,
    visible_shift,
)
from flcontrib_dashboard import alert_evidence, client_table, controls, deciding, selection, state
from flcontrib_dashboard.addresses import page_file

MOST_UNDECIDED = 20
WORTH_KNOWING = (VerdictKind.NO_VERDICT, VerdictKind.PERSISTENTLY_OPPOSED)
"""Verdicts that raise no alert, and that a reader of the inbox should see."""
CARDS_AT_ONCE = 12
PROVISIONAL = "Provisional"
STATE_ORDER = (PROVISIONAL, *(state_name(s) for s in AlertState))
STATE_COLOURS = {PROVISIONAL: "orange", **{state_name(s): c for s, c in deciding.STATE_COLOURS.items()}}


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
    # Where there is nothing to choose nothing is chosen: what a job shows so far is strict, its result is not.
    key = "preset" if len(choices) > 1 else "only-preset"
    if st.session_state.get(key) not in choices:
        st.session_state[key] = state.from_url("preset", choices, computed)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.segmented_control(
            "Preset", choices, key=key, format_func=str.capitalize, label_visibility="collapsed", required=True
        )
        lines = rate_lines(rates.values())
        if computed not in rates:  # a growing run's own preset, with the rate of looking often
            lines = [false_alarm_sentence(report.detection.false_alarms)]
        words = "  \n".join(controls.text_of(line) for line in lines)
        st.markdown(f":small[{words}]", width="stretch")
    chosen = str(st.session_state[key])
    if len(choices) > 1:
        state.remember(preset=None if chosen == computed else chosen)
    return chosen, None if chosen == computed else rates[chosen].threshold


def epochs_of(alert: Alert) -> str:
    return "whole run" if alert.window is None else numbers.window(*alert.window)


def state_of(shown: state.Shown, alert: Alert, reviews: Reviews) -> str:
    """What was decided; of a job's findings so far nothing can be."""
    return state_name(reviews.state(alert)) if shown.job is None else PROVISIONAL


def inbox_row(alert: Alert, decided: str, review: AlertReview | None) -> dict[str, object]:
    return {
        "Client": alert.client,
        "Observed": verdict_name(alert.verdict),
        "Epochs": epochs_of(alert),
        "Probability": numbers.probability(alert.probability) if alert.probability is not None else "a fact",
        "Computed": f"{alert.computed_in_window} of {alert.participated_in_window}",
        "State": decided,
        "Owner": (review.owner if review is not None else "") or numbers.NO_VALUE,
        "Channels": strongest_channels(alert) or numbers.NO_VALUE,
    }


def card(shown: state.Shown, alert: Alert, decided: str, reviews: Reviews) -> None:
    """One alert: who, what, when, how sure, what it rests on, what was decided, and the way to its evidence."""
    with st.container(border=True, gap="xsmall"):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            with st.container(horizontal=True, vertical_alignment="center", width="content", gap="small"):
                controls.card_title(controls.text_of(numbers.named(alert.client)), width="content")
                controls.verdict_badge(alert, verdict_name(alert.verdict))
            st.badge(decided, color=STATE_COLOURS.get(decided, "gray"))  # type: ignore[arg-type]
        when = "The whole run" if alert.window is None else f"Epochs **{epochs_of(alert)}**"
        sure = "a fact about the file, not an estimate"
        if alert.probability is not None:
            sure = f"probability **{numbers.probability(alert.probability)}**"
        speaking = strongest_channels(alert)
        parts = [when, sure, values_behind(alert), *([f"strongest: {controls.text_of(speaking)}"] if speaking else [])]
        st.markdown("\u2002·\u2002".join(parts))
        review = reviews.of(alert)
        if review is not None and review.steps:
            st.text(numbers.visible(decision_sentence(review)))
        st.page_link(
            page_file("alerts"),
            label="See the evidence and what speaks against it",
            icon=":material/arrow_forward:",
            query_params={"run": shown.entry.digest[:16], "client": alert.client, "window": window_key(alert)},
        )


def pick_state(decided: list[str]) -> str | None:
    """Only alerts of one state, where there are several; None = all."""
    found = [s for s in STATE_ORDER if s in decided]
    if len(found) < 2:
        return None
    labels = {s: f"{s} {numbers.count(decided.count(s))}" for s in found}
    chosen = st.segmented_control("State", found, format_func=labels.__getitem__, label_visibility="collapsed")
    return None if chosen is None else str(chosen)


def listed(shown: state.Shown, alerts: tuple[Alert, ...]) -> None:
    """The alerts as cards, which fit any screen, or as a table to sort."""
    reviews = state.reviews(shown.entry)
    alerts = reviews.ordered(alerts)
    decided = [state_of(shown, alert, reviews) for alert in alerts]
    wanted = pick_state(decided)
    rows = [(a, d) for a, d in zip(alerts, decided, strict=True) if wanted in (None, d)]
    if st.session_state.get("inbox-table"):
        controls.table(
            [inbox_row(a, d, reviews.of(a)) for a, d in rows],
            height="content" if len(rows) <= CARDS_AT_ONCE else client_table.TALLEST,
        )
    else:
        most = int(st.session_state.get("inbox-cards", CARDS_AT_ONCE))
        for alert, said in rows[:most]:
            card(shown, alert, said, reviews)
        if len(rows) > most:
            more = min(CARDS_AT_ONCE, len(rows) - most)
            if st.button(f"Show {more} more of {numbers.count(len(rows))}"):
                st.session_state["inbox-cards"] = most + CARDS_AT_ONCE
                st.rerun()
    with st.container(horizontal=True, horizontal_alignment="right", vertical_alignment="center"):
        st.toggle("Show as table", key="inbox-table")
        st.download_button(
            "Alerts as CSV",
            lambda: table_csv(alerts_table(shown.report, reviews)),
            file_name=controls.named("alerts", "csv", shown),
            mime="text/csv",
            on_click="ignore",
        )


def nothing_found(report: AuditReport) -> None:
    """No alert is a finding too: what could have been seen, and what is left to do."""
    with st.container(border=True, gap="xsmall"):
        controls.card_title("Nothing to decide")
        shift = visible_shift(report)
        if shift is not None:
            st.markdown(f"{shift} Anything smaller stays unseen.")
        skipped = int((~report.history.computed[1:]).sum())
        if skipped and report.history.without_values is None and not pending_epochs(report):
            st.markdown(f"{numbers.several(skipped, 'epoch')} were not computed: a larger budget sees more.")


def inbox(shown: state.Shown) -> None:
    report = shown.report
    top = st.container()
    st.caption(OBSERVED_ONLY)
    selection.follow_bar(report)
    _, threshold = pick_preset(report)
    alerts = alerts_above(report, threshold)
    reviews = state.reviews(shown.entry)
    top.title(controls.title_of(headline(report, threshold, reviews)))
    if alerts:
        top.caption(controls.text_of(decided_sentence(alerts, reviews)))
        listed(shown, alerts)
    else:
        nothing_found(report)
    weaker = len(report.detection.alerts) - len(alerts)
    if weaker:
        st.caption(
            f"{numbers.several(weaker, 'weaker alert')} of the default preset {'is' if weaker == 1 else 'are'} hidden."
        )
    raised = state.workspace().provisional_alerts(shown.entry.digest) if shown.job is None else ()
    if raised:
        with st.container(border=True, gap="xsmall"):
            controls.card_title("Told while it was being recorded")
            for line in provisional_lines(raised, report.detection.alerts):
                st.text(numbers.visible(line))
    undecided = [c for c in report.detection.clients if c.verdict in WORTH_KNOWING or stood_out(c)]
    if undecided:
        with st.container(border=True, gap="xsmall"):
            controls.card_title("Without an alert, but worth knowing")
            for client in undecided[:MOST_UNDECIDED]:
                said = f"{numbers.named(client.client)}: {verdict_name(client.verdict)}. {verdict_reason(client)}"
                st.text(numbers.visible(said))
            if len(undecided) > MOST_UNDECIDED:
                st.caption(f"{numbers.count(len(undecided) - MOST_UNDECIDED)} more are in the report's JSON.")
    controls.words_here("Window", "Preset", "Channel")
    controls.next_steps(
        ("change_points", "When does each series change?"), ("report", "Report, and extracts for clients")
    )


shown = controls.need_report("Alerts", unfinished=True)
if shown is not None:
    picked = chosen_alert(shown.report)
    if picked is None:
        inbox(shown)
    else:
        alert_evidence.show(shown, picked)
