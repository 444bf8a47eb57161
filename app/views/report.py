"""Report & export: one file for a person, its twin for a machine, tables, and an extract for one client."""

from __future__ import annotations

import tempfile
from pathlib import Path

import streamlit as st

from app import controls, state, wording
from flcontrib_core import FillPolicy, write_extract, write_history_tables, write_report
from flcontrib_core.errors import FLContribError


@st.cache_data(max_entries=16, show_spinner="Writing the report …")
def report_files(digest: str, head: str, _shown: state.Shown) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        html, twin = write_report(_shown.report, Path(folder) / "report.html", chain_head=head)
        return {"html": Path(html).read_bytes(), "json": Path(twin).read_bytes()}


@st.cache_data(max_entries=16, show_spinner="Writing the tables …")
def table_files(digest: str, _shown: state.Shown) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        paths = write_history_tables(_shown.report.history, Path(folder), FillPolicy.EQUAL)
        return {p.name: p.read_bytes() for p in paths}


@st.cache_data(max_entries=16, show_spinner="Writing the extract …")
def extract_files(digest: str, client: str, _shown: state.Shown) -> dict[str, bytes]:
    run = state.workspace().open_run(_shown.entry.digest)
    with tempfile.TemporaryDirectory() as folder:
        html, twin = write_extract(_shown.report, client, Path(folder) / "extract.html", run)
        return {"html": Path(html).read_bytes(), "json": Path(twin).read_bytes()}


shown = controls.need_report("Report & export")
if shown is not None:
    st.title("Take the result with you")
    head = str(state.workspace().head())
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True, height="stretch", gap="small"):
        st.markdown("**The report**")
        st.caption(
            "One self-contained file: opens offline, in light and dark, and prints. Its twin is for `flcontrib verify`."
        )
        files = report_files(shown.result.digest, head, shown)
        with st.container(horizontal=True):
            st.download_button(
                "Report (HTML)", files["html"], "report.html", "text/html", type="primary", on_click="ignore"
            )
            st.download_button("Report (JSON)", files["json"], "report.json", "application/json", on_click="ignore")
        st.code("flcontrib verify report.json RUN.flrun", language="bash")
        st.caption(controls.text_of(f"Audit log of this workspace ends at {head}"))
    with right, st.container(border=True, height="stretch", gap="small"):
        st.markdown("**The numbers**")
        st.caption("Every value with its state (computed, absent, not computed) and error.")
        with st.container(horizontal=True):
            for name, content in table_files(shown.result.digest, shown).items():
                st.download_button(name, content, name, key=f"table-{name}", on_click="ignore")
    with st.container(border=True, gap="small"):
        st.markdown("**For one client**")
        st.caption(
            "Shows only its own series, the sha256 of its own recorded updates, and an anonymous band of the others "
            "where at least five took part."
        )
        client = st.selectbox(
            "Client", sorted(shown.report.history.client_ids), index=None, placeholder="Choose a client"
        )
        if client:
            try:
                own = extract_files(shown.result.digest, client, shown)
            except FLContribError as lacking:
                st.error(controls.text_of(str(lacking)))
            else:
                with st.container(horizontal=True):
                    st.download_button("Extract (HTML)", own["html"], "extract.html", "text/html", on_click="ignore")
                    st.download_button(
                        "Extract (JSON)", own["json"], "extract.json", "application/json", on_click="ignore"
                    )
    with st.container(border=True, gap="small"):
        st.markdown("**Delete this run**")
        st.caption("Removes the stored log and what was computed from it. The audit log keeps that it was here.")
        sure = st.checkbox("I want to delete it")
        if st.button("Delete the run", disabled=not sure):
            gone = state.workspace().delete_run(shown.entry.digest)
            state.remember(run=None, result=None, client=None, window=None)
            st.success(
                controls.text_of(
                    f"{gone.name}: {wording.count(gone.bytes_freed)} bytes freed. "
                    f"Kept: {'; '.join(gone.kept) or 'nothing'}"
                )
            )
