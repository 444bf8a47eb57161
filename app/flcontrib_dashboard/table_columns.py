"""The dialog that says which column of somebody's table is what, with its first rows as they will be read."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from flcontrib_core.errors import FLContribError, Problem
from flcontrib_core.runs import TableGlance, glance_apart
from flcontrib_core.words import numbers, table_note, table_understood
from flcontrib_dashboard import controls, problem_cards, state

TABLES = (".csv", ".parquet")
LONGEST_HEADER = 4096
ASKED = "columns-of"
SMALLER = "column-smaller"
SUGGESTED = "columns-suggested"
NOBODY = "every row took part"
SMALL_IS_GOOD = ("loss", "verlust", "error", "fehler")
Take = Callable[[bytes, str, tuple[str, ...], str], None]
"""Reads the table: its content, its name, the utilities of which less is better, and how it was understood."""


def may_be_mapped(filename: str, problems: tuple[Problem, ...]) -> bool:
    """Was this a table whose columns or numbers were not understood?"""
    return filename.lower().endswith(TABLES) and any(p.code in ("E_TABLE", "E_TABLE_VALUE") for p in problems)


def has_other_columns(given: UploadedFile) -> bool:
    """Has it a header that could be a table's, with other names or another separator than ours?"""
    header = bytes(given.getbuffer()[:LONGEST_HEADER]).partition(b"\n")[0]
    names = {name.strip().strip(b'"') for name in header.split(b",")}
    ours = b"epoch" in names and bool(names & {b"client", b"coalition"})
    return not ours and max(map(header.count, (b";", b"\t", b","))) >= 2


@contextmanager
def _on_disk(given: UploadedFile) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="flcontrib-") as folder:
        path = Path(folder) / "given"
        path.write_bytes(given.getbuffer())
        yield path


def _glance(given: UploadedFile, columns: dict[str, str]) -> TableGlance:
    def look() -> TableGlance:
        with _on_disk(given) as path:
            return glance_apart(path, given.name, columns)

    return state.cached((given.file_id, "columns", tuple(columns.items())), look)


def ask(given: UploadedFile) -> None:
    """Opens the dialog for this file; it stays open until it is answered or closed."""
    st.session_state[ASKED] = given.file_id


def asked(given: UploadedFile) -> bool:
    """Is the dialog for this file open?"""
    return bool(st.session_state.get(ASKED) == given.file_id)


def _close() -> None:
    st.session_state.pop(ASKED, None)


@st.dialog("Which column is what?", width="large", on_dismiss=_close)
def choose_columns(given: UploadedFile, take: Take) -> None:
    """Shows how the table was understood, takes another word for it, and reads it."""
    try:
        first = _glance(given, {})
        if not first.header:
            problem_cards.show_cards(first.problems)
            return
        columns, smaller = _choices(given, first)
        if first.understood and not columns.keys() - {"epoch", "client", "participated"}:
            st.info("Choose at least one column of values.")
            return
        seen = _glance(given, columns)
        if seen.understood:
            st.caption(controls.text_of(table_understood(seen.understood)))
        if seen.first_rows:
            st.markdown("**The first rows, as they will be read**")
            names = ("epoch", "client", *seen.understood["columns"]["utilities"])
            controls.table([dict(zip(names, row, strict=True)) for row in seen.first_rows])
        if seen.problems:
            problem_cards.show_cards(seen.problems)
        if st.button("Read it like this", type="primary", disabled=bool(seen.problems) or not seen.first_rows):
            _read(given, columns, smaller, take)
    except FLContribError as fault:
        st.error(controls.text_of(str(fault)))


def _choices(given: UploadedFile, first: TableGlance) -> tuple[dict[str, str], tuple[str, ...]]:
    """The columns as the reader names them, beginning with what was recognised; and where less is better."""
    header, known = list(first.header), first.understood.get("columns", {})

    def pick(label: str, role: str, **options: Any) -> str | None:
        index = header.index(known[role]) if role in known else None
        return st.selectbox(label, header, index=index, key=f"column-{role}", format_func=numbers.visible, **options)

    with st.container(horizontal=True, gap="small"):
        roles = {
            "epoch": pick("Epoch", "epoch", placeholder="Choose a column", width=220),
            "client": pick("Client", "client", placeholder="Choose a column", width=220),
            "participated": pick("Took part", "participated", placeholder=NOBODY, width=220),
        }
    free = [name for name in header if name and name not in roles.values()]
    before = [name for name in known.get("utilities", {}).values() if name in free]
    values = st.multiselect(
        "Values", free, default=before, key="column-values", format_func=numbers.visible,
        help="Each is a utility: a client's share of what the epoch changed in it.",
    )  # fmt: skip
    _suggest_smaller(given, values)
    smaller = st.multiselect(
        "Of these, less is better", values, key=SMALLER, format_func=numbers.visible,
        help="As of a loss: there a positive share is harm.",
    )  # fmt: skip
    told = {role: name or "" for role, name in roles.items() if name or role == "participated"}
    return told | {name: name for name in values}, tuple(smaller)


def _suggest_smaller(given: UploadedFile, values: list[str]) -> None:
    """Marks a column called a loss when it is chosen; what the reader then says about it stands.

    A default would count only when the list is first drawn, before any column is chosen, and a loss would be read with
    harm as help.
    """
    file_id, known = st.session_state.get(SUGGESTED, (None, ()))
    if file_id != given.file_id:
        known = ()
        st.session_state.pop(SMALLER, None)
    new = [n for n in values if n not in known and any(word in n.lower() for word in SMALL_IS_GOOD)]
    st.session_state[SMALLER] = [n for n in values if n in st.session_state.get(SMALLER, ()) or n in new]
    st.session_state[SUGGESTED] = (given.file_id, tuple(values))


def _read(given: UploadedFile, columns: dict[str, str], smaller: tuple[str, ...], take: Take) -> None:
    with _on_disk(given) as path:
        target = path.with_name("table.csv")
        seen = glance_apart(path, given.name, columns, target)
        if seen.problems:
            problem_cards.show_cards(seen.problems)
            return
        content = target.read_bytes()
    take(content, f"{Path(given.name).stem}.csv", smaller, table_note(given.name, seen.understood))
    _close()
    st.rerun()
