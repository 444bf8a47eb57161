"""The dashboard's entry: navigation and the choice of the run; every page is a short script in ``app/views``."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.words import numbers, wording
from flcontrib_dashboard import controls, state

here = Path(__file__).parent
st.set_page_config(page_title="FLContrib", page_icon=str(here / "icon.svg"), layout="wide")
st.logo(str(here / "logo.svg"), icon_image=str(here / "icon.svg"), size="medium")


def page(file: str, title: str, icon: str, default: bool = False) -> object:
    """One entry of the navigation."""
    return st.Page(here / "views" / f"{file}.py", title=title, icon=f":material/{icon}:", default=default)


def choose_run() -> None:
    """The sidebar: which run is on screen, and what is not as it should be."""
    entry = state.current_run()
    if entry is not None:
        names = {r.digest: r.name for r in state.listed_runs(entry)}
        digests = list(names)
        picked = st.selectbox("Run", digests, index=digests.index(entry.digest), format_func=names.__getitem__)
        if picked != entry.digest:
            state.remember(run=picked[:16], result=None, client=None, window=None)
            st.rerun()
        state.remember(run=entry.digest[:16])
        if (many := len(state.stored_runs())) > len(digests):
            st.page_link("views/runs.py", label=f"All {numbers.count(many)} runs", icon=":material/folder_open:")
        st.caption(f"{numbers.several(entry.clients, 'client')} · {numbers.several(entry.epochs, 'epoch')}")
        if state.is_sample(entry):
            st.caption("Sample run with known truth")
        if not entry.available:
            st.error(controls.text_of("Its stored log is damaged; add it again."))
    fault = state.workspace().impaired
    if fault is not None:
        st.warning(controls.text_of(str(fault)))


def workspace_gone(fault: WorkspaceError) -> None:
    """What stands in place of every page while the workspace cannot be read."""
    st.sidebar.error(controls.text_of(str(fault)))
    st.title("The workspace cannot be read")
    st.text(str(fault))  # a narrow screen hides the sidebar
    st.markdown(wording.GONE)
    if st.button("Look again", type="primary"):
        st.rerun()


pages = {
    "Read": [
        page("overview", "Overview", "monitoring", default=True),
        page("alerts", "Alerts", "flag"),
        page("contributions", "Contributions", "grid_on"),
        page("client", "Client", "person"),
        page("epoch", "Epoch", "calendar_today"),
        page("change_points", "Change points", "show_chart"),
        page("clusters", "Clusters", "bubble_chart"),
        page("compare", "Compare", "compare_arrows"),
    ],
    "Decide": [page("scheduler", "Scheduler", "event_available")],
    "Bring in, take out": [
        page("runs", "Runs", "folder_open"),
        page("upload", "Upload", "upload"),
        page("jobs", "Jobs", "list_alt"),
        page("report", "Report & export", "ios_share"),
        page("help", "Help", "help"),
    ],
}
current = st.navigation(pages, expanded=True)  # type: ignore[arg-type]
if (asked := state.asked_page()) is not None:
    st.switch_page(here / "views" / f"{asked}.py")
state.restore_url()
controls.apply_theme()
try:
    with st.sidebar:
        choose_run()
except WorkspaceError as fault:
    workspace_gone(fault)
    st.stop()
current.run()
