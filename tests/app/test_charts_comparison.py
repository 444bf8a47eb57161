"""Are results compared client by client, on one axis, against the baseline that was pinned?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.comparison import (
    MOST_CLIENTS,
    MOST_PANELS,
    aligned_alt,
    aligned_facts,
    aligned_rows,
    rank_alt,
    rank_facts,
    rank_rows,
)
from flcontrib_core.charts.following import Following
from flcontrib_core.charts.palette import palette_for
from tests.app.drawn import draw_aligned, draw_ranks
from tests.detection.made_histories import made_history
from tests.reports.made_reports import made_report

NAMES = ("Baseline", "Compared")


def pair() -> list[AuditReport]:
    """The second result has client-03 first instead of wherever it was, and ends five epochs earlier."""
    base = made_history(clients=8, epochs=20, seed=1)
    other = made_history(clients=8, epochs=15, seed=1)
    other.of("loss").values[1:, 3] -= 0.05
    return [made_report(base), made_report(other)]


def test_curves_keep_their_epochs_and_the_baseline_comes_first() -> None:
    reports = pair()
    facts = aligned_facts(reports, "loss", NAMES)
    assert facts.epochs == 20
    assert len(facts.clients) == MOST_PANELS
    client = facts.clients[0]
    place = reports[0].history.client_ids.index(client)
    base, other = facts.curves[0]
    assert base is not None
    assert other is not None
    np.testing.assert_allclose(base[1:], -np.cumsum(reports[0].history.of("loss").values[1:, place]))
    assert len(other) == 16


def test_panels_go_to_the_clients_that_differ_most_and_to_the_followed_one() -> None:
    reports = pair()
    assert "client-03" in aligned_facts(reports, "loss", NAMES).clients
    followed = aligned_facts(reports, "loss", NAMES, followed="client-06")
    assert followed.clients[0] == "client-06"


def test_only_differences_is_zero_for_the_baseline_itself() -> None:
    reports = pair()
    facts = aligned_facts(reports, "loss", NAMES, followed="client-03", differences=True)
    base, other = facts.curves[0]
    assert base is not None
    assert other is not None
    assert not base.any()
    expected = np.cumsum(reports[0].history.of("loss").values[1:16, 3] - reports[1].history.of("loss").values[1:, 3])
    np.testing.assert_allclose(other[1:], expected)
    assert "ifference to the baseline" in aligned_alt(facts)
    assert aligned_rows(facts)[20]["Compared"] is None, "it ended five epochs earlier"


def test_panels_share_their_axes() -> None:
    figure = draw_aligned(aligned_facts(pair(), "loss", NAMES), "light", following=Following(None, (3, 5)))
    axes = [figure.layout[f"yaxis{n}"] for n in ("", "2", "3", "4")]
    assert len({a.range for a in axes}) == 1
    assert len({figure.layout[f"xaxis{n}"].range for n in ("", "2", "3", "4")}) == 1
    assert {s.xref for s in figure.layout.shapes} == {"x", "x2", "x3", "x4"}
    widest = [t for t in figure.data if t.line.width == 7]
    assert {t.name for t in widest} == {"Baseline"}


def test_ranks_are_those_of_each_result() -> None:
    reports = pair()
    facts = rank_facts(reports, "loss", NAMES)
    ranks = {client: places for client, places in facts.rows}
    assert ranks["client-03"][1] == 1
    assert sorted(places[0] for places in ranks.values()) == list(range(1, 9))
    assert facts.moved == sum(a != b for a, b in ranks.values())
    assert rank_alt(facts).startswith(f"{facts.moved} clients changed rank")
    assert {r["client"]: r["change"] for r in rank_rows(facts)}["client-03"] == ranks["client-03"][0] - 1


def test_three_results_give_three_columns_of_ranks() -> None:
    reports = [*pair(), pair()[0]]
    facts = rank_facts(reports, "loss", ("Baseline", "Compared 1", "Compared 2"))
    assert all(len(places) == 3 and places[0] == places[2] for _, places in facts.rows)
    figure = draw_ranks(facts, "light", following=Following("client-05"))
    assert all(tuple(t.x) == (0, 1, 2) for t in figure.data)
    thick = [t for t in figure.data if t.line.width == 3.6]
    assert len(thick) == 1
    assert thick[0].line.color != palette_for("light").context


def test_of_many_clients_those_that_moved_most_are_drawn() -> None:
    base = made_history(clients=400, epochs=6, seed=1, with_channels=False)
    other = replace(base, values=base.values.copy())
    other.of("loss").values[1, 399] -= 1.0
    facts = rank_facts([made_report(base), made_report(other)], "loss", NAMES, also="client-200")
    shown = {c for c, _ in facts.rows}
    assert {"client-399", "client-200"} <= shown
    assert len(facts.rows) == MOST_CLIENTS
    assert facts.left_out == 400 - MOST_CLIENTS
    heights = sorted(y for t in draw_ranks(facts, "light").data for y in t.y)
    assert max(heights) <= MOST_CLIENTS, "places among the shown, not ranks among all"


def test_places_of_two_runs_are_among_the_clients_they_share() -> None:
    base = pair()[0]
    few = made_report(made_history(clients=4, epochs=6, seed=1, with_channels=False))
    shared = set(few.history.client_ids)
    assert shared < set(base.history.client_ids)
    for reports in ([base, few], [few, base]):
        places = rank_facts(reports, "loss", NAMES).rows
        assert {client for client, _ in places} == shared
        assert [sorted(p[k] for _, p in places) for k in (0, 1)] == [[1, 2, 3, 4], [1, 2, 3, 4]]


def test_clients_of_one_result_only_have_no_rank_to_compare() -> None:
    base, other = pair()
    renamed = tuple(f"other-{i}" for i in range(8))
    strangers = made_report(replace(other.history, client_ids=renamed))
    assert rank_facts([base, strangers], "loss", NAMES).rows == ()
    assert aligned_facts([base, strangers], "loss", NAMES).clients == ()
    assert rank_facts([base, base], "loss", NAMES).moved == 0
    assert draw_aligned(aligned_facts([base, strangers], "loss", NAMES), "light").layout.height == pytest.approx(300)
