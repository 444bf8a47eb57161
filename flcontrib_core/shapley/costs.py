"""Prices of estimates in distinct evaluations, before anything is evaluated.

``evaluations = N`` always means N distinct coalitions per epoch, the empty one being free. Without it the sampling
estimators take ``default_evaluations``: what max(30, 2n) permutations (FedSV's number) would cost if no prefix
repeated, n·max(30, 2n), and never more than all 2^n − 1 coalitions. They spend it whatever precision that gives (only
the surrogates and ``auto`` stop by it); ``ShapleyEstimate.relative_half_width`` tells the precision they reached.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from flcontrib_core.errors import CostRefusal, SettingsError
from flcontrib_core.shapley.coalitions import distinct_coalitions
from flcontrib_core.shapley.estimate import Estimator
from flcontrib_core.vocabulary import WeightMode


class Cost(NamedTuple):
    """Distinct evaluations of one epoch."""

    likely: int
    """What is spent when a stopping rule is content at its first check and nothing is truncated."""
    most: int
    """The ceiling, rescues included."""
    regressed: int = 0
    """How many of the likely ones a regression is fitted to, which takes its own time beside them."""


@runtime_checkable
class PricedEstimator(Protocol):
    """An estimator that knows its price before it starts.

    ``multiply_adds`` of one evaluation, None for an opaque game. Raises CostRefusal or SettingsError exactly where
    the estimate itself would.
    """

    def cost(self, players: int, multiply_adds: float | None) -> Cost:
        """Of an epoch with ``players`` participants."""
        ...


@runtime_checkable
class FlaggedPrice(Protocol):
    """An estimator that spends more on a flagged epoch (some update far longer than the median)."""

    def cost_when_flagged(self, players: int, multiply_adds: float | None) -> Cost:
        """Of a flagged epoch with ``players`` participants."""
        ...


@runtime_checkable
class WeightedPrice(Protocol):
    """An estimator whose way of working, and so its price, depends on how a coalition's updates are weighed."""

    def cost_with(self, weights: WeightMode, players: int, multiply_adds: float | None) -> Cost:
        """Of an epoch with ``players`` participants under these weights."""
        ...


def cost_of(
    estimator: Estimator,
    players: int,
    multiply_adds: float | None,
    *,
    flagged: bool = False,
    weights: WeightMode = WeightMode.ADAPTIVE,
) -> Cost:
    """Likely and largest number of distinct evaluations of an epoch with ``players`` participants.

    Raises CostRefusal or SettingsError where the estimate itself would. A third party's estimator that does not know
    its price is taken at all coalitions. An epoch without participants costs nothing.
    """
    if players == 0:
        return Cost(0, 0)
    if flagged and isinstance(estimator, FlaggedPrice):
        return estimator.cost_when_flagged(players, multiply_adds)
    if isinstance(estimator, WeightedPrice):
        return estimator.cost_with(weights, players, multiply_adds)
    if isinstance(estimator, PricedEstimator):
        return estimator.cost(players, multiply_adds)
    return Cost(distinct_coalitions(players), distinct_coalitions(players))


def default_permutations(players: int) -> int:
    """FedSV's number of permutations: max(30, 2n)."""
    return max(30, 2 * players)


def default_evaluations(players: int) -> int:
    """The sampling estimators' budget where none is given."""
    return min(distinct_coalitions(players), players * default_permutations(players))


def refuse_too_few(name: str, allowed: int, needed: int, purpose: str) -> None:
    """Raises SettingsError where the evaluations allowed do not pay for one draw."""
    if allowed < needed:
        raise SettingsError(f"{name} needs {needed} evaluations for {purpose}; evaluations = {allowed} allows fewer")


def exponential_cost(name: str, players: int, evaluations: int | None, most_players: int) -> Cost:
    """2^n − 1; raises CostRefusal, naming the cost and what is offered instead, where that is out of reach."""
    needed = distinct_coalitions(players)
    if evaluations is not None and evaluations < needed:
        offered = f"auto or complementary with evaluations = {evaluations}"
        limit = f"evaluations = {evaluations:,} allows fewer"
    elif players > most_players:
        offered = "auto, surrogate or complementary"
        limit = f"the limit is {most_players} participants"
    else:
        return Cost(needed, needed)
    cost = f"{name} over {players} participants needs 2^{players} − 1 = {needed:,} evaluations"
    raise CostRefusal(f"{cost}; {limit}. Use {offered}.", evaluations=needed, offered=offered)
