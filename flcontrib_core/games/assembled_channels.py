"""All epochs' observations side by side, with what only shows across epochs.

A client's own direction, and updates that it sent before. Updates are kept as seeded sketches, so that a long run needs
neither all updates in memory nor a second reading of it; exact distances are read again only for pairs that the
sketches cannot tell apart. The reader of a growing run brings what it kept, and gets the same bits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from flcontrib_core.games.raw_channels import RawChannels
from flcontrib_core.games.sketches import (
    OwnDirections,
    UpdateDistance,
    copied_updates,
    repeated_updates,
    update_distance,
)
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from flcontrib_core.games.observations import EpochObservation

_SKETCHES_IN_MEMORY = 256 << 20
_PER_CLIENT = (
    "solo_margin",
    "solo_worst_class",
    "solo_loss",
    "norm",
    "spread",
    "peer_cosine",
    "last_step_cosine",
    "twin_cosine",
)


@dataclass
class ShorterRun:
    """What was assembled of a run when it was shorter, for a reader that goes on from there."""

    channels: RawChannels | None = None
    directions: dict[int, OwnDirections] = field(default_factory=dict)
    """By client's position, as far as they fit in memory together"""
    fingerprints: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """By epoch and client"""
    observed: set[int] = field(default_factory=set)
    """The epochs whose observations are in the channels"""
    most_bytes: int = _SKETCHES_IN_MEMORY
    """Of all directions together"""

    def rows_of(self, observations: Mapping[int, EpochObservation], clients: int) -> int:
        """How many rows of the channels can be taken over: all, or none."""
        if self.channels is None or self.channels.norm.shape[1] != clients:
            return 0
        rows = len(self.channels.norm)
        return rows if self.observed == {t for t in observations if t < rows} else 0

    def directions_of(self, client: int, count: int) -> OwnDirections | None:
        """The client's so many directions, where they were kept."""
        kept = self.directions.get(client)
        return kept if kept is not None and kept.count == count > 0 else None

    def keep(self, client: int, directions: OwnDirections) -> None:
        """For the next time, unless the others fill the memory already."""
        others = sum(d.nbytes for c, d in self.directions.items() if c != client)
        if others + directions.nbytes <= self.most_bytes:
            self.directions[client] = directions
        else:
            self.directions.pop(client, None)


def assemble_channels(
    run: RunLog,
    observations: Mapping[int, EpochObservation],
    distance: UpdateDistance | None = None,
    before: ShorterRun | None = None,
) -> RawChannels:
    """All epochs side by side, with each client's own direction, repeats and copies.

    ``observations`` by epoch; it may load them when asked (each is asked for once, plus once per group of clients
    whose sketches fit in memory together). Missing epochs stay NaN. ``before``: of the same run when it was shorter;
    what was found now is kept in it.
    """
    before = ShorterRun(most_bytes=0) if before is None else before
    shape = (run.epoch_count + 1, len(run.clients))
    known = before.rows_of(observations, len(run.clients))
    seen = _EpochByEpoch.of(shape, before.channels if known else None)
    fingerprints = before.fingerprints if known else {}
    for epoch in sorted(t for t in observations if t >= known):
        members = list(run.epochs[epoch - 1].participants)
        fingerprints |= {(epoch, client): print_ for client, print_ in seen.take(observations[epoch], epoch, members)}
    own, closest, repeats = _across_epochs(
        run, observations, seen.per_client["norm"], fingerprints, distance or update_distance(run), before, known
    )
    bit_equal = np.zeros(shape, dtype=bool)
    for epoch, client in np.argwhere(repeats > 0).tolist():
        bit_equal[epoch, client] = fingerprints[epoch, client] == fingerprints[int(repeats[epoch, client]), client]
    before.channels = RawChannels(
        **seen.per_client,
        solo_class_margin=np.full((*shape, 0), np.nan) if seen.class_margin is None else seen.class_margin,
        own_cosine=own,
        repeat_of=repeats,
        copy_of=seen.copy_of,
        validation_rows=seen.rows,
        sketch_dimensions=seen.dimensions,
        repeat_bit_equal=bit_equal,
        closest_own_cosine=closest,
        twin_of=seen.twin_of,
    )
    before.fingerprints, before.observed = fingerprints, set(observations)
    return before.channels


@dataclass
class _EpochByEpoch:
    """The channels that look at one epoch at a time, while they are filled in; arrays are (T + 1, clients)."""

    per_client: dict[str, FloatArray]
    class_margin: FloatArray | None
    """(T + 1, clients, classes); None before the first epoch"""
    copy_of: IntArray
    twin_of: IntArray
    rows: int
    """of the validation set"""
    dimensions: int
    """of a sketch"""

    @classmethod
    def of(cls, shape: tuple[int, int], before: RawChannels | None) -> _EpochByEpoch:
        """Empty, or begun with the rows that are known."""
        cells = {name: np.full(shape, np.nan) for name in _PER_CLIENT}
        empty = cls(cells, None, np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64), 0, 0)
        if before is None:
            return empty
        known = slice(len(before.norm))
        for name, mine in cells.items():
            mine[known] = getattr(before, name)
        empty.copy_of[known] = before.copy_of
        if before.twin_of is not None:
            empty.twin_of[known] = before.twin_of
        margin = None
        if before.sketch_dimensions:
            margin = np.full((*shape, before.solo_class_margin.shape[2]), np.nan)
            margin[known] = before.solo_class_margin
        rows, dimensions = before.validation_rows, before.sketch_dimensions
        return cls(cells, margin, empty.copy_of, empty.twin_of, rows, dimensions)

    def take(self, seen: EpochObservation, epoch: int, members: list[int]) -> Iterator[tuple[int, bytes]]:
        """Fills one epoch in; (client, fingerprint) of its participants."""
        for name, cells in self.per_client.items():
            cells[epoch, members] = getattr(seen, name)
        if self.class_margin is None:
            shape = self.copy_of.shape
            self.class_margin = np.full((*shape, seen.solo_class_margin.shape[1]), np.nan)
        self.class_margin[epoch, members] = seen.solo_class_margin
        self.rows, self.dimensions = seen.validation_rows, seen.sketch.shape[1]
        prints = [row.tobytes() for row in seen.fingerprint]
        self.copy_of[epoch, members] = copied_updates(members, prints, seen.norm, seen.sketch)
        self.twin_of[epoch, members] = [0 if row < 0 else 1 + members[row] for row in seen.twin]
        return zip(members, prints, strict=True)


def _across_epochs(
    run: RunLog,
    observations: Mapping[int, EpochObservation],
    norm: FloatArray,
    fingerprints: Mapping[tuple[int, int], bytes],
    distance: UpdateDistance,
    before: ShorterRun,
    known: int,
) -> tuple[FloatArray, FloatArray, IntArray]:
    """(T + 1, clients) own cosine, closest earlier one and repeated epoch; a bounded group of sketches is in memory.

    ``known``: rows that ``before`` has.
    """

    def starts(client: int, epoch: int) -> set[int]:
        """The models its updates began from; the same one, trained again without chance, gives the same update."""
        rows = run.epochs[epoch - 1].rows
        if rows is None:
            return {epoch - 1}
        return {start for who, start in zip(rows.clients, rows.starts, strict=True) if who == client}

    own, closest = np.full(norm.shape, np.nan), np.full(norm.shape, np.nan)
    repeats = np.zeros(norm.shape, dtype=np.int64)
    moved: BoolArray = norm > 0  # NaN (absent, not observed) is not
    for group in _groups_of_clients(moved.sum(axis=0), observations):
        directions = {client: before.directions_of(client, int(moved[:known, client].sum())) for client in group}
        sketches = _sketches(run, observations, moved, {c: known if directions[c] else 0 for c in group})
        for client in group:
            epochs = np.flatnonzero(moved[:, client])
            if not len(epochs):
                continue
            added = sketches.pop(client, [])
            mine = directions.pop(client) or OwnDirections.empty(len(added[0]))
            mine.append(added)
            before.keep(client, mine)
            if len(epochs) < 2:
                continue
            own[epochs, client] = mine.mean_cosine_to_the_others()
            first = int(np.searchsorted(epochs, known))  # of what looks back at earlier epochs alone
            closest[epochs, client] = mine.largest_cosine_to_earlier(first)
            if known and before.channels is not None and before.channels.closest_own_cosine is not None:
                closest[:known, client] = before.channels.closest_own_cosine[:, client]
                repeats[:known, client] = before.channels.repeat_of[:, client]
            sizes = norm[epochs, client]
            for earlier, later in repeated_updates(client, epochs, sizes, mine.sketches, fingerprints, distance, first):
                if not starts(client, later) & starts(client, earlier):
                    repeats[later, client] = earlier
    return own, closest, repeats


def _sketches(
    run: RunLog, observations: Mapping[int, EpochObservation], moved: BoolArray, since: Mapping[int, int]
) -> dict[int, list[np.ndarray]]:
    """client -> its sketches from row ``since[client]`` on, in the order of the epochs."""
    sketches: dict[int, list[np.ndarray]] = defaultdict(list)
    for epoch in sorted(t for t in observations if t >= min(since.values())):
        members = run.epochs[epoch - 1].participants
        cells = [(r, c) for r, c in enumerate(members) if epoch >= since.get(c, epoch + 1) and moved[epoch, c]]
        if cells:
            seen = observations[epoch].sketch
            for row, client in cells:
                sketches[client].append(seen[row])
    return sketches


def _groups_of_clients(updates: IntArray, observations: Mapping[int, EpochObservation]) -> Iterator[list[int]]:
    """Clients in groups whose sketches stay within the memory bound."""
    if not len(observations):
        return
    first = observations[min(observations)].sketch
    group, taken = list[int](), 0
    for client, count in enumerate(updates.tolist()):
        size = count * first.shape[1] * first.itemsize
        if group and taken + size > _SKETCHES_IN_MEMORY:
            yield group
            group, taken = [], 0
        group.append(client)
        taken += size
    yield group
