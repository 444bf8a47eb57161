"""How far the totals of a budget are from those of the full computation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import CellState, FillPolicy, FloatArray


@dataclass(frozen=True)
class BudgetError:
    """Of a schedule, measured on a history that has every epoch."""

    relative: float
    """Σ|total of the budget − full total| / Σ|full total|, the initial model's share left out; 0 where nothing moved"""
    rank_correlation: float | None
    """Spearman's ρ of the clients' order; None with fewer than three clients or no order at all"""


def budget_error(
    full: ContributionHistory, epochs: Iterable[int], utility: str, fill: FillPolicy = FillPolicy.EQUAL
) -> BudgetError:
    """What skipping all but ``epochs`` would have changed. Raises SettingsError where ``full`` itself skipped some.

    Example: 0.0 for every epoch; with T − 1 of them only the fill of one epoch can differ.
    """
    unknown = int(full.of(utility).missing.any(axis=1).sum())
    if unknown:
        raise SettingsError(f"{unknown} epochs were not computed: there is nothing to measure against")
    kept = np.zeros(full.epoch_count + 1, dtype=bool)
    kept[[0, *epochs]] = True
    skipped = (full.participated & ~kept[:, None])[:, :, None]
    partial = replace(full, state=np.where(skipped, np.int8(CellState.NOT_COMPUTED), full.state))
    initial = full.of(utility).values[0]
    expected = full.totals(utility, fill) - initial
    found = partial.totals(utility, fill) - initial
    scale = float(np.abs(expected).sum())
    relative = float(np.abs(found - expected).sum()) / scale if scale > 0 else 0.0
    return BudgetError(relative, _spearman(expected, found))


def _spearman(one: FloatArray, other: FloatArray) -> float | None:
    if len(one) < 3 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(np.corrcoef(_mean_ranks(one), _mean_ranks(other))[0, 1])


def _mean_ranks(values: FloatArray) -> FloatArray:
    """Equal values share the mean of their places: clients that no computed epoch tells apart have no order."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[place])
