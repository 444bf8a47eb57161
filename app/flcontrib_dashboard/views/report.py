"""Report & export: one file for a person, its twin for a machine, tables, and an extract for one client."""

from __future__ import annotations

import tempfile
from pathlib import Path

import streamlit as st

from flcontrib_core.charts import fill_of
from flcontrib_core.reports import Record, alerts_table, write_history_tables, write_report
from flcontrib_core.vocabulary import Orientation
from flcontrib_core.words import numbers
from flcontrib_core.workspace import check_log
from flcontrib_dashboard import client_table, controls, deciding, extracts, run_choice, selection, share_card, state

TABLES = ["contributions", "cells", "totals"]  # what write_history_tables writes, each as CSV and Parquet
TABLE_WORDS = {
    "contributions": "one row per client and epoch it took part in, with the log's own sign (a rising loss is harm); "
    "can be brought in again as a table",
    "cells": "every client in every epoch with its state (computed, absent, not computed) and error; help is up",
    "totals": "one row per client: total, error, share, participation, data size; help is up",
    "alerts": "one row per alert: all its facts, what speaks for and against it, what was decided; help is up",
    "warnings": "remarks on the log, with what to do about each",
    "history": "everything above in one file, for programs",
}


@st.cache_data(max_entries=4, show_spinner=False)
def report_files(digest: str, written_by: str, head: str, _shown: state.Shown, _record: Record) -> dict[str, bytes]:
    """The report's two files; one writing for both downloads, so that they belong together."""
    with tempfile.TemporaryDirectory() as folder:
        html, twin = write_report(_shown.report, Path(folder) / controls.named("report", "html", _shown), _record)
        return {"html": Path(html).read_bytes(), "json": Path(twin).read_bytes()}


def written(shown: state.Shown, kind: str, by: str) -> bytes:
    record = extracts.record_now(shown, by)
    return report_files(shown.result.digest, record.written_by, str(record.chain_head), shown, record)[kind]


@st.cache_data(max_entries=4, show_spinner=False)
def table_files(digest: str, head: str, _shown: state.Shown) -> dict[str, bytes]:
    report = _shown.report
    reviews = state.shared_workspace().alerts.reviews(_shown.entry.digest)  # a fetched file knows no account
    alerts = alerts_table(report, reviews) if report.detection.alerts else None
    with tempfile.TemporaryDirectory() as folder:
        paths = write_history_tables(report.history, Path(folder), warnings=report.warnings, alerts=alerts)
        return {p.name: p.read_bytes() for p in paths}


def table_names(shown: state.Shown) -> list[str]:
    present = {"warnings": shown.report.warnings, "alerts": shown.report.detection.alerts}
    tables = [*TABLES, *(name for name, rows in present.items() if rows)]
    return [*(f"{table}.{kind}" for table in tables for kind in ("csv", "parquet")), "history.json"]


def saved_as(shown: state.Shown, table: str) -> str:
    """A table's part in the file's name; that of the totals says how skipped epochs count where that is unusual."""
    return client_table.totals_file(fill_of(shown.report.history), Orientation.HELP_UP) if table == "totals" else table


def whole_report(shown: state.Shown) -> None:
    head = str(state.workspace().head())
    controls.card_title("The report")
    st.caption(
        "One self-contained file: opens offline, in light and dark, and prints. Its JSON twin lets whoever holds the "
        "log compute the result again:"
    )
    by = st.session_state[deciding.WHO] = deciding.your_name()
    # Written when asked for: of a large run that takes long, and most readers want one file.
    with st.container(horizontal=True):
        st.download_button(
            "Report (HTML)",
            lambda: written(shown, "html", by),
            controls.named("report", "html", shown),
            "text/html",
            type="primary",
            on_click="ignore",
        )
        st.download_button(
            "Report (JSON)",
            lambda: written(shown, "json", by),
            controls.named("report", "json", shown),
            "application/json",
            on_click="ignore",
        )
    st.code(f"flcontrib verify {controls.named('report', 'json', shown)} RUN.flrun", language="bash", wrap_lines=True)
    st.caption(
        "The report carries its date, your name, what was decided about each alert, and where this workspace's audit "
        "log stands. Each entry of the log is chained to the last:"
    )
    st.code(head, language=None, wrap_lines=True)
    if st.button("Check the audit log", help="Follows the chain from its first entry to its last, as it lies on disk."):
        chain = check_log(state.workspace().path)
        (st.success if chain.broken is None else st.error)(controls.text_of(str(chain).capitalize()))


def tables(shown: state.Shown) -> None:
    controls.card_title("The numbers")
    head = str(state.workspace().head())
    names = table_names(shown)
    for table in dict.fromkeys(name.rsplit(".", 1)[0] for name in names):
        st.markdown(f":small[**{table.capitalize()}**: {TABLE_WORDS[table]}]")
        with st.container(horizontal=True, gap="small"):
            for name in (n for n in names if n.rsplit(".", 1)[0] == table):
                st.download_button(
                    name,
                    lambda name=name: table_files(shown.result.digest, head, shown)[name],  # type: ignore[misc]
                    controls.named(saved_as(shown, table), name.rsplit(".", 1)[1], shown),
                    key=f"table-{name}",
                    on_click="ignore",
                )
    st.caption("Each chart on the other pages has its own Export: CSV of what it shows, and a PNG or SVG picture.")


def for_one_client(shown: state.Shown) -> None:
    controls.card_title("For one client")
    st.caption(extracts.WORDS)
    followed = selection.of_url(shown.report).client
    names = numbers.in_order(shown.report.history.client_ids)
    client = st.selectbox(
        "Client",
        names,
        index=names.index(followed) if followed and len(names) <= selection.MOST_IN_LIST else None,
        placeholder="Choose a client",
        format_func=lambda c: numbers.visible(numbers.named(c)),
    )
    if client:
        extracts.downloads(shown, client)


def deletion(shown: state.Shown) -> None:
    controls.card_title("Delete this run")
    removed = "the stored log and what was computed from it" if shown.entry.available else "what was computed from it"
    st.caption(f"Removes {removed}. The audit log keeps that it was here.")
    run_choice.delete_run(shown.entry, "report")


shown = controls.need_report("Report & export")
if shown is not None:
    st.title("Take the result with you")
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True, height="stretch", gap="small"):
        whole_report(shown)
    with right, st.container(border=True, height="stretch", gap="small"):
        tables(shown)
    with st.container(border=True, gap="small"):
        for_one_client(shown)
    if share_card.offered():
        with st.container(border=True, gap="small"):
            share_card.card(shown)
    with st.container(border=True, gap="small"):
        deletion(shown)
