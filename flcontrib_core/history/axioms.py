"""The Shapley axioms, checked on every computed result and shown with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.remarks import OwnWeights, SentSeveral

TOLERANCE = 1e-9
"""Relative to the largest utility in the epoch; exact and corrected estimates stay below it."""


@dataclass(frozen=True)
class AxiomCheck:
    """One promise for one utility: the largest gap found, where, and whether it holds."""

    name: str
    utility: str
    gap: float
    epoch: int | None
    holds: bool
    method: str
    """The estimator of the epoch with the largest gap: a gap is a property of the method, and is named with it."""
    note: str = ""


def check_axioms(history: ContributionHistory) -> tuple[AxiomCheck, ...]:
    """Σφ = increment, absent = 0, equal updates = equal values; (checks per utility). None without values."""
    checks = []
    if history.without_values is not None:
        return ()
    for utility in history.utilities:
        checks.append(_efficiency(history, utility))
        checks.append(_absent(history, utility))
        symmetric = _symmetry(history, utility)
        if symmetric is not None:
            checks.append(symmetric)
    return tuple(checks)


def _efficiency(history: ContributionHistory, utility: str) -> AxiomCheck:
    series = history.of(utility)
    # An epoch with a hole promises nothing.
    whole = np.asarray(history.participated.any(axis=1) & ~series.missing.any(axis=1))
    values, increments = series.values[whole], series.increments[whole]
    gaps, scale = np.zeros(len(whole)), np.ones(len(whole))
    gaps[whole] = np.abs(values.sum(axis=1) - increments)
    scale[whole] = np.maximum(np.abs(values).max(axis=1, initial=1e-12), np.abs(increments)) + 1e-12
    worst = int(np.argmax(gaps))
    holds = bool((gaps <= np.maximum(TOLERANCE * scale, 1e-12)).all())
    return AxiomCheck(
        "sum of values = increment", utility, float(gaps[worst]), worst or None, holds, history.estimator[worst]
    )


def _absent(history: ContributionHistory, utility: str) -> AxiomCheck:
    stray = np.where(history.participated, 0.0, np.abs(history.of(utility).values))
    stray[0] = 0.0
    worst = int(np.argmax(stray.max(axis=1, initial=0.0)))
    gap = float(stray.max(initial=0.0))
    return AxiomCheck("absent = 0", utility, gap, worst or None, gap == 0.0, history.estimator[worst])


def _symmetry(history: ContributionHistory, utility: str) -> AxiomCheck | None:
    """Spot check: participants of one epoch with bit-equal updates have equal values (same data size)."""
    if history.channels is None or not history.channels.copy_of.any():
        return None
    series = history.of(utility)
    gap, where = 0.0, 0
    weighed = {t for r in history.remarks if isinstance(r.remark, OwnWeights | SentSeveral) for t in r.epochs}
    for t, i in np.argwhere(history.channels.copy_of > 0):
        j = int(history.channels.copy_of[t, i]) - 1
        if (
            int(t) not in weighed
            and series.computed[t, [i, j]].all()
            and history.data_sizes[i] == history.data_sizes[j]
        ):
            found = abs(float(series.values[t, i] - series.values[t, j]))
            if found > gap:
                gap, where = found, int(t)
    scale = float(np.max(np.abs(series.values[1:][series.computed[1:]]), initial=1e-12))
    holds = gap <= 1e-6 * scale
    return AxiomCheck("equal updates = equal values", utility, gap, where or None, holds, history.estimator[where])
