"""A training that records itself and goes on when a test lets it: ``-m tests.workspace.training FOLDER GATES``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from flcontrib_core.laboratory.simulation import SimulationSettings, simulate

WINDOW = (9, 12)
SETTINGS = SimulationSettings(
    name="Live",
    dataset="digits",
    clients=6,
    epochs=12,
    attack="label-flip",
    strength=1.0,
    windows=(WINDOW,),
    seed=5,
    train_rows=400,
    hidden=(16,),
)


def train(folder: Path, gates: Path) -> None:
    """Records epoch after epoch; stands before the next one until there is a file of the number of the last."""

    def step(done: int, total: int, label: str) -> None:
        while not (gates / str(done)).exists() and not (gates / "all").exists():
            time.sleep(0.01)

    simulate(SETTINGS, folder, step)


if __name__ == "__main__":
    train(Path(sys.argv[1]), Path(sys.argv[2]))
