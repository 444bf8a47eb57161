"""Which pieces do several pages build from? Cards with a chart, its table and its export; badges; progress."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from flcontrib_core import csv_safe

PICTURE_SCALE = 2


def text_of(value: str) -> str:
    """A name or sentence as literal text inside markdown: every character markdown could read is escaped."""
    escaped = "".join("\\" + c if c in "\\`*_{}[]()#+-.!|<>~$:&^" else c for c in value)
    return escaped.replace("\n", " ")


def chart(
    figure: go.Figure,
    alt: str,
    rows: Sequence[dict[str, object]],
    key: str,
    *,
    name: str,
    on_select: Any = None,
) -> Any:
    """A chart with alt text, 'show as table', CSV, and PNG or SVG made in the reader's own browser."""
    as_table = st.session_state.get(f"{key}-table", False)
    picture = st.session_state.get(f"{key}-format", "png")
    selection = None
    if as_table:
        st.dataframe(list(rows), hide_index=True, width="stretch", key=f"{key}-rows")
    else:
        extra = {"on_select": on_select, "selection_mode": "points"} if on_select else {}
        selection = st.plotly_chart(
            figure,
            theme=None,
            key=key,
            alt=alt,
            config={
                "displaylogo": False,
                "displayModeBar": "hover",
                "modeBarButtons": [["toImage"]],
                "toImageButtonOptions": {"format": picture, "filename": name, "scale": PICTURE_SCALE},
            },
            **extra,
        )
    with st.container(horizontal=True, horizontal_alignment="right", gap="small"):
        st.toggle("Show as table", key=f"{key}-table")
        with st.popover("Export", width="content"):
            st.download_button(
                "CSV", lambda: as_csv(rows), file_name=f"{name}.csv", mime="text/csv", key=f"{key}-csv", width="stretch"
            )
            st.segmented_control("Picture", ["png", "svg"], default="png", key=f"{key}-format", format_func=str.upper)
            st.caption("The camera at the chart's corner saves it in this format.")
    return selection


def as_csv(rows: Sequence[dict[str, object]]) -> bytes:
    """The rows as CSV; cells that a spreadsheet would run as a formula are made harmless."""
    if not rows:
        return b""
    out = io.StringIO()
    names = list(dict.fromkeys(k for row in rows for k in row))
    writer = csv.writer(out)
    writer.writerow([csv_safe(n) for n in names])
    for row in rows:
        writer.writerow([csv_safe(row.get(n)) for n in names])
    return out.getvalue().encode("utf-8-sig")


def legend_of_states() -> None:
    st.markdown(":small[■ took part, computed\u2003▨ took part, not computed (budget)\u2003· absent]")
