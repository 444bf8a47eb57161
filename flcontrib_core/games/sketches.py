"""How are the directions of updates compared over a long run without keeping the updates?

Each update leaves a seeded sketch: a few thousand numbers whose dot products estimate cosines. Exact distances are read
again from the log only for pairs that the sketches cannot tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import Float32Array, FloatArray, IntArray

SKETCH_DIMENSIONS = 4096
REPEAT_DISTANCE = 1e-3
"""Relative distance below which an update counts as a repeat of an earlier one."""
_NORM_SLACK = 2 * REPEAT_DISTANCE
_SKETCH_SLACK = 4 * REPEAT_DISTANCE
"""What may pass as a candidate: half precision and the sketch itself can only bring updates apart by less."""
_BLOCK = 1 << 18

UpdateDistance = Callable[[int, int, int], float]
"""(client position, earlier epoch, later epoch) -> ‖Δ − Δ'‖ / max(‖Δ‖, ‖Δ'‖)"""


def blocks_of(length: int) -> Iterator[slice]:
    """Parameter positions in pieces that are cheap to turn into float64."""
    for start in range(0, length, _BLOCK):
        yield slice(start, start + _BLOCK)


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
        for start in range(0, length, dimensions):
            part = updates[:, start : start + dimensions]
            width = part.shape[1]
            sign = 1.0 - 2.0 * rng.integers(0, 2, dimensions, dtype=np.int8)[:width].astype(np.float32)
            turn = int(rng.integers(dimensions))
            before = max(0, min(width, dimensions - turn))  # where the rotated run passes the end
            total[:, turn : turn + before] += part[:, :before] * sign[:before]
            total[:, : width - before] += part[:, before:] * sign[before:]
    size = np.sqrt(np.einsum("ij,ij->i", total, total))[:, None]
    unit = np.divide(total, size, out=np.zeros_like(total), where=size > 0)
    return np.asarray(unit, dtype=np.float16)


def update_distance(run: RunLog) -> UpdateDistance:
    """Exact relative distance of two updates of one client, read again from the log."""

    def update(client: int, epoch: int) -> Float32Array:
        row = run.epochs[epoch - 1].participants.index(client)
        return np.asarray(run.epoch_data(epoch).updates[row])

    def distance(client: int, earlier: int, later: int) -> float:
        first, second = update(client, earlier), update(client, later)
        sums = np.zeros(3)
        for block in blocks_of(len(first)):
            a, b = first[block].astype(np.float64), second[block].astype(np.float64)
            sums += [float(np.einsum("j,j", v, v)) for v in (a - b, a, b)]
        return float(np.sqrt(sums[0] / max(sums[1], sums[2]))) if max(sums[1], sums[2]) > 0 else 0.0

    return distance


def mean_cosine_to_the_others(directions: Float32Array) -> FloatArray:
    """(k,) mean over the other rows of the dot product; the rows have unit length up to half precision."""
    rows = directions.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray((np.einsum("ij,j->i", rows, rows.sum(axis=0)) - 1.0) / (len(rows) - 1))


def largest_cosine_to_earlier(directions: Float32Array) -> FloatArray:
    """(k,) largest dot product of each row with the rows before it; NaN for the first.

    Rounded to six digits, so that the bits do not depend on how a matrix library splits its sums.
    """
    rows = directions.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    largest = np.full(len(rows), np.nan)
    for position in range(1, len(rows)):
        largest[position] = np.round(np.max(rows[:position] @ rows[position]), 6)
    return largest


def repeated_updates(
    client: int,
    epochs: IntArray,
    norm: FloatArray,
    directions: Float32Array,
    fingerprints: Mapping[tuple[int, int], bytes],
    distance: UpdateDistance,
) -> Iterator[tuple[int, int]]:
    """(earlier, later) epochs of repeated updates, the earliest original for each.

    An update within 10⁻³ of another has nearly its norm and its sketch; only what passes both is read again, and
    bit-equal updates not even that.
    """
    for position in range(1, len(epochs)):
        ratio = norm[:position] / norm[position]
        close = np.flatnonzero(np.abs(ratio - 1.0) <= _NORM_SLACK)
        if not len(close):
            continue
        gap = directions[close] - directions[position]
        close = close[np.einsum("ij,ij->i", gap, gap) <= _SKETCH_SLACK**2]
        later = int(epochs[position])
        for earlier in epochs[close].tolist():
            same = fingerprints[earlier, client] == fingerprints[later, client]
            if same or distance(client, earlier, later) < REPEAT_DISTANCE:
                yield earlier, later
                break
