"""Runs: everything this workspace holds, to find, describe and delete; and the alerts of all of it in one inbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from flcontrib_core.detection import AlertState, VerdictKind
from flcontrib_core.errors import FLContribError
from flcontrib_core.words import numbers, state_name, verdict_name
from flcontrib_core.workspace import FOLLOW, AlertEntry, RunEntry, observed_once, opening_first
from flcontrib_dashboard import accounts, client_table, controls, deciding, run_choice, state
from flcontrib_dashboard.addresses import go_to

ROWS_AT_ONCE = 200
WIDTHS = {"Run": st.column_config.Column(width=220), "Alerts": st.column_config.Column(width=110)}
"""A long name would push the other columns out of sight."""


@dataclass(frozen=True)
class Listed:
    """A run as the list shows it."""

    entry: RunEntry
    state: str
    alerts: tuple[AlertEntry, ...]

    @property
    def row(self) -> dict[str, Any]:
        """The cells of its row."""
        entry, waiting = self.entry, sum(a.state is AlertState.NEW for a in self.alerts)
        return {
            "Run": entry.name,
            "State": self.state if entry.dropped_at is None else f"{self.state}, log dropped",
            "Alerts": f"{waiting} open of {len(self.alerts)}" if self.alerts else numbers.NO_VALUE,
            "Clients": entry.clients,
            "Epochs": entry.epochs or None,  # of a growing one its own page tells
            "Added": entry.added_at[:10],
            "Size": numbers.size(entry.size) if entry.size else numbers.NO_VALUE,
            "Tags": ", ".join(entry.tags),
            "Note": entry.note,
        }

    def matches(self, words: str) -> bool:
        """Does any of its names, tags, its note or its state hold the words?"""
        return self.entry.matches(words) or words in self.state


ORDERS: dict[str, Any] = {
    "Newest first": None,
    "Open alerts": lambda r: -sum(a.state is AlertState.NEW for a in r.alerts),
    "Name": lambda r: r.entry.name.casefold(),
    "State": lambda r: r.state,
    "Size": lambda r: -r.entry.size,
    "Epochs": lambda r: -r.entry.epochs,
}
"""Of the whole list, of which a page shows a part; equal ones stay newest first."""


def listed_runs() -> list[Listed]:
    """Every run with its state and alerts, newest first; made anew when the log or a job has moved on."""
    workspace = state.workspace()
    jobs = {j.run_digest: j for j in reversed(workspace.jobs.poll()) if j.kind not in state.BESIDE_AUDITS}
    standing = tuple(sorted((digest, job.state.value) for digest, job in jobs.items()))

    def make() -> list[Listed]:
        stored = workspace.results(kind="audit")
        first = {digest: result.digest for digest, result in opening_first(stored).items()}
        alerts: dict[str, list[AlertEntry]] = {}
        for alert in observed_once(workspace.alerts.list(), first):
            alerts.setdefault(alert.run_digest, []).append(alert)
        results: dict[str, str] = {}
        for result in reversed(stored):  # the newest has the last word
            results[result.run_digest] = "outdated" if result.outdated else "computed" if result.available else "lost"
        found = []
        for entry in reversed(state.stored_runs()):
            job = jobs.get(entry.digest)
            known = results.get(entry.digest, "no result" if job is None else job.state.value)
            stands = job.state.value if job is not None and job.active else known
            if job is not None and job.active and job.kind == FOLLOW:
                stands = "being recorded"
            found.append(Listed(entry, stands, tuple(alerts.get(entry.digest, ()))))
        return found

    return state.cached((str(workspace.head()), str(workspace.path), "listed runs", standing), make)


def find(runs: Sequence[Listed]) -> list[Listed]:
    """Those that the search and the chosen tags leave."""
    tags = sorted({tag for run in runs for tag in run.entry.tags})
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        words = (
            st.text_input("Find a run", placeholder="name, tag, note, state or digest", key="find-run").strip().lower()
        )
        wanted = st.multiselect("Tags", tags, format_func=numbers.visible) if tags else []
        order = st.selectbox("Sort by", list(ORDERS), key="sort-runs", width=180)
    found = [r for r in runs if (not words or r.matches(words)) and set(wanted) <= set(r.entry.tags)]
    return found if ORDERS[order] is None else sorted(found, key=ORDERS[order])


def table(runs: list[Listed]) -> list[Listed]:
    """The list; the rows that are marked in it."""
    shown = runs[:ROWS_AT_ONCE]
    event = controls.table(
        [r.row for r in shown],
        key="runs-table",
        height="content" if len(shown) <= client_table.ROWS_IN_SIGHT else client_table.TALLEST,
        on_select="rerun",
        selection_mode="multi-row",
        column_config=WIDTHS,
    )
    if len(runs) > len(shown):
        st.caption(f"The newest {len(shown)} of {numbers.count(len(runs))} are listed; search to see others.")
    return [shown[row] for row in event.selection.rows if row < len(shown)]


def actions(chosen: list[Listed]) -> None:
    """What can be done with the marked runs."""
    if not chosen:
        st.caption("Mark rows to open, describe or delete runs.")
        return
    if len(chosen) == 1 and st.button("Open this run", type="primary"):
        state.remember(run=chosen[0].entry.digest[:16], result=None, client=None, window=None)
        go_to("overview")
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True, gap="xsmall"):
        describe(chosen)
    with right, st.container(border=True, gap="xsmall"):
        delete(chosen)


def describe(chosen: list[Listed]) -> None:
    controls.card_title("Describe", numbers.several(len(chosen), "run"))
    one = chosen[0].entry if len(chosen) == 1 else None
    with st.form("describe-runs", border=False):
        name = st.text_input("Name", value=one.name, max_chars=200) if one is not None else None
        known = ", ".join(one.tags) if one is not None else ""
        tags = st.text_input("Tags", value=known, placeholder="pilot, ward 3", help="Separated by commas.")
        note = st.text_area("Note", value=one.note if one is not None else "", height=70, max_chars=4000)
        by = deciding.your_name()
        if not accounts.operator_button("Save", submits=True):
            return
    try:
        for run in chosen:
            given = tuple(tags.split(","))
            kept = given if one is not None else (*run.entry.tags, *given)  # of several runs nobody's tags are lost
            state.workspace().describe_run(
                run.entry.digest,
                by=by,
                name=name if name != run.entry.name else None,
                tags=kept,
                note=note if one is not None or note else None,
            )
    except FLContribError as refused:
        st.error(controls.text_of(str(refused)))
    else:
        st.session_state[deciding.WHO] = by
        st.rerun()


def delete(chosen: list[Listed]) -> None:
    several = numbers.several(len(chosen), "run")
    controls.card_title("Delete", several)
    st.caption("Removes the stored logs and what was computed from them. The audit log keeps that they were here.")
    sure = st.checkbox(f"I want to delete {several}", key=f"delete-{len(chosen)}-{chosen[0].entry.digest[:8]}")
    if accounts.operator_button("Delete", disabled=not sure):
        gone = st.session_state.setdefault("deleted", [])
        try:
            for run in chosen:
                gone.append(run_choice.remove(run.entry))
        except FLContribError as refused:
            st.error(controls.text_of(str(refused)))
            return
        state.remember(run=None, result=None, client=None, window=None)
        st.rerun()


def inbox(runs: Sequence[Listed]) -> None:
    """The alerts of all runs, with whoever looks after them."""
    controls.card_title("Alerts of all runs")
    names = {r.entry.digest: r.entry.name for r in runs}
    alerts = [a for r in runs for a in r.alerts]
    if not alerts:
        st.caption("No alert in any run.")
        return
    owners = sorted({a.owner for a in alerts if a.owner})
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        wanted = st.pills(
            "State", list(AlertState), default=AlertState.NEW, format_func=state_name, key="inbox-state", wrap=True
        )
        owner = st.selectbox("Owner", owners, index=None, placeholder="anybody", key="inbox-owner", width=220)
    found = [a for a in alerts if wanted in (None, a.state) and owner in (None, a.owner)]
    shown = found[:ROWS_AT_ONCE]
    if not shown:
        st.caption("No alert like that.")
        return

    def take() -> None:
        rows = st.session_state["all-alerts"]["selection"]["rows"]
        if rows and rows[0] < len(shown):
            alert = shown[rows[0]]
            window = alert.finding.get("window")
            state.remember(run=alert.run_digest[:16], result=None, client=alert.finding["client"])
            state.remember(window=None if window is None else f"{window[0]}-{window[1]}")
            state.open_page("alerts")

    controls.table(
        [alert_row(a, names[a.run_digest]) for a in shown],
        key="all-alerts",
        height="content" if len(shown) <= client_table.ROWS_IN_SIGHT else client_table.TALLEST,
        on_select=take,
        selection_mode="single-row",
        column_config=WIDTHS,
    )
    more = f" The first {len(shown)} of {numbers.count(len(found))}." if len(found) > len(shown) else ""
    st.caption(
        "Choose a row to open its evidence and decide. Where several results of a run tell of the same client and "
        f"epochs, the one that opens first is listed.{more}"
    )


def alert_row(alert: AlertEntry, run: str) -> dict[str, Any]:
    finding = alert.finding
    window, probability = finding.get("window"), finding.get("probability")
    return {
        "Run": run,
        "Client": finding["client"],
        "Observed": verdict_name(VerdictKind(finding["verdict"])),
        "Epochs": "whole run" if window is None else numbers.window(*window),
        "Probability": "a fact" if probability is None else numbers.probability(probability),
        "State": state_name(alert.state),
        "Owner": alert.owner or numbers.NO_VALUE,
        "Raised": alert.raised_at[:10],
    }


runs = listed_runs()
waiting = sum(a.state is AlertState.NEW for r in runs for a in r.alerts)
if not runs:
    st.title("No run yet")
    controls.next_steps(("upload", "Bring in a run"), ("overview", "Start with a sample"))
else:
    st.title(f"{numbers.several(len(runs), 'run')}, {numbers.several(waiting, 'alert')} not yet decided")
    with st.container(border=True, gap="small"):
        controls.card_title("Runs")
        found = find(runs)
        if found:
            actions(table(found))
        else:
            st.caption("No run like that.")
    with st.container(border=True, gap="small"):
        inbox(runs)
    controls.next_steps(("upload", "Bring in a run"), ("compare", "Compare two results"))
