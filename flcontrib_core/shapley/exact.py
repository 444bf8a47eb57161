"""Exact values: all 2^n coalitions once, then one weighting over bitmasks; never n! orders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.shapley.base import BaseEstimator
from flcontrib_core.shapley.costs import Cost, exponential_cost
from flcontrib_core.shapley.estimate import ShapleyEstimate
from flcontrib_core.shapley.exact_values import exact_estimate
from flcontrib_core.shapley.oracle import CoalitionOracle


@dataclass(frozen=True, kw_only=True)
class Exact(BaseEstimator):
    """Every coalition, each evaluated once. ``evaluations`` is a ceiling: a larger request is refused."""

    most_players: int = 24
    """A request with more participants than this is refused with its cost."""

    name = "exact"

    def cost(self, players: int, multiply_adds: float | None) -> Cost:
        """2^n − 1, or a CostRefusal."""
        return exponential_cost(self.name, players, self.evaluations, self.most_players)

    def estimate(self, oracle: CoalitionOracle, rng: np.random.Generator) -> ShapleyEstimate:
        """The exact values; ``rng`` is not used."""
        self.cost(oracle.players, None)
        return exact_estimate(oracle, self.name)
