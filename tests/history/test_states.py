"""One matrix says what is known of a cell, and everybody asks it: also for a table with empty cells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.auditing import AuditReport, audit
from flcontrib_core.charts.evidence import evidence_facts
from flcontrib_core.charts.heat_map import heat_map_facts
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.reports.tables import state_names
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.vocabulary import CellState
from tests.detection.made_histories import made_history

EMPTY = (7, "c2")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> AuditReport:
    """The audit of a legal table: six clients, twelve epochs, c5 absent from epoch 3, one empty loss in epoch 7."""
    path: Path = tmp_path_factory.mktemp("table") / "values.csv"
    rng = np.random.default_rng(0)
    lines = ["epoch,client,loss,accuracy"]
    for epoch in range(1, 13):
        for i in range(6):
            if (epoch, i) == (3, 5):
                continue
            loss, accuracy = rng.normal(-0.02, 0.004), rng.normal(0.01, 0.002)
            lines.append(f"{epoch},c{i},{'' if (epoch, f'c{i}') == EMPTY else loss},{accuracy}")
    path.write_text("\n".join(lines) + "\n")
    return audit(read_run_log(path))


def test_an_empty_cell_is_not_computed_and_the_rest_of_its_epoch_is(report: AuditReport) -> None:
    history = report.history
    position = history.client_ids.index(EMPTY[1])
    state = history.of("loss").state
    assert state[EMPTY[0], position] == CellState.NOT_COMPUTED
    assert (np.delete(state[EMPTY[0]], position) == CellState.COMPUTED).all()
    assert state[3, history.client_ids.index("c5")] == CellState.ABSENT
    assert history.of("accuracy").state[EMPTY[0], position] == CellState.COMPUTED
    assert not history.participated[0].any()
    assert history.computed.all()


def test_heat_map_evidence_and_table_say_the_same_of_every_cell(report: AuditReport) -> None:
    history = report.history
    state = history.of("loss").state
    rows = heat_map_facts(report, "loss")
    place = {client: i for i, client in enumerate(history.client_ids)}
    for row, client in enumerate(rows.clients):
        assert (rows.state[row] == state[1:, place[client]]).all()
    facts = evidence_facts(report, EMPTY[1], None, "loss")
    assert (facts.state[1:] == state[1:, place[EMPTY[1]]]).all()
    names = state_names(history)
    assert names[EMPTY[0], place[EMPTY[1]]] == "not computed"
    assert names[3, place["c5"]] == "absent"


def test_groups_and_change_points_read_computed_cells_only(report: AuditReport) -> None:
    assert report.detection.separation is not None
    assert set(report.detection.separation.labels) == set(report.history.client_ids)
    position = report.history.client_ids.index(EMPTY[1])
    assert np.isnan(report.detection.change_points.probability[EMPTY[0], position])
    others = np.delete(report.detection.change_points.probability[EMPTY[0]], position)
    assert np.isfinite(others).all()


def test_arrays_of_another_shape_are_refused() -> None:
    history = made_history(clients=4, epochs=5)
    with pytest.raises(ValueError, match="state has shape"):
        replace(history, state=history.state[:, :3])


def test_an_unknown_utility_is_named_with_those_there_are() -> None:
    with pytest.raises(KeyError, match="this history has loss, accuracy"):
        made_history().of("f1")


def _storing_server(rounding: float) -> ContributionHistory:
    history = made_history(clients=4, epochs=6)
    share = np.zeros_like(history.server_share)
    share[1:, 0] = rounding
    return replace(history, server_share=share)


def test_rounding_of_a_stored_model_is_not_a_share_of_the_server() -> None:
    assert not _storing_server(3e-8).server_moved("loss")
    assert _storing_server(1e-3).server_moved("loss")
