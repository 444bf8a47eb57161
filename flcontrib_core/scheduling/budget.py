"""Budgets in epochs, hand-picked epochs, and the ranges of the scheduler's settings."""

from __future__ import annotations

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.scheduling.schedule import BudgetSettings
from flcontrib_core.vocabulary import BoolArray


def resolve_budget(budget: float | int | None, epochs: int) -> int:
    """k for a budget: an integer counts epochs, a number with a point is a share, None is every epoch.

    k = max(1, round(share · T)). Example: 0.5 of 30 epochs is 15; 12 is 12; 1 is one epoch, 1.0 is all of them.
    Raises ``SettingsError`` for k < 1, k > T, and shares outside (0, 1].
    """
    if budget is None:
        return epochs
    if isinstance(budget, bool | np.bool_) or not isinstance(budget, int | float | np.integer | np.floating):
        raise SettingsError(f"budget {budget!r}: expected a number of epochs, a share in (0, 1], or nothing")
    if isinstance(budget, int | np.integer):
        k = int(budget)
        if k < 1:
            raise SettingsError(f"budget {k}: at least one epoch must be computed; give 1 to {epochs} or a share")
        if k > epochs:
            raise SettingsError(f"budget {k}: the run has {epochs} epochs; give 1 to {epochs} or a share like 0.5")
        return k
    share = float(budget)
    if not 0.0 < share <= 1.0:
        raise SettingsError(
            f"budget {share}: a number with a point is a share of the run's epochs and must lie in (0, 1]; "
            f"give an integer to count epochs"
        )
    return max(1, round(share * epochs))


def check_settings(settings: BudgetSettings) -> None:
    """Raise ``SettingsError`` for the first knob outside its range."""
    for name in ("gamma", "audit_share", "proof_seconds"):
        given = getattr(settings, name)
        if isinstance(given, bool) or not isinstance(given, int | float | np.integer | np.floating):
            raise SettingsError(f"{name} is {given!r}; expected a number")
    if not (np.isfinite(settings.gamma) and settings.gamma >= 0):
        raise SettingsError(f"gamma {settings.gamma}: fairness is weighed by a finite number ≥ 0, usually 0.03 to 3")
    if not 0.0 <= settings.audit_share <= 1.0:
        raise SettingsError(f"audit share {settings.audit_share}: expected a share of the budget in [0, 1]")
    if not (np.isfinite(settings.proof_seconds) and settings.proof_seconds > 0):
        raise SettingsError(f"proof seconds {settings.proof_seconds}: expected a time limit above 0")


def check_request(settings: BudgetSettings, epoch_count: int) -> None:
    """Raise ``SettingsError`` for what ``choose_epochs`` would refuse, before a run's movement is measured for it."""
    check_settings(settings)
    if settings.epochs is not None:
        hand_picked(settings.epochs, epoch_count)
    else:
        resolve_budget(settings.budget, epoch_count)


def hand_picked(epochs: tuple[int, ...], epoch_count: int) -> BoolArray:
    """(T,) the mask of hand-picked 1-based epochs. Raises ``SettingsError`` for none, strangers and repeats."""
    if not epochs:
        raise SettingsError("no epoch was picked; name at least one, for example 1, 4 and 7")
    outside = [t for t in epochs if not 1 <= t <= epoch_count]
    if outside:
        raise SettingsError(f"epoch {outside[0]} was picked; the run has epochs 1 to {epoch_count}")
    if len(set(epochs)) != len(epochs):
        repeated = next(t for t in epochs if epochs.count(t) > 1)
        raise SettingsError(f"epoch {repeated} was picked twice; name each epoch once")
    mask = np.zeros(epoch_count, dtype=np.bool_)
    mask[np.array(epochs) - 1] = True
    return mask
