"""The few rules of style that Streamlit's theme has no keys for."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.charts import DARK, palette_for
from flcontrib_dashboard import state

NARROWEST_COLUMN = "20rem"
"""Of columns beside each other that hold a chart or a table; where less room is left, one goes below the other."""


def apply_theme() -> None:
    """What the theme cannot say: headings without the air of an article, a focus that is seen, charts that keep their
    size, and ink on the dark theme's primary colour.

    That colour is nearly white in the dark, and Streamlit writes white on it. Streamlit's columns only stack on a
    phone; beside an open sidebar a chart would be squeezed to nothing long before.
    """
    p = palette_for(state.theme())
    in_a_row = '[data-testid="stHorizontalBlock"] > [data-testid="stElementContainer"] h2'
    wide = ":is(.chart, [data-testid=stDataFrame])"
    columns = f"[data-testid=stHorizontalBlock]:has(> [data-testid=stColumn] {wide}) > [data-testid=stColumn]"
    rules = [
        "h1 { padding: 0.4rem 0 0.6rem !important; text-wrap: balance; } "
        "h2:not([role=dialog] h2) { padding: 0 0 1rem !important; }",
        f"{in_a_row} {{ padding: 0 !important; }}",  # elsewhere a negative margin takes that padding back
        f"{columns} {{ min-width: min(100%, {NARROWEST_COLUMN}) !important; }}",
        f":focus-visible {{ outline: 2px solid {p.help} !important; outline-offset: 2px !important; }}",
        # A slider's label is not tied to its slider: greyed out it would be faint text for everybody.
        f'[data-testid="stWidgetLabel"][disabled] p {{ color: {p.secondary} !important; }}',
        # Streamlit's colours of code have too little contrast with the box it stands in.
        f'[data-testid="stMarkdownContainer"] code, [data-testid="stCode"] .token {{ color: {p.ink} !important; }}',
        '[data-testid="stCaptionContainer"] code { background: transparent !important; }',
    ]
    if p is DARK:
        marks = '[kind="primary"], [kind="primaryFormSubmit"], [data-testid="stMultiSelect"] [data-tag]'
        rules.append(f"{marks}, :is({marks}) * {{ color: {DARK.page} !important; }}")
        knob = '[data-testid="stCheckbox"] label[data-selected] > span:has([role="switch"]) + div > div'
        rules.append(f"{knob} {{ background-color: {DARK.page} !important; }}")
    st.html(f"<style>{' '.join(rules)}</style>")
