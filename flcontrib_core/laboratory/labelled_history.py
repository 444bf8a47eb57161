"""A simulated federation once it is assessed: its history, and what is true about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.laboratory.calibration_set import HONEST_GROUPS, LabelledSettings
from flcontrib_core.laboratory.scoring import Truth
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import EpochByClient, FloatArray


@dataclass(frozen=True)
class LabelledHistory:
    """One simulated run, assessed, with what is true about it."""

    group: str
    participation: float
    history: ContributionHistory
    truth: Truth
    own_cosines: tuple[EpochByClient, ...] = ()
    """own_cosines[t] is the own direction as it stood after epoch t, for replaying the run as it grew"""

    @property
    def honest(self) -> bool:
        return self.group in HONEST_GROUPS


def assess_labelled(labelled: LabelledSettings, replay: bool = False) -> LabelledHistory:
    """Simulate and assess one run; ``replay`` also keeps what the own direction looked like at every epoch."""
    from flcontrib_core.history.assess import assess_contributions
    from flcontrib_core.history.settings import AssessSettings
    from flcontrib_core.laboratory.simulation.simulated_run import simulate_in_memory

    run = simulate_in_memory(labelled.settings)
    history = assess_contributions(run, AssessSettings(utilities=("loss",)))
    cosines = own_cosines_by_epoch(run) if replay else ()
    return LabelledHistory(labelled.group, labelled.settings.participation, history, acted_truth(run), cosines)


def acted_truth(run: RunLog) -> Truth:
    """client -> windows in which it was dishonest *and took part*: who was not asked in a window did nothing there."""
    assert run.truth is not None
    took_part = dict(zip((c.id for c in run.clients), run.participated().T, strict=True))
    acted = {
        d.client: tuple((a, b) for a, b in d.windows if took_part[d.client][a : b + 1].any())
        for d in run.truth.dishonest
    }
    return {client: windows for client, windows in acted.items() if windows}


def own_cosines_by_epoch(run: RunLog) -> tuple[EpochByClient, ...]:
    """[t] -> (t + 1, m) mean cosine of each update to the client's own others that were known after epoch t."""
    stages = [np.full((t + 1, len(run.clients)), np.nan) for t in range(run.epoch_count + 1)]
    directions: list[list[FloatArray]] = [[] for _ in run.clients]
    epochs: list[list[int]] = [[] for _ in run.clients]
    for record in run.epochs:
        updates = run.epoch_data(record.epoch).updates.astype(np.float64)
        for row, client in enumerate(record.participants):
            size = float(np.linalg.norm(updates[row]))
            if size > 0:
                directions[client].append(updates[row] / size)
                epochs[client].append(record.epoch)
    for client, rows in enumerate(directions):
        if len(rows) < 2:
            continue
        cosine = np.stack(rows) @ np.stack(rows).T
        when = np.array(epochs[client])
        for t, stage in enumerate(stages):
            known = int((when <= t).sum())
            if known >= 2:
                stage[when[:known], client] = (cosine[:known, :known].sum(axis=1) - 1.0) / (known - 1)
    return tuple(stages)
