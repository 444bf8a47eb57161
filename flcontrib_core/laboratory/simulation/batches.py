"""Mini-batches: how a client walks through its rows during one epoch.

A trailing incomplete batch is dropped: a step on one single row moves a model as far as a step on a full batch, and
an honest client whose row count leaves such a remainder looks harmful. A client with fewer rows than one batch
trains on all of its rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flcontrib_core.laboratory.simulation.local_training import LocalTraining
from flcontrib_core.vocabulary import IntArray


@dataclass(frozen=True)
class LocalBatches:
    """One client's steps of one epoch: row positions and labels, cut at ``cuts``."""

    rows: IntArray
    labels: IntArray
    cuts: tuple[int, ...]
    """Start of every step, and the end."""

    @property
    def steps(self) -> int:
        return len(self.cuts) - 1

    @property
    def width(self) -> int:
        """The longest step."""
        return max((b - a for a, b in zip(self.cuts, self.cuts[1:], strict=False)), default=0)

    def step(self, number: int) -> tuple[IntArray, IntArray]:
        own = slice(self.cuts[number], self.cuts[number + 1])
        return self.rows[own], self.labels[own]

    def only(self, steps: Sequence[int]) -> LocalBatches:
        """The same client taking only these of its steps."""
        parts = [slice(self.cuts[s], self.cuts[s + 1]) for s in steps]
        ends = np.cumsum([0, *(p.stop - p.start for p in parts)])
        rows = [self.rows[p] for p in parts] or [self.rows[:0]]
        labels = [self.labels[p] for p in parts] or [self.labels[:0]]
        return LocalBatches(np.concatenate(rows), np.concatenate(labels), tuple(int(e) for e in ends))


def local_batches(rows: IntArray, labels: IntArray, training: LocalTraining, rng: np.random.Generator) -> LocalBatches:
    """The mini-batches of one client for one epoch; every local epoch is shuffled anew. At least one step is taken."""
    size = min(training.batch, len(rows))
    usable = len(rows) - len(rows) % size if training.drop_last else len(rows)
    shuffled = [
        (rng.permutation(len(rows)) if training.shuffle else np.arange(len(rows)))[:usable]
        for _ in range(training.local_epochs)
    ]
    order = np.concatenate(shuffled)
    starts = [e * usable + s for e in range(training.local_epochs) for s in range(0, usable, size)]
    whole = LocalBatches(rows[order], labels[order], (*starts, usable * training.local_epochs))
    if training.step_share >= 1:
        return whole
    return whole.only(range(max(1, round(training.step_share * whole.steps))))
