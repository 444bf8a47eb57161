"""What several test processes need and one of them makes: folders that are filled by whoever asks first."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def common_folder(factory: pytest.TempPathFactory) -> Path:
    """The folder that all processes of this run of the tests have in common."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def made_once(folder: Path, make: Callable[[Path], Any]) -> Any:
    """What ``make(folder)`` told (plain JSON). It is called once; who comes meanwhile waits, who comes later reads."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    told = folder.with_name(f"{folder.name}.told")
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of one that failed half way
            folder.mkdir()
            answer = json.dumps(make(folder))
            told.write_text(answer)
    return json.loads(told.read_text())
