"""The values as tables: CSV that no spreadsheet runs, Parquet that keeps every bit, JSON for machines.

``contributions`` is the long form that ``read_run_log`` accepts again (one row per participation, an empty cell where
the budget skipped it). ``cells`` has every client in every epoch with its state and error; ``totals`` one row per
client; ``alerts`` one row per alert with all its facts. Every header says which way is up; only ``contributions``
keeps the sign of the log, whose form it has. Parquet keeps names as they are; in CSV a cell that a
spreadsheet could run is made harmless by ``csv_safe``.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts import fill_of
from flcontrib_core.detection.findings import Alert
from flcontrib_core.detection.review import NO_REVIEWS, AlertReview, AlertState, Reviews
from flcontrib_core.errors import Problem
from flcontrib_core.files import make_folder
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.reports.as_json import history_json
from flcontrib_core.vocabulary import HARM_IS_UP, HELP_IS_UP, CellState, FillPolicy, FloatArray, Orientation
from flcontrib_core.words import context, counter_evidence, credited, why

STATE_NAMES = {
    CellState.ABSENT: "absent",
    CellState.COMPUTED: "computed",
    CellState.NOT_COMPUTED: "not computed",
    CellState.PENDING: "pending",
}
Table = dict[str, list[Any]]
"""column -> cells, all of one length"""

_RUNS = re.compile(r"(\A|[;,|\t\r\n])(?=[\"\s]*[=+\-@＝＋－＠']|[\t\r\n])")
"""A place where a spreadsheet may begin a cell, and what follows could be a formula (or is the mark itself)."""


def csv_safe(cell: object) -> object:
    """The cell as a spreadsheet may see it: numbers stay numbers, text that could be run gets an apostrophe before it.

    The rule, so that it can be undone: an apostrophe is put before text that begins with ``= + - @`` (also their
    full-width forms, also behind blanks or quotes), a tab or a line break – and before text that begins with an
    apostrophe, so that different ids stay different (``=x`` becomes ``'=x``, ``'=x`` becomes ``''=x``). The same
    happens after ``; , |``, tabs and line breaks inside the text, where a program with another separator would begin
    a new cell. To undo it, drop the first apostrophe at each of these places.

    >>> csv_safe("=HYPERLINK(1)"), csv_safe("client-3"), csv_safe(-0.5), csv_safe("a;=b")
    ("'=HYPERLINK(1)", 'client-3', -0.5, "a;'=b")
    """
    if not isinstance(cell, str) and (cell is None or isinstance(cell, Number | np.generic)):
        return cell
    return _RUNS.sub(r"\1'", str(cell))


def write_history_tables(
    history: ContributionHistory,
    folder: Path,
    fill: FillPolicy | None = None,
    warnings: Sequence[Problem] = (),
    alerts: Table | None = None,
) -> list[Path]:
    """Writes contributions, cells and totals as CSV and Parquet, and ``history.json``; the paths written.

    Skipped epochs count in totals as the result was asked to count them, where no ``fill`` is given. Warnings about the
    log, and ``alerts_table`` where given, follow into the folder as tables of their own.
    """
    make_folder(folder)
    written = []
    fill = fill or fill_of(history)
    tables = history_tables(history, fill)
    if warnings:
        parts = ("code", "where", "found", "expected", "fix")
        tables["warnings"] = {part: [getattr(w, part) for w in warnings] for part in parts}
    if alerts is not None:
        tables["alerts"] = alerts
    for name, table in tables.items():
        csv_path, parquet_path = folder / f"{name}.csv", folder / f"{name}.parquet"
        csv_path.write_bytes(table_csv(table))
        _write_parquet(table, parquet_path)
        written += [csv_path, parquet_path]
    json_path = folder / "history.json"
    json_path.write_text(json.dumps(history_json(history, fill), ensure_ascii=False, allow_nan=False), encoding="utf-8")
    return [*written, json_path]


def history_tables(history: ContributionHistory, fill: FillPolicy = FillPolicy.EQUAL) -> dict[str, Table]:
    """The three tables by name."""
    return {
        "contributions": contributions_table(history),
        "cells": cells_table(history),
        "totals": totals_table(history, fill),
    }


def contributions_table(history: ContributionHistory) -> Table:
    """``epoch, client`` and a column per utility: epoch 0 (the initial model's share), then one row per participation.

    The form of RUNLOG, to be read again: values keep the log's sign (a rising loss share is harm), and headers say it.
    Departure: an epoch in which nobody took part has no row; behind the last participation it cannot be told apart
    from a shorter run.
    """
    shown = history.participated.copy()
    shown[0] = True
    epochs, clients = np.nonzero(shown)
    table: Table = {"epoch": epochs.tolist(), "client": [history.client_ids[i] for i in clients]}
    for utility in history.utilities:
        up = HARM_IS_UP if utility in history.lower_is_better else HELP_IS_UP
        table[f"{utility} {up}"] = _nullable(history.of(utility).values[epochs, clients])
    return table


def cells_table(history: ContributionHistory) -> Table:
    """Every client in every epoch 1 … T with its state: computed, absent (exactly 0) or not computed (empty)."""
    rows, clients = history.epoch_count, len(history.client_ids)
    table: Table = {
        "epoch": np.repeat(np.arange(1, rows + 1), clients).tolist(),
        "client": list(history.client_ids) * rows,
        "state": state_names(history)[1:].ravel().tolist(),
        "method": [m for m in history.estimator[1:] for _ in range(clients)],
    }
    for utility in history.utilities:
        series = history.of(utility)
        table[f"{credited(history, utility)} {HELP_IS_UP}"] = _nullable(
            _up(history, utility) * series.values[1:].ravel()
        )
        errors = np.where(history.participated, series.standard_errors, 0.0)
        table[f"{utility} standard error"] = _nullable(np.where(series.missing, np.nan, errors)[1:].ravel())
    return table


def totals_table(
    history: ContributionHistory,
    fill: FillPolicy = FillPolicy.EQUAL,
    orientation: Orientation = Orientation.HELP_UP,
) -> Table:
    """One row per client: data size, participations, and per utility the total with both errors over epochs.

    Headings say which way is up; the share of the help is the same either way.
    """
    took_part, computed = history.participated, (history.state == CellState.COMPUTED).all(axis=2)
    table: Table = {
        "client": list(history.client_ids),
        "data size": list(history.data_sizes) or [None] * len(history.client_ids),  # a table knows none
        "epochs taken part": took_part.sum(axis=0).tolist(),
        "epochs computed": (took_part & computed).sum(axis=0).tolist(),
    }
    for utility in history.utilities:
        sign, initial, name = _up(history, utility), history.of(utility).values[0], credited(history, utility)
        credit, up = sign * (history.totals(utility, fill) - initial), HELP_IS_UP
        if orientation is Orientation.PAPER:
            sign, name = 1.0, f"share of the {utility}"
            up = HARM_IS_UP if utility in history.lower_is_better else HELP_IS_UP
        table[f"{name} total {up}"] = _nullable(history.shown_totals(utility, fill, orientation))
        table[f"{name} of the initial model {up}"] = _nullable(sign * initial)
        table[f"{utility} standard error"] = _nullable(history.total_standard_errors(utility))
        table[f"{utility} worst case"] = _nullable(history.worst_case_errors(utility))
        table[f"{utility} share of the help"] = _nullable(share_of_help(credit))
    return table


def share_of_help(credit: FloatArray) -> FloatArray:
    """Each client's part of all positive totals; a negative total counts as zero."""
    positive = np.maximum(np.nan_to_num(credit), 0.0)
    return positive / positive.sum() if positive.any() else np.zeros_like(positive)


AXIOMS = "Checked on these very values: what the Shapley value promises, and by how much the method misses it."


def axioms_table(report: AuditReport) -> list[dict[str, str]]:
    """Whether the Shapley axioms hold for these values, a row per promise and utility; none without values."""
    return [
        {
            "Promise": check.name,
            "Utility": check.utility,
            "Result": "holds" if check.holds else f"misses ({check.method})",
            "Largest gap": f"{check.gap:.2g}",
            "Epoch": "–" if check.epoch is None else str(check.epoch),
        }
        for check in report.axioms
    ]


def alerts_table(report: AuditReport, reviews: Reviews = NO_REVIEWS) -> Table:
    """One row per alert, everything that is known about it: its facts, its sentences uncut, what was decided."""
    rows = [_alert_row(alert, reviews.of(alert)) for alert in reviews.ordered(report.detection.alerts)]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _alert_row(alert: Alert, review: AlertReview | None) -> dict[str, Any]:
    facts = alert.to_json()
    first, last = alert.window or (None, None)
    means = {side: None if (m := facts[f"mean_{side}"]) is None else -m for side in ("inside", "outside")}
    decision = None if review is None else review.decision
    return {
        "client": alert.client,
        "verdict": facts["verdict"],
        "accuses": alert.accuses,
        "finding": facts["finding"],
        "first epoch": first,
        "last epoch": last,
        "probability": alert.probability,
        "score": alert.score,
        "expert": alert.expert,
        "computed in window": alert.computed_in_window,
        "took part in window": alert.participated_in_window,
        **{f"mean contribution {side} the window {HELP_IS_UP}": mean for side, mean in means.items()},
        **{f"channel {c.name}": c.score for c in alert.channels},
        "for": " ".join(why(alert)),
        "against": " ".join(counter_evidence(alert)),
        "rests on": " ".join(context(alert)),
        "facts": json.dumps(facts["evidence"], ensure_ascii=False),
        "state": (AlertState.NEW if review is None else review.state).value,
        "owner": "" if review is None else review.owner,
        "decided by": "" if decision is None else decision.by,
        "decided at": "" if decision is None else decision.at,
        "reason": "" if decision is None else decision.text,
    }


def _up(history: ContributionHistory, utility: str) -> float:
    """What turns a stored value into one whose help is up."""
    return -history.harm_sign(utility)


def state_names(history: ContributionHistory) -> np.ndarray:
    """(T + 1, clients) the state of every cell by name; a cell is computed where all its utilities are."""
    lowest = np.where((history.state == CellState.COMPUTED).all(axis=2), CellState.COMPUTED, history.state.max(axis=2))
    return np.array([STATE_NAMES[s] for s in CellState])[lowest]


def table_csv(table: Table) -> bytes:
    """The table as UTF-8 CSV with a byte order mark, so that spreadsheets show names as they are."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow([csv_safe(name) for name in table])
    writer.writerows(_csv_rows(table.values()))
    return out.getvalue().encode("utf-8-sig")


def _csv_rows(columns: Iterable[Sequence[object]]) -> Iterable[list[object]]:
    for row in zip(*columns, strict=True):
        yield [csv_safe(cell) for cell in row]


def _write_parquet(table: Table, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(table), path)


def _nullable(values: np.ndarray) -> list[float | None]:
    """Numbers with None where there is none; a zero whose sign was turned is a plain one."""
    return [None if value != value else value + 0.0 for value in values.tolist()]
