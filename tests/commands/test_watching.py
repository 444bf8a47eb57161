"""A growing recording: windows at the sequential threshold, reported once, with the rate of looking often."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from flcontrib_core.commands.watching import watch
from flcontrib_core.laboratory.simulation.settings import SimulationSettings
from flcontrib_core.laboratory.simulation.simulated_run import simulate


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watched") / "run"
    simulate(
        SimulationSettings(
            dataset="digits", clients=6, epochs=20, attack="label-flip", strength=1.0, windows=((9, 15),), seed=5,
            train_rows=400, hidden=(16,),
        ),
        folder,
    )  # fmt: skip
    return folder


def _events(folder: Path, *arguments: str) -> list[dict[str, object]]:
    told = CliRunner().invoke(watch, [str(folder), "--no-memory", "--every", "0.1", *arguments])
    assert told.exit_code == 0, told.output
    return [json.loads(line) for line in told.stdout.splitlines()]


def test_a_window_is_reported_once_as_provisional_with_the_online_rate(recording: Path) -> None:
    truth = json.loads((recording / "manifest.json").read_text())["truth"]["dishonest"]
    events = _events(recording, "--until", "20")
    alerts = [e for e in events if e["event"] == "alert"]
    assert [(a["client"], a["verdict"]) for a in alerts] == [(truth[0]["client"], "poisoning-window")]
    assert alerts[0]["provisional"] is True
    evidence = alerts[0]["evidence"]
    assert isinstance(evidence, dict)
    assert evidence["against"][0] == {"fact": "still-growing", "epochs": alerts[0]["epoch"]}
    assert evidence["context"][-1]["every_epoch"] is True
    assert events[-1] == {"event": "done", "epoch": 20}


def test_nothing_is_known_before_there_is_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def stop_after_two(_: float) -> None:
        looks.append(1)
        if len(looks) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("flcontrib_core.commands.watching.time.sleep", stop_after_two)
    told = CliRunner().invoke(watch, [str(tmp_path / "not yet"), "--no-memory"])
    assert told.stdout == "" or "Aborted" in told.output
    assert len(looks) == 2
