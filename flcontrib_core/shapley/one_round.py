"""What does the one-round index say (OR, Song et al. 2019)?

One game over all clients: F_S is rebuilt through the whole run from the members' updates and evaluated once, at the
end. There are no per-epoch values, only totals. Exact up to ``exact_players`` clients.

Departure: beyond that the original has no answer; with ``--evaluations N`` (here N coalitions of the whole run, since
it has one game instead of one per epoch) the same game is sampled by complementary contributions, and the result
says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flcontrib_core.errors import MissingPart
from flcontrib_core.shapley.coalitions import distinct_coalitions
from flcontrib_core.shapley.complementary import Complementary
from flcontrib_core.shapley.costs import Cost, refuse_foreign_options
from flcontrib_core.shapley.estimate import EpochOfRun, EstimatorSettings, RunEstimate
from flcontrib_core.shapley.exact import exact_estimate, refuse_exponential
from flcontrib_core.shapley.oracle import CoalitionOracle


class OneRound:
    """One Shapley value per client for the run as a whole."""

    name = "one-round"

    def cost(self, players: int, multiply_adds: float | None, settings: EstimatorSettings) -> Cost:
        """``players`` are all clients of the run, and the cost is that of the run, not of an epoch."""
        if self._is_sampled(players, settings):
            return Complementary().cost(players, multiply_adds, settings)
        refuse_exponential(players, settings, self.name)
        return Cost(distinct_coalitions(players), distinct_coalitions(players))

    def estimate_run(
        self,
        epochs: Sequence[EpochOfRun],
        clients: int,
        rng: np.random.Generator,
        settings: EstimatorSettings,
        whole_run: CoalitionOracle | None = None,
    ) -> RunEstimate:
        refuse_foreign_options(settings, self.name)
        if whole_run is None:
            raise MissingPart(
                "one-round needs the game over the whole run (F_S rebuilt through every epoch); none given"
            )
        if whole_run.players != clients:
            raise MissingPart(
                f"one-round needs the game over all {clients} clients; the game given has {whole_run.players} players"
            )
        if self._is_sampled(clients, settings):
            sampled = Complementary().estimate(whole_run, rng, settings)
            method, estimate = f"{self.name} (sampled by complementary)", sampled
        else:
            refuse_exponential(clients, settings, self.name)
            method, estimate = self.name, exact_estimate(whole_run)
        evaluations = np.zeros(len(epochs), dtype=np.int64)
        evaluations[-1:] = estimate.evaluations
        return RunEstimate(
            per_epoch=np.full((len(epochs), clients, len(whole_run.utilities)), np.nan),
            totals=estimate.values,
            evaluations=evaluations,
            notes=estimate.notes,
            total_standard_errors=estimate.standard_errors,
            method=method,
        )

    @staticmethod
    def _is_sampled(clients: int, settings: EstimatorSettings) -> bool:
        return settings.evaluations is not None and settings.evaluations < distinct_coalitions(clients)
