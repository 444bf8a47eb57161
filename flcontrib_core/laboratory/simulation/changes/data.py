"""Honest changes of what a client trains on: how much, what it looks like, what it is called, who else has it."""

from __future__ import annotations

import numpy as np

from flcontrib_core.laboratory.simulation.behaviour import Moment
from flcontrib_core.laboratory.simulation.changes.change import ChangeBehaviour, Held, Rows
from flcontrib_core.laboratory.simulation.datasets import Dataset
from flcontrib_core.laboratory.simulation.kinds import ChangeKind
from flcontrib_core.laboratory.simulation.splits import FEWEST_ROWS
from flcontrib_core.vocabulary import Float32Array, IntArray

LARGEST_PIXEL_SHIFT = 1
"""By which an augmented image is moved, in each direction."""


class DataGrows(ChangeBehaviour):
    """Has a share [s] of its rows before its window; they grow evenly until it has all at the window's end."""

    kind = ChangeKind.DATA_GROWS
    default, least, most = 0.4, 0.01, 1.0
    lasting, own_size = True, True

    def data(self, rows: IntArray, labels: IntArray, moment: Moment) -> tuple[IntArray, IntArray]:
        return _first_part(rows, labels, moment.strength + (1 - moment.strength) * moment.progress, moment)


class DataShrinks(ChangeBehaviour):
    """Loses rows evenly over its window, until a share [s] is left for good (retention rules, consent withdrawn)."""

    kind = ChangeKind.DATA_SHRINKS
    default, least, most = 0.4, 0.01, 1.0
    lasting, own_size = True, True

    def data(self, rows: IntArray, labels: IntArray, moment: Moment) -> tuple[IntArray, IntArray]:
        return _first_part(rows, labels, 1 - (1 - moment.strength) * moment.progress, moment)


class InputShift(ChangeBehaviour):
    """A device that reads every column off by a constant: [s] deviations, in a direction of its own."""

    kind = ChangeKind.INPUT_SHIFT
    default = 0.5

    def inputs(self, x: Float32Array, moment: Moment) -> Float32Array | None:
        data = moment.world.data
        if data.image is not None:  # brightness: all pixels the same way
            offset = np.full(x.shape[1], moment.steady().choice([-1.0, 1.0]) * float(data.x_train.std()))
        else:
            offset = moment.steady().choice([-1.0, 1.0], size=x.shape[1]) * data.x_train.std(axis=0)
        return _within(x + moment.strength * offset, data)


class InputGain(ChangeBehaviour):
    """A device with another gain: every input is [factor] times as large."""

    kind = ChangeKind.INPUT_GAIN
    default, least = 1.3, 0.01

    def inputs(self, x: Float32Array, moment: Moment) -> Float32Array | None:
        return _within(x * moment.strength, moment.world.data)


class InputNoise(ChangeBehaviour):
    """A device with noise of [s] deviations on every reading; each row is read once."""

    kind = ChangeKind.INPUT_NOISE
    default = 0.3

    def inputs(self, x: Float32Array, moment: Moment) -> Float32Array | None:
        spread = moment.strength * _deviation(moment.world.data)
        return _within(x + moment.steady().normal(size=x.shape) * spread, moment.world.data)


class NewScanner(ChangeBehaviour):
    """Another device: an offset and noise of [s] deviations, and a gain that is off by up to that share."""

    kind = ChangeKind.NEW_SCANNER
    default, most = 0.3, 1.0

    def inputs(self, x: Float32Array, moment: Moment) -> Float32Array | None:
        data, rng, s = moment.world.data, moment.steady(), moment.strength
        columns = 1 if data.image is not None else x.shape[1]
        gain = 1 + s * rng.uniform(-1, 1, size=columns)
        read = x * gain + s * _deviation(data) * (rng.choice([-1.0, 1.0], size=columns) + rng.normal(size=x.shape))
        return _within(read, data)


class MissingColumns(ChangeBehaviour):
    """Does not measure a share [s] of the columns: they hold the column's mean."""

    kind = ChangeKind.MISSING_COLUMNS
    default, most = 0.2, 1.0

    def inputs(self, x: Float32Array, moment: Moment) -> Float32Array | None:
        missing = moment.steady().random(x.shape[1]) < moment.strength
        return np.where(missing, moment.world.data.x_train.mean(axis=0), x).astype(np.float32)


class Augmentation(ChangeBehaviour):
    """Trains on varied copies: images moved by up to a pixel, and noise of [s] deviations, anew every epoch."""

    kind = ChangeKind.AUGMENTATION
    default = 0.1

    def inputs(self, x: Float32Array, moment: Moment) -> Float32Array | None:
        data, rng = moment.world.data, moment.fresh()
        varied = x if data.image is None else _moved(x, data.image, rng)
        return _within(varied + moment.strength * _deviation(data) * rng.normal(size=x.shape), data)


class HarmonisedLabels(ChangeBehaviour):
    """Before its window it used a coding scheme of its own, which calls a share [s] of one class by another's name;
    from then on its labels follow the common scheme."""

    kind = ChangeKind.HARMONISED_LABELS
    default, most = 0.3, 1.0
    lasting, turning = True, True

    def data(self, rows: IntArray, labels: IntArray, moment: Moment) -> tuple[IntArray, IntArray]:
        if moment.progress > 0:
            return rows, labels
        rng, classes = moment.always(), moment.world.data.classes
        own = int(rng.choice(np.unique(labels)))
        called = rng.random(len(labels)) < moment.strength
        return rows, np.where(called & (labels == own), (own + 1) % classes, labels)


class ClassRebalancing(ChangeBehaviour):
    """Draws its rows anew, so that each class it holds comes equally often."""

    kind = ChangeKind.CLASS_REBALANCING

    def data(self, rows: IntArray, labels: IntArray, moment: Moment) -> tuple[IntArray, IntArray]:
        weight = 1.0 / np.bincount(labels)[labels]
        taken = moment.steady().choice(len(rows), size=len(rows), p=weight / weight.sum())
        return rows[taken], labels[taken]


class NoisyLabels(ChangeBehaviour):
    """A share [p] of its labels is wrong, and nobody meant it."""

    kind = ChangeKind.NOISY_LABELS
    default, most = 0.08, 1.0

    def data(self, rows: IntArray, labels: IntArray, moment: Moment) -> tuple[IntArray, IntArray]:
        rng, classes = moment.steady(), moment.world.data.classes
        wrong = rng.random(len(labels)) < moment.strength
        return rows, np.where(wrong, (labels + rng.integers(1, classes, len(labels))) % classes, labels)


class RareClass(ChangeBehaviour):
    """Is alone to hold a class: what the others held of it is shared out among the changed clients.

    A client that would be left with too few rows keeps them.
    """

    kind = ChangeKind.RARE_CLASS
    whole_run, not_for_all = True, True

    def hold(self, held: Held, clients: tuple[int, ...], strength: float, rng: np.random.Generator) -> Rows:
        rare = int(rng.choice(np.unique(held.labels)))
        holders = [set(own.tolist()) for own in held.rows]
        moved: list[int] = []
        for client, own in enumerate(held.rows):
            of_it = [int(r) for r in own if held.labels[r] == rare]
            if client not in clients and len(own) - len(of_it) >= FEWEST_ROWS:
                holders[client] -= set(of_it)
                moved += of_it
        for turn, row in enumerate(moved):
            holders[clients[turn % len(clients)]].add(row)
        return tuple(np.array(sorted(own), dtype=np.int64) for own in holders)


class Overlap(ChangeBehaviour):
    """Also holds copies of another site's rows, as many as a share [s] of its own (one patient, two hospitals)."""

    kind = ChangeKind.OVERLAP
    default, least, most = 0.5, 0.01, 1.0
    whole_run = True

    def hold(self, held: Held, clients: tuple[int, ...], strength: float, rng: np.random.Generator) -> Rows:
        rows = list(held.rows)
        for client in clients:
            partner = int(rng.choice([c for c in range(len(rows)) if c != client] or [client]))
            count = max(1, round(strength * len(held.rows[client])))
            theirs = rng.permutation(held.rows[partner])[:count]
            rows[client] = np.union1d(rows[client], theirs)
        return tuple(rows)


def _first_part(rows: IntArray, labels: IntArray, share: float, moment: Moment) -> tuple[IntArray, IntArray]:
    """A share of the rows in an order that stays, so that more rows include the fewer ones."""
    order = moment.always().permutation(len(rows))
    part = np.sort(order[: max(min(FEWEST_ROWS, len(rows)), round(share * len(rows)))])
    return rows[part], labels[part]


def _deviation(data: Dataset) -> Float32Array:
    """Of the inputs: one for all pixels of an image, one per column of a table."""
    return np.asarray(data.x_train.std() if data.image is not None else data.x_train.std(axis=0))


def _within(x: np.ndarray, data: Dataset) -> Float32Array:
    """Inputs a device can give: an image's stay within the range of the data."""
    if data.image is not None:
        x = np.clip(x, data.x_train.min(), data.x_train.max())
    return x.astype(np.float32)


def _moved(x: Float32Array, image: tuple[int, int, int], rng: np.random.Generator) -> Float32Array:
    """Every image moved by up to a pixel; what comes in from outside is the edge once more."""
    channels, height, width = image
    reach = LARGEST_PIXEL_SHIFT
    padded = np.pad(x.reshape(-1, channels, height, width), ((0, 0), (0, 0), (reach, reach), (reach, reach)), "edge")
    down, right = rng.integers(0, 2 * reach + 1, size=(2, len(x)))
    lines = down[:, None, None, None] + np.arange(height)[None, None, :, None]
    columns = right[:, None, None, None] + np.arange(width)[None, None, None, :]
    every = np.arange(len(x))[:, None, None, None], np.arange(channels)[None, :, None, None]
    return np.asarray(padded[every[0], every[1], lines, columns].reshape(len(x), -1))


DATA_CHANGES: tuple[ChangeBehaviour, ...] = (
    DataGrows(),
    DataShrinks(),
    InputShift(),
    InputGain(),
    InputNoise(),
    NewScanner(),
    MissingColumns(),
    HarmonisedLabels(),
    ClassRebalancing(),
    Augmentation(),
    NoisyLabels(),
    RareClass(),
    Overlap(),
)
