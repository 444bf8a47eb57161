"""``flcontrib assess`` with one worker and two, after a kill, and when it costs too much."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flcontrib_core.execution.children import child_environment, python_command
from tests.in_process import flcontrib

ROOT = Path(__file__).resolve().parents[1]
VOLATILE = ("seconds", "recalled")
"""What may differ between two assessments of the same run with the same settings."""


def command(*arguments: str | Path) -> list[str]:
    return python_command("-m", "flcontrib_core.cli", *map(str, arguments))


def assessed(run: Path, *options: str | Path) -> dict[str, Any]:
    told = flcontrib("assess", run, "--json", *options)
    assert told.returncode == 0, told.stderr
    answer: dict[str, Any] = json.loads(told.stdout)
    return {name: value for name, value in answer.items() if name not in VOLATILE}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10 clients, whose exact values take long enough to be interrupted between two epochs."""
    path = tmp_path_factory.mktemp("simulated") / "run.flrun"
    made = flcontrib("simulate", path, "--clients", "10", "--epochs", "6", "--split", "dirichlet", "--seed", "5")
    assert made.returncode == 0, made.stderr
    return path


def test_two_workers_print_the_same_result_as_one(run: Path) -> None:
    one = assessed(run, "--estimator", "surrogate", "--no-memory")
    two = assessed(run, "--estimator", "surrogate", "--no-memory", "--workers", "2")
    assert one == two
    assert all(one["computed"])
    assert min(one["evaluations"][1:]) >= 4 * 10


def test_a_killed_assessment_resumes_to_the_same_result(run: Path, tmp_path: Path) -> None:
    options = ("--estimator", "exact", "--workspace", tmp_path / "workspace")
    left, right = pty.openpty()  # progress is shown at once only on a terminal
    working = subprocess.Popen(
        command("assess", run, "--json", *options), stdout=subprocess.PIPE, stderr=right, env=child_environment()
    )
    os.close(right)
    said = b""
    while not re.search(rb"[2-5]/6 epoch", said):
        said += os.read(left, 4096)
    working.send_signal(signal.SIGKILL)
    assert working.communicate()[0] == b""
    os.close(left)
    assert working.returncode == -signal.SIGKILL
    assert assessed(run, *options) == assessed(run, "--estimator", "exact", "--no-memory")


def test_exact_values_of_forty_participants_are_refused_with_their_cost_and_an_offer(tmp_path: Path) -> None:
    path = tmp_path / "forty.flrun"
    made = flcontrib(
        "simulate", path, "--clients", "40", "--epochs", "1", "--train-rows", "800", "--validation-rows", "50"
    )
    assert made.returncode == 0, made.stderr
    told = flcontrib("assess", path, "--estimator", "exact", "--no-memory", "--json")
    assert told.returncode == 2
    assert "2^40 − 1 = 1,099,511,627,775 evaluations" in told.stderr
    assert "Use auto, surrogate or complementary" in told.stderr
    answer = json.loads(told.stdout)
    assert (answer["ok"], answer["error"]) == (False, "CostRefusal")
    assert answer["message"] in told.stderr
