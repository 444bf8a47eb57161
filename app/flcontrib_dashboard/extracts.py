"""A client's extract on the page: written when asked for, with what was decided about its alerts."""

from __future__ import annotations

import tempfile
from pathlib import Path

import streamlit as st

from flcontrib_core.errors import FLContribError
from flcontrib_core.reports import Record, extract_name, write_extract
from flcontrib_dashboard import accounts, controls, deciding, state

WORDS = (
    "Shows only the client's own series, the sha256 of its own recorded updates, what was decided about its alerts, "
    "and an anonymous band of the others where at least five took part."
)


def record_now(shown: state.Shown, by: str) -> Record:
    """What the workspace's log holds about the run at this moment.

    Who asks is told by the page: a file is written when it is fetched, and nobody's session is known there.
    """
    workspace = state.shared_workspace()
    reviews, head = workspace.alerts.reviews(shown.entry.digest), str(workspace.head())
    return Record(written_by=by, chain_head=head, reviews=reviews)


@st.cache_data(max_entries=16, show_spinner="Writing the extract …")
def files(digest: str, client: str, by: str, head: str, _shown: state.Shown, _record: Record) -> dict[str, bytes]:
    """The extract's page and JSON by ending."""
    entry = _shown.entry
    run = state.shared_workspace().open_run(entry.digest) if entry.available else None  # of what is kept of the run
    with tempfile.TemporaryDirectory() as folder:
        html, twin = write_extract(_shown.report, client, Path(folder) / _name(_shown, client, "html"), run, _record)
        return {"html": Path(html).read_bytes(), "json": Path(twin).read_bytes()}


def downloads(shown: state.Shown, client: str) -> None:
    """Two buttons; the files are written when one is pressed. Raises NotAllowed for another client's account."""
    account = accounts.current()
    if account is None or not account.may_see(shown.entry.digest, client):
        raise accounts.NotAllowed("this account sees its own extract and nothing else")

    by = str(st.session_state.get(deciding.WHO, ""))

    def written(kind: str) -> bytes:
        record = record_now(shown, by)
        return files(shown.result.digest, client, by, str(record.chain_head), shown, record)[kind]

    try:
        with st.container(horizontal=True):
            for kind, mime in (("html", "text/html"), ("json", "application/json")):
                st.download_button(
                    f"Extract ({kind.upper()})",
                    lambda kind=kind: written(kind),  # type: ignore[misc]
                    _name(shown, client, kind),
                    mime,
                    on_click="ignore",
                )
    except FLContribError as lacking:
        st.error(controls.text_of(str(lacking)))


def _name(shown: state.Shown, client: str, ending: str) -> str:
    return extract_name(shown.entry.digest, client, ending)
