"""A federated run, once its bytes have been checked.

A ``RunLog`` is lazy: it knows every epoch's participants, sizes and digests; the updates are read one epoch at a
time from their source (a directory's files, memory-mapped, or a zip's entries).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from flcontrib_core.errors import Problem
from flcontrib_core.runs.claims import IdentityClaim
from flcontrib_core.runs.epoch_rows import EpochRows
from flcontrib_core.runs.labels import DishonestTruth as DishonestTruth
from flcontrib_core.runs.labels import LogNote as LogNote
from flcontrib_core.runs.labels import Truth as Truth
from flcontrib_core.runs.tasks import CLASSIFICATION
from flcontrib_core.vocabulary import BoolArray, Float32Array, FloatArray, IntArray


@dataclass(frozen=True)
class Client:
    """A member of the federation."""

    id: str
    data_size: int


@dataclass(frozen=True)
class ParameterSpec:
    """One tensor of the model: its name and shape."""

    name: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class FrozenPart:
    """Names and shapes of what the log does not hold."""

    parameters: tuple[ParameterSpec, ...]
    sha256: str | None
    """Of its numbers; None where every client keeps a part of its own, and any will do."""
    given: Mapping[str, Float32Array] | None = None
    """The numbers, where somebody gave them."""
    given_sha256: str | None = None


@dataclass(frozen=True)
class FailedClient:
    """Somebody who was asked and sent nothing, and why."""

    client: str
    reason: str


@dataclass(frozen=True)
class EpochRecord:
    """One line of epochs.jsonl. ``participants`` are positions in ``RunLog.clients``."""

    epoch: int
    participants: tuple[int, ...]
    data_sizes: tuple[int, ...]
    """One per participant, the epoch's own sizes already applied."""
    file: str | None
    sha256: str | None
    has_global: bool
    asked: tuple[str, ...] = ()
    failed: tuple[FailedClient, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)
    nonfinite: tuple[int, ...] = ()
    """Clients whose update holds NaN or infinities and who are treated as absent (only with nonfinite="absent")."""
    claims: tuple[IdentityClaim, ...] = ()
    """Replies whose name and node do not belong together."""
    gap: str | None = None
    """Why the epoch could not be recorded as it happened."""
    rows: EpochRows | None = None
    """The file's rows, where they are not one plain update per participant (version 2)."""

    @property
    def row_clients(self) -> tuple[int, ...]:
        """Whose each row of the file is."""
        return self.participants if self.rows is None else self.rows.clients

    @property
    def row_weights(self) -> tuple[float, ...]:
        """What the server weighed each row of the file with."""
        return self.data_sizes if self.rows is None else self.rows.weights

    @property
    def weights(self) -> tuple[float, ...]:
        """What the server weighed each participant with: its data size, or what the log gives in its place.

        Given weights are scaled to add up to the participants' data, so that a share of all clients' data keeps its
        meaning; only their ratios count elsewhere.
        """
        if self.rows is None:
            return self.data_sizes
        given = self.rows.client_weights()
        factor = sum(self.data_sizes) / sum(given)
        return tuple(weight * factor for weight in given)

    def started_late(self) -> dict[int, int]:
        """client -> the epoch whose older model its update began from (the oldest of several)."""
        if self.rows is None:
            return {}
        pairs = zip(self.rows.clients, self.rows.starts, strict=True)
        late: dict[int, int] = {}
        for client, start in pairs:
            if start < self.epoch - 1:
                late[client] = min(start, late.get(client, start))
        return late


@dataclass(frozen=True)
class EpochData:
    """The numbers of one epoch. ``updates`` row r belongs to participants[r]."""

    updates: Float32Array
    """(participants, P)"""
    global_model: Float32Array | None
    """(P,) the server's real model after this epoch, where the log carries it."""


@dataclass(frozen=True)
class Validation:
    """The rows that utilities are measured on."""

    x: np.ndarray
    """(V, …) float32, or int64 when the first op is an embedding"""
    y: np.ndarray
    """(V,) int64, a class per row; another task's targets have a shape, and maybe a type, of their own."""
    group: IntArray | None

    @property
    def rows(self) -> int:
        """V, the number of rows."""
        return len(self.y)


class EpochSource(Protocol):
    """Where a log's binary parts come from: a directory or a zip that was checked on opening."""

    def initial(self) -> Float32Array:
        """F⁰ as a flat vector."""
        ...

    def epoch(self, record: EpochRecord) -> EpochData:
        """An epoch's rows as the file has them, and the server's model where it is stored."""
        ...

    def validation(self) -> Validation | None:
        """The validation set, if there is one."""
        ...

    def close(self) -> None:
        """Lets go of the files."""
        ...


@dataclass(frozen=True)
class RunLog:
    """A federated run as data that is safe to use."""

    name: str
    digest: str
    clients: tuple[Client, ...]
    parameters: tuple[ParameterSpec, ...]
    epochs: tuple[EpochRecord, ...]
    classes: int | None
    model: dict[str, Any] | None
    """model.json, checked (known ops, names, shapes); None when the log has no architecture."""
    has_validation: bool
    source: EpochSource
    truth: Truth | None = None
    warnings: tuple[Problem, ...] = ()
    """Evidence about the log itself (W_… codes)."""
    base_digest: str = ""
    """d_0: parameters, client ids and sizes, initial model, architecture and validation."""
    origin: str = ""
    """The path it was read from, for words only."""
    manifest: dict[str, Any] = field(default_factory=dict)
    notes: tuple[LogNote, ...] = ()
    """What operators and clients wrote into the log about themselves."""
    task: str = CLASSIFICATION
    frozen: FrozenPart | None = None
    """What the model has beside the parameters, where the log names it."""
    casts: tuple[str, ...] = ()
    """Files whose tensors were stored in 16 bits and are read as float32, for provenance."""

    @property
    def client_ids(self) -> tuple[str, ...]:
        """The clients' ids in the manifest's order: the columns of every array."""
        return tuple(c.id for c in self.clients)

    @property
    def data_sizes(self) -> tuple[int, ...]:
        """Each client's number of training rows."""
        return tuple(c.data_size for c in self.clients)

    @property
    def epoch_count(self) -> int:
        """T."""
        return len(self.epochs)

    @property
    def parameter_count(self) -> int:
        """P, the length of the flat vector."""
        return sum(p.count for p in self.parameters)

    def participated(self) -> BoolArray:
        """(T + 1, clients); row 0 is False."""
        took_part = np.zeros((len(self.epochs) + 1, len(self.clients)), dtype=bool)
        for record in self.epochs:
            took_part[record.epoch, list(record.participants)] = True
        return took_part

    def initial(self) -> Float32Array:
        """F⁰, flattened in manifest order, (P,)."""
        return self.source.initial()

    def epoch_data(self, epoch: int) -> EpochData:
        """The updates, one per participant, and the stored global model of epoch 1..T."""
        record, stored = self.epochs[epoch - 1], self.stored_data(epoch)
        return stored if record.rows is None else replace(stored, updates=record.rows.by_client(stored.updates))

    def stored_data(self, epoch: int) -> EpochData:
        """The same as the file has it: one row per update, also where a client sent several."""
        return self.source.epoch(self.epochs[epoch - 1])

    def validation(self) -> Validation | None:
        """The validation set, if the log has one."""
        return self.source.validation()

    def epoch_digests(self) -> tuple[str, ...]:
        """d_0 … d_T: d_t = sha256(d_{t−1}, participants, sizes, sha256 of the epoch's file)."""
        digests = [self.base_digest]
        for record in self.epochs:
            h = hashlib.sha256(digests[-1].encode())
            for position, size in zip(record.participants, record.data_sizes, strict=True):
                h.update(f"\0{self.clients[position].id}\0{size}".encode())
            if record.rows is not None:  # version 2 alone: what version 1 hashes stays as it was
                h.update(f"\0{record.rows.clients}\0{record.rows.weights}".encode())
            h.update(f"\0{record.sha256 or ''}".encode())
            digests.append(h.hexdigest())
        return tuple(digests)

    def close(self) -> None:
        """Lets go of the log's files."""
        self.source.close()


def base_digest(
    clients: Sequence[Client],
    parameters: Sequence[ParameterSpec],
    initial: str,
    model: str | None,
    validation: str | None,
) -> str:
    """d_0: what the epochs of a run build upon. The last three are the sha256 of the files' content.

    The name, the labels and everything else in the manifest are left out: they change no computed number.
    """
    parts = [
        [[spec.name, list(spec.shape)] for spec in parameters],
        [[client.id, client.data_size] for client in clients],
        initial,
        model,
        validation,
    ]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True)
class ContributionTable:
    """A history computed elsewhere: values per epoch, client and utility. No model, nothing to recompute."""

    name: str
    digest: str
    client_ids: tuple[str, ...]
    utilities: tuple[str, ...]
    values: dict[str, FloatArray]
    """utility -> (T + 1, clients): 0 where absent, NaN where it took part but was not computed; row 0 is 0
    unless the table has rows for epoch 0 (the initial model's share)."""
    participated: BoolArray
    lower_is_better: frozenset[str]
    warnings: tuple[Problem, ...] = ()
    origin: str = ""

    @property
    def epoch_count(self) -> int:
        """T."""
        return len(self.participated) - 1


@dataclass(frozen=True)
class UtilityTable:
    """Absolute utilities v(S) of coalitions per epoch, from which exact values follow."""

    name: str
    digest: str
    client_ids: tuple[str, ...]
    data_sizes: tuple[int, ...] | None
    utilities: tuple[str, ...]
    participants: tuple[tuple[int, ...], ...]
    """Per epoch 1..T: client positions."""
    values: tuple[FloatArray, ...]
    """Per epoch: (2^n, utilities), row = bitmask over ``participants`` (bit 0 = participants[0])."""
    lower_is_better: frozenset[str]
    warnings: tuple[Problem, ...] = ()
    origin: str = ""

    @property
    def epoch_count(self) -> int:
        """T."""
        return len(self.participants)


Run = RunLog | ContributionTable | UtilityTable


def participants_per_epoch(run: Run) -> Sequence[int]:
    """How many clients took part in each epoch 1..T?"""
    if isinstance(run, RunLog):
        return [len(e.participants) for e in run.epochs]
    if isinstance(run, UtilityTable):
        return [len(p) for p in run.participants]
    return [int(n) for n in run.participated[1:].sum(axis=1)]
