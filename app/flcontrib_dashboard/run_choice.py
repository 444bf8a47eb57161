"""The sidebar's choices: which run, and which of its results, with its name, its pin and its deletion."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.errors import FLContribError
from flcontrib_core.words import numbers, result_cost, result_label
from flcontrib_core.workspace import RECORDING, ResultEntry, RunEntry
from flcontrib_dashboard import accounts, controls, state
from flcontrib_dashboard.addresses import go_to, page_file

WITHOUT_A_RUN = frozenset({"Upload", "Jobs", "Help", "Compare", "Runs", "Paper", "Settings"})
"""Pages that say something whatever run a link names."""
MOST_DELETED_TOLD = 8
"""Runs that are named one by one after a deletion."""


def choose_run() -> None:
    """Which run is on screen, which of its results, and what is not as it should be."""
    entry = state.current_run()
    names = {r.digest: r.name for r in state.listed_runs(entry)}
    digests = list(names)
    if digests:
        st.session_state["run-picker"] = None if entry is None else entry.digest
        st.selectbox(
            "Run",
            digests,
            index=None,
            key="run-picker",
            format_func=lambda digest: names.get(digest, digest),
            placeholder="Choose a run",
            on_change=lambda: open_run(st.session_state["run-picker"]),
        )
        if (many := len(state.stored_runs())) > len(digests):
            st.page_link(page_file("runs"), label=f"All {numbers.count(many)} runs", icon=":material/folder_open:")
    if entry is not None:
        about(entry)
    if accounts.reads_only():
        return
    st.caption(controls.text_of(f"Workspace: {state.workspace().path}"))
    fault = state.workspace().impaired
    if fault is not None:
        st.warning(controls.text_of(str(fault)))


def about(entry: RunEntry) -> None:
    """The run's size, its results, and the way to be rid of it."""
    state.remember(run=entry.digest[:16])
    size = f"{numbers.several(entry.clients, 'client')} · {numbers.several(entry.epochs, 'epoch')}"
    st.caption(size if entry.kind != RECORDING else controls.text_of(f"Followed in {entry.source}"))
    if state.is_sample(entry):
        st.caption("Sample run with known truth")
    if not entry.available:
        if entry.dropped_at is None:
            st.error(controls.text_of("Its stored log is damaged; add it again."))
        else:
            st.caption(f"Log dropped on {entry.dropped_at[:10]}; results stay. Add it again to compute.")
    results = [r for r in state.workspace().results(entry.digest, "audit") if r.available]
    shown = state.named_result(entry) or state.workspace().default_result(entry.digest)
    if shown is not None and len(results) > 1:
        pick_result(results, shown)
    if accounts.reads_only():
        return
    with st.popover("This run", width="stretch", key="about-run", on_change="rerun") as place:
        if place.open:
            if shown is not None:
                about_result(shown)
            delete_run(entry)


def open_run(digest: str | None) -> None:
    """Writes another run into the URL; what was followed in the one before is not followed here."""
    if digest is None:
        return
    state.remember(run=digest[:16], result=None, client=None, window=None)


def result_words(result: ResultEntry) -> str:
    """'★ before the move · 18 epochs · 17 Nov 16:40'"""
    pin = "★ " if result.pinned else ""
    old = f" · version {result.version}" if result.stale else ""
    return (
        f"{pin}{numbers.visible(result_label(result.settings, result.name))}{old} · {numbers.moment(result.stored_at)}"
    )


def pick_result(results: list[ResultEntry], shown: ResultEntry) -> None:
    """Every computation of the run is a result of its own; the one on screen stands in the URL."""
    by_key = {r.digest[:16]: r for r in results}
    st.session_state["result-picker"] = shown.digest[:16]
    st.selectbox(
        "Result",
        list(by_key),
        key="result-picker",
        format_func=lambda key: result_words(by_key[key]),
        on_change=lambda: state.remember(result=st.session_state["result-picker"]),
        help="Each computation is kept. A star marks the one that opens first.",
    )
    if st.query_params.get("result") and state.named_result_is_missing():
        st.warning("The result named in the link is not here; this is the one that opens first.")
    others = [key for key in by_key if key != shown.digest[:16]]
    if accounts.reads_only():
        return
    st.page_link(
        page_file("compare"),
        label="Compare with another result",
        query_params={"run": shown.run_digest[:16], "baseline": others[0], "compared": shown.digest[:16]},
    )


def about_result(result: ResultEntry) -> None:
    """What the result on screen answers and what it took; it can be named and pinned."""
    st.markdown(f"**{controls.text_of(result_label(result.settings, result.name))}**")
    st.caption(controls.text_of(f"{result_cost(result.remarks)}; {numbers.moment(result.stored_at)}"))
    fixed = not accounts.operates()
    name = st.text_input(
        "Name of this result", value=result.name, key=f"name-{result.digest[:16]}", max_chars=80, disabled=fixed
    )
    if name.strip() != result.name:
        state.workspace().name_result(result, name)
        st.rerun()
    pinned = st.toggle(
        "Opens first", value=result.pinned, key=f"pin-{result.digest[:16]}-{result.pinned}", disabled=fixed
    )
    if pinned != result.pinned:
        state.workspace().pin_result(result, pinned)
        st.rerun()


def delete_run(entry: RunEntry, place: str = "sidebar") -> None:
    """Deletes a run with everything computed from it, whether it has a result or not; then it is off the screen."""
    sure = st.checkbox("I want to delete this run", key=f"sure-{place}-{entry.digest[:16]}")
    if accounts.operator_button("Delete the run", disabled=not sure, key=f"delete-{place}"):
        try:
            st.session_state["deleted"] = [remove(entry)]
        except FLContribError as fault:
            st.error(controls.text_of(str(fault)))
            return
        state.forget_run()
        go_to("overview")


def remove(entry: RunEntry) -> str:
    """Ends the run's jobs and deletes it; what was freed and what is kept, in words. Raises FLContribError."""
    for job in state.jobs_of(entry):
        if job.active:
            state.workspace().jobs.cancel(job.id)
    gone = state.workspace().delete_run(entry.digest)
    return f"{gone.name}: {numbers.size(gone.bytes_freed)} freed. Kept: {'; '.join(gone.kept)}"


def say_what_was_deleted() -> None:
    """Once, on the page that opens after a deletion."""
    said = [controls.text_of(line) for line in st.session_state.pop("deleted", ())]
    if len(said) > MOST_DELETED_TOLD:
        said[MOST_DELETED_TOLD:] = [f"{numbers.count(len(said) - MOST_DELETED_TOLD)} more runs were deleted."]
    if said:
        st.success("  \n".join(said))


def no_such_run(wanted: str) -> None:
    """What stands where a link names a run that is not here: since when, and which ones are."""
    if accounts.reads_only():  # not even whether there was such a run
        st.title("This link opens another run")
        return
    deleted = next(
        (e for e in reversed(state.workspace().log.entries("run-deleted")) if e.subject.startswith(wanted)), None
    )
    if deleted is None:
        st.title("This link names a run that is not in this workspace")
        st.markdown("It may belong to another workspace, or the link is damaged.")
    else:
        st.title("This run was deleted")
        name = controls.text_of(str(deleted.body.get("name", "")))
        st.markdown(f"**{name}** was deleted {numbers.moment(deleted.at)}. Its entries in the audit log are kept.")
    runs = state.listed_runs(None)
    if runs:
        controls.card_title("Runs that are here")
    for entry in runs:
        st.page_link(page_file("overview"), label=controls.text_of(entry.name), query_params={"run": entry.digest[:16]})
    controls.next_steps(("upload", "Bring in a run"), ("help", "What this tool does"))
