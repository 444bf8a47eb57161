"""Scheduling problems, settings and schedules: the epochs computed, how good that is, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from flcontrib_core.errors import ScheduleError, SettingsError
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray


class FairnessMode(StrEnum):
    """Which program chooses the epochs."""

    ONE_SIDED = "one-sided"
    """Coverage plus mean exposure – eq. (server_sided_fairness)."""
    TWO_SIDED = "two-sided"
    """Coverage minus pairwise exposure differences – eq. (two_sided_fairness)."""
    TWO_SIDED_LB = "two-sided-lb"
    """The separable lower bound of the former – eq. (two_sided_fairness_lower_bound)."""
    AUDIT = "audit"
    """A share of the budget spread over the run, so that every window keeps neighbours; the rest two-sided."""
    TOP_UTILITY = "top-utility"
    STRIDE = "stride"
    RANDOM = "random"


class AuditSpread(StrEnum):
    """How the audit mode spreads its share of the budget over the run."""

    STRIDE = "stride"
    RANDOM = "random"


class Normalisation(StrEnum):
    """What each term of an objective is divided by ("we normalise each term")."""

    LARGEST = "largest"
    """The largest value the term can take."""
    SUM = "sum"
    """The term's own sum over all epochs: paper mode."""


@dataclass(frozen=True)
class SchedulingProblem:
    """What a schedule is chosen from. Built from a run's participation and its per-epoch movement.

    Raises ``ScheduleError`` when the parts do not fit each other or a movement is negative or not finite.
    """

    movement: FloatArray
    """(T,) |change of the weight utility| in epoch t ≥ 0, epoch 1 first, unnormalised."""
    participated: BoolArray
    """(T, clients), epoch 1 first."""
    client_ids: tuple[str, ...]
    initial_utility: float = 0.0
    """v(F⁰) of the weight utility; only the paper's denominator reads it."""
    evaluations: IntArray | None = None
    """(T,) predicted distinct evaluations of each epoch, if it is computed."""

    def __post_init__(self) -> None:
        T = len(self.movement)
        if T == 0:
            raise ScheduleError("the run has no epoch; record at least one before scheduling")
        if self.participated.shape != (T, len(self.client_ids)):
            raise ScheduleError(
                f"participation has shape {self.participated.shape}; {T} epochs and {len(self.client_ids)} clients "
                f"need ({T}, {len(self.client_ids)})"
            )
        wrong = np.flatnonzero(~np.isfinite(self.movement) | (np.asarray(self.movement) < 0))
        if wrong.size:
            t = int(wrong[0])
            raise ScheduleError(
                f"epoch {t + 1}: movement is {self.movement[t]}; expected |v(t) − v(t−1)|, a finite number ≥ 0"
            )
        if not float(np.max(self.movement)) * T < np.inf:
            raise ScheduleError("the movements add up to more than a number holds; give the utility in larger units")
        if not np.isfinite(self.initial_utility):
            raise ScheduleError(f"the initial utility is {self.initial_utility}; expected a finite number")
        if self.evaluations is not None and np.shape(self.evaluations) != (T,):
            raise ScheduleError(f"{np.size(self.evaluations)} predicted evaluations for {T} epochs; give one per epoch")

    @property
    def epoch_count(self) -> int:
        """T."""
        return len(self.movement)


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
    """AUDIT: share of the budget spread over the run; the rest follows the two-sided program."""
    prove: bool = False
    seed: int = 0
    epochs: tuple[int, ...] | None = None
    """A hand-picked set of epochs (1-based); overrides everything else."""
    audit_spread: AuditSpread = AuditSpread.STRIDE
    proof_seconds: float = 60.0
    """PROVE: how long the solver may run; after that the answer keeps its proven gap."""
    normalise: Normalisation = Normalisation.LARGEST

    def __post_init__(self) -> None:
        """A word stands for its choice, as on the command line; another word is refused."""
        for name, kind in (("fairness", FairnessMode), ("audit_spread", AuditSpread), ("normalise", Normalisation)):
            given = getattr(self, name)
            if given not in set(kind):
                raise SettingsError(f"{name} is {given!r}; it is one of {', '.join(kind)}")
            object.__setattr__(self, name, kind(given))


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
    """The chosen epochs and everything measured about them; recomputed by us, never taken from a solver."""

    chosen: tuple[int, ...]
    """Ascending, 1-based."""
    epoch_count: int
    k: int
    fairness: FairnessMode
    gamma: float
    at_most: bool
    objective: float
    """Of the mode's own program; stride, random and hand-picked epochs are measured by the two-sided one."""
    bound: float
    gap: float
    """bound − objective, absolute; 0 when proved optimal."""
    proved_optimal: bool
    coverage: float
    """U / Σp; 0 when nothing moved."""
    exposure: dict[str, float | None]
    """None for a client that never took part."""
    exposure_gap: float
    """G / ⌊m²/4⌋, the objective's term"""
    epoch_weights: tuple[float, ...]
    """p_t, T values, epoch 1 first"""
    unused_budget: int
    predicted_evaluations: int | None
    method: str
    """sort, enumeration, anytime, highs, cbc, stride, random, given, every epoch."""
    blind_spots: tuple[BlindSpot, ...] = ()
    """Longest first: every run of an unseen client, and runs longer than ``blind_run_limit``."""
    unseen_clients: tuple[str, ...] = ()
    """Clients that took part, but never in a chosen epoch."""
    smallest_k_without_blind_clients: int | None = None
    """Smallest k whose schedule of the same mode sees every client; None when this one already does."""
    smallest_k_without_blind_spots: int | None = None
    """Smallest k whose schedule of the same mode has no blind spot; None when this one has none."""
    smallest_k_by_search: bool = False
    """True: those schedules were found by search, so that a smaller k may exist."""
    blind_run_limit: int = 0
    """Runs up to this many epochs are not called blind."""
    full_evaluations: int | None = None
    """Predicted evaluations of computing every epoch."""

    @property
    def lowest_exposure(self) -> float | None:
        """The exposure of the least seen client that took part at all."""
        return min((e for e in self.exposure.values() if e is not None), default=None)

    @property
    def highest_exposure(self) -> float | None:
        """The largest share of a client's epochs that is computed; None where nobody took part."""
        return max((e for e in self.exposure.values() if e is not None), default=None)

    def predicted_seconds(self, evaluations_per_second: float) -> float | None:
        """How long will computing take at this measured throughput? None when evaluations are not predicted."""
        return None if self.predicted_evaluations is None else self.predicted_evaluations / evaluations_per_second


def schedule_json(schedule: Schedule) -> dict[str, object]:
    """The object that ``flcontrib schedule --json`` prints."""
    return {
        "chosen": list(schedule.chosen),
        "objective": schedule.objective,
        "bound": schedule.bound,
        "gap": schedule.gap,
        "proved_optimal": schedule.proved_optimal,
        "coverage": schedule.coverage,
        "exposure": dict(schedule.exposure),
        "exposure_gap": schedule.exposure_gap,
        "epoch_weights": list(schedule.epoch_weights),
        "unused_budget": schedule.unused_budget,
        "predicted_evaluations": schedule.predicted_evaluations,
    }
