"""Sketches of updates, by which their directions are compared over a long run without keeping them.

Each update leaves a seeded sketch: a few thousand numbers whose dot products estimate cosines. Exact distances are read
again from the log only for pairs that the sketches cannot tell apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from flcontrib_core.runs.mapped import in_blocks
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import Float32Array, FloatArray, IntArray

SKETCH_DIMENSIONS = 4096
REPEAT_DISTANCE = 1e-3
"""Relative distance below which an update counts as a repeat of an earlier one."""
_NORM_SLACK = 2 * REPEAT_DISTANCE
_SKETCH_SLACK = 4 * REPEAT_DISTANCE
"""What may pass as a candidate: half precision and the sketch itself can only bring updates apart by less."""
_BLOCK = 1 << 18
_HASHED = 1 << 22
_FEW_MAGNITUDES = 16
_FEW_SHARE = 0.25
"""Fewer magnitudes than either (two at least) are few: an update of a small dense model has one for each parameter."""

UpdateDistance = Callable[[int, int, int], float]
"""(client position, earlier epoch, later epoch) -> ‖Δ − Δ'‖ / max(‖Δ‖, ‖Δ'‖)"""


def blocks_of(length: int, *arrays: Float32Array) -> Iterator[slice]:
    """Parameter positions in pieces that are cheap to turn into float64; ``arrays``: what is read in these pieces."""
    yield from in_blocks(length, _BLOCK, *arrays)


def sketch_updates(updates: Float32Array, seed: int, dimensions: int = SKETCH_DIMENSIONS) -> np.ndarray:
    """(n, dimensions) float16, unit rows whose dot products estimate the updates' cosines (error ~ 1/√dimensions).

    A count sketch in one pass: each run of ``dimensions`` parameters gets random signs and a random rotation and is
    added up. The same seed gives the same projection for every update of the same length; models of at most
    ``dimensions`` parameters are kept as they are.
    """
    players, length = updates.shape
    if length <= dimensions:
        total = updates.astype(np.float64)
    else:
        rng = np.random.default_rng([seed, length, dimensions])
        total = np.zeros((players, dimensions))
        for columns in in_blocks(length, dimensions, updates):
            part = updates[:, columns]
            width = part.shape[1]
            sign = 1.0 - 2.0 * rng.integers(0, 2, dimensions, dtype=np.int8)[:width].astype(np.float32)
            turn = int(rng.integers(dimensions))
            before = max(0, min(width, dimensions - turn))  # where the rotated run passes the end
            total[:, turn : turn + before] += part[:, :before] * sign[:before]
            total[:, : width - before] += part[:, before:] * sign[before:]
    size = np.sqrt(np.einsum("ij,ij->i", total, total))[:, None]
    unit = np.divide(total, size, out=np.zeros_like(total), where=size > 0)
    return np.asarray(unit, dtype=np.float16)


def fingerprints_of(updates: Float32Array) -> np.ndarray:
    """(n, 32) uint8: sha256 of each update's bytes."""
    digests = []
    for row in updates:
        digest = hashlib.sha256()
        for block in in_blocks(len(row), _HASHED, row):
            digest.update(np.ascontiguousarray(row[block]).data)
        digests.append(digest.digest())
    return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(len(updates), 32)


def update_distance(run: RunLog) -> UpdateDistance:
    """Exact relative distance of two updates of one client, read again from the log."""

    def update(client: int, epoch: int) -> Float32Array:
        row = run.epochs[epoch - 1].participants.index(client)
        return np.asarray(run.epoch_data(epoch).updates[row])

    def distance(client: int, earlier: int, later: int) -> float:
        first, second = update(client, earlier), update(client, later)
        sums = np.zeros(3)
        for block in blocks_of(len(first), first, second):
            a, b = first[block].astype(np.float64), second[block].astype(np.float64)
            sums += [float(np.einsum("j,j", v, v)) for v in (a - b, a, b)]
        return float(np.sqrt(sums[0] / max(sums[1], sums[2]))) if max(sums[1], sums[2]) > 0 else 0.0

    return distance


@dataclass
class OwnDirections:
    """One client's updates by direction, in the order in which it sent them; a growing run adds to them."""

    _sketches: Float32Array
    """(capacity, dimensions)"""
    _units: FloatArray
    """(capacity, dimensions) the same with unit length"""
    _total: FloatArray
    """(dimensions,) sum of the unit rows"""
    count: int

    @classmethod
    def empty(cls, dimensions: int) -> OwnDirections:
        return cls(np.empty((0, dimensions), np.float32), np.empty((0, dimensions)), np.zeros(dimensions), 0)

    @property
    def sketches(self) -> Float32Array:
        """(k, dimensions)"""
        return self._sketches[: self.count]

    @property
    def nbytes(self) -> int:
        return self._sketches.nbytes + self._units.nbytes + self._total.nbytes

    def append(self, added: list[np.ndarray]) -> None:
        """Puts sketches behind the others; the numbers do not depend on how many are added at a time."""
        first, self.count = self.count, self.count + len(added)
        if self.count > len(self._sketches):
            room = self.count + (self.count // 4 if first else 0)
            self._sketches, self._units = _longer(self._sketches[:first], room), _longer(self._units[:first], room)
        here = slice(first, self.count)
        self._sketches[here] = added
        self._units[here] = unit_rows(self._sketches[here])
        for unit in self._units[here]:
            self._total += unit

    def mean_cosine_to_the_others(self) -> FloatArray:
        """(k,) mean over the other rows of the dot product of unit rows."""
        units = self._units[: self.count]
        return np.asarray((np.einsum("ij,j->i", units, self._total) - 1.0) / (self.count - 1))

    def largest_cosine_to_earlier(self, first: int = 0) -> FloatArray:
        """(k,) largest dot product of each unit row with the rows before it; NaN for the first, and before ``first``.

        Rounded to six digits, so that the bits do not depend on how a matrix library splits its sums.
        """
        largest = np.full(self.count, np.nan)
        for position in range(max(1, first), self.count):
            largest[position] = np.round(np.max(self._units[:position] @ self._units[position]), 6)
        return largest


def _longer(rows: np.ndarray, room: int) -> np.ndarray:
    """The rows at the beginning of more memory."""
    longer = np.empty((room, rows.shape[1]), rows.dtype)
    longer[: len(rows)] = rows
    return longer


def unit_rows(directions: Float32Array) -> FloatArray:
    """The rows with unit length in float64; as they are stored they have it up to half precision."""
    rows = directions.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def few_valued(direction: Float32Array) -> bool:
    """Whether the update consists of a few magnitudes only, as a step of Adam or a compressed update does.

    Signs of a gradient stay the same while the model moves, so that honest clients send such updates again and again,
    bit for bit even. Magnitudes are counted in bins of one per cent: half precision cannot tell more apart.
    """
    sizes = np.abs(direction[direction != 0]).astype(np.float64)
    distinct = len(np.unique(np.round(100.0 * np.log(sizes))))
    return distinct < _FEW_MAGNITUDES and distinct <= max(2.0, _FEW_SHARE * len(sizes))


def repeated_updates(
    client: int,
    epochs: IntArray,
    norm: FloatArray,
    directions: Float32Array,
    fingerprints: Mapping[tuple[int, int], bytes],
    distance: UpdateDistance,
    first: int = 0,
) -> Iterator[tuple[int, int]]:
    """(earlier, later) epochs of repeated updates from position ``first`` on, the earliest original for each.

    An update within 10⁻³ of another has nearly its norm and its sketch; only what passes both is read again, and
    bit-equal updates not even that. Of updates with a few magnitudes nothing is said (``few_valued``).
    """
    for position in range(max(1, first), len(epochs)):
        ratio = norm[:position] / norm[position]
        close = np.flatnonzero(np.abs(ratio - 1.0) <= _NORM_SLACK)
        if not len(close):
            continue
        gap = directions[close] - directions[position]
        close = close[np.einsum("ij,ij->i", gap, gap) <= _SKETCH_SLACK**2]
        if not len(close) or few_valued(directions[position]):
            continue
        later = int(epochs[position])
        for earlier in epochs[close].tolist():
            same = fingerprints[earlier, client] == fingerprints[later, client]
            if same or distance(client, earlier, later) < REPEAT_DISTANCE:
                yield earlier, later
                break


def copied_updates(members: list[int], prints: list[bytes], norm: FloatArray, sketch: np.ndarray) -> list[int]:
    """1 + position of the first other participant with the same bytes, 0 = none.

    Zero updates copy nobody, nor do those of a few magnitudes: sites that hold one class send the same signs.
    """
    holders: dict[bytes, list[int]] = {}
    for client, mine, size in zip(members, prints, norm, strict=True):
        if size > 0:
            holders.setdefault(mine, []).append(client)
    copies = [0] * len(members)
    for row, (client, mine) in enumerate(zip(members, prints, strict=True)):
        others = [other for other in holders.get(mine, []) if other != client]
        if others and not few_valued(sketch[row].astype(np.float32)):
            copies[row] = 1 + others[0]
    return copies
