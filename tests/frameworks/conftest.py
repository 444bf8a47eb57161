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
    if not PYTHON.exists():
        pytest.skip("the frameworks' environment is not set up (make frameworks)")

    def run(script: str, *arguments: str) -> Path:
        # Not this process's import path: what the frameworks pin must come before our versions.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"PYTHONSAFEPATH": "1"}
        with (tmp_path / "said.txt").open("w") as said:
            ended = subprocess.run(
                [PYTHON, "-P", HERE / script, *arguments],
                cwd=tmp_path,
                env=environment,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
        assert ended.returncode == 0, (tmp_path / "said.txt").read_text()[-3000:]
        return tmp_path

    return run
