"""How many distinct evaluations may an estimator spend, and how many will it?

``--evaluations N`` always means N distinct coalitions per epoch, the empty one being free. Without it the sampling
estimators take ``default_evaluations``: what max(30, 2n) permutations (FedSV's number) would cost if no prefix
repeated, n·max(30, 2n), and never more than all 2^n − 1 coalitions. They spend it whatever ``--precision`` says (only
the surrogates and ``auto`` stop by it); ``ShapleyEstimate.relative_half_width`` tells the precision they reached.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from flcontrib_core.errors import SettingsError
from flcontrib_core.shapley.coalitions import distinct_coalitions
from flcontrib_core.shapley.estimate import EstimatorSettings


class Cost(NamedTuple):
    """Distinct evaluations of one epoch."""

    likely: int
    """What is spent when a stopping rule is content at its first look and nothing is truncated."""
    most: int
    """The ceiling, rescues included."""


@runtime_checkable
class PricedEstimator(Protocol):
    """An estimator that knows its price before it starts.

    ``multiply_adds`` of one evaluation, None for an opaque game. Raises CostRefusal or SettingsError exactly where
    the estimate itself would.
    """

    def cost(self, players: int, multiply_adds: float | None, settings: EstimatorSettings) -> Cost: ...


def default_permutations(players: int) -> int:
    """FedSV's number of permutations: max(30, 2n)."""
    return max(30, 2 * players)


def default_evaluations(players: int) -> int:
    """The sampling estimators' budget where none is given."""
    return min(distinct_coalitions(players), players * default_permutations(players))


def evaluation_budget(settings: EstimatorSettings, players: int) -> int:
    """The distinct evaluations a sampling estimator may spend on a game of ``players``."""
    if settings.evaluations is None:
        return default_evaluations(players)
    return min(settings.evaluations, distinct_coalitions(players))


def surrogate_cost(players: int, settings: EstimatorSettings) -> Cost:
    """The surrogates' stopping rule: never before 4n evaluations, never beyond min(16n, 2^n / 2)."""
    everything = distinct_coalitions(players)
    if settings.evaluations is not None:
        given = min(settings.evaluations, everything)
        return Cost(given, given)
    first_look = min(4 * players, everything)
    return Cost(first_look, max(first_look, min(16 * players, (everything + 1) // 2)))


def refuse_foreign_options(settings: EstimatorSettings, estimator: str, *known: str) -> None:
    """An option that belongs to another estimator is refused, never ignored."""
    owners = {"truncate": "monte-carlo", "antithetic": "monte-carlo", "allow_unobserved": "comfedsv"}
    for option, owner in owners.items():
        if getattr(settings, option) and option not in known:
            flag = "--" + option.replace("_", "-")
            raise SettingsError(
                f"{flag} belongs to the estimator {owner}; {estimator} has no such option. Leave it out."
            )
