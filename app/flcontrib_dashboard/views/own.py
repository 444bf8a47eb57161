"""Your extract: what a signed-in client sees, which is itself, and where it can reply."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.detection import Reviews, StepKind, alert_key
from flcontrib_core.errors import FLContribError
from flcontrib_core.words import (
    IN_THE_EXTRACT,
    OBSERVED_ONLY,
    client_headline,
    counter_evidence,
    decision_sentence,
    meaning_line,
    numbers,
    step_line,
    verdict_reason,
    why,
)
from flcontrib_core.workspace import RunEntry
from flcontrib_dashboard import controls, extracts, state
from flcontrib_dashboard.accounts import Account, Role, current


def own_runs(account: Account) -> list[RunEntry]:
    """The runs this account is named for."""
    return [r for r in state.shared_workspace().runs() if account.may_see(r.digest, account.client)]


def show(account: Account) -> None:
    """One run of the account's, as its extract tells it."""
    runs = own_runs(account)
    if not runs:
        st.title("There is nothing about you here")
        st.caption("No run of this workspace is named for your account.")
        return
    labels = {r.digest: f"Run {r.digest[:12]}, {r.added_at[:10]}" for r in runs}  # never the run's descriptive name
    chosen = runs[0].digest if len(runs) == 1 else st.selectbox("Run", list(labels), format_func=labels.__getitem__)
    entry = next(r for r in runs if r.digest == chosen)
    shown = state.shown_to_client(entry)
    if shown is None or account.client not in shown.report.history.client_ids:
        st.title("There is no result about you yet")
        return
    reviews = state.shared_workspace().alerts.reviews(entry.digest).for_client(account.client)
    st.title(controls.title_of(client_headline(shown.report, account.client, reviews)))
    st.caption(f"{OBSERVED_ONLY} {IN_THE_EXTRACT}")
    with st.container(border=True, gap="xsmall"):
        controls.card_title("Your extract")
        extracts.downloads(shown, account.client)
    findings(shown, account, reviews)


def findings(shown: state.Shown, account: Account, reviews: Reviews) -> None:
    """Each alert with what was decided, and a form for the reply."""
    told = {alert_key(alert): alert.without_others() for alert in shown.report.detection.alerts}
    entries = [review for review in reviews.entries if review.key in told or review.steps]
    if not entries:
        verdict = next(c for c in shown.report.detection.clients if c.client == account.client).without_others()
        st.text(numbers.visible(verdict_reason(verdict)))
    for review in entries:
        with st.container(border=True, gap="xsmall"):
            where = "the whole run" if review.window is None else numbers.span(review.window)
            controls.card_title(f"About {where}", "" if review.key in told else "not in the result shown here")
            if (alert := told.get(review.key)) is not None:
                st.markdown(controls.text_of(meaning_line(alert)))
                for heading, lines in (
                    ("What was observed", why(alert)),
                    ("What speaks against it", counter_evidence(alert)),
                ):
                    bullets = "\n".join(f"- {controls.text_of(line)}" for line in lines)
                    st.markdown(f"**{heading}**\n\n{bullets}")
            st.text(numbers.visible(decision_sentence(review)))
            for step in review.steps:
                if step.kind is not StepKind.DECISION:
                    st.text(numbers.visible(step_line(step)))
            if account.by_link:
                continue
            with st.form(f"reply-{review.alert[:12]}", border=False):
                text = st.text_area("Your reply", height=90, max_chars=4000, placeholder="stays in the sealed log")
                if st.form_submit_button("File the reply"):
                    try:
                        state.shared_workspace().alerts.reply(review.alert, account.name, text)
                    except FLContribError as refused:
                        st.error(controls.text_of(str(refused)))
                    else:
                        st.rerun()


account = current()
if account is not None and account.role is Role.CLIENT:
    show(account)
