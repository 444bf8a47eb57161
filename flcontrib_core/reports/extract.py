"""The extract of one client: its own series, what was observed about it, and proof of its own inputs.

Nothing of the others: no name, no value, no total, no rank, and not the run's descriptive name. It is made from the
client's own facts, in which other clients are counted before anything is put into words. The only other thing said
about them is a band per epoch, and only where at least five others have a value in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.errors import MissingPart
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.reports.as_json import alert_json, numbers, provenance_json, verdict_json
from flcontrib_core.reports.record import NO_RECORD, Record, written_now
from flcontrib_core.reports.tables import state_names
from flcontrib_core.reports.twin import LAYOUT, SEAL_KEY, sealed, write_pair
from flcontrib_core.runs.run_log import Run, RunLog
from flcontrib_core.vocabulary import FloatArray
from flcontrib_core.words import false_alarm_sentence, own_warning

EXTRACT_FORMAT = "flcontrib-extract"
FEWEST_OTHERS = 5


def require_client(client_ids: Sequence[str], client: str) -> None:
    """Raise ``MissingPart`` for a client that the run does not know."""
    if client not in client_ids:
        raise MissingPart(f"the run has no client {client!r}; its extract cannot be written – check the name")


def extract_json(
    report: AuditReport, client: str, run: Run | None = None, record: Record = NO_RECORD
) -> dict[str, Any]:
    """The extract of one client, sealed. ``run``: the log, for the sha256 of the client's own recorded updates.

    Of what people recorded it repeats the decisions on this client's alerts, and texts only where they were meant for
    the client: a reason may name others.

    Departures: totals run over computed epochs only, because a filled epoch would tell the sum over the others; the
    model's increments are left out for the same reason.
    """
    history = report.history
    require_client(history.client_ids, client)
    i = history.client_ids.index(client)
    states = state_names(history)
    verdict = next(c for c in report.detection.clients if c.client == client).without_others()
    alerts = [a.without_others() for a in report.detection.alerts if a.client == client]
    content: dict[str, Any] = {
        "format": EXTRACT_FORMAT,
        "layout": LAYOUT,
        "digest": history.run_digest,
        "client": client,
        "data_size": history.data_sizes[i] if history.data_sizes else None,
        "epochs": history.epoch_count,
        "state": ["initial", *states[1:, i].tolist()],
        "utilities": {u: _own_series(history, u, i) for u in history.utilities},
        **verdict_json(verdict),
        "alerts": [alert_json(a) for a in alerts],
        "change_points": numbers(report.detection.change_points.probability[:, i]),
        "preset": report.detection.preset,
        "false_alarm_rate": report.detection.false_alarm_rate,
        "false_alarms": report.detection.false_alarms.to_json(),
        "false_alarm_source": false_alarm_sentence(report.detection.false_alarms),
        "estimator": list(history.estimator),
        "without_values": None if history.without_values is None else history.without_values.value,
        "warnings": [own_warning(w, client) for w in report.warnings if client in w.clients],
        "updates": own_updates(run, client) if isinstance(run, RunLog) else None,
        "provenance": provenance_json(report.provenance),
        "settings": report.provenance.settings,
        **replace(record, reviews=record.reviews.for_client(client)).to_json(),
    }
    return sealed(content)


def write_extract(
    report: AuditReport, client: str, path: Path, run: Run | None = None, record: Record = NO_RECORD
) -> tuple[Path, Path]:
    """Writes the client's page to ``path`` and its JSON beside it, dated now unless the record is; (html, json)."""
    from flcontrib_core.reports.extract_page import extract_page

    content = extract_json(report, client, run, replace(record, written_at=record.written_at or written_now()))
    twin = path.with_suffix(".json")
    write_pair(content, twin, extract_page(content, twin.name), path)
    return path, twin


def own_updates(run: RunLog, client: str) -> dict[str, Any]:
    """sha256 of each update recorded for the client, so that it can compare them with what it sent.

    Hashed are the bytes of the update's numbers, float32 little endian, flattened in the order of ``parameters``.
    """
    position = run.client_ids.index(client)
    rows = []
    for record in run.epochs:
        if position not in record.participants:
            continue
        size = record.data_sizes[record.participants.index(position)]
        sent = run.stored_data(record.epoch).updates
        for row in (row for row, client in enumerate(record.row_clients) if client == position):
            digest = hashlib.sha256(np.ascontiguousarray(sent[row], dtype="<f4").tobytes()).hexdigest()
            rows.append({"epoch": record.epoch, "sha256": digest, "data_size": size})
    return {
        "hashed": "bytes of the update as float32, little endian, flattened in the order of the parameters",
        "stored_in_16_bits": bool(run.casts),
        "parameters": [{"name": p.name, "shape": list(p.shape)} for p in run.parameters],
        "rows": rows,
    }


def band_of_others(history: ContributionHistory, utility: str, client: int) -> tuple[FloatArray, FloatArray]:
    """(T + 1,) low and high end of what the others contributed in each epoch; NaN where fewer than five have a value.

    Departure: not quantiles, which with five others are single clients' values, but the mean of the lowest third and
    of the highest third (at least two clients each). From these two numbers no single value follows, and neither does
    the sum.
    """
    series = history.of(utility)
    low, high = np.full(history.epoch_count + 1, np.nan), np.full(history.epoch_count + 1, np.nan)
    for t in range(1, history.epoch_count + 1):
        others = history.participated[t] & series.computed[t]
        others[client] = False
        if others.sum() >= FEWEST_OTHERS:
            ordered = np.sort(series.values[t, others])
            third = max(2, -(-len(ordered) // 3))
            low[t], high[t] = ordered[:third].mean(), ordered[-third:].mean()
    return low, high


def _own_series(history: ContributionHistory, utility: str, i: int) -> dict[str, Any]:
    series = history.of(utility)
    mine = series.values[:, i].copy()
    mine[0] = np.nan  # the initial model's share v(F⁰)/m belongs to everybody
    errors = series.standard_errors[:, i]
    computed = series.computed[:, i] & history.participated[:, i]
    low, high = band_of_others(history, utility, i)
    return {
        "lower_is_better": utility in history.lower_is_better,
        "per_epoch": numbers(mine),
        "standard_error": numbers(np.where(computed, errors, np.nan)),
        "total_of_computed_epochs": None if history.without_values is not None else float(mine[computed].sum()),
        "others_low": numbers(low),
        "others_high": numbers(high),
    }


__all__ = ["SEAL_KEY", "band_of_others", "extract_json", "own_updates", "require_client", "write_extract"]
