"""Settings: what holds for this workspace, on every page and for every command."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from flcontrib_core.errors import FLContribError
from flcontrib_core.words import numbers, wording
from flcontrib_core.workspace import Notices
from flcontrib_dashboard import accounts, computing, controls, state, tour

ROWS = 100
"""Of a list of old logs"""


def place() -> None:
    """Where everything lies, and what stays there."""
    controls.card_title("Where it is")
    path = state.workspace().path
    st.code(str(path), language=None, wrap_lines=True)
    runs = state.all_runs()
    held = f"{numbers.several(len(runs), 'run')}, {numbers.size(sum(r.size for r in runs))} of logs and tables"
    st.caption(f"{held}. Runs, results, decisions and these settings are in this folder and nowhere else.")


def retention() -> None:
    """Results stay, logs older than so many days go; what would go is shown first."""
    workspace = state.workspace()
    controls.card_title("Keep results, drop logs")
    st.caption(
        "Drops what clients sent, and what was kept to compute faster. Results, alerts and decisions stay; a run "
        "without a readable result keeps its log. A log that is added again belongs to the same run as before."
    )
    st.caption(wording.RETENTION)
    days = int(st.number_input("Logs added more than so many days ago", 0, 36_500, 90, key="drop-days"))
    found = workspace.old_logs(days)
    goes = [old for old in found if not old.stays]
    freed = numbers.size(sum(old.bytes_freed for old in goes))
    if not found:
        st.caption("No log is as old as that.")
        return
    shown = [
        {"Run": o.entry.name, "Added": o.entry.added_at[:10], "What happens": o.stays or numbers.size(o.bytes_freed)}
        for o in found[:ROWS]
    ]
    controls.table(shown, key="old-logs")
    more = f" The first {ROWS} are listed." if len(found) > ROWS else ""
    st.caption(f"{numbers.several(len(goes), 'log')} would go, {freed}; {len(found) - len(goes)} stay.{more}")
    sure = st.checkbox(f"I want to drop {numbers.several(len(goes), 'log')}", key=f"drop-{days}-{len(goes)}")
    if accounts.operator_button("Drop logs", disabled=not (sure and goes)):
        workspace.drop_logs(days, by=accounts.your_name())
        st.rerun()


def alerts(mine: bool) -> None:
    """Who is told of an alert while a run is followed."""
    preferences = state.workspace().preferences
    held = preferences.notices()
    controls.card_title("When an alert is raised")
    st.caption("While a growing run is followed, each new alert is passed on as JSON. It is provisional.")
    with st.form("webhook", border=False):
        address = st.text_input(
            "Post it to", value=held.webhook or "", placeholder="https://…", disabled=not mine, max_chars=2000,
            help="An address that takes JSON. It is kept in the workspace, whose readers can see it.",
        )  # fmt: skip
        saved = st.form_submit_button("Save", disabled=not mine)
    if saved:
        try:
            preferences.set_notices(Notices(held.command, address.strip() or None), ["webhook"])
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
    if held != Notices() and held != preferences.agreed_notices():
        st.warning("This was set elsewhere: nobody is told until it is set again on this machine, by you.")
    elif held != Notices() and accounts.operator_button("Send a test notice"):
        send_test(held)


def send_test(named: Notices) -> None:
    """Tells whoever is named that this is a test, and the reader how that went."""
    faults = named.tell({"event": "test", "workspace": str(state.workspace().path)})
    for fault in faults:
        st.error(controls.text_of(fault))
    if not faults:
        st.success("It was taken.")


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
    if operates:
        with st.container(border=True, gap="small"):
            retention()
with right:
    with st.container(border=True, gap="small"):
        controls.card_title("Computing")
        computing.draw(st, "default")
        st.caption("For every job of this workspace, from the next one on. No result depends on it.")
    with st.container(border=True, gap="small"):
        alerts(operates)
