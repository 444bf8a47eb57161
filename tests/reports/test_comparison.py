"""Results side by side say of each one what it says alone: which way is up, and how skipped epochs count."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.comparison import aligned_facts, rank_facts
from flcontrib_core.charts.credit import running_credit, total_credit
from flcontrib_core.charts.group_means import group_means_facts
from flcontrib_core.reports.comparison import compare_reports
from flcontrib_core.vocabulary import CellState, FillPolicy
from tests.detection.made_histories import made_history
from tests.reports.made_reports import made_report


@pytest.fixture(scope="module")
def report() -> AuditReport:
    """Five of its epochs were skipped and count as nothing; shared equally they would give another order."""
    history = made_history(participation=0.7)
    state, increments = history.state.copy(), history.increments.copy()
    state[8:13] = np.where(state[8:13] == CellState.COMPUTED, CellState.NOT_COMPUTED, state[8:13])
    increments[8:13] = np.linspace(-5.0, 5.0, 5)[:, None] - 4.0
    changed = replace(history, state=state, increments=increments, settings={**history.settings, "fill": "zero"})
    made = made_report(changed)
    zero, equal = (changed.shown_totals("loss", fill) for fill in (FillPolicy.ZERO, FillPolicy.EQUAL))
    assert np.argsort(zero).tolist() != np.argsort(equal).tolist()
    return made


@pytest.mark.parametrize("utility", ["loss", "accuracy"])
def test_totals_and_ranks_are_those_of_the_ranking(report: AuditReport, utility: str) -> None:
    history = report.history
    credit = total_credit(history, utility, FillPolicy.ZERO)
    block = compare_reports([report, report])["utilities"][utility]
    assert [block[c][1]["credit"] for c in history.client_ids] == credit.tolist()
    assert [block[c][1]["total"] for c in history.client_ids] == history.totals(utility, FillPolicy.ZERO).tolist()
    best_first = [history.client_ids[i] for i in np.argsort(-credit, kind="stable")]
    assert sorted(block, key=lambda c: block[c][0]["rank"]) == best_first
    assert [c for c, _ in rank_facts([report, report], utility, ("one", "other")).rows] == best_first


def test_curves_end_where_the_totals_are(report: AuditReport) -> None:
    facts = aligned_facts([report, report], "loss", ("one", "other"))
    running = running_credit(report.history, "loss", FillPolicy.ZERO)
    for client, curves in zip(facts.clients, facts.curves, strict=True):
        own = running[:, report.history.client_ids.index(client)]
        assert all(curve is not None and np.array_equal(curve, own) for curve in curves)


def test_groups_by_total_go_by_the_same_totals(report: AuditReport) -> None:
    best = max(report.history.client_ids, key=lambda c: compare_reports([report])["utilities"]["loss"][c][0]["credit"])
    assert best in group_means_facts(report, "loss").members[0]
