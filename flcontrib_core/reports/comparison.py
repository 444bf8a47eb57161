"""Two or more audits compared; the first one is the baseline."""

from __future__ import annotations

from typing import Any

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.credit import fill_of, total_credit
from flcontrib_core.history import ContributionHistory
from flcontrib_core.reports.as_json import alert_json
from flcontrib_core.vocabulary import FloatArray
from flcontrib_core.words.numbers import in_order


def compare_reports(reports: list[AuditReport]) -> dict[str, Any]:
    """Per utility and client one entry per report (None where the client or the utility is missing).

    ``total`` has the log's sign, as every JSON; ``credit`` is what is shown: help is up, without the initial model.
    """
    clients = in_order({c for r in reports for c in r.history.client_ids})
    shared = [u for u in reports[0].history.utilities if all(u in r.history.utilities for r in reports)]
    utilities: dict[str, Any] = {}
    for u in shared:
        ranking = [r.history.ranks(u, fill_of(r.history)) for r in reports]
        totals = [_by_client(r.history, r.history.totals(u, fill_of(r.history))) for r in reports]
        credit = [_by_client(r.history, total_credit(r.history, u)) for r in reports]
        utilities[u] = {
            c: [
                {"total": t[c], "credit": own[c], "rank": k[c], "change": _change(totals[0], t, c)}
                if c in t and c in k
                else None
                for t, own, k in zip(totals, credit, ranking, strict=True)
            ]
            for c in clients
        }
    flagged = [{(a.client, str(a.verdict)) for a in r.detection.alerts} for r in reports]
    return {
        "runs": [r.run_name for r in reports],
        "digests": [r.history.run_digest for r in reports],
        "utilities": utilities,
        "alerts": [[alert_json(a) for a in r.detection.alerts] for r in reports],
        "alert_agreement": [_agreement(flagged[0], f) for f in flagged],
        "rank_correlation": {u: [_spearman(utilities[u], i) for i in range(len(reports))] for u in shared},
    }


def _by_client(history: ContributionHistory, totals: FloatArray) -> dict[str, float]:
    """None without values."""
    return {} if history.without_values is not None else dict(zip(history.client_ids, totals.tolist(), strict=True))


def _change(baseline: dict[str, float], totals: dict[str, float], client: str) -> float | None:
    return totals[client] - baseline[client] if client in baseline else None


def _agreement(a: set[tuple[str, str]], b: set[tuple[str, str]]) -> float:
    """Share of alerts both raise (client and kind); 1 when neither raises any."""
    return len(a & b) / len(a | b) if a | b else 1.0


def _spearman(block: dict[str, list[dict[str, Any] | None]], column: int) -> float | None:
    both = [(e[0], e[column]) for e in block.values()]
    pairs = [(a["rank"], b["rank"]) for a, b in both if a is not None and b is not None]
    if len(pairs) < 3:
        return None
    first, second = np.array(pairs, dtype=float).T
    return float(np.corrcoef(first.argsort().argsort(), second.argsort().argsort())[0, 1])
