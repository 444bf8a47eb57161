"""Runs a script with the frameworks' own interpreter, which has Flower and NVFlare beside our packages."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS

HERE = Path(__file__).parent
PYTHON = HERE.parents[1] / ".venv-frameworks" / "bin" / "python"

RunScript = Callable[..., Path]


@pytest.fixture
def run_script(tmp_path: Path) -> RunScript:
    """Runs a script of this folder in an empty folder, which it returns; what it said is in ``said.txt`` there."""
    return _runner(tmp_path)


@pytest.fixture(scope="module")
def run_script_once(tmp_path_factory: pytest.TempPathFactory) -> RunScript:
    """The same for scripts whose outcome several tests look at."""
    return _runner(tmp_path_factory.mktemp("script"))


def _runner(folder: Path) -> RunScript:
    if not PYTHON.exists():
        pytest.skip("the frameworks' environment is not set up (make frameworks)")

    def run(script: str, *arguments: str) -> Path:
        # Not this process's import path: what the frameworks pin must come before our versions. One thread per
        # process: with several, small models wait for each other, and long on a busy machine.
        ours = {"PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0"}
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | ours
        with (folder / "said.txt").open("w") as said:
            ended = subprocess.run(
                [PYTHON, "-P", HERE / script, *arguments],
                cwd=folder,
                env=environment,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
        assert ended.returncode == 0, (folder / "said.txt").read_text()[-3000:]
        return folder

    return run
