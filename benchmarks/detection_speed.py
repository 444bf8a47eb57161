"""How long does reading a history take?"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.measurement import Measurement
from flcontrib_core.detection.alerts import read_verdicts
from flcontrib_core.games.raw_channels import RawChannels
from flcontrib_core.history.contribution_history import ContributionHistory, cell_states


def speed_rows(large: bool) -> list[Measurement]:
    rows = []
    read_verdicts(noise_history(4, 20))  # imports
    for clients, epochs, goal in ((16, 50, 0.1), (1000, 500, 60.0))[: 1 + large]:
        history = noise_history(clients, epochs)
        times = []
        for _ in range(5 if clients < 100 else 1):
            began = time.process_time()
            read_verdicts(history)
            times.append(time.process_time() - began)
        rows.append(Measurement(f"read {clients} clients × {epochs} epochs", min(times), goal, False, "s CPU"))
    return rows


def noise_history(clients: int, epochs: int) -> ContributionHistory:
    """Honest noise in every channel with one planted window, to time the reading."""
    rng = np.random.default_rng(clients)
    shape = (epochs + 1, clients)
    participated = np.ones(shape, dtype=bool)
    participated[0] = False
    harmful = np.zeros(shape, dtype=bool)
    harmful[epochs // 2 : epochs // 2 + epochs // 5, 0] = True

    def noise(centre: float, deviation: float, shift: float = 0.0) -> np.ndarray:
        return np.where(participated, centre + deviation * rng.normal(size=shape) + shift * harmful, np.nan)

    values = np.nan_to_num(noise(-0.01, 0.004, 0.03))
    raw = RawChannels(
        solo_margin=noise(0.1, 0.05, -0.3),
        solo_class_margin=np.stack([noise(0.1, 0.05, -0.3) for _ in range(10)], axis=2),
        solo_worst_class=noise(0.1, 0.03, 0.2),
        solo_loss=noise(-0.1, 0.05, 0.3),
        own_cosine=np.tanh(noise(0.5, 0.1, -0.5)),
        norm=np.exp(noise(0.0, 0.1)),
        spread=np.exp(noise(-2.5, 0.1)),
        peer_cosine=np.tanh(noise(0.3, 0.1, -0.5)),
        last_step_cosine=np.tanh(noise(0.4, 0.1)),
        repeat_of=np.zeros(shape, dtype=np.int64),
        copy_of=np.zeros(shape, dtype=np.int64),
        validation_rows=300,
        sketch_dimensions=4096,
        closest_own_cosine=np.tanh(noise(0.6, 0.1)),
    )
    return ContributionHistory(
        run_digest="", run_name="noise", client_ids=tuple(f"c{i}" for i in range(clients)),
        data_sizes=(1,) * clients, utilities=("loss",), values=values[:, :, None],
        standard_errors=np.zeros((*shape, 1)), state=cell_states(participated, np.array(True), 1),
        increments=values.sum(axis=1)[:, None], server_share=np.zeros((epochs + 1, 1)),
        evaluations=np.zeros(epochs + 1, dtype=np.int64),
        estimator=("exact",) * (epochs + 1), lower_is_better=frozenset({"loss"}), channels=raw,
    )  # fmt: skip
