"""Thresholds made for accuracies ("0.01"), in the units of any utility.

GTG-Shapley and TMR skip and cut by absolute thresholds made for accuracies, whose range is 1. For the utilities that
live in [0, 1] they are taken as they are. For any other (loss first of all) they are multiplied by the epoch's own
range: the spread of the utility over ∅, the singletons and N, n + 1 evaluations, which GTG asks for anyway.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.shapley.coalitions import everybody
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.vocabulary import FloatArray

UNIT_RANGE = frozenset({"accuracy", "macro-f1", "worst-class-recall", "demographic-parity-gap"})


def needs_singletons(utilities: tuple[str, ...]) -> bool:
    """Whether some utility's range has to be looked at."""
    return not UNIT_RANGE.issuperset(utilities)


def utility_ranges(ledger: Ledger) -> FloatArray:
    """(utilities,) 1 for utilities in [0, 1], the spread over ∅, the singletons and N for the others."""
    oracle = ledger.oracle
    ranges = np.ones(len(oracle.utilities))
    if needs_singletons(oracle.utilities):
        seen = ledger.evaluate(np.concatenate([everybody(oracle.players), np.eye(oracle.players, dtype=bool)]))
        spread = np.maximum(seen.max(axis=0), 0.0) - np.minimum(seen.min(axis=0), 0.0)
        foreign = np.array([name not in UNIT_RANGE for name in oracle.utilities])
        ranges[foreign] = spread[foreign]
    return ranges
