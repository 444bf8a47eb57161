"""The one-round index (OR, Song et al. 2019): one Shapley value per client for the run as a whole.

One game over all clients: F_S is rebuilt through the whole run from the members' updates and evaluated once, at the
end. There are no per-epoch values, only totals. Exact up to ``most_players`` clients.

Departure: beyond that the original has no answer; with ``evaluations = N`` (here N coalitions of the whole run, since
it has one game instead of one per epoch) the same game is sampled by complementary contributions, and the result
says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.errors import MissingPart
from flcontrib_core.shapley.base import BaseEstimator
from flcontrib_core.shapley.coalitions import distinct_coalitions
from flcontrib_core.shapley.complementary import Complementary
from flcontrib_core.shapley.costs import Cost, exponential_cost
from flcontrib_core.shapley.estimate import RunEstimate, RunGames
from flcontrib_core.shapley.exact_values import exact_estimate


@dataclass(frozen=True, kw_only=True)
class OneRound(BaseEstimator):
    """One Shapley value per client for the run as a whole."""

    most_players: int = 24
    """More clients than this are refused with the cost, unless ``evaluations`` allows a sample."""

    name = "one-round"

    def cost(self, players: int, multiply_adds: float | None) -> Cost:
        """``players`` are all clients of the run, and the cost is that of the run, not of an epoch."""
        if self._is_sampled(players):
            return self._sampler.cost(players, multiply_adds)
        return exponential_cost(self.name, players, self.evaluations, self.most_players)

    def estimate_run(self, run: RunGames, rng: np.random.Generator) -> RunEstimate:
        """Totals from the game over the whole run."""
        whole_run, clients = run.whole_run, run.clients
        if whole_run is None:
            raise MissingPart(
                "one-round needs the game over the whole run (F_S rebuilt through every epoch); none given"
            )
        if whole_run.players != clients:
            raise MissingPart(
                f"one-round needs the game over all {clients} clients; the game given has {whole_run.players} players"
            )
        self.cost(clients, None)
        if self._is_sampled(clients):
            method, estimate = f"{self.name} (sampled by complementary)", self._sampler.estimate(whole_run, rng)
        else:
            method, estimate = self.name, exact_estimate(whole_run)
        evaluations = np.zeros(len(run.epochs), dtype=np.int64)
        evaluations[-1:] = estimate.evaluations
        return RunEstimate(
            per_epoch=np.full((len(run.epochs), clients, len(whole_run.utilities)), np.nan),
            totals=estimate.values,
            evaluations=evaluations,
            remarks=estimate.remarks,
            total_standard_errors=estimate.standard_errors,
            method=method,
        )

    @property
    def _sampler(self) -> Complementary:
        return Complementary(evaluations=self.evaluations)

    def _is_sampled(self, clients: int) -> bool:
        return self.evaluations is not None and self.evaluations < distinct_coalitions(clients)
