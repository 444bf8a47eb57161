"""The multi-round methods (MR: Song et al. 2019; TMR: Wei et al. 2020): exact per epoch, small epochs skipped.

TMR skips an epoch whose increment |u(N)| ≤ 0.01, as published (see ``thresholds``): its values are 0. The original
weighs epoch t by λ^t before it adds the epochs up; λ = 1 here, as in the paper's comparison, so a total is the plain
sum. With another ``decay`` the epoch's values are multiplied by λ^t, and no longer add up to its increment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.shapley.base import one_of
from flcontrib_core.shapley.coalitions import distinct_coalitions, everybody
from flcontrib_core.shapley.estimate import ShapleyEstimate
from flcontrib_core.shapley.exact import Exact
from flcontrib_core.shapley.exact_values import exact_estimate
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.remarks import Decayed, IncrementSmall
from flcontrib_core.shapley.thresholds import THRESHOLD_UNITS, ThresholdUnits, utility_units


@dataclass(frozen=True, kw_only=True)
class MultiRound(Exact):
    """MR: the exact value of every epoch's game."""

    name = "mr"


@dataclass(frozen=True, kw_only=True)
class TruncatedMultiRound(Exact):
    """TMR: exact, except that an epoch which moved the utility too little is skipped, utility by utility.

    A skipped utility's zeros are a decision, not a result: no standard error, and ``exact`` is False.
    """

    threshold: float = 0.01
    """Increments up to this are skipped."""
    decay: float = 1.0
    """λ: the values of epoch t are multiplied by λ^t."""
    units: ThresholdUnits = "published"
    """The threshold as published, or multiplied by the epoch's own range of a utility outside [0, 1]."""

    name = "tmr"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("units", self.units, THRESHOLD_UNITS)
        if not (self.threshold >= 0 and 0 < self.decay <= 1):
            raise SettingsError(
                f"tmr: threshold is {self.threshold} and decay {self.decay}; give a threshold ≥ 0 and 0 < decay ≤ 1"
            )

    def estimate(self, oracle: CoalitionOracle, rng: np.random.Generator) -> ShapleyEstimate:
        """The exact values of the utilities that moved; ``rng`` is not used."""
        self.cost(oracle.players, None)
        return self._decayed(self._truncated(oracle), oracle.epoch)

    def _truncated(self, oracle: CoalitionOracle) -> ShapleyEstimate:
        ledger = Ledger(oracle, distinct_coalitions(oracle.players))
        increment = np.abs(ledger.evaluate(everybody(oracle.players))[0])
        skipped = increment <= self.threshold * utility_units(ledger, self.units)
        if not skipped.any():
            return exact_estimate(oracle, self.name)
        values = np.zeros((oracle.players, len(oracle.utilities)))
        errors = np.full_like(values, np.nan)
        spent = ledger.spent
        if not skipped.all():
            exact = exact_estimate(oracle)
            values[:, ~skipped], errors[:, ~skipped] = exact.values[:, ~skipped], 0.0
            spent = exact.evaluations
        small = IncrementSmall(tuple(name for name, skip in zip(oracle.utilities, skipped, strict=True) if skip))
        return ShapleyEstimate(values, errors, spent, exact=False, method=self.name, remarks=(small,))

    def _decayed(self, estimate: ShapleyEstimate, epoch: int | None) -> ShapleyEstimate:
        if self.decay == 1:
            return estimate
        if epoch is None:
            raise SettingsError("tmr with a decay needs to know which epoch the game is of; this one does not say")
        weight = self.decay**epoch
        remarks = (*estimate.remarks, Decayed(self.decay, epoch))
        return replace(estimate, values=weight * estimate.values, exact=False, remarks=remarks)
