"""What people say about an alert on the page: its state, its owner, comments, and the record of all of it."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.detection import Alert, AlertReview, AlertState
from flcontrib_core.errors import FLContribError
from flcontrib_core.words import decision_sentence, numbers, state_name, step_line
from flcontrib_dashboard import accounts, controls, state

STATE_COLOURS = {
    AlertState.NEW: "orange",
    AlertState.ACKNOWLEDGED: "blue",
    AlertState.DISMISSED: "gray",
    AlertState.CONFIRMED: "red",
}
WHO = "who"
"""The reader's name, typed once for all forms of a session."""


def state_badge(decided: AlertState) -> None:
    """What was decided, as a badge."""
    st.badge(state_name(decided), color=STATE_COLOURS[decided])  # type: ignore[arg-type]


def your_name() -> str:
    """The name that a decision carries: who signed in, else what is typed; kept for the next form."""
    if signed := accounts.your_name():
        st.caption(f"Recorded as {controls.text_of(signed)}.")
        return signed
    known = str(st.session_state.get(WHO, ""))
    return str(st.text_input("Your name", value=known, max_chars=100, placeholder="who decides")).strip()


def card(shown: state.Shown, alert: Alert) -> None:
    """Where the alert stands, the form that records more, and everything recorded so far, newest first."""
    controls.card_title("Decision")
    if shown.job is not None:
        st.caption("Provisional: a decision can be recorded when the run has ended and its job is done.")
        return
    review = state.reviews(shown.entry).of(alert)
    if review is None:
        st.caption("This alert is not in the inbox of this workspace; compute the run here to decide on it.")
        return
    st.markdown(controls.text_of(decision_sentence(review)))
    if not accounts.reads_only():
        form(review)
    for step in reversed(review.steps):
        st.text(numbers.visible(step_line(step)))


def form(review: AlertReview) -> None:
    """One form for what can be said: another state with its reason, a comment, an owner; empty once it is recorded."""
    with st.form(f"decision-{review.alert[:12]}-{len(review.steps)}", border=False):
        reads = not accounts.operates()
        wanted = st.pills(
            "State", list(AlertState), default=review.state, format_func=state_name, wrap=True, disabled=reads
        )
        text = st.text_area(
            "Reason or comment", height=70, placeholder="needed for a dismissal; stays in the log", max_chars=4000
        )
        shared = st.checkbox("The client may read this in its extract")
        owner = st.text_input(
            "Owner", value=review.owner, max_chars=100, placeholder="who looks after it", disabled=reads
        )
        by = your_name()
        if reads:
            st.caption("Auditors comment; operators decide.")
        if st.form_submit_button("Record the comment" if reads else "Record the decision"):
            try:
                record(review, wanted or review.state, text, owner, by, shared)
            except FLContribError as refused:
                st.error(controls.text_of(str(refused)))
            else:
                st.session_state[WHO] = by
                st.rerun()


def record(review: AlertReview, wanted: AlertState, text: str, owner: str, by: str, shared: bool) -> None:
    """Enters what changed: text with another state is its reason, else it is a comment."""
    alerts = state.workspace().alerts
    if wanted is not review.state:
        alerts.decide(review.alert, wanted, by, text, shared=shared)
    elif text.strip() or owner.strip() == review.owner:  # with nothing to enter, the empty comment is refused in words
        alerts.comment(review.alert, by, text, shared=shared)
    if owner.strip() != review.owner:
        alerts.assign(review.alert, owner, by)
