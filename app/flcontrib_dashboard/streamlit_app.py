"""The dashboard's entry: navigation and the choice of the run; every page is a short script in ``app/views``."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.words import wording
from flcontrib_dashboard import accounts, controls, run_choice, state, theme
from flcontrib_dashboard.addresses import go_to, write_url_again
from flcontrib_dashboard.browser_history import one_entry_per_page

here = Path(__file__).parent
st.set_page_config(page_title="FLContrib", page_icon=str(here / "icon.svg"), layout="wide")
st.logo(str(here / "logo.svg"), icon_image=str(here / "icon.svg"), size="medium")


def page(file: str, title: str, icon: str, default: bool = False) -> StreamlitPage:
    """One entry of the navigation."""
    return st.Page(here / "views" / f"{file}.py", title=title, icon=f":material/{icon}:", default=default)


def workspace_gone(fault: WorkspaceError) -> None:
    """What stands in place of every page while the workspace cannot be read."""
    st.sidebar.error(controls.text_of(str(fault)))
    st.title("The workspace cannot be read")
    st.text(str(fault))  # a narrow screen hides the sidebar
    st.markdown(wording.GONE)
    if st.button("Look again", type="primary"):
        st.rerun()


def ask_to_sign_in() -> None:
    """What a stranger sees: the way in, or that there is none for this account or link."""
    if accounts.link_token():
        st.title("This link opens nothing any more")
        st.caption("It has ended, was withdrawn, or is not whole. Ask whoever sent it for another one.")
        return
    stranger = accounts.signed_in()
    st.title("Sign in" if stranger is None else "This account has no access")
    if stranger is None:
        st.button("Sign in", type="primary", on_click=st.login)
    else:
        st.caption("Ask the operator to add it to the accounts of this server.")
        st.button("Sign out", on_click=st.logout)


def sign_out(account: accounts.Account) -> None:
    """Who is signed in as what, and the way out; nothing without sign-in."""
    if account.name:
        with st.sidebar:
            st.caption(controls.text_of(f"{account.name}, {account.role.value}"))
            if account.by_link:
                return
            st.button("Sign out", on_click=st.logout)


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
        page("paper", "Paper", "science"),
        page("settings", "Settings", "settings"),
        page("help", "Help", "help"),
    ],
}
account = accounts.current()
if account is None:
    ask_to_sign_in()
    st.stop()
if account.role is accounts.Role.CLIENT:  # no other page exists for it, whatever the address says
    only = st.navigation([page("own", "Your extract", "person", default=True)])
    theme.apply_theme()
    sign_out(account)
    only.run()
    st.stop()
if account.role is accounts.Role.READER:  # a link opens what is read of one run, and no page that does anything
    pages = {"Read": [p for p in chain(*pages.values()) if accounts.opens(p.url_path or "overview")]}
current = st.navigation(pages, expanded=True)
if (asked := state.asked_page()) is not None:
    go_to(asked)
state.restore_url()
write_url_again()
theme.apply_theme()
one_entry_per_page()
sign_out(account)
try:
    with st.sidebar:
        run_choice.choose_run()
except WorkspaceError as fault:
    workspace_gone(fault)
    st.stop()
run_choice.say_what_was_deleted()
if (wanted := state.unknown_run()) is not None and current.title not in run_choice.WITHOUT_A_RUN:
    run_choice.no_such_run(wanted)
else:
    try:
        current.run()
    except accounts.NotAllowed as refused:
        st.error(controls.text_of(str(refused)))
