"""Which epochs are computed, how good is that choice, and what does it cost?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray


class FairnessMode(StrEnum):
    ONE_SIDED = "one-sided"
    TWO_SIDED = "two-sided"
    TWO_SIDED_LB = "two-sided-lb"
    AUDIT = "audit"
    TOP_UTILITY = "top-utility"
    STRIDE = "stride"
    RANDOM = "random"


@dataclass(frozen=True)
class SchedulingProblem:
    """What a schedule is chosen from. Built from a run's participation and its per-epoch movement."""

    movement: FloatArray
    """(T,) |change of the weight utility| in epoch t ≥ 0, epoch 1 first, unnormalised."""
    participated: BoolArray
    """(T, clients), epoch 1 first."""
    client_ids: tuple[str, ...]
    initial_utility: float = 0.0
    """v(F⁰) of the weight utility; only the paper's denominator reads it."""
    evaluations: IntArray | None = None
    """(T,) predicted distinct evaluations of each epoch, if it is computed."""


@dataclass(frozen=True)
class BudgetSettings:
    """The knobs of the scheduler, as on the command line."""

    budget: float | int | None = None
    """int: epochs; float in (0, 1]: share, k = max(1, round(share · T)); None: every epoch."""
    fairness: FairnessMode = FairnessMode.TWO_SIDED
    gamma: float = 0.3
    at_most: bool = False
    paper_denominator: bool = False
    audit_share: float = 0.5
    """AUDIT: share of the budget spread evenly; the rest follows the two-sided program."""
    prove: bool = False
    seed: int = 0
    epochs: tuple[int, ...] | None = None
    """A hand-picked set of epochs (1-based); overrides everything else."""


@dataclass(frozen=True)
class BlindSpot:
    """A client and a run of epochs in which it took part but nothing is computed."""

    client: str
    first: int
    last: int
    missed: int
    """How many of its participations fall inside."""


@dataclass(frozen=True)
class Schedule:
    """The chosen epochs and everything that judges them; recomputed by us, never taken from a solver."""

    chosen: tuple[int, ...]
    """Ascending, 1-based."""
    epoch_count: int
    k: int
    fairness: FairnessMode
    gamma: float
    at_most: bool
    objective: float
    bound: float
    gap: float
    """bound − objective, absolute; 0 when proved optimal."""
    proved_optimal: bool
    coverage: float
    """U / Σp"""
    exposure: dict[str, float | None]
    """None for a client that never took part."""
    exposure_gap: float
    """G / ⌊m²/4⌋, the objective's term"""
    epoch_weights: tuple[float, ...]
    """p_t, T values, epoch 1 first"""
    unused_budget: int
    predicted_evaluations: int | None
    method: str
    """sort, enumeration, anytime, highs, cbc, stride, random …"""
    blind_spots: tuple[BlindSpot, ...] = ()
    unseen_clients: tuple[str, ...] = ()
    smallest_k_without_blind_clients: int | None = None
