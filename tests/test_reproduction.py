"""The paper's experiments run and their rows say what the figures say, on a small federation from bundled data."""

from __future__ import annotations

import pytest

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.reproduction import FIGURES, Stage, reproduce
from flcontrib_core.laboratory.simulation import SimulationSettings

SMALL = Stage(base=SimulationSettings(dataset="breast-cancer", hidden=(8,)), seeds=1)


def test_the_best_subset_is_never_behind_the_mean_after_one_step():
    rows = reproduce("aggregation", SMALL).rows
    first = {r["rule"]: r["loss"] for r in rows if r["epoch"] == 1}
    assert first["greedy"] <= first["fedavg"] + 1e-9
    assert {r["epoch"] for r in rows} == set(range(13))


def test_change_point_mass_is_reported_beside_honest_clients_and_the_paper():
    rows = reproduce("change-points", SMALL).rows
    assert [r["paper"] for r in rows] == [0.91, 0.97, 0.82]
    assert all(0 <= r["mass_in_window"] <= 1 and 0 <= r["honest_mass_in_window"] <= 1 for r in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FIGURES))
def test_every_figure_has_rows(name):
    assert reproduce(name, SMALL).rows


def test_an_unknown_figure_is_refused_with_the_list():
    with pytest.raises(SettingsError, match="change-points"):
        reproduce("figure-9", SMALL)
