"""What the participants of an epoch train: each on its own rows, in its own way, together where they train alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.laboratory.simulation.batches import LocalBatches, local_batches
from flcontrib_core.laboratory.simulation.behaviour import Behaviour, Memory, Moment
from flcontrib_core.laboratory.simulation.federation import Federation, TrainableModel
from flcontrib_core.laboratory.simulation.local_training import LocalTraining
from flcontrib_core.laboratory.simulation.random_streams import Purpose, stream
from flcontrib_core.laboratory.simulation.settings import Privacy
from flcontrib_core.vocabulary import Float32Array, IntArray


@dataclass
class ClientSite:
    """One participant of an epoch with what it trains on and how."""

    model: TrainableModel
    seed: int
    client: int
    epoch: int
    start: Float32Array
    x: Float32Array
    """What ``rows`` are positions in."""
    rows: IntArray
    labels: IntArray
    training: LocalTraining
    behaviours: list[tuple[Behaviour, Moment]]

    def steps(self) -> LocalBatches:
        """The mini-batches of this epoch."""
        rng = stream(self.seed, Purpose.BATCHES, self.epoch, self.client)
        batches = local_batches(self.rows, self.labels, self.training, rng)
        for behaviour, moment in self.behaviours:
            batches = behaviour.batches(batches, moment)
        return batches

    def noise(self) -> np.random.Generator:
        """Where private gradients get their noise from."""
        return stream(self.seed, Purpose.ROW_PRIVACY, self.epoch, self.client)

    def train(
        self, start: Float32Array, rows: IntArray, labels: IntArray, training: LocalTraining, turn: int
    ) -> Float32Array:
        """Δ of training alone from ``start`` on these rows; ``turn`` keeps the streams of several calls apart."""
        rng = stream(self.seed, Purpose.BATCHES, self.epoch, self.client, 1 + turn)
        batches = local_batches(rows, labels, training, rng)
        update: Float32Array = self.model.train(start, self.x, [batches], training, [self.noise()])[0]
        return update


@dataclass(frozen=True)
class LocalUpdates:
    """What the participants trained, before anybody tampers with it."""

    updates: Float32Array
    """(participants, P)"""
    steps: tuple[int, ...]
    rows_used: tuple[int, ...]


def local_updates(
    federation: Federation, epoch: int, present: list[int], model: Float32Array, memory: Memory
) -> LocalUpdates:
    """Δ of every participant as trained; rows and labels may be poisoned, updates are not yet."""
    settings = federation.settings
    sites = _sites(federation, epoch, present, model, memory)
    batches = [site.steps() for site in sites]
    trained = np.empty((len(sites), len(model)), dtype=np.float32)
    for group in _alike(sites):
        first = sites[group[0]]
        noise = [sites[i].noise() for i in group] if first.training.row_privacy else ()
        trained[group] = federation.model.train(
            first.start, first.x, [batches[i] for i in group], first.training, noise
        )
    for place, site in enumerate(sites):
        for behaviour, moment in site.behaviours:
            own = behaviour.local_update(site, moment)
            trained[place] = trained[place] if own is None else own
    if settings.privacy is not None:
        streams = [stream(settings.seed, Purpose.PRIVACY, epoch, client) for client in present]
        trained = np.stack([_private(u, settings.privacy, rng) for u, rng in zip(trained, streams, strict=True)])
    return LocalUpdates(trained, tuple(b.steps for b in batches), tuple(len(site.rows) for site in sites))


def _sites(
    federation: Federation, epoch: int, present: list[int], model: Float32Array, memory: Memory
) -> list[ClientSite]:
    """The participants with their rows in one common matrix: the training rows, then what some see otherwise."""
    data, usual = federation.data, LocalTraining.of(federation.settings)
    blocks, sites = [data.x_train], []
    for client in present:
        behaviours: list[tuple[Behaviour, Moment]] = [
            *federation.changes.behaviours(client, epoch, memory),
            *federation.attackers.behaviours(client, epoch, memory),
        ]
        own = federation.rows[client]
        rows, labels = federation.difficulties.data(client, epoch, own, data.y_train[own])
        training, start, seen = usual, model, None
        for behaviour, moment in behaviours:
            training = behaviour.training(training, moment)
            start = behaviour.start(start, moment)
            rows, labels = behaviour.data(rows, labels, moment)
        for behaviour, moment in behaviours:
            otherwise = behaviour.inputs(data.x_train[rows] if seen is None else seen, moment)
            seen = seen if otherwise is None else otherwise
        if seen is not None:
            rows = sum(len(block) for block in blocks) + np.arange(len(rows))
            blocks.append(seen)
        sites.append(
            ClientSite(
                federation.model,
                federation.settings.seed,
                client,
                epoch,
                start,
                data.x_train,
                rows,
                labels,
                training,
                behaviours,
            )
        )
    if len(blocks) > 1:
        everything = np.concatenate(blocks)
        for site in sites:
            site.x = everything
    return sites


def _alike(sites: list[ClientSite]) -> list[list[int]]:
    """The sites grouped by how they train and where they start."""
    groups: dict[tuple[LocalTraining, int], list[int]] = {}
    for place, site in enumerate(sites):
        groups.setdefault((site.training, id(site.start)), []).append(place)
    return list(groups.values())


def _private(update: Float32Array, privacy: Privacy, rng: np.random.Generator) -> Float32Array:
    """The update shortened to the clip at most, with noise of expected length noise·clip."""
    length = float(np.linalg.norm(update))
    clipped = update * min(1.0, privacy.clip / max(length, 1e-12))
    noise = rng.normal(0.0, privacy.noise * privacy.clip / len(update) ** 0.5, size=len(update))
    return (clipped + noise).astype(np.float32)
