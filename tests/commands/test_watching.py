"""A growing recording: windows at the sequential threshold, reported once, with the rate of looking often."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flcontrib_core.commands.preferring import settings
from flcontrib_core.commands.watching import watch
from flcontrib_core.execution.children import python_command
from flcontrib_core.laboratory.simulation.settings import SimulationSettings
from flcontrib_core.laboratory.simulation.simulated_run import simulate
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog


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
    assert "does not exist yet; is the path right?" in told.stderr
    assert len(looks) == 2


def test_a_finished_log_in_one_file_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    (tmp_path / "run.flrun").write_bytes(b"PK")
    told = CliRunner().invoke(watch, [str(tmp_path / "run.flrun"), "--no-memory"])
    assert told.exit_code == 2
    assert "is a file" in told.output


def test_each_epoch_is_told_once_as_the_recording_grows(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorder at work: a manifest first, then line after line, and looks at which nothing has happened."""
    folder = tmp_path / "run"
    shutil.copytree(recording, folder)
    lines = (recording / "epochs.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "epochs.jsonl").write_bytes(b"")
    read: list[tuple[bool, int]] = []
    steps = iter([0, 2, 2, 3, 3, 3, 5])

    def counted(*arguments: Any, **options: Any) -> Any:
        run = read_run_log(*arguments, **options)
        assert isinstance(run, RunLog)
        read.append((run is options["previous"], run.epoch_count))
        return run

    def record_meanwhile(_: float) -> None:
        there = len((folder / "epochs.jsonl").read_bytes().splitlines())
        new = lines[there : next(steps)]
        if new:
            with (folder / "epochs.jsonl").open("ab") as text:
                text.writelines(new)

    monkeypatch.setattr("flcontrib_core.runs.bundle.read_run_log", counted)
    monkeypatch.setattr("flcontrib_core.commands.watching.time.sleep", record_meanwhile)
    events = _events(folder, "--until", "5")
    assert [e["epoch"] for e in events if e["event"] == "epoch"] == [1, 2, 3, 4, 5]
    assert events[-1] == {"event": "done", "epoch": 5}
    assert read == [(False, 2), (True, 2), (False, 3), (True, 3), (True, 3), (False, 5)]


def test_an_alert_is_passed_on_to_the_program_that_the_settings_name(recording: Path, tmp_path: Path) -> None:
    script = tmp_path / "told.py"
    script.write_text(f"import sys\nopen({str(tmp_path / 'seen')!r}, 'a').write(sys.stdin.read())\n")
    command, workspace = shlex.join(python_command(str(script))), str(tmp_path / "workspace")
    set_so = CliRunner().invoke(settings, ["--workspace", workspace, "--on-alert", command])
    assert set_so.exit_code == 0, set_so.output
    asked = [str(recording), "--workspace", workspace, "--every", "0.1", "--until", "20"]
    assert CliRunner().invoke(watch, asked).exit_code == 0
    assert not (tmp_path / "seen").exists(), "a workspace starts no program unasked"
    run = CliRunner().invoke(watch, [*asked, "--notify"])
    assert run.exit_code == 0, run.output
    assert command in run.stderr
    events = [json.loads(line) for line in run.stdout.splitlines()]
    told = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    assert told == [e for e in events if e["event"] == "alert"]
