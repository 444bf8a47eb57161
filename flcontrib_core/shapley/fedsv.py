"""What does the federated Shapley value say (FedSV, Wang et al. 2020)?

Per epoch the Shapley value over the participants, 0 for everybody else (the caller's part). Two samplers:
``fedsv`` walks max(30, 2n) random orders, or as many as ``--evaluations`` pays for; ``fedsv-group-testing`` estimates
the differences of values from random coalitions, by default ``costs.default_evaluations`` of them.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.shapley.coalitions import distinct_coalitions, everybody
from flcontrib_core.shapley.costs import Cost, default_permutations, evaluation_budget, refuse_foreign_options
from flcontrib_core.shapley.estimate import EstimatorSettings, ShapleyEstimate
from flcontrib_core.shapley.exact import exact_estimate
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.permutation import marginals_along, mean_and_error, orders_within
from flcontrib_core.vocabulary import CoalitionMatrix


class FedSV:
    """FedSV by permutation sampling."""

    name = "fedsv"

    def cost(self, players: int, multiply_adds: float | None, settings: EstimatorSettings) -> Cost:
        budget = evaluation_budget(settings, players)
        self._refuse_too_few(budget, players)
        return Cost(min(budget, 1 + default_permutations(players) * (players - 1)), budget)

    def estimate(
        self, oracle: CoalitionOracle, rng: np.random.Generator, settings: EstimatorSettings
    ) -> ShapleyEstimate:
        refuse_foreign_options(settings, self.name)
        n = oracle.players
        budget = evaluation_budget(settings, n)
        self._refuse_too_few(budget, n)
        if budget >= distinct_coalitions(n):
            return exact_estimate(oracle, f"{self.name} (exact: all coalitions)")
        ledger = Ledger(oracle, budget)
        at_most = default_permutations(n) if settings.evaluations is None else max(1000, 4 * budget)
        orders = orders_within(ledger, rng, antithetic=False, at_most=at_most)
        values, errors = mean_and_error(marginals_along(orders, ledger))
        notes = (f"{len(orders)} orders",)
        return ShapleyEstimate(values, errors, ledger.spent, exact=False, method=self.name, notes=notes)

    @staticmethod
    def _refuse_too_few(budget: int, players: int) -> None:
        if budget < players:
            raise SettingsError(
                f"fedsv needs {players} evaluations for one order of {players} participants; "
                f"--evaluations allows {budget}"
            )


def group_tests(rng: np.random.Generator, count: int, players: int) -> CoalitionMatrix:
    """(count, players) random coalitions: size k with probability n / (k (n − k) Z), members uniform."""
    sizes = np.arange(1, players)
    share = 1.0 / (sizes * (players - sizes))
    drawn = rng.choice(sizes, size=count, p=share / share.sum())
    ranks = np.argsort(np.argsort(rng.random((count, players)), axis=1), axis=1)
    tests: CoalitionMatrix = ranks < drawn[:, None]
    return tests


class FedSVGroupTesting:
    """FedSV by group testing.

    Z = 2 Σ_{k<n} 1/k; D_ij = Z · mean((1[i∈S] − 1[j∈S]) u(S)) estimates φ_i − φ_j, and
    φ_i = u(N)/n + (1/n) Σ_j D_ij = u(N)/n + mean over tests of Z (1[i∈S] − |S|/n) u(S), so Σφ = u(N) exactly and
    the tests' spread gives the standard error.

    Departure: the original solves a feasibility problem |φ_i − φ_j − D_ij| ≤ ε; the mean over all n players j
    (D_ii = 0) is its centre and needs no ε.
    """

    name = "fedsv-group-testing"

    def cost(self, players: int, multiply_adds: float | None, settings: EstimatorSettings) -> Cost:
        budget = evaluation_budget(settings, players)
        return Cost(budget, budget)

    def estimate(
        self, oracle: CoalitionOracle, rng: np.random.Generator, settings: EstimatorSettings
    ) -> ShapleyEstimate:
        refuse_foreign_options(settings, self.name)
        n = oracle.players
        budget = evaluation_budget(settings, n)
        if budget >= distinct_coalitions(n):
            return exact_estimate(oracle, f"{self.name} (exact: all coalitions)")
        ledger = Ledger(oracle, budget)
        equal_share = ledger.evaluate(everybody(n)) / n
        tests = self._tests_within(ledger, rng)
        if not len(tests):
            values = np.repeat(equal_share, n, axis=0)
            notes = ("one evaluation pays for no test: u(N) shared equally",)
            return ShapleyEstimate(values, np.full_like(values, np.nan), ledger.spent, False, self.name, notes)
        z = 2.0 * (1.0 / np.arange(1, n)).sum()
        scores = z * (tests - tests.mean(axis=1, keepdims=True))[:, :, None] * ledger.evaluate(tests)[:, None, :]
        differences, errors = mean_and_error(scores)
        notes = (f"{len(tests)} tests",)
        return ShapleyEstimate(equal_share + differences, errors, ledger.spent, False, self.name, notes)

    @staticmethod
    def _tests_within(ledger: Ledger, rng: np.random.Generator) -> CoalitionMatrix:
        """Tests until the next one no longer fits; repeated coalitions are free."""
        kept: list[CoalitionMatrix] = []
        at_most = max(1000, 16 * ledger.budget)
        n = ledger.oracle.players
        while len(kept) < at_most:
            for test in group_tests(rng, 256, n):
                if not ledger.reserve(test[None]):
                    return np.array(kept, dtype=bool).reshape(len(kept), n)
                kept.append(test)
        return np.array(kept)
