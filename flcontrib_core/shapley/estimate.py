"""What does an estimator return, and what must it offer to be one?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.vocabulary import FloatArray, IntArray, PlayerByUtility


@dataclass(frozen=True)
class EstimatorSettings:
    """Knobs shared by all estimators; each takes what it knows and ignores nothing silently (see its file)."""

    evaluations: int | None = None
    """Distinct evaluations per epoch; None = the estimator's own default."""
    precision: float = 0.3
    """Stop when the largest 95 % half-width ≤ precision · sd of the values over clients."""
    truncate: bool = False
    antithetic: bool = False
    allow_unobserved: bool = False
    exact_multiply_adds: float = 2.5e10
    """``auto`` computes exactly where 2^n × multiply-adds per evaluation stays below this: about a second of one core,
    n ≤ 8 for the paper's MLP on up to 500 validation rows, n ≤ 12 or 13 for small models."""
    rescue_multiply_adds: float = 2.5e11
    """``auto`` falls back to exact, where the precision was not reached, while 2^n × multiply-adds stays below this."""
    exact_players: int = 24
    """An exact request above this many participants is refused with its cost."""

    def __post_init__(self) -> None:
        if self.evaluations is not None and self.evaluations < 1:
            raise SettingsError(f"evaluations is {self.evaluations}; give at least 1, or leave it out")
        if not self.precision > 0:
            raise SettingsError(f"precision is {self.precision}; give a positive share of the values' spread, e.g. 0.3")


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
    notes: tuple[str, ...] = ()
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


class EpochEstimator(Protocol):
    """Shapley values of one epoch from a coalition oracle and a random generator."""

    name: str

    def estimate(
        self, oracle: CoalitionOracle, rng: np.random.Generator, settings: EstimatorSettings
    ) -> ShapleyEstimate: ...


@dataclass(frozen=True)
class EpochOfRun:
    """One epoch as a run-level estimator sees it: its game and which clients (by index) are its players."""

    epoch: int
    participants: tuple[int, ...]
    oracle: CoalitionOracle
    """Oracle over the participants, in the order of ``participants``."""


@dataclass(frozen=True)
class RunEstimate:
    """What a run-level estimator returns. Per-epoch rows are NaN where the method has no per-epoch value."""

    per_epoch: FloatArray
    """(T, clients, utilities)"""
    totals: FloatArray
    """(clients, utilities), without the initial model's share."""
    evaluations: IntArray
    """(T,) distinct evaluations; a game over the whole run is counted in the last row."""
    notes: tuple[str, ...] = ()
    extra: dict[str, float] = field(default_factory=dict)
    total_standard_errors: FloatArray | None = None
    """(clients, utilities); 0 = exact, None = the method gives none."""
    method: str = ""
    """What was really done."""


class RunEstimator(Protocol):
    """Shapley values from the whole sequence of epoch games (ComFedSV, one-round)."""

    name: str

    def estimate_run(
        self,
        epochs: Sequence[EpochOfRun],
        clients: int,
        rng: np.random.Generator,
        settings: EstimatorSettings,
        whole_run: CoalitionOracle | None = None,
    ) -> RunEstimate:
        """``whole_run``: the game over all clients whose F_S is rebuilt over every epoch (one-round only)."""
        ...
