"""What stands behind the values: credit, intervals, methods, budgets, groups, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flcontrib_core.detection.findings import Separation
from flcontrib_core.errors import Problem
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.words import numbers
from flcontrib_core.words.numbers import several


def credited(history: ContributionHistory, utility: str) -> str:
    """What a contribution means when help is up: 'loss reduction'."""
    return numbers.credited(utility, utility in history.lower_is_better)


def total_status(standard_error: float, skipped: int) -> str:
    """Exact, ± or unknown, and how many of the client's epochs are filled in rather than computed."""
    how = numbers.half_width(standard_error)
    if not skipped:
        return how
    return f"{skipped} filled" if how == "exact" else f"{how}, {skipped} filled"


def methods(history: ContributionHistory) -> str:
    """Which estimators computed how many epochs."""
    used: dict[str, int] = {}
    for t in range(1, history.epoch_count + 1):
        if history.computed[t]:
            used[history.estimator[t]] = used.get(history.estimator[t], 0) + 1
    return ", ".join(f"{name} in {several(n, 'epoch')}" for name, n in used.items()) or "no epoch computed"


def worst_status(history: ContributionHistory, utility: str) -> str:
    """Exact, with an error, or partly not computed: what may be said of the totals as a whole."""
    if history.without_values is not None:
        return "no values"
    series = history.of(utility)
    errors = series.standard_errors[history.participated & series.computed]
    how = "exact values" if not errors.any() else "values ± 95%"
    if (errors != errors).any():
        how = "values partly without a standard error"
    skipped = int(series.missing.any(axis=1).sum())
    return how if not skipped else f"{how}; {several(skipped, 'epoch')} not computed"


def budget(settings: Mapping[str, Any]) -> str:
    """Which epochs a result was asked to compute: 'all epochs', '18 epochs', '60% of the epochs', 'without values'."""
    if settings.get("values") is False:
        return "without values"
    asked = settings.get("budget") or {}
    if asked.get("epochs"):
        return several(len(asked["epochs"]), "epoch")
    amount = asked.get("budget")
    if not amount:
        return "all epochs"
    return several(amount, "epoch") if isinstance(amount, int) else f"{float(amount):.0%} of the epochs"


def grouping_sentence(separation: Separation) -> str:
    """Is the number of groups the reader's, the silhouette's, or one because chance does as well?"""
    chance, best = separation.chance_silhouette, max(separation.silhouette.values(), default=None)
    if chance is None or best is None:
        return ""
    beaten = best > chance
    compared = f"the best silhouette is {best:.2f}, series without groups reach {chance:.2f} by chance"
    if separation.asked:
        return f"{several(separation.k, 'group')} as asked; {compared}."
    return f"{'Grouped' if beaten else 'No grouping'}: {compared}."


def separation_remark(separation: Separation) -> str:
    """What the grouped series leave out or hold; empty where nothing is missing."""
    said = []
    if separation.epochs_left_out:
        verb = "was" if separation.epochs_left_out == 1 else "were"
        epochs = several(separation.epochs_left_out, "epoch")
        said.append(f"{epochs} {verb} not computed and left out of the series.")
    if separation.cells_held:
        values = several(separation.cells_held, "value")
        verb = "is" if separation.cells_held == 1 else "are"
        said.append(f"{values} {verb} missing: there the client's running total is held.")
    return " ".join(said)


def own_warning(problem: Problem, client: str) -> str:
    """A warning about the log as its client may read it: what was found only where nobody else is part of it."""
    others = len(set(problem.clients) - {client})
    observation = f"found {problem.found}"
    if others:
        observation = f"together with {'another client' if others == 1 else f'{others} other clients'}"
    return f"{problem.code}: {observation}; expected {problem.expected}. {problem.fix}"
