"""What do the multi-round methods say (MR: Song et al. 2019; TMR: Wei et al. 2020)?

Both are exact per epoch. TMR skips an epoch whose increment |u(N)| ≤ 0.01 in accuracy units (see ``thresholds``): its
values are 0. The decay λ^t of the original is 1, as in the paper's comparison, so a total is the plain sum.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.shapley.coalitions import distinct_coalitions, everybody
from flcontrib_core.shapley.costs import Cost, refuse_foreign_options
from flcontrib_core.shapley.estimate import EstimatorSettings, ShapleyEstimate
from flcontrib_core.shapley.exact import exact_estimate, refuse_exponential
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.thresholds import utility_ranges
from flcontrib_core.vocabulary import FloatArray

SKIP = 0.01


def total_with_decay(per_epoch: FloatArray, decay: float = 1.0) -> FloatArray:
    """Σ_t λ^t φ(t) over axis 0 (epoch 1 first): the original's total; λ = 1 is the plain sum."""
    weights = decay ** np.arange(1, len(per_epoch) + 1)
    return np.tensordot(weights, per_epoch, axes=1)


class MultiRound:
    """MR: the exact value of every epoch's game."""

    name = "mr"

    def cost(self, players: int, multiply_adds: float | None, settings: EstimatorSettings) -> Cost:
        refuse_exponential(players, settings, self.name)
        return Cost(distinct_coalitions(players), distinct_coalitions(players))

    def estimate(
        self, oracle: CoalitionOracle, rng: np.random.Generator, settings: EstimatorSettings
    ) -> ShapleyEstimate:
        refuse_foreign_options(settings, self.name)
        refuse_exponential(oracle.players, settings, self.name)
        return exact_estimate(oracle, self.name)


class TruncatedMultiRound(MultiRound):
    """TMR: exact, except that an epoch which moved the utility too little is skipped, utility by utility.

    A skipped utility's zeros are a decision, not a result: no standard error, and ``exact`` is False.
    """

    name = "tmr"

    def estimate(
        self, oracle: CoalitionOracle, rng: np.random.Generator, settings: EstimatorSettings
    ) -> ShapleyEstimate:
        refuse_foreign_options(settings, self.name)
        refuse_exponential(oracle.players, settings, self.name)
        ledger = Ledger(oracle, distinct_coalitions(oracle.players))
        increment = np.abs(ledger.evaluate(everybody(oracle.players))[0])
        skipped = increment <= SKIP * utility_ranges(ledger)
        if not skipped.any():
            return exact_estimate(oracle, self.name)
        values = np.zeros((oracle.players, len(oracle.utilities)))
        errors = np.full_like(values, np.nan)
        spent = ledger.spent
        if not skipped.all():
            kept = exact_estimate(oracle)
            values[:, ~skipped], errors[:, ~skipped] = kept.values[:, ~skipped], 0.0
            spent = kept.evaluations
        names = ", ".join(name for name, skip in zip(oracle.utilities, skipped, strict=True) if skip)
        notes = (f"{names}: epoch skipped, its increment is below the threshold",)
        return ShapleyEstimate(values, errors, spent, exact=False, method=self.name, notes=notes)
