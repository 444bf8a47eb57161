"""What does the surrogate know after some evaluations, and what does it say about every other coalition?

Evaluated coalitions carry *outputs*, the numbers that are regressed on λ(S): link-transformed validation logits for the
logit surrogate, the utilities themselves for the black-box one. A ``Subject`` turns outputs into utilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from flcontrib_core.shapley.simplex_kernel import Regression, SimplexPoints, points_of
from flcontrib_core.shapley.surrogate_design import Cell
from flcontrib_core.vocabulary import (
    BoolArray,
    CoalitionMatrix,
    CoalitionWeights,
    Float32Array,
    FloatArray,
    IntArray,
    UtilityMatrix,
)

_CELLS_AT_ONCE = 1 << 22
"""Predicted outputs held at a time (16 MiB of float32): 2^16 coalitions × rows × classes never exist at once."""


class Subject(Protocol):
    """A game as the surrogate studies it: where coalitions lie, their outputs, and what outputs are worth."""

    @property
    def blocks(self) -> tuple[slice, ...]:
        """Columns of the outputs that share a kernel: one block for logits, one per utility otherwise."""
        ...

    def block_of_utility(self, utility: int) -> int: ...

    def weights(self, coalitions: CoalitionMatrix) -> CoalitionWeights: ...

    def evaluate(self, coalitions: CoalitionMatrix) -> tuple[UtilityMatrix, FloatArray]:
        """Utilities and outputs (coalitions, columns); outputs that are not finite are kept out of every fit."""
        ...

    def utilities(self, outputs: Float32Array | FloatArray) -> UtilityMatrix:
        """What predicted outputs are worth, relative to F_prev."""
        ...


@dataclass(frozen=True)
class Evidence:
    """Everything evaluated, in the order of evaluation."""

    coalitions: CoalitionMatrix
    values: UtilityMatrix
    outputs: FloatArray
    """(coalitions, columns)"""
    usable: BoolArray
    """(coalitions,) False where a logit was not finite: the value counts, the outputs are never fitted."""

    def extended(self, coalitions: CoalitionMatrix, values: UtilityMatrix, outputs: FloatArray) -> Evidence:
        return Evidence(
            np.concatenate([self.coalitions, coalitions]),
            np.concatenate([self.values, values]),
            np.concatenate([self.outputs, outputs]),
            np.concatenate([self.usable, np.isfinite(outputs).all(axis=1)]),
        )

    def __len__(self) -> int:
        return len(self.coalitions)


@dataclass(frozen=True)
class FittedCell:
    """One family of coalitions, its evaluated members (rows of the evidence) and one regression per block."""

    cell: Cell
    factor: FloatArray
    rows: IntArray
    regressions: tuple[Regression, ...]


class SurrogateModel:
    """A fit to the evidence that can be asked about any coalition."""

    def __init__(self, subject: Subject, evidence: Evidence, cells: Sequence[tuple[Cell, FloatArray]]) -> None:
        """``cells`` are families that cover all coalitions, each with its metric factor."""
        self.subject = subject
        self.evidence = evidence
        self.cells = [self._fit(cell, factor) for cell, factor in cells]

    def _fit(self, cell: Cell, factor: FloatArray) -> FittedCell:
        evidence = self.evidence
        rows = np.flatnonzero(cell.holds(evidence.coalitions) & evidence.usable)
        points = self.points(evidence.coalitions[rows], factor)
        regressions = tuple(Regression(points, evidence.outputs[rows, block]) for block in self.subject.blocks)
        return FittedCell(cell, factor, rows, regressions)

    def points(self, coalitions: CoalitionMatrix, factor: FloatArray) -> SimplexPoints:
        return points_of(self.subject.weights(coalitions), factor)

    def predict(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        """(coalitions, utilities) as the surrogate sees them, evaluated ones included; ∅ is exactly 0."""
        columns = self.evidence.outputs.shape[1]
        values = np.zeros((len(coalitions), self.evidence.values.shape[1]))
        step = max(64, _CELLS_AT_ONCE // columns)
        occupied = coalitions.any(axis=1)
        for fitted in self.cells:
            rows = np.flatnonzero(fitted.cell.holds(coalitions) & occupied)
            for start in range(0, len(rows), step):
                some = rows[start : start + step]
                points = self.points(coalitions[some], fitted.factor)
                parts = [regression.predict(points) for regression in fitted.regressions]
                values[some] = self.subject.utilities(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1))
        return values

    def leave_one_out(self) -> UtilityMatrix:
        """(evaluated, utilities) what each was predicted to have without its own evaluation; NaN where not fitted."""
        values = np.full_like(self.evidence.values, np.nan)
        for fitted in self.cells:
            outputs = np.concatenate([regression.leave_one_out() for regression in fitted.regressions], axis=1)
            values[fitted.rows] = self.subject.utilities(outputs)
        return values
