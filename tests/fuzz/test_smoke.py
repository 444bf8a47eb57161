"""The fuzz target stays runnable: a short random search in every run, half an hour with guidance when slow."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from flcontrib_core.execution.children import child_environment, python_command
from tests.fuzz.target import GUIDED, NAMES, door_of, random_search, seeds

LONG_SEARCH_SECONDS = 1800


@pytest.mark.parametrize("door", NAMES)
def test_good_inputs_pass_every_door(door: str) -> None:
    for seed in seeds([door]):
        door_of(seed).read(seed[1:])


def test_short_search() -> None:
    random_search(runs=150, seed=0, doors=GUIDED)


@pytest.mark.slow
@pytest.mark.timeout(3 * LONG_SEARCH_SECONDS)
def test_half_an_hour_of_search(tmp_path: Path) -> None:
    """As many inputs as fit: the promise is a time. Guided by coverage where atheris is installed."""
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("needs atheris for a search guided by coverage: pip install atheris")
    command = python_command("-m", "tests.fuzz", str(tmp_path), f"-max_total_time={LONG_SEARCH_SECONDS}", "-seed=1")
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
