"""A short tour for somebody who is here for the first time; closed once, it does not come back by itself."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.words import wording
from flcontrib_dashboard import accounts, controls, state
from flcontrib_dashboard.addresses import page_file

STEP = "tour-step"


def is_over() -> bool:
    """Has this reader closed it? Whoever a link brings here has nothing to learn about the rest."""
    return accounts.reads_only() or state.workspace().preferences.tour_is_over(accounts.your_name())


def begin() -> None:
    """Shows it again from its first step."""
    st.session_state.pop(STEP, None)
    state.workspace().preferences.set_tour(accounts.your_name(), over=False)


def show() -> None:
    """The step the reader is at; nothing where it was closed, cannot be, or a link opened one run alone."""
    if not accounts.reads_only() and state.workspace().impaired is None and not is_over():
        with st.container(border=True, gap="xsmall", key="tour"):
            _step()


def _move(by: int) -> None:
    st.session_state[STEP] = min(max(st.session_state.get(STEP, 0) + by, 0), len(wording.TOUR) - 1)


@st.fragment
def _step() -> None:
    at = int(st.session_state.get(STEP, 0))
    name, text, view, label = wording.TOUR[at]
    controls.card_title(name, f"{at + 1} of {len(wording.TOUR)}")
    st.markdown(text)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if at:
            st.button("Back", on_click=_move, args=(-1,), key="tour-back")
        if at + 1 < len(wording.TOUR):
            st.button("Next", on_click=_move, args=(1,), key="tour-next")
        st.page_link(page_file(view), label=label, icon=":material/arrow_forward:")
        if st.button("Close the tour", type="tertiary", icon=":material/close:", key="tour-close"):
            state.workspace().preferences.set_tour(accounts.your_name(), over=True)
            st.rerun()
