"""Ledgers: what one estimate has asked for so far, and what it may still ask.

The count is the estimate's own: it neither sees what the oracle remembers from earlier questions nor lets that
change which coalitions are drawn, so a result does not depend on what happened to be known.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.shapley.oracle import CoalitionOracle, coalition_keys
from flcontrib_core.vocabulary import CoalitionMatrix, UtilityMatrix


class Ledger:
    """Distinct coalitions of one estimate against its budget; the empty coalition is free."""

    def __init__(self, oracle: CoalitionOracle, budget: int) -> None:
        self.oracle = oracle
        self.budget = budget
        self._asked: set[bytes] = set(coalition_keys(np.zeros((1, oracle.players), dtype=bool)))

    @property
    def spent(self) -> int:
        """Evaluations asked for so far; the empty coalition is free."""
        return len(self._asked) - 1

    @property
    def left(self) -> int:
        """Evaluations the budget still allows."""
        return self.budget - self.spent

    def reserve(self, coalitions: CoalitionMatrix) -> bool:
        """Books these coalitions if they fit into the budget; False (and nothing booked) if they do not."""
        fresh = set(coalition_keys(coalitions)) - self._asked
        if len(fresh) > self.left:
            return False
        self._asked |= fresh
        return True

    def take_over(self, other: Ledger) -> None:
        """Counts what another ledger of the same game asked for as spent here too, beyond the budget if need be."""
        self._asked |= other._asked

    def evaluate(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        """(coalitions, utilities). Asking beyond the budget is a fault of the estimator, not of the user."""
        if not self.reserve(coalitions):
            raise AssertionError(f"an estimator asked for more than its {self.budget} evaluations")
        return self.oracle.evaluate(coalitions)
