"""Results as JSON for machines: null = not computed, standard error 0 = exact, null = none."""

from __future__ import annotations

from typing import Any

import numpy as np

from flcontrib_core.auditing import AuditReport, Provenance
from flcontrib_core.detection.change_windows import deviating_windows
from flcontrib_core.detection.findings import Alert, ChangePoints, ClientVerdict, Detection, Separation
from flcontrib_core.history.axioms import AxiomCheck
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.scheduling.schedule import Schedule, schedule_json
from flcontrib_core.vocabulary import FillPolicy
from flcontrib_core.words import (
    context,
    counter_evidence,
    false_alarm_sentence,
    history_remarks,
    sentences,
    verdict_reason,
    why,
)


def numbers(array: np.ndarray) -> Any:
    """Nested lists with null for NaN."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        nullable = array.astype(object)
        nullable[~np.isfinite(array)] = None
        return nullable.tolist()
    return array.tolist()


def history_json(history: ContributionHistory, fill: FillPolicy = FillPolicy.EQUAL) -> dict[str, Any]:
    """``flcontrib assess --json``."""
    utilities = {}
    for u in history.utilities:
        series, totals_error = history.of(u), history.total_standard_errors(u)
        utilities[u] = {
            "per_epoch": numbers(series.values),
            "standard_error": numbers(series.standard_errors),
            "total": numbers(history.totals(u, fill)),
            "total_standard_error": numbers(totals_error),
            "total_worst_case": numbers(history.worst_case_errors(u)),
            "increments": numbers(series.increments),
            "lower_is_better": u in history.lower_is_better,
        }
    return {
        "digest": history.run_digest,
        "clients": list(history.client_ids),
        "computed": history.computed.tolist(),
        "participated": history.participated.tolist(),
        "utilities": utilities,
        "evaluations": history.evaluations.tolist(),
        "estimator": list(history.estimator),
        "server_share": {u: numbers(history.of(u).server_share) for u in history.utilities},
        "best_subset": [None if b is None else [history.client_ids[i] for i in b] for b in history.best_subset],
        "unreliable": {u: np.flatnonzero(history.of(u).unreliable).tolist() for u in history.utilities},
        "remarks": [remark.to_json() for remark in history.remarks],
        "notes": history_remarks(history),
        "recalled": history.recalled,
        "seconds": history.seconds,
        "settings": history.settings,
    }


def alert_json(alert: Alert) -> dict[str, Any]:
    """The alert's facts and, beside them, the sentences that every skin makes of them."""
    return {
        **alert.to_json(),
        "why": " ".join(why(alert)),
        "counter_evidence": counter_evidence(alert),
        "context": context(alert),
    }


def verdict_json(verdict: ClientVerdict) -> dict[str, Any]:
    """A client's strongest verdict with its facts and their sentences."""
    return {
        "id": verdict.client,
        "probability": verdict.probability,
        "verdict": verdict.verdict.value,
        "window": None if verdict.window is None else list(verdict.window),
        "facts": [fact.to_json() for fact in verdict.facts],
        "why": verdict_reason(verdict),
    }


def by_client_json(points: ChangePoints, cells: np.ndarray) -> dict[str, list[float | None]]:
    """One list over epochs per client; null where missing."""
    return {client: numbers(cells[:, i]) for i, client in enumerate(points.client_ids)}


def windows_json(points: ChangePoints) -> dict[str, list[dict[str, Any]]]:
    """By client: the stretches that probably deviate, with the credible intervals of their ends (null: open there)."""
    windows: dict[str, list[dict[str, Any]]] = {client: [] for client in points.client_ids}
    for deviating in deviating_windows(points):
        ends = {"first_within": deviating.first_within, "last_within": deviating.last_within}
        windows[deviating.client].append(
            {"window": list(deviating.window), "probability": deviating.probability}
            | {name: None if end is None else list(end) for name, end in ends.items()}
        )
    return windows


def separation_json(separation: Separation | None) -> dict[str, Any] | None:
    """The groups of clients as JSON; None where none were formed."""
    if separation is None:
        return None
    j = separation.jaccard
    return {
        "k": separation.k,
        "labels": separation.labels,
        "stability": separation.stability,
        "silhouette": {str(k): s for k, s in separation.silhouette.items()},
        "chance_silhouette": separation.chance_silhouette,
        "k_asked": separation.asked,
        "metric": separation.metric,
        "epochs_left_out": separation.epochs_left_out,
        "cells_held": separation.cells_held,
        "jaccard": None if j is None else {"raw": j.raw, "single_cluster": j.single_cluster, "adjusted": j.adjusted},
    }


def schedule_record(schedule: Schedule | None) -> dict[str, Any] | None:
    """The schedule as JSON; None where every epoch was computed."""
    return None if schedule is None else schedule_json(schedule)


def detection_json(detection: Detection, totals: dict[str, dict[str, float | None]]) -> dict[str, Any]:
    """What was observed: alerts, every client's verdict, change points and groups."""
    return {
        "alerts": [alert_json(a) for a in detection.alerts],
        "clients": [{**verdict_json(c), "total": totals.get(c.client, {})} for c in detection.clients],
        "change_points": by_client_json(detection.change_points, detection.change_points.probability),
        "inside": by_client_json(detection.change_points, detection.change_points.inside),
        "change_point_series": detection.change_points.series,
        "change_windows": windows_json(detection.change_points),
        "second_opinion": {c: list(starts) for c, starts in detection.change_points.second_opinion.items()},
        "separation": separation_json(detection.separation),
        "preset": detection.preset,
        "false_alarm_rate": detection.false_alarm_rate,
        "false_alarms": detection.false_alarms.to_json(),
        "false_alarm_source": false_alarm_sentence(detection.false_alarms),
        "smallest_visible_shift": detection.smallest_visible_shift,
        "remarks": [remark.to_json() for remark in detection.remarks],
        "notes": sentences(detection.remarks, ""),
        "channels_unavailable": {name: reason.value for name, reason in detection.channels_unavailable.items()},
        "value_coverage": detection.value_coverage,
    }


def axiom_json(check: AxiomCheck) -> dict[str, Any]:
    """One check of a Shapley axiom."""
    return {
        "name": check.name,
        "utility": check.utility,
        "gap": check.gap,
        "epoch": check.epoch,
        "holds": check.holds,
        "method": check.method,
    }


def provenance_json(provenance: Provenance) -> dict[str, Any]:
    """What the result came from."""
    return {
        "run_digest": provenance.run_digest,
        "settings": provenance.settings,
        "seed": provenance.seed,
        "version": provenance.version,
        "packages": provenance.packages,
        "platform": provenance.platform,
        "processor": provenance.processor,
        "recipe": provenance.recipe,
        "epochs_computed": list(provenance.epochs_computed),
    }


def totals_by_client(history: ContributionHistory, fill: FillPolicy) -> dict[str, dict[str, float | None]]:
    """client → utility → total, with None where it is not known."""
    columns = {u: numbers(history.totals(u, fill)) for u in history.utilities}
    return {client: {u: columns[u][i] for u in history.utilities} for i, client in enumerate(history.client_ids)}


def audit_json(report: AuditReport) -> dict[str, Any]:
    """``flcontrib audit --json``; also the body of the report's JSON twin."""
    history = report.history
    fill = FillPolicy(str(history.settings.get("fill", FillPolicy.EQUAL)))
    return {
        "digest": history.run_digest,
        "run": report.run_name,
        "without_values": None if history.without_values is None else history.without_values.value,
        **detection_json(report.detection, totals_by_client(history, fill)),
        "schedule": schedule_record(history.schedule),
        "axioms": [axiom_json(a) for a in report.axioms],
        "warnings": [w.to_json() for w in report.warnings],
        "log_checks": {check.name: check.outcome.value for check in report.log_checks},
        "provenance": provenance_json(report.provenance),
        "settings": report.provenance.settings,
        "seconds": report.seconds,
    }
