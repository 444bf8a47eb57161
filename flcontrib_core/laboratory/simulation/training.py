"""How does a federation train, epoch after epoch, with known truth?

``prepare`` fixes everything that is known before epoch 1; ``train`` yields one epoch at a time. Nothing is written
here: the same epochs go to a recorder or stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation.aggregation import best_subset, fedavg, subset_models
from flcontrib_core.laboratory.simulation.attacks import Attackers, Memory, with_trigger
from flcontrib_core.laboratory.simulation.batches import LocalBatches, local_batches
from flcontrib_core.laboratory.simulation.cnn import Cnn
from flcontrib_core.laboratory.simulation.datasets import Dataset, load_dataset
from flcontrib_core.laboratory.simulation.difficulties import Difficulties
from flcontrib_core.laboratory.simulation.mlp import Mlp
from flcontrib_core.laboratory.simulation.random_streams import Purpose, stream
from flcontrib_core.laboratory.simulation.settings import (
    Aggregation,
    AttackKind,
    ModelKind,
    Optimizer,
    Privacy,
    SimulationSettings,
)
from flcontrib_core.laboratory.simulation.splits import share_out
from flcontrib_core.runs.run_log import Client, ParameterSpec, Truth, Validation
from flcontrib_core.vocabulary import Float32Array, FloatArray, IntArray

EVALUATED_TOGETHER = 64
"""Sub-models whose validation logits are held at once."""


class TrainableModel(Protocol):
    """A network as the simulator needs it; ``Mlp`` and ``Cnn`` are the two there are."""

    @property
    def parameters(self) -> tuple[ParameterSpec, ...]: ...

    @property
    def spec(self) -> dict[str, Any]: ...

    def initial(self, rng: np.random.Generator) -> Float32Array: ...

    def train(
        self, start: Float32Array, x: Float32Array, batches: Sequence[LocalBatches], optimizer: Optimizer, lr: float
    ) -> Float32Array: ...

    def logits(self, models: Float32Array, x: Float32Array) -> Float32Array: ...


@dataclass(frozen=True)
class Federation:
    """Everything that is fixed before epoch 1."""

    settings: SimulationSettings
    data: Dataset
    model: TrainableModel
    initial: Float32Array
    clients: tuple[Client, ...]
    rows: tuple[IntArray, ...]
    """Per client: its training rows."""
    attackers: Attackers
    difficulties: Difficulties
    x: Float32Array
    """What clients train on: the training rows, and all of them once more with a trigger where one is used."""

    @property
    def validation(self) -> Validation:
        """The validation set in the shape the model reads."""
        x = self.data.x_validation
        if isinstance(self.model, Cnn):
            x = x.reshape(len(x), *self.model.image)
        return Validation(x, self.data.y_validation, self.data.group_validation)

    @property
    def truth(self) -> Truth:
        return self.attackers.truth(tuple(c.id for c in self.clients), self.settings.epochs)


@dataclass(frozen=True)
class SimulatedEpoch:
    """One epoch as it happened; clients are positions."""

    epoch: int
    asked: tuple[int, ...]
    participants: tuple[int, ...]
    updates: Float32Array
    """(participants, P), as sent."""
    global_model: Float32Array
    """(P,) the server's model after the epoch."""
    loss: float
    accuracy: float


def prepare(settings: SimulationSettings) -> Federation:
    """The federation before its first epoch. Raises ``MissingPart`` or ``SettingsError`` where it cannot exist."""
    seed = settings.seed
    data = load_dataset(
        settings.dataset,
        stream(seed, Purpose.DATA),
        settings.data_dir,
        settings.train_rows,
        settings.validation_rows,
    )
    rows = share_out(
        data.y_train, settings.clients, settings.split, settings.alpha, settings.sizes, stream(seed, Purpose.SPLIT)
    )
    model = _model(settings, data)
    attackers = Attackers.choose(settings, data.classes)
    digits = max(2, len(str(settings.clients)))
    x = data.x_train
    if any(attack.kind is AttackKind.BACKDOOR for attack in settings.attacks()):
        x = np.concatenate([x, with_trigger(x, image=data.image is not None)])
    return Federation(
        settings,
        data,
        model,
        model.initial(stream(seed, Purpose.INITIAL_MODEL)),
        tuple(Client(f"client-{i + 1:0{digits}d}", len(own)) for i, own in enumerate(rows)),
        rows,
        attackers,
        Difficulties.choose(settings, data.classes, attackers.dishonest),
        x,
    )


def _model(settings: SimulationSettings, data: Dataset) -> TrainableModel:
    if settings.model is not ModelKind.CNN:
        return Mlp((data.x_train.shape[1], *settings.hidden, data.classes))
    if data.image is None:
        raise SettingsError(f"model cnn on {data.name}: it needs images; choose mlp or an image data set")
    return Cnn(data.image, settings.width, data.classes)


def train(federation: Federation) -> Iterator[SimulatedEpoch]:
    """The epochs 1..T in order.

    Runs on one thread: the last bits of a matrix product may depend on how many threads shared it.
    """
    settings, memory = federation.settings, Memory()
    model = federation.initial
    for epoch in range(1, settings.epochs + 1):
        with _one_thread(federation.model):
            asked, present = _participants(federation, epoch)
            with np.errstate(over="ignore", invalid="ignore"):
                honest = _local_updates(federation, epoch, present, model)
                sent = federation.attackers.updates(epoch, present, honest, memory)
            if not np.isfinite(sent).all():
                raise SettingsError(f"epoch {epoch}: the training diverged (update not finite); lower lr or strength")
            sizes = np.array([federation.clients[c].data_size for c in present], dtype=np.int64)
            after = _aggregate(federation, model, sent, sizes)
            loss, accuracy = _judge(federation, after)
        memory.remember(present, sent, after - model)
        model = after
        yield SimulatedEpoch(epoch, tuple(asked), tuple(present), sent, after, loss, accuracy)


def validation_losses(federation: Federation, models: Float32Array) -> FloatArray:
    """Mean validation cross-entropy of each flat model (models, P); not finite where a model has blown up."""
    pieces = [
        _cross_entropy(_logits(federation, models[first : first + EVALUATED_TOGETHER]), federation.data.y_validation)
        for first in range(0, len(models), EVALUATED_TOGETHER)
    ]
    return np.concatenate(pieces)


def _participants(federation: Federation, epoch: int) -> tuple[list[int], list[int]]:
    """Who is asked, and who of them answers; client positions, ascending."""
    settings = federation.settings
    count = max(1, int(settings.participation * settings.clients + 0.5))
    if epoch == 1 and settings.first_epoch_all:
        count = settings.clients
    drawn = stream(settings.seed, Purpose.PARTICIPATION, epoch).permutation(settings.clients)[:count]
    asked = federation.difficulties.available(epoch, sorted(int(c) for c in drawn))
    return asked, federation.difficulties.answering(epoch, asked)


def _local_updates(federation: Federation, epoch: int, present: list[int], model: Float32Array) -> Float32Array:
    """Δ of every participant as trained (participants, P); labels may be poisoned, updates are not yet."""
    settings, data = federation.settings, federation.data
    batches = []
    for client in present:
        own = federation.rows[client]
        rows, labels = federation.difficulties.data(client, epoch, own, data.y_train[own])
        labels = federation.attackers.labels(client, epoch, labels)
        rows = rows + len(data.x_train) * federation.attackers.triggered(client, epoch, len(rows))
        rng = stream(settings.seed, Purpose.BATCHES, epoch, client)
        batches.append(local_batches(rows, labels, settings.batch, settings.local_epochs, settings.drop_last, rng))
    trained = federation.model.train(model, federation.x, batches, settings.optimizer, settings.lr)
    if settings.privacy is None:
        return trained
    streams = [stream(settings.seed, Purpose.PRIVACY, epoch, client) for client in present]
    return np.stack([_private(u, settings.privacy, rng) for u, rng in zip(trained, streams, strict=True)])


def _private(update: Float32Array, privacy: Privacy, rng: np.random.Generator) -> Float32Array:
    """The update shortened to the clip at most, with noise of expected length noise·clip."""
    length = float(np.linalg.norm(update))
    kept = update * min(1.0, privacy.clip / max(length, 1e-12))
    noise = rng.normal(0.0, privacy.noise * privacy.clip / len(update) ** 0.5, size=len(update))
    return (kept + noise).astype(np.float32)


def _aggregate(federation: Federation, model: Float32Array, sent: Float32Array, sizes: IntArray) -> Float32Array:
    if federation.settings.aggregation is Aggregation.FEDAVG:
        return fedavg(model, sent, sizes)
    chosen = best_subset(model, sent, sizes, lambda models: validation_losses(federation, models))
    after: Float32Array = subset_models(model, sent, sizes, chosen)[0]
    return after


def _judge(federation: Federation, model: Float32Array) -> tuple[float, float]:
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
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def _matrix_libraries() -> Any:
    """The loaded BLAS libraries; looking for them takes longer than an epoch, so it is done once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
