"""Estimates, and the two protocols that make an object an estimator.

An estimator is any object with a ``name``, a ``record()`` and one of two methods::

    class EqualShares:
        name = "equal-shares"

        def estimate(self, oracle, rng):
            total = oracle.evaluate(np.ones((1, oracle.players), dtype=bool))
            values = np.repeat(total / oracle.players, oracle.players, axis=0)
            return ShapleyEstimate(values, np.full_like(values, np.nan), 1, exact=False, method=self.name)

        def record(self):
            return {"name": self.name}

Pass one as ``estimator=`` wherever an estimator is taken; nothing has to be registered. It must be importable where
work is spread over processes. ``cost(players, multiply_adds)`` is optional (see ``costs``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.remarks import EstimatorRemark
from flcontrib_core.vocabulary import FloatArray, IntArray, PlayerByUtility


@dataclass(frozen=True)
class ShapleyEstimate:
    """Values of one epoch's game and how they were obtained."""

    values: PlayerByUtility
    standard_errors: PlayerByUtility
    """0 = exact, NaN = the method gives none."""
    evaluations: int
    exact: bool
    method: str
    """What was really done, e.g. 'exact', 'surrogate', 'complementary'."""
    remarks: tuple[EstimatorRemark, ...] = ()
    unreliable: tuple[str, ...] = ()
    """Utilities whose interval must not be trusted (flagged epochs), by name."""

    @property
    def half_widths(self) -> PlayerByUtility:
        """(players, utilities) half of the 95 % interval."""
        return 1.96 * self.standard_errors

    def relative_half_width(self) -> FloatArray:
        """(utilities,) the largest 95 % half-width in units of the values' standard deviation over players.

        0 for exact values, NaN where a method gives no standard error, ∞ for equal values with an error.
        """
        widest = self.half_widths.max(axis=0)
        spread = self.values.std(axis=0)
        beyond = np.where(widest == 0, 0.0, np.where(np.isnan(widest), np.nan, np.inf))
        return np.asarray(np.divide(widest, spread, out=beyond, where=spread > 0))


@runtime_checkable
class EpochEstimator(Protocol):
    """Shapley values of one epoch from a coalition oracle and a random generator."""

    @property
    def name(self) -> str:
        """As results and messages call it."""
        ...

    def estimate(self, oracle: CoalitionOracle, rng: np.random.Generator) -> ShapleyEstimate:
        """Values of the oracle's game; all randomness comes from ``rng``."""
        ...

    def record(self) -> dict[str, object]:
        """``name`` and every option as JSON values: all that, with the game and the seed, decides the values."""
        ...


@dataclass(frozen=True)
class EpochOfRun:
    """One epoch as a run-level estimator sees it: its game and which clients (by index) are its players."""

    epoch: int
    participants: tuple[int, ...]
    oracle: CoalitionOracle
    """Oracle over the participants, in the order of ``participants``."""


@dataclass(frozen=True)
class RunGames:
    """A run as a run-level estimator sees it."""

    epochs: Sequence[EpochOfRun]
    clients: int
    whole_run: CoalitionOracle | None = None
    """The game over all clients whose F_S is rebuilt through every epoch (one-round)."""


@dataclass(frozen=True)
class RunEstimate:
    """What a run-level estimator returns. Per-epoch rows are NaN where the method has no per-epoch value."""

    per_epoch: FloatArray
    """(T, clients, utilities)"""
    totals: FloatArray
    """(clients, utilities), without the initial model's share."""
    evaluations: IntArray
    """(T,) distinct evaluations; a game over the whole run is counted in the last row."""
    remarks: tuple[EstimatorRemark, ...] = ()
    extra: dict[str, float] = field(default_factory=dict)
    total_standard_errors: FloatArray | None = None
    """(clients, utilities); 0 = exact, None = the method gives none."""
    method: str = ""
    """What was really done."""


@runtime_checkable
class RunEstimator(Protocol):
    """Shapley values from the whole sequence of epoch games (ComFedSV, one-round).

    One whose ``uniform_weights`` is True gets epoch games with equal data sizes.
    """

    @property
    def name(self) -> str:
        """As results and messages call it."""
        ...

    def estimate_run(self, run: RunGames, rng: np.random.Generator) -> RunEstimate:
        """Values of all clients of the run."""
        ...

    def record(self) -> dict[str, object]:
        """``name`` and every option as JSON values."""
        ...


Estimator: TypeAlias = EpochEstimator | RunEstimator
"""What ``estimator=`` takes."""
