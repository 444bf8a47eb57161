"""Settings: what holds for this workspace, on every page and for every command."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from flcontrib_core.errors import FLContribError
from flcontrib_core.words import numbers, wording
from flcontrib_core.workspace import Execution, Notices
from flcontrib_dashboard import accounts, controls, state, tour


def place() -> None:
    """Where everything lies, and what stays there."""
    controls.card_title("Where it is")
    path = state.workspace().path
    st.code(str(path), language=None, wrap_lines=True)
    runs = state.all_runs()
    held = f"{numbers.several(len(runs), 'run')}, {numbers.size(sum(r.size for r in runs))} of logs and tables"
    st.caption(f"{held}. Runs, results, decisions and these settings are in this folder and nowhere else.")
    st.markdown(wording.RETENTION)


def computing(mine: bool) -> None:
    """How many processes a job may use."""
    preferences = state.workspace().preferences
    held = preferences.execution()
    controls.card_title("Computing")
    own = st.toggle("All cores but one", value=held.workers is None, key="usual-workers", disabled=not mine)
    chosen = st.number_input(
        "Worker processes", 1, 256, held.processes, key="default-workers", disabled=own or not mine
    )
    st.caption("Of every job of this workspace. No result depends on it. The engine is chosen where a run is planned.")
    wanted = replace(held, workers=None if own else int(chosen))
    if mine and wanted != held:
        save_execution(wanted)


def save_execution(wanted: Execution) -> None:
    """Holds from the next job on, and the plan's own control follows."""
    state.workspace().preferences.set_execution(wanted)
    st.session_state.pop("workers", None)
    st.rerun()


def alerts(mine: bool) -> None:
    """Who is told of an alert while a run is followed."""
    preferences = state.workspace().preferences
    held = preferences.notices()
    controls.card_title("When an alert is raised")
    st.caption("While a growing run is followed (`flcontrib watch --notify`), each alert is passed on as JSON.")
    with st.form("webhook", border=False):
        address = st.text_input(
            "Post it to", value=held.webhook or "", placeholder="https://…", disabled=not mine, max_chars=2000,
            help="An address that takes JSON. It is kept in the workspace, whose readers can see it.",
        )  # fmt: skip
        saved = st.form_submit_button("Save", disabled=not mine)
    if saved:
        try:
            preferences.set_notices(Notices(held.command, address.strip() or None))
        except FLContribError as refused:
            st.error(controls.text_of(str(refused)))
        else:
            st.rerun()
    st.markdown("**Program that reads it**")
    st.code(held.command or "none", language=None, wrap_lines=True)
    st.caption("Only the command line sets it, so that no page says what this machine runs:")
    st.code(
        f'flcontrib settings --workspace "{state.workspace().path}" --on-alert "PROGRAM …"',
        language="bash",
        wrap_lines=True,
    )


def showing(mine: bool) -> None:
    """What pages show beside the runs."""
    preferences = state.workspace().preferences
    held = preferences.display()
    controls.card_title("Showing")
    samples = st.toggle(
        "Show the sample runs", value=held.samples, key="show-samples", disabled=not mine,
        help="Hidden ones stay in the workspace; a link to one still opens it.",
    )  # fmt: skip
    if mine and samples != held.samples:
        preferences.set_display(replace(held, samples=samples))
        st.rerun()
    if tour.is_over():
        st.button("Show the tour again", on_click=tour.begin, help="It stands on Overview.")
    else:
        st.caption("The tour for newcomers stands on Overview until it is closed.")


st.title("Settings of this workspace")
operates = accounts.operates()
if not operates:
    st.caption("Operators change them; this account reads.")
left, right = st.columns(2, gap="small")
with left:
    with st.container(border=True, gap="small"):
        place()
    with st.container(border=True, gap="small"):
        showing(operates)
with right:
    with st.container(border=True, gap="small"):
        computing(operates)
    with st.container(border=True, gap="small"):
        alerts(operates)
