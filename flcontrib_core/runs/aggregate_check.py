"""Whether the stored server models are the weighted means that contributions are about, epoch by epoch."""

from __future__ import annotations

import numpy as np

from flcontrib_core.errors import Problem
from flcontrib_core.runs.log_checks import EpochFacts
from flcontrib_core.runs.problems import epochs_named, problem
from flcontrib_core.runs.run_log import EpochRecord
from flcontrib_core.runs.tensors import Block
from flcontrib_core.vocabulary import Float32Array, FloatArray

_RELATIVE = {"F32": 1e-5, "F16": 2.0**-9, "BF16": 2.0**-6}
_ABSOLUTE = 1e-6


class AggregateCheck:
    """Is the stored ``global`` the weighted mean (eq. fl_naive) that the contributions are about?

    Follows F(t) through the run for one window of columns: the stored model where there is one, else the rebuilt.
    """

    def __init__(self, initial: Float32Array, first: int) -> None:
        """``initial`` holds the columns ``first`` … of F⁰."""
        self._first = first
        with np.errstate(invalid="ignore"):  # some bit patterns of NaN complain when widened
            self._previous: FloatArray | None = initial.astype(np.float64)
        self._mean = np.zeros(len(initial))
        self._global = np.zeros(len(initial), dtype=np.float32)
        self._weights = np.zeros(0)
        self._relative = 0.0
        self._stored = False
        self.differences: dict[int, float] = {}
        """epoch -> largest absolute difference, where it is more than rounding"""

    def begin(self, record: EpochRecord) -> None:
        """The next epoch, before its blocks."""
        sizes = np.asarray(record.row_weights, dtype=np.float64)
        self._weights = sizes / sizes.sum() if len(sizes) else sizes
        self._mean[:] = 0
        self._relative, self._stored = _RELATIVE["F32"], False

    def take(self, block: Block) -> None:
        """One block of the epoch's file."""
        self._relative = max(self._relative, _RELATIVE[block.tensor.dtype])
        low = max(block.column, self._first)
        high = min(block.column + block.values.shape[1], self._first + len(self._mean))
        self._stored |= block.tensor.name == "global"
        if low >= high:
            return
        values = block.values[:, low - block.column : high - block.column]
        here = slice(low - self._first, high - self._first)
        if block.tensor.name == "global":
            self._global[here] = values[0]
        else:
            with np.errstate(invalid="ignore"):
                self._mean[here] += self._weights[block.row : block.row + len(values)] @ values.astype(np.float64)

    def end(self, epoch: int, facts: EpochFacts) -> None:
        """The epoch is read: compares, and goes on from its model."""
        sound = bool(facts.finite.all())
        stored = self._stored and facts.global_finite
        if self._previous is not None and sound:
            self._previous += self._mean
            # Without participants there is nothing to rebuild: a moved model is the server's share by definition.
            if stored and len(self._weights):
                self._compare(epoch)
        if stored:
            self._previous = self._global.astype(np.float64)
        elif not sound:
            self._previous = None

    def adopt(self, stored: Float32Array) -> None:
        """Go on from an epoch's stored model (P,) without looking at the epoch again."""
        self._previous = stored[self._first : self._first + len(self._mean)].astype(np.float64)

    def _compare(self, epoch: int) -> None:
        assert self._previous is not None
        piece = 1 << 18
        for at in range(0, len(self._mean), piece):
            here = slice(at, at + piece)
            rebuilt, stored = self._previous[here], self._global[here].astype(np.float64)
            before = rebuilt - self._mean[here]
            difference = np.abs(stored - rebuilt)
            if (difference > _ABSOLUTE + self._relative * (np.abs(stored) + np.abs(before))).any():
                self.differences[epoch] = max(self.differences.get(epoch, 0.0), float(difference.max()))


def aggregate_evidence(differences: dict[int, float]) -> list[Problem]:
    """One warning for all epochs whose stored model is not the weighted mean."""
    if not differences:
        return []
    worst = max(differences, key=lambda epoch: differences[epoch])
    return [
        problem(
            "W_AGGREGATE",
            epochs_named(sorted(differences)),
            f"a stored server model up to {differences[worst]:.3g} (largest absolute difference, epoch {worst}) away "
            "from the weighted mean of the updates",
        )
    ]
