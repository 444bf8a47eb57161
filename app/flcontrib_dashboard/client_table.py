"""Total contributions as a table to search, with what each rests on; a chosen row is followed."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts import Following, fill_of
from flcontrib_core.reports import share_of_help, table_csv, totals_table
from flcontrib_core.vocabulary import FillPolicy, FloatArray, Orientation
from flcontrib_core.words import numbers
from flcontrib_dashboard import controls, selection, state

SEARCH_FROM = 20
SMALLEST_LARGE_SHARE = 5.0
"""Percent; below, bars on a scale of a hundred would all look empty."""
ROWS_IN_SIGHT = 12
TALLEST = 460
"""Pixels of a table with more rows than that."""
COLUMNS = {
    "Total": "over the whole run, the initial model's share left out",
    "± 95%": "of the total; open: epochs without a value, counted by a rule, so the interval is not theirs",
    "± worst case": "the linear sum of the epochs' half-widths: what the total is off by where all of them err one way",
    "Share of the help": "Each client's part of all positive totals; a negative total counts as zero here.",
    "Took part": "epochs",
    "Computed": "epochs with a value",
}


def totals_columns(
    report: AuditReport, utility: str, fill: FillPolicy, orientation: Orientation = Orientation.HELP_UP
) -> dict[str, list[Any]]:
    """One entry per client, best first: total, interval, share of the improvement, participation, data size."""
    history = report.history
    credit = history.shown_totals(utility, fill)
    order = np.argsort(-credit, kind="stable")
    credit, total = credit[order], history.shown_totals(utility, fill, orientation)[order]
    half = 1.96 * history.total_standard_errors(utility)[order]
    digits = digits_of(credit)
    unknown = history.of(utility).missing.sum(axis=0)[order]
    columns: dict[str, list[Any]] = {
        "Client": [history.client_ids[i] for i in order],
        "Total": total.tolist(),
        "± 95%": interval_column(half, digits, unknown),
    }
    if np.nan_to_num(half).any():  # where all is exact, it is in the worst case too
        columns["± worst case"] = interval_column(history.worst_case_errors(utility)[order], digits, unknown)
    columns |= {
        "Share of the help": (100 * share_of_help(credit)).tolist(),
        "Took part": history.participated.sum(axis=0)[order].tolist(),
        "Computed": (history.participated & history.of(utility).computed).sum(axis=0)[order].tolist(),
    }
    if history.data_sizes:
        sizes = np.asarray(history.data_sizes)[order]
        columns["Rows"] = sizes.tolist()
        columns["Per 100 rows"] = [c / s * 100 if s else None for c, s in zip(total.tolist(), sizes, strict=True)]
    return columns


def totals_file(fill: FillPolicy, orientation: Orientation) -> str:
    """'totals', with what is not the usual in its name: two files of different signs never share one."""
    filled = "" if fill is FillPolicy.EQUAL else f"-{fill}-fill"
    return f"totals{filled}{'' if orientation is Orientation.HELP_UP else '-paper-orientation'}"


def interval_column(halves: FloatArray, digits: int, unknown: FloatArray) -> list[str]:
    """Half-widths in words, one per client."""
    return [interval_words(h, digits, n) for h, n in zip(halves.tolist(), unknown.tolist(), strict=True)]


def interval_words(half: float, digits: int, unknown: int) -> str:
    """'exact', '0.041', 'no interval'; with epochs that have no value no total is called exact."""
    known = "exact" if half == 0 else ("no interval" if half != half else f"{half:.{digits}f}")
    return f"{known} + {unknown} open" if unknown else known


def digits_of(credit: np.ndarray) -> int:
    """Decimals at which the totals still differ, at least three."""
    return max(3, numbers.digits_for(float(np.abs(credit).max(initial=0.0))))


def formats(digits: int, largest: float | None) -> dict[str, Any]:
    """How each column is written; ``largest``: what fills a bar, where that is not a hundred percent."""
    number, words = st.column_config.NumberColumn, st.column_config.TextColumn
    return {
        "Total": number(help=COLUMNS["Total"], format=f"%+.{digits}f"),
        "Per 100 rows": number(format=f"%+.{digits}f"),
        "± 95%": words(help=COLUMNS["± 95%"]),
        "± worst case": words(help=COLUMNS["± worst case"]),
        "Took part": number(help=COLUMNS["Took part"]),
        "Computed": number(help=COLUMNS["Computed"]),
        "Share of the help": st.column_config.ProgressColumn(
            help=COLUMNS["Share of the help"],
            format="%.0f%%" if largest is None else "%.3f%%",
            min_value=0,
            max_value=100 if largest is None else max(largest, 1e-9),
        ),
    }


def show_totals(
    shown: state.Shown,
    utility: str,
    following: Following,
    fill: FillPolicy | None = None,
    orientation: Orientation = Orientation.HELP_UP,
) -> None:
    """The table, a search where it is long, and its CSV."""
    report = shown.report
    fill = fill or fill_of(report.history)
    columns = state.cached(
        (shown.result.digest, "totals", utility, str(fill), orientation),
        lambda: totals_columns(report, utility, fill, orientation),
    )
    names: list[str] = columns["Client"]
    rows = list(range(len(names)))
    if len(names) > SEARCH_FROM:
        words = st.text_input("Find a client", placeholder="part of its name", key="find-client").strip().lower()
        rows = [r for r in rows if words in names[r].lower()] if words else rows
    if not rows:
        st.text("No client has a name like that.")
        return
    key = f"totals-{utility}"
    found = [names[r] for r in rows]

    def take() -> None:
        chosen = st.session_state[key]["selection"]["rows"]
        if chosen and chosen[0] < len(found):
            selection.follow(Following(found[chosen[0]]))

    digits = digits_of(np.asarray(columns["Total"]))
    largest = max(columns["Share of the help"])
    tiny = largest < SMALLEST_LARGE_SHARE  # of thousands of clients none has one percent
    controls.table(
        {name: [values[r] for r in rows] for name, values in columns.items()},
        key=key,
        height="content" if len(rows) <= ROWS_IN_SIGHT else TALLEST,
        on_select=take,
        selection_mode="single-row",
        column_config=formats(digits, largest if tiny else None),
    )
    full_bar = " A full bar is the largest share." if tiny else ""
    name = numbers.credited(utility, utility in report.history.lower_is_better, orientation)
    negative = "negative" if orientation is Orientation.HELP_UP else "harmful"
    st.caption(
        f"Total: {name}. Share of the help: a client's part of all helpful totals. A {negative} total counts as zero "
        f"in it.{full_bar}"
    )
    st.download_button(
        "Totals as CSV",
        lambda: table_csv(totals_table(report.history, fill, orientation)),
        file_name=controls.named(totals_file(fill, orientation), "csv", shown),
        mime="text/csv",
        on_click="ignore",
    )
