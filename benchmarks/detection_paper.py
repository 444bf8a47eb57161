"""What do the paper's own two readings give: mass of change points in the window, and Jaccard of the clusters?"""

from __future__ import annotations

import os

import numpy as np

from benchmarks.cached_runs import cached
from benchmarks.measurement import Measurement
from flcontrib_core.detection.change_points import ChangePointSettings, ChangeSeries, mass_in_window, read_change_points
from flcontrib_core.detection.separation import GroupingSettings, separate
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.laboratory.simulation.datasets import DATA_VARIABLE
from flcontrib_core.laboratory.simulation.settings import AttackKind, DatasetName, SimulationSettings
from flcontrib_core.laboratory.simulation.simulated_run import simulate_in_memory

SEEDS = 5500
WINDOW = (11, 20)


def paper_rows(runs: int) -> list[Measurement]:
    """4 clients with 1 flipping (p .5, .7), 8 with 2; the paper's figures in the note, honest clients' mass beside."""
    rows = []
    dataset = "compas" if os.environ.get(DATA_VARIABLE) else "breast-cancer"
    for clients, dishonest, p, paper in ((4, 1, 0.5, 0.91), (4, 1, 0.7, 0.97), (8, 2, 0.7, 0.82)):
        inside: list[float] = []
        elsewhere: list[float] = []
        raw, single, adjusted = [], [], []
        for k in range(runs):
            history, bad = _flipped(dataset, clients, dishonest, p, SEEDS + k)
            points = read_change_points(history, ChangePointSettings(ChangeSeries.CUMULATIVE))
            for client in history.client_ids:
                (inside if client in bad else elsewhere).append(mass_in_window(points, client, WINDOW))
            grouped = separate(history, settings=GroupingSettings(calibrated=False), dishonest=bad)
            if grouped is not None and grouped.jaccard is not None:
                raw.append(grouped.jaccard.raw)
                single.append(grouped.jaccard.single_cluster)
                adjusted.append(np.nan if grouped.jaccard.adjusted is None else grouped.jaccard.adjusted)
        label = f"{clients} clients, {dishonest} flipping with p = {p} ({dataset})"
        note = f"the paper: {paper}; honest clients here: {np.mean(elsewhere):.2f}; {runs} runs"
        rows.append(Measurement(f"mass in the window: {label}", float(np.mean(inside)), note=note))
        if raw:
            known = [a for a in adjusted if np.isfinite(a)]
            note = f"one cluster: {np.mean(single):.2f}, chance-adjusted: {np.mean(known) if known else np.nan:.2f}"
            rows.append(Measurement(f"Jaccard: {label}", float(np.mean(raw)), note=note))
    return rows


def _flipped(
    dataset: str, clients: int, dishonest: int, p: float, seed: int
) -> tuple[ContributionHistory, tuple[str, ...]]:
    settings = SimulationSettings(
        dataset=DatasetName(dataset), clients=clients, epochs=30, attack=AttackKind.LABEL_FLIP, strength=p,
        dishonest=dishonest, windows=(WINDOW,), seed=seed, train_rows=1600 if dataset == "compas" else None,
    )  # fmt: skip

    def assessed() -> tuple[ContributionHistory, tuple[str, ...]]:
        log = simulate_in_memory(settings)
        assert log.truth is not None
        history = assess_contributions(log, AssessSettings(utilities=("loss",)))
        return history, tuple(d.client for d in log.truth.dishonest)

    return cached(f"paper {settings!r}", assessed)
