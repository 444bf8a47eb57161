"""Problems of a log as cards: equal ones are one card, with how often and the first places."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from flcontrib_core.errors import Problem
from flcontrib_core.words import numbers, problem_groups
from flcontrib_dashboard import controls

MOST_CARDS = 8


def show_cards(problems: Sequence[Problem]) -> None:
    """A card for each kind of problem."""
    for group in problem_groups(problems)[:MOST_CARDS]:
        with st.container(border=True, gap="xsmall"):
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.badge(group.code, color="red" if group.code.startswith("E_") else "orange")
                if group.count:
                    st.badge(group.count, color="gray")
                st.markdown(f":small[{controls.text_of(group.places)}]", width="content")
            said = f"Found: {group.found}. Expected: {group.problems[0].expected}."
            st.markdown(f"{controls.text_of(said)} :gray[{controls.text_of(group.problems[0].fix)}]")


def show_all(problems: Sequence[Problem], key: str) -> None:
    """The cards, and every single problem as a table to look at or take away."""
    show_cards(problems)
    rows: list[dict[str, object]] = [
        {"Code": p.code, "Where": p.where, "Found": p.found, "Expected": p.expected, "What to do": p.fix}
        for p in problems
    ]
    with st.expander(f"As a table ({numbers.several(len(problems), 'row')})"):
        controls.table(rows)
    st.download_button(
        "Problems as CSV", controls.as_csv(rows), file_name="problems.csv", mime="text/csv", on_click="ignore", key=key
    )
