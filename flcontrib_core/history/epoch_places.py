"""Where the numbers of each epoch lie, so that a worker can be sent there instead of being sent the numbers.

What a folder holds stays there. A zip has to be read from the beginning of an entry, so that its models, which several
epochs need, are read once, here; a run in memory is placed epoch by epoch. A model that no log stores is rebuilt here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from flcontrib_core.execution.engine import Engine, InProcess, Placed
from flcontrib_core.history.epoch_work import EpochTask, ModelPlace, fetch_model
from flcontrib_core.runs.containers import DirectoryContainer
from flcontrib_core.runs.epoch_source import BundleSource
from flcontrib_core.runs.run_log import EpochData, EpochRecord, RunLog
from flcontrib_core.vocabulary import Float32Array


@dataclass(frozen=True)
class EpochPlaces:
    """Where the numbers of one epoch lie."""

    record: EpochRecord
    start: ModelPlace
    """F(t−1)"""
    before: ModelPlace | None
    """F(t−2)"""
    end: ModelPlace | None
    """F(t); None where it would have to be rebuilt, and nobody asked for it"""
    updates: Placed | None
    """None: in the log"""


def task_of(run: RunLog, places: EpochPlaces) -> EpochTask:
    """The task that asks nothing of an epoch yet."""
    record = places.record
    return EpochTask(
        epoch=record.epoch,
        client_ids=tuple(run.clients[i].id for i in record.participants),
        start=places.start,
        before=places.before,
        updates=places.updates,
        weights=record.weights,
        end=places.end,
    )


def lies_in_a_file(run: RunLog) -> bool:
    """Whether another process can read the run by itself."""
    return isinstance(run.source, BundleSource)


@dataclass(frozen=True)
class Anchor:
    """The models around the beginning of one epoch, so that a later walk need not rebuild all that led there."""

    digest: str
    """Of the run until the epoch before"""
    epoch: int
    start: int | Float32Array
    """F(t−1), or the epoch whose file stores it"""
    before: int | Float32Array | None

    @classmethod
    def of(cls, places: EpochPlaces, digests: Sequence[str]) -> Anchor:
        """Taken while the engine that holds the places is open."""
        t = places.record.epoch
        start, before = (
            p if p is None or isinstance(p, int) else np.array(p.fetch()) for p in (places.start, places.before)
        )
        assert start is not None
        return cls(digests[t - 1], t, start, before)

    def holds(self, digests: Sequence[str], epochs: set[int]) -> bool:
        """Is this the same run, and is nothing before the epoch asked for?"""
        return (
            self.epoch < len(digests)
            and digests[self.epoch - 1] == self.digest
            and min(epochs, default=0) >= self.epoch
        )


def epoch_places(
    run: RunLog, engine: Engine, epochs: set[int], ends: bool, since: Anchor | None = None
) -> Iterator[EpochPlaces]:
    """The places of the wanted epochs in their order; with ``ends`` also of the models that have to be rebuilt.

    ``since``: an anchor that holds, from which the walk begins.
    """
    source = run.source
    mapped = isinstance(source, BundleSource) and isinstance(source.container, DirectoryContainer)
    brought = not lies_in_a_file(run) or (isinstance(engine, InProcess) and not mapped)
    start: ModelPlace = 0 if lies_in_a_file(run) else engine.place(run.initial())
    before: ModelPlace | None = None
    if since is not None:
        start = _again(since.start, engine)
        before = None if since.before is None else _again(since.before, engine)
    for record in run.epochs[since.epoch - 1 if since else 0 : max(epochs, default=0)]:
        t = record.epoch
        rebuilt = bool(record.participants) and not record.has_global
        data = run.epoch_data(t) if not mapped and (rebuilt or epochs & {t, t + 1, t + 2}) else None
        end = _stored_model(record, data, start, engine)
        if end is None and ends:
            end = _rebuilt_model(run, record, data, start, engine)
        if t in epochs:
            updates = engine.place(np.ascontiguousarray(data.updates)) if brought and data is not None else None
            yield EpochPlaces(record, start, before, end, updates)
            if t == max(epochs):
                return
        before = None  # a large model at a time: this one is not needed for the next
        if end is None:
            end = _rebuilt_model(run, record, data, start, engine)
        before, start = start, end


def _again(model: int | Float32Array, engine: Engine) -> ModelPlace:
    return model if isinstance(model, int) else engine.place(model)


def _stored_model(record: EpochRecord, data: EpochData | None, start: ModelPlace, engine: Engine) -> ModelPlace | None:
    """Where F(t) lies already, or was just read."""
    if not record.has_global:
        return None if record.participants else start
    return record.epoch if data is None or data.global_model is None else engine.place(data.global_model)


def _rebuilt_model(
    run: RunLog, record: EpochRecord, data: EpochData | None, start: ModelPlace, engine: Engine
) -> ModelPlace:
    """F(t) by eq. (fl_naive)."""
    from flcontrib_core.games.submodels import aggregate

    updates = (data or run.epoch_data(record.epoch)).updates
    return engine.place(aggregate(fetch_model(run, start), updates, record.weights))
