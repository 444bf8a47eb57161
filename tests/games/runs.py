"""A federated run in memory, for tests that need a ``RunLog`` but no files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.runs.run_log import Client, EpochData, EpochRecord, ParameterSpec, RunLog, Validation


@dataclass
class MemorySource:
    start: np.ndarray
    updates: dict[int, np.ndarray]
    reads: int = 0

    def initial(self) -> np.ndarray:
        return self.start

    def epoch(self, record: EpochRecord) -> EpochData:
        self.reads += 1
        return EpochData(self.updates[record.epoch], None)

    def validation(self) -> Validation | None:
        return None

    def close(self) -> None:
        pass


def memory_run(
    initial: np.ndarray, clients: int, epochs: list[tuple[list[int], np.ndarray]], parameters: list[ParameterSpec]
) -> RunLog:
    """``epochs``: (participants, updates) of epoch 1, 2, …; every client holds ten rows."""
    records = tuple(
        EpochRecord(t, tuple(members), (10,) * len(members), f"epochs/{t:05}.safetensors", "0" * 64, False)
        for t, (members, _) in enumerate(epochs, start=1)
    )
    return RunLog(
        name="in memory",
        digest="0" * 64,
        clients=tuple(Client(f"c{i}", 10) for i in range(clients)),
        parameters=tuple(parameters),
        epochs=records,
        classes=None,
        model=None,
        has_validation=False,
        source=MemorySource(initial, {t: updates for t, (_, updates) in enumerate(epochs, start=1)}),
    )
