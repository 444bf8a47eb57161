"""In which mini-batches does a client walk through its rows during one epoch?

A trailing incomplete batch is dropped: a step on one single row moves a model as far as a step on a full batch, and
an honest client whose row count leaves such a remainder looks harmful. A client with fewer rows than one batch
trains on all of its rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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


def local_batches(
    rows: IntArray, labels: IntArray, batch: int, local_epochs: int, drop_last: bool, rng: np.random.Generator
) -> LocalBatches:
    """The shuffled mini-batches of one client for one epoch; every local epoch is shuffled anew."""
    size = min(batch, len(rows))
    kept = len(rows) - len(rows) % size if drop_last else len(rows)
    order = np.concatenate([rng.permutation(len(rows))[:kept] for _ in range(local_epochs)])
    starts = [e * kept + s for e in range(local_epochs) for s in range(0, kept, size)]
    return LocalBatches(rows[order], labels[order], (*starts, kept * local_epochs))
