"""The command that makes the shipped thresholds again, on a set small enough for a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from flcontrib_core.commands.calibrating import calibrate
from flcontrib_core.detection.calibration import read_calibration, shipped_calibration
from flcontrib_core.laboratory.calibrate import CalibrationPlan


def test_the_command_offers_the_sizes_the_shipped_file_was_made_with() -> None:
    defaults = {p.name: p.default for p in calibrate.params}
    for name in ("tuning_honest", "test_honest", "drift", "tuning_attacks", "test_attacks", "replayed"):
        assert defaults[name] == getattr(CalibrationPlan, name)
    made = shipped_calibration().provenance
    plan = CalibrationPlan()
    assert made["runs"]["tuning"] == len(plan.tuning_runs())
    assert made["runs"]["test"] == len(plan.test_runs())


def test_only_kept_runs_need_the_folder_that_keeps_them(tmp_path: Path) -> None:
    told = CliRunner().invoke(calibrate, ["--only-kept", "--out", str(tmp_path / "calibration.json")])
    assert told.exit_code == 2
    assert "--folder" in told.output


@pytest.mark.slow
def test_a_small_calibration_is_written_and_read_again(tmp_path: Path) -> None:
    out = tmp_path / "calibration.json"
    sizes = ["--tuning-honest", "10", "--test-honest", "1", "--drift", "1", "--replayed", "4"]
    sizes += ["--tuning-attacks", "1", "--test-attacks", "1", "--corpus-share", "0"]
    told = CliRunner().invoke(calibrate, ["--out", str(out), *sizes])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout[told.stdout.index("{") :])["honest runs"] == 7
    made = read_calibration(out)
    assert set(made.thresholds) == set(shipped_calibration().thresholds)
    assert len(made.honest_runs) == 7
