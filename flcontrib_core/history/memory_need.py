"""``require_memory``: refuses a run that this machine cannot hold in memory, before anything of it is computed.

A log may be small and ask for much: participants are compared in pairs, and a client's series is read in all of its
segments. The factors are measured (peak of ``flcontrib audit`` over sizes), not promised.
"""

from __future__ import annotations

import psutil

from flcontrib_core.errors import MemoryRefusal
from flcontrib_core.runs.run_log import Run, RunLog, participants_per_epoch

PAIR_BYTES = 28
"""For each pair of an epoch's participants: their product, and what is read from it (10 000 took 2.7 GB)."""
SEGMENT_BYTES = 76
"""For each pair of epochs: all segments of one series (4 000 took 1.2 GB)."""
CELL_BYTES = 500
"""For each client and epoch of the history, participation and channels included."""


def memory_needed(run: Run, reading: bool) -> int:
    """Bytes that the largest step takes, about; ``reading``: alerts are read from the history too."""
    most, epochs = max(participants_per_epoch(run), default=0), run.epoch_count
    pairs = PAIR_BYTES * most**2 if isinstance(run, RunLog) else 0
    segments = SEGMENT_BYTES * epochs**2 if reading else 0
    return max(pairs, segments, CELL_BYTES * (epochs + 1) * len(run.client_ids))


def require_memory(run: Run, *, reading: bool = False) -> None:
    """Raises MemoryRefusal where the run needs more memory than is free."""
    needed, free = memory_needed(run, reading), psutil.virtual_memory().available
    if needed <= free:
        return
    most = max(participants_per_epoch(run), default=0)
    raise MemoryRefusal(
        f"{run.name}: {len(run.client_ids)} clients, up to {most} in each of {run.epoch_count} epochs need about "
        f"{needed / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} GiB are free. Divide the run, or use a machine "
        "with more memory."
    )
