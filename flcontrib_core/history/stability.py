"""How much of a share is the clients', and how much the rows, the seed and the weights that happened to be chosen.

The run is assessed again on resampled validation rows (bootstrap: another validation set from the same source), with
other seeds of the estimator, and under the other readings of the coalition weights. A share that survives all three
may be paid by; one whose band crosses another client's orders nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.games.evaluator import Evaluator
from flcontrib_core.history.assess import Computing, assess_contributions
from flcontrib_core.history.replay import without_memory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.trajectory import evaluator_for
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import FloatArray, OnProgress, WeightMode, no_progress


class VariedBy(StrEnum):
    """What was changed between two assessments of one run."""

    ROWS = "validation rows"
    SEEDS = "seeds"
    WEIGHTS = "coalition weights"


BAND = (5.0, 95.0)
"""Percentiles of the bands over rows and seeds; over the few weight rules it is the whole range."""


@dataclass(frozen=True)
class Band:
    """One source of variation: every client's total in each assessment, as shown (up is help)."""

    by: VariedBy
    totals: FloatArray
    """(assessments, clients)"""

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """(clients,) lower and upper end."""
        percentiles = (0.0, 100.0) if self.by is VariedBy.WEIGHTS else BAND
        low, high = np.percentile(self.totals, percentiles, axis=0)
        return low, high

    @property
    def ranks(self) -> tuple[FloatArray, FloatArray]:
        """(clients,) best and worst rank over the assessments; 1 = helped most."""
        order = np.argsort(np.argsort(-self.totals, axis=1, kind="stable"), axis=1) + 1
        return order.min(axis=0), order.max(axis=0)


@dataclass(frozen=True)
class Stability:
    """Totals of one utility with what moves them."""

    client_ids: tuple[str, ...]
    utility: str
    totals: FloatArray
    """(clients,) of the assessment asked for, up is help"""
    bands: tuple[Band, ...]

    @property
    def shares(self) -> FloatArray | None:
        """(clients,) of the whole improvement; None where the run did not improve: there is nothing to share."""
        whole = float(self.totals.sum())
        return self.totals / whole if whole > 0 else None


def stability_of(
    run: RunLog,
    settings: AssessSettings | None = None,
    *,
    utility: str = "loss",
    repeats: int = 20,
    computing: Computing | None = None,
    on_progress: OnProgress = no_progress,
) -> Stability:
    """The run assessed 2 · ``repeats`` + 3 times; every epoch of the budget each time.

    Needs the log's own architecture and validation set. With exact values the band over seeds has no width.
    """
    settings = replace(settings or AssessSettings(), observe=False)
    if repeats < 2:
        raise SettingsError(f"{repeats} repeats give no band; ask for 2 or more")
    if utility not in settings.utilities:
        raise SettingsError(f"{utility!r} is not assessed; choose from {', '.join(settings.utilities)}")
    total, done = 2 * repeats + 1 + len(WeightMode), 0

    def assess(evaluator: Evaluator, with_settings: AssessSettings) -> FloatArray:
        nonlocal done
        history = assess_contributions(run, with_settings, evaluator=evaluator, **without_memory(computing))
        done += 1
        on_progress(done, total, f"assessment {done}")
        return history.shown_totals(utility, settings.fill)

    own = evaluator_for(run, settings.utilities)
    bands = tuple(
        Band(by, np.stack([assess(evaluator, varied) for evaluator, varied in variants(run, settings, own, repeats)]))
        for by, variants in _VARIANTS.items()
    )
    return Stability(run.client_ids, utility, assess(own, settings), bands)


Variants = Callable[[RunLog, AssessSettings, Evaluator, int], Iterator[tuple[Evaluator, AssessSettings]]]


def _other_rows(
    run: RunLog, settings: AssessSettings, own: Evaluator, repeats: int
) -> Iterator[tuple[Evaluator, AssessSettings]]:
    rows = own.validation_rows
    rng = np.random.default_rng([settings.seed, 2])
    for _ in range(repeats):
        yield evaluator_for(run, settings.utilities, np.sort(rng.integers(rows, size=rows))), settings


def _other_seeds(
    run: RunLog, settings: AssessSettings, own: Evaluator, repeats: int
) -> Iterator[tuple[Evaluator, AssessSettings]]:
    for seed in np.random.default_rng([settings.seed, 3]).integers(1 << 32, size=repeats):
        yield own, replace(settings, seed=int(seed))


def _other_weights(
    run: RunLog, settings: AssessSettings, own: Evaluator, repeats: int
) -> Iterator[tuple[Evaluator, AssessSettings]]:
    for mode in WeightMode:
        yield own, replace(settings, weights=mode)


_VARIANTS: dict[VariedBy, Variants] = {
    VariedBy.ROWS: _other_rows,
    VariedBy.SEEDS: _other_seeds,
    VariedBy.WEIGHTS: _other_weights,
}
