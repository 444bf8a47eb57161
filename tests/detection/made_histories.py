"""Histories made by hand: honest noise in every channel, with shifts planted where a test wants them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from flcontrib_core.games.raw_channels import RawChannels
from flcontrib_core.history.contribution_history import ContributionHistory, cell_states
from flcontrib_core.vocabulary import CellState

CLASSES = 4


def made_history(
    clients: int = 8,
    epochs: int = 30,
    seed: int = 0,
    participation: float = 1.0,
    poisoned: Iterable[tuple[int, int, int]] = (),
    persistent: Iterable[int] = (),
    shift: float = 6.0,
    with_channels: bool = True,
    computed: Iterable[int] | None = None,
    rows: int = 300,
) -> ContributionHistory:
    """``poisoned`` holds (client, first epoch, last epoch); ``persistent`` clients are shifted in every epoch."""
    rng = np.random.default_rng(seed)
    shape = (epochs + 1, clients)
    participated = rng.random(shape) < participation
    participated[0] = False
    harmful = np.zeros(shape, dtype=bool)
    for client, first, last in poisoned:
        harmful[first : last + 1, client] = True
    for client in persistent:
        harmful[:, client] = True
    decay = np.exp(-np.arange(epochs + 1) / 8)[:, None]
    spread = 0.004
    values = -0.02 * decay + spread * rng.normal(size=shape) + np.where(harmful, shift * spread + 0.02 * decay, 0.0)
    margin = 0.3 * decay + 0.05 * rng.normal(size=shape) - np.where(harmful, shift * 0.05, 0.0)
    own = np.tanh(0.5 + 0.1 * rng.normal(size=shape) - np.where(harmful, 0.1 * shift, 0.0))
    values[~participated] = 0.0
    is_computed = np.ones(epochs + 1, dtype=bool)
    if computed is not None:
        is_computed[1:] = False
        is_computed[list(computed)] = True
        values[1:][~is_computed[1:, None] & participated[1:]] = np.nan
    values[0] = 2.3 / clients

    def seen(cells: np.ndarray) -> np.ndarray:
        return np.where(participated.reshape(participated.shape + (1,) * (cells.ndim - 2)), cells, np.nan)

    channels = RawChannels(
        solo_margin=seen(margin),
        solo_class_margin=seen(margin[:, :, None] + 0.05 * rng.normal(size=(*shape, CLASSES))),
        solo_worst_class=seen(0.1 + 0.03 * rng.normal(size=shape) + np.where(harmful, 0.03 * shift, 0.0)),
        solo_loss=seen(-margin),
        own_cosine=seen(own),
        norm=seen(np.exp(0.1 * rng.normal(size=shape))),
        spread=seen(np.exp(-2.5 + 0.1 * rng.normal(size=shape))),
        peer_cosine=seen(np.tanh(0.3 + 0.1 * rng.normal(size=shape) - np.where(harmful, 0.1 * shift, 0.0))),
        last_step_cosine=seen(np.tanh(0.4 + 0.1 * rng.normal(size=shape))),
        repeat_of=np.zeros(shape, dtype=np.int64),
        copy_of=np.zeros(shape, dtype=np.int64),
        validation_rows=rows,
        sketch_dimensions=2048,
        repeat_bit_equal=np.zeros(shape, dtype=bool),
        closest_own_cosine=seen(1 - np.exp(-(0.8 + 0.4 * rng.normal(size=shape)))),
    )
    return ContributionHistory(
        run_digest="made",
        run_name="made by hand",
        client_ids=tuple(f"client-{i:02d}" for i in range(clients)),
        data_sizes=(100,) * clients,
        utilities=("loss", "accuracy"),
        values=np.stack([values, -0.5 * values], axis=2),
        standard_errors=np.zeros((*shape, 2)),
        state=cell_states(participated, is_computed[:, None, None], 2),
        increments=np.nansum(values, axis=1)[:, None] * [1.0, -0.5],
        server_share=np.zeros((epochs + 1, 2)),
        evaluations=np.zeros(epochs + 1, dtype=np.int64),
        estimator=("initial",) + ("exact",) * epochs,
        lower_is_better=frozenset({"loss"}),
        channels=channels if with_channels else None,
    )


def with_values(history: ContributionHistory, **columns: np.ndarray) -> ContributionHistory:
    """The history with the values of these utilities replaced."""
    values = history.values.copy()
    for utility, cells in columns.items():
        values[:, :, history.utilities.index(utility)] = cells
    return replace(history, values=values)


def with_participants(history: ContributionHistory, took_part: np.ndarray) -> ContributionHistory:
    """The history in which only these clients took part; row 0 stays the initial model's."""
    state = history.state.copy()
    state[1:][~took_part[1:]] = CellState.ABSENT
    return replace(history, state=state)
