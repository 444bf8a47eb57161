"""Prices of assessments before they start."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.trajectory import evaluator_for, predicted_cost
from flcontrib_core.runs.run_log import ContributionTable, Run, UtilityTable, participants_per_epoch
from flcontrib_core.scheduling.budget import resolve_budget


@dataclass(frozen=True)
class Price:
    """Predicted work of an assessment; None = nothing has to be evaluated."""

    evaluations: int | None
    seconds: float | None
    """From the speed of a few evaluations just now: a prediction, never part of a result."""
    memory_bytes: int | None
    notes: tuple[str, ...]


def price_of(run: Run, settings: AssessSettings) -> Price:
    """Predicted evaluations, seconds and memory.

    Raises CostRefusal for an exponential request and MissingPart for a log without model or validation set.
    """
    if isinstance(run, ContributionTable):
        return Price(None, None, None, ("The table holds the values already; only reading them takes a moment.",))
    if isinstance(run, UtilityTable):
        total = sum(2**n - 1 for n in participants_per_epoch(run))
        return Price(total, None, None, ("Utilities come from the table; nothing is evaluated.",))
    evaluator = evaluator_for(run, settings.utilities)
    cost = predicted_cost(run, settings, evaluator)
    epochs = run.epoch_count
    computed = len(settings.budget.epochs) if settings.budget.epochs else resolve_budget(settings.budget.budget, epochs)
    cheap = sum(participants_per_epoch(run)) + 2 * epochs
    evaluations = int(np.sort(cost)[::-1][:computed].sum())
    began = time.perf_counter()
    evaluator.evaluate(np.repeat(run.initial()[None, :], 8, axis=0))
    rate = 8 / max(time.perf_counter() - began, 1e-6)
    most = max(participants_per_epoch(run), default=0)
    notes = [f"{settings.estimator.name}: up to {most} participants per epoch; {cheap} cheap observations come on top."]
    if computed < epochs:
        notes.append(f"{computed} of {epochs} epochs are computed; the evaluations are those of the costliest ones.")
    if run.truth is not None:
        notes.append("This run carries its truth; no verdict reads it.")
    memory = 2 * 4 * run.parameter_count * (most + 2)
    return Price(evaluations, (evaluations + cheap) / rate, memory, tuple(notes))
