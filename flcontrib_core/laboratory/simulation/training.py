"""Trains a federation, epoch after epoch, with known truth.

``prepare`` fixes everything that is known before epoch 1; ``train`` yields one epoch at a time. Nothing is written
here: the same epochs go to a recorder or stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation.behaviour import Memory
from flcontrib_core.laboratory.simulation.changes.change import Sent
from flcontrib_core.laboratory.simulation.cnn import Cnn
from flcontrib_core.laboratory.simulation.federation import Federation, TrainableModel, prepare
from flcontrib_core.laboratory.simulation.local_updates import local_updates
from flcontrib_core.laboratory.simulation.random_streams import Purpose, stream
from flcontrib_core.laboratory.simulation.server import Server, rule_of
from flcontrib_core.vocabulary import Float32Array, FloatArray, IntArray

__all__ = ["Federation", "SimulatedEpoch", "prepare", "train", "validation_losses"]

EVALUATED_TOGETHER = 64
"""Sub-models whose validation logits are held at once."""


@dataclass(frozen=True)
class SimulatedEpoch:
    """One epoch as it happened; clients are positions."""

    epoch: int
    asked: tuple[int, ...]
    participants: tuple[int, ...]
    data_sizes: tuple[int, ...]
    """Per participant: the rows it says it trained on."""
    updates: Float32Array
    """(participants, P), as sent."""
    global_model: Float32Array
    """(P,) the server's model after the epoch."""
    explained: bool
    """Does the server's model follow from updates and data sizes?"""
    loss: float
    accuracy: float


def train(federation: Federation) -> Iterator[SimulatedEpoch]:
    """The epochs 1..T in order.

    Runs on one thread: the last bits of a matrix product may depend on how many threads shared it.
    """
    settings, memory = federation.settings, Memory()
    model, usual = federation.initial, rule_of(federation.settings)
    server = Server(lambda models: validation_losses(federation, models), federation.model.statistics)
    for epoch in range(1, settings.epochs + 1):
        with _one_thread(federation.model):
            asked, present = _participants(federation, epoch, memory)
            with np.errstate(over="ignore", invalid="ignore"):
                sizes, sent = _sent(federation, epoch, present, model, memory)
            if not np.isfinite(sent).all():
                raise SettingsError(f"epoch {epoch}: the training diverged (update not finite); lower lr or strength")
            rule = federation.changes.server_rule(epoch, usual, memory)
            noise = stream(settings.seed, Purpose.SERVER_NOISE, epoch)
            stepped = server.step(model, sent, sizes, rule, noise)
            after = federation.changes.server_model(epoch, stepped, memory)
            loss, accuracy = _evaluate(federation, after)
            if not np.isfinite(loss):
                raise SettingsError(f"epoch {epoch}: the training diverged (loss not finite); lower lr or strength")
        memory.remember(present, sent, model, after)
        model = after
        yield SimulatedEpoch(
            epoch,
            tuple(asked),
            tuple(present),
            tuple(int(size) for size in sizes),
            sent,
            after,
            rule.plain and after is stepped,
            loss,
            accuracy,
        )


def _sent(
    federation: Federation, epoch: int, present: list[int], model: Float32Array, memory: Memory
) -> tuple[IntArray, Float32Array]:
    """The data sizes and updates (participants, P) that reach the server.

    Honest clients filter what they trained. Attackers see that, make theirs, and send it through the filters that are
    theirs too: who must compress, compresses a lie as well.
    """
    trained = local_updates(federation, epoch, present, model, memory)
    changes, dishonest = federation.changes, federation.attackers
    sizes = np.array([federation.clients[c].data_size for c in present], dtype=np.int64)
    for place, client in enumerate(present):
        if changes.reports_own_size(client, epoch, memory):
            sizes[place] = trained.rows_used[place]
    updates = trained.updates

    def through_filters(updates: Float32Array, attacking: bool) -> Float32Array:
        filtered = updates.copy()
        for place, client in enumerate(present):
            if (dishonest.active(client, epoch) is not None) == attacking:
                own = Sent(updates[place], model, trained.steps[place])
                filtered[place] = changes.sent(epoch, client, own, memory)
        return filtered

    if changes.changes:
        updates = through_filters(updates, attacking=False)
    updates = dishonest.updates(epoch, present, updates, model, sizes, memory)
    return sizes, through_filters(updates, attacking=True) if changes.changes else updates


def validation_losses(federation: Federation, models: Float32Array) -> FloatArray:
    """Mean validation cross-entropy of each flat model (models, P); not finite where a model has blown up."""
    pieces = [
        _cross_entropy(_logits(federation, models[first : first + EVALUATED_TOGETHER]), federation.data.y_validation)
        for first in range(0, len(models), EVALUATED_TOGETHER)
    ]
    return np.concatenate(pieces)


def _participants(federation: Federation, epoch: int, memory: Memory) -> tuple[list[int], list[int]]:
    """Who is asked, and who of them answers; client positions, ascending."""
    settings = federation.settings
    count = max(1, int(settings.participation * settings.clients + 0.5))
    if epoch == 1 and settings.first_epoch_all:
        count = settings.clients
    drawn = stream(settings.seed, Purpose.PARTICIPATION, epoch).permutation(settings.clients)[:count]
    there = federation.changes.available(epoch, sorted(int(c) for c in drawn), memory)
    asked = federation.difficulties.available(epoch, there)
    return asked, federation.difficulties.answering(epoch, asked)


def _evaluate(federation: Federation, model: Float32Array) -> tuple[float, float]:
    logits = _logits(federation, model[None])
    labels = federation.data.y_validation
    return float(_cross_entropy(logits, labels)[0]), float((logits[0].argmax(axis=1) == labels).mean())


def _logits(federation: Federation, models: Float32Array) -> Float32Array:
    with np.errstate(over="ignore", invalid="ignore"):  # an attacked model may overflow: its loss then says so
        return federation.model.logits(models, federation.data.x_validation)


def _cross_entropy(logits: Float32Array, labels: IntArray) -> FloatArray:
    """Mean over rows, per model: logits (models, rows, classes)."""
    with np.errstate(over="ignore", invalid="ignore"):
        wide = logits.astype(np.float64)
        wide -= wide.max(axis=2, keepdims=True)
        log_sum = np.log(np.exp(wide).sum(axis=2))
        losses: FloatArray = (log_sum - wide[:, np.arange(len(labels)), labels]).mean(axis=1)
    return losses


@contextmanager
def _one_thread(model: TrainableModel) -> Iterator[None]:
    if not isinstance(model, Cnn):
        with _matrix_libraries().limit(limits=1):
            yield
        return
    from flcontrib_core.games.evaluator import one_thread

    with one_thread():
        yield


@cache
def _matrix_libraries() -> Any:
    """The loaded BLAS libraries; looking for them takes longer than an epoch, so it is done once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
