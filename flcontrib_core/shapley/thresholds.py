"""Thresholds of GTG-Shapley and TMR ("0.01") in the units of a utility.

Both papers give absolute thresholds, made for accuracies, and use them as they are for loss too: ``published``, the
default. ``range`` multiplies them, for utilities that do not live in [0, 1], by the epoch's own range: the spread of
the utility over ∅, the singletons and N (n + 1 evaluations, which GTG asks for anyway). Under ``range`` the same game
in other units is cut alike; on skewed data it cuts far more than the published constants do.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from flcontrib_core.shapley.coalitions import everybody
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.vocabulary import FloatArray

ThresholdUnits = Literal["published", "range"]
THRESHOLD_UNITS: tuple[ThresholdUnits, ...] = ("published", "range")
UNIT_RANGE = frozenset({"accuracy", "macro-f1", "worst-class-recall", "demographic-parity-gap"})


def utility_units(ledger: Ledger, units: ThresholdUnits) -> FloatArray:
    """(utilities,) what a threshold is multiplied by: 1, or the spread over ∅, the singletons and N."""
    oracle = ledger.oracle
    scale = np.ones(len(oracle.utilities))
    if units == "range" and not UNIT_RANGE.issuperset(oracle.utilities):
        seen = ledger.evaluate(np.concatenate([everybody(oracle.players), np.eye(oracle.players, dtype=bool)]))
        spread = np.maximum(seen.max(axis=0), 0.0) - np.minimum(seen.min(axis=0), 0.0)
        unitless = np.array([name not in UNIT_RANGE for name in oracle.utilities])
        scale[unitless] = spread[unitless]
    return scale
