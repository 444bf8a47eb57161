"""A surrogate's regressions after some evaluations, and what they predict for every other coalition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from flcontrib_core.blas import side_by_side, slices
from flcontrib_core.shapley.game_views import GameView
from flcontrib_core.shapley.simplex_kernel import Regression, SimplexPoints, points_of
from flcontrib_core.shapley.surrogate_design import Stratum
from flcontrib_core.vocabulary import (
    BoolArray,
    CoalitionMatrix,
    Float32Array,
    FloatArray,
    IntArray,
    UtilityMatrix,
)

Outputs = TypeVar("Outputs", Float32Array, FloatArray)
_CELLS_AT_ONCE = 1 << 22
"""Predicted outputs held at a time (16 MiB of float32): 2^16 coalitions × rows × classes never exist at once."""


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
        """The same with further evaluations."""
        return Evidence(
            np.concatenate([self.coalitions, coalitions]),
            np.concatenate([self.values, values]),
            np.concatenate([self.outputs, outputs]),
            np.concatenate([self.usable, np.isfinite(outputs).all(axis=1)]),
        )

    def __len__(self) -> int:
        return len(self.coalitions)


@dataclass(frozen=True)
class FittedStratum:
    """One family of coalitions, its evaluated members (rows of the evidence) and one regression per block."""

    stratum: Stratum
    factor: FloatArray
    rows: IntArray
    regressions: tuple[Regression, ...]


class SurrogateModel:
    """A fit to the evidence that can be asked about any coalition."""

    def __init__(self, view: GameView, evidence: Evidence, strata: Sequence[tuple[Stratum, FloatArray]]) -> None:
        """``strata`` are families that cover all coalitions, each with its metric factor."""
        self.view = view
        self.evidence = evidence
        self.strata = [self._fit(stratum, factor) for stratum, factor in strata]

    def _fit(self, stratum: Stratum, factor: FloatArray) -> FittedStratum:
        evidence = self.evidence
        rows = np.flatnonzero(stratum.holds(evidence.coalitions) & evidence.usable)
        points = self.points(evidence.coalitions[rows], factor)
        regressions = tuple(Regression(points, evidence.outputs[rows, block]) for block in self.view.blocks)
        return FittedStratum(stratum, factor, rows, regressions)

    def points(self, coalitions: CoalitionMatrix, factor: FloatArray) -> SimplexPoints:
        """Coalitions as points of the simplex."""
        return points_of(self.view.weights(coalitions), factor)

    def predict(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        """(coalitions, utilities) as the surrogate sees them, evaluated ones included; ∅ is exactly 0."""
        columns = self.evidence.outputs.shape[1]
        values = np.zeros((len(coalitions), self.evidence.values.shape[1]))
        step = max(64, _CELLS_AT_ONCE // columns)
        occupied = coalitions.any(axis=1)
        for fitted in self.strata:
            rows = np.flatnonzero(fitted.stratum.holds(coalitions) & occupied)

            def fill(some: IntArray, fitted: FittedStratum = fitted) -> None:
                points = self.points(coalitions[some], fitted.factor)
                parts = [regression.predict(points) for regression in fitted.regressions]
                values[some] = self.view.utilities(_joined(parts))

            side_by_side(fill, [rows[some] for some in slices(len(rows), step)])
        return values

    def leave_one_out(self) -> UtilityMatrix:
        """(evaluated, utilities) what each was predicted to have without its own evaluation; NaN where not fitted."""
        values = np.full_like(self.evidence.values, np.nan)
        for fitted in self.strata:
            values[fitted.rows] = self.view.utilities(_joined([one.leave_one_out() for one in fitted.regressions]))
        return values


def _joined(blocks: list[Outputs]) -> Outputs:
    """(coalitions, columns) of all blocks; logits are one block, and large."""
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
