"""What workers of the engines' tests do: in a module that takes no time to import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from flcontrib_core.execution.engine import Placed
from tests.patience import PATIENCE_SECONDS


def die(folder: str, task: int) -> int:
    """Kills its process at the first attempt of task 1, and at every attempt of task 9."""
    mark = Path(folder) / str(task)
    if task == 9 or (task == 1 and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def fetched(shared: object, placed: Placed) -> list[float]:
    """What a worker finds at a place."""
    numbers: list[float] = placed.fetch().tolist()
    return numbers


def scribble(shared: tuple[str, Any], task: int) -> float:
    """Writes its number into the shared tensor, waits until the other worker has done so too, and reads it again."""
    folder, scratch = shared
    scratch[0] = float(task)
    (Path(folder) / str(task)).touch()
    end = time.monotonic() + PATIENCE_SECONDS
    while len(list(Path(folder).iterdir())) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    return float(scratch[0])
