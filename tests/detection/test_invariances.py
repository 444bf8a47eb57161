"""What must change nothing: names and their order, the utility's unit, a zip's order, epochs without participants."""

from __future__ import annotations

import zipfile
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.detection.alerts import read_verdicts
from flcontrib_core.detection.findings import Detection
from flcontrib_core.games.raw_channels import RawChannels
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.laboratory.simulation.settings import SimulationSettings
from flcontrib_core.laboratory.simulation.simulated_run import simulate
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import CellState
from tests.detection.made_histories import made_history


def _facts(detection: Detection) -> dict[str, object]:
    alerts = {(a.client, a.verdict, a.window, round(a.score, 3), a.sensitivity) for a in detection.alerts}
    clients = {
        (c.client, c.verdict, c.window, None if c.score is None else round(c.score, 3)) for c in detection.clients
    }
    return {"alerts": alerts, "clients": clients}


def _reordered(history: ContributionHistory, order: np.ndarray) -> ContributionHistory:
    assert history.channels is not None
    raw = {
        f.name: value[:, order] if isinstance(value := getattr(history.channels, f.name), np.ndarray) else value
        for f in fields(RawChannels)
    }
    return replace(
        history,
        client_ids=tuple(history.client_ids[i] for i in order),
        values=history.values[:, order],
        standard_errors=history.standard_errors[:, order],
        state=history.state[:, order],
        channels=RawChannels(**raw),
    )


def _with_empty_epoch(history: ContributionHistory, at: int) -> ContributionHistory:
    """The same run with an epoch without participants inserted before epoch ``at``."""

    def longer(cells: np.ndarray, fill: float) -> np.ndarray:
        return np.insert(cells, at, fill, axis=0)

    assert history.channels is not None
    raw = {}
    for f in fields(RawChannels):
        value = getattr(history.channels, f.name)
        if isinstance(value, np.ndarray):
            value = longer(value, 0 if value.dtype.kind == "i" else np.nan)
        raw[f.name] = value
    return replace(
        history,
        values=longer(history.values, 0.0),
        standard_errors=longer(history.standard_errors, 0.0),
        state=longer(history.state, CellState.ABSENT),
        increments=longer(history.increments, 0.0),
        server_share=longer(history.server_share, 0.0),
        estimator=(*history.estimator[:at], "no participants", *history.estimator[at:]),
        channels=RawChannels(**raw),
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_the_clients_changes_nothing(seed: int) -> None:
    history = made_history(seed=seed, poisoned=[(2, 10, 16), (5, 12, 20)], participation=0.8, shift=3 + seed)
    order = np.random.default_rng(seed).permutation(8)
    assert _facts(read_verdicts(_reordered(history, order))) == _facts(read_verdicts(history))


@pytest.mark.parametrize("factor", [1e-6, 0.37, 1e5])
def test_the_unit_of_the_utility_changes_nothing(factor: float) -> None:
    history = made_history(poisoned=[(2, 10, 16)], participation=0.8, shift=4)
    errors = np.full(history.values.shape, 0.001)
    history = replace(history, standard_errors=errors)
    scaled = replace(
        history,
        values=factor * history.values,
        standard_errors=factor * errors,
    )
    assert _facts(read_verdicts(scaled)) == _facts(read_verdicts(history))


@pytest.mark.parametrize("at", [1, 2, 14, 31])
def test_an_epoch_without_participants_only_shifts_the_count(at: int) -> None:
    history = made_history(poisoned=[(2, 10, 16)], shift=5)
    before, after = read_verdicts(history), read_verdicts(_with_empty_epoch(history, at))
    assert [(a.client, a.verdict, round(a.score, 3)) for a in after.alerts] == [
        (a.client, a.verdict, round(a.score, 3)) for a in before.alerts
    ]
    for a, b in zip(after.alerts, before.alerts, strict=True):
        assert a.window is not None
        assert b.window is not None
        assert a.window == tuple(t + (t >= at) for t in b.window)


def test_the_order_of_the_entries_in_a_bundle_changes_nothing(tmp_path: Path) -> None:
    recorded, reversed_ = tmp_path / "run.flrun", tmp_path / "reversed.flrun"
    simulate(
        SimulationSettings(dataset="wine", clients=5, epochs=12, attack="zero", windows=((6, 9),), seed=3), recorded
    )
    with zipfile.ZipFile(recorded) as given, zipfile.ZipFile(reversed_, "w") as other:
        for name in reversed(given.namelist()):
            other.writestr(name, given.read(name))
    found = []
    for path in (recorded, reversed_):
        run = read_run_log(path)
        assert isinstance(run, RunLog)
        found.append(_facts(read_verdicts(assess_contributions(run, AssessSettings(utilities=("loss",))))))
        run.close()
    assert found[0]["alerts"]
    assert found[0] == found[1]


def test_the_value_of_an_absent_client_is_never_read() -> None:
    history = made_history(participation=0.6, seed=2, poisoned=[(2, 10, 20)])
    disturbed = np.where(history.participated[:, :, None], history.values, 1e9)
    assert _facts(read_verdicts(replace(history, values=disturbed))) == _facts(read_verdicts(history))
