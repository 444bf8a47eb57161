"""Help: where to start, what words and charts mean, what the tool cannot know, and what a marked client can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import streamlit as st

from flcontrib_core.words import wording
from flcontrib_dashboard import controls


def explained(title: str, terms: Mapping[str, str]) -> None:
    """A card of terms and their meanings."""
    with st.container(border=True, gap="xsmall"):
        controls.card_title(title)
        st.markdown("\n".join(f"- **{term}**: {meaning}" for term, meaning in terms.items()))


def listed(title: str, lines: Iterable[str], *, numbered: bool = False) -> None:
    """A card of sentences."""
    with st.container(border=True, gap="xsmall"):
        controls.card_title(title)
        st.markdown("\n".join(f"{f'{n}.' if numbered else '-'} {line}" for n, line in enumerate(lines, 1)))


st.title("What the words mean, and what this tool cannot know")
asked = st.query_params.get("term", "")
if asked in wording.GLOSSARY:  # a word that was clicked where it stood
    with st.container(border=True, gap="xsmall", key="asked-term"):
        controls.card_title(asked)
        st.markdown(f"{wording.GLOSSARY[asked][0].upper()}{wording.GLOSSARY[asked][1:]}")
left, right = st.columns([1.2, 1], gap="small")
with left:
    listed("Start here", wording.START, numbered=True)
    explained("How to read each chart", wording.CHARTS)
    explained("Glossary", wording.GLOSSARY)
with right:
    listed("I was marked: what can I do?", wording.MARKED, numbered=True)
    listed("Limits", wording.LIMITS)
    listed("How it works", wording.METHOD, numbered=True)
    explained("The same marks on every chart", wording.MARKS)
    explained("Getting around", wording.AROUND)
    explained("On the command line", wording.COMMANDS)
