"""The federated Shapley value (FedSV, Wang et al. 2020), by permutation sampling or by group testing.

Per epoch the Shapley value over the participants, 0 for everybody else (the caller's part). Two samplers:
``permutations`` walks max(30, 2n) random orders, or as many as ``evaluations`` pays for; ``group-testing`` estimates
the differences of values from random coalitions, by default ``costs.default_evaluations`` of them.

Group testing: Z = 2 Σ_{k<n} 1/k; D_ij = Z · mean((1[i∈S] − 1[j∈S]) u(S)) estimates φ_i − φ_j, and
φ_i = u(N)/n + (1/n) Σ_j D_ij = u(N)/n + mean over tests of Z (1[i∈S] − |S|/n) u(S), so Σφ = u(N) exactly and
the tests' spread gives the standard error.

Departure: the original solves a feasibility problem |φ_i − φ_j − D_ij| ≤ ε; the mean over all n players j
(D_ii = 0) is its centre and needs no ε.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from flcontrib_core.shapley.base import Sample, SamplingEstimator, one_of
from flcontrib_core.shapley.coalitions import everybody
from flcontrib_core.shapley.costs import Cost, default_permutations
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.permutation import marginals_along, mean_and_error, orders_within
from flcontrib_core.shapley.remarks import GroupTests, Orders
from flcontrib_core.vocabulary import CoalitionMatrix


@dataclass(frozen=True, kw_only=True)
class FedSV(SamplingEstimator):
    """The Shapley value over an epoch's participants as FedSV samples it."""

    sampling: Literal["permutations", "group-testing"] = "permutations"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("sampling", self.sampling, ("permutations", "group-testing"))

    @property
    def name(self) -> str:
        """fedsv, or fedsv-group-testing."""
        return "fedsv" if self.sampling == "permutations" else "fedsv-group-testing"

    def one_draw(self, players: int) -> tuple[int, str]:
        """One order; group testing needs u(N) alone."""
        if self.sampling == "group-testing":
            return super().one_draw(players)
        return players, f"one order of {players} participants"

    def cost(self, players: int, multiply_adds: float | None) -> Cost:
        """Without ``evaluations`` the orders share u(N)."""
        budget = super().cost(players, multiply_adds).most
        if self.sampling == "group-testing":
            return Cost(budget, budget)
        return Cost(min(budget, 1 + default_permutations(players) * (players - 1)), budget)

    def sample(self, ledger: Ledger, rng: np.random.Generator) -> Sample:
        """Orders or tests, as many as the budget pays for."""
        if self.sampling == "group-testing":
            return _group_testing(ledger, rng)
        n = ledger.oracle.players
        at_most = default_permutations(n) if self.evaluations is None else max(1000, 4 * ledger.budget)
        orders = orders_within(ledger, rng, antithetic=False, at_most=at_most)
        values, errors = mean_and_error(marginals_along(orders, ledger))
        return Sample(values, errors, (Orders(len(orders)),))


def group_tests(rng: np.random.Generator, count: int, players: int) -> CoalitionMatrix:
    """(count, players) random coalitions: size k with probability n / (k (n − k) Z), members uniform."""
    sizes = np.arange(1, players)
    share = 1.0 / (sizes * (players - sizes))
    drawn = rng.choice(sizes, size=count, p=share / share.sum())
    ranks = np.argsort(np.argsort(rng.random((count, players)), axis=1), axis=1)
    tests: CoalitionMatrix = ranks < drawn[:, None]
    return tests


def _group_testing(ledger: Ledger, rng: np.random.Generator) -> Sample:
    n = ledger.oracle.players
    equal_share = ledger.evaluate(everybody(n)) / n
    tests = _tests_within(ledger, rng)
    if not len(tests):
        values = np.repeat(equal_share, n, axis=0)
        return Sample(values, np.full_like(values, np.nan), (GroupTests(0),))
    z = 2.0 * (1.0 / np.arange(1, n)).sum()
    scores = z * (tests - tests.mean(axis=1, keepdims=True))[:, :, None] * ledger.evaluate(tests)[:, None, :]
    differences, errors = mean_and_error(scores)
    return Sample(equal_share + differences, errors, (GroupTests(len(tests)),))


def _tests_within(ledger: Ledger, rng: np.random.Generator) -> CoalitionMatrix:
    """Tests until the next one no longer fits; repeated coalitions are free."""
    tests: list[CoalitionMatrix] = []
    at_most = max(1000, 16 * ledger.budget)
    n = ledger.oracle.players
    while len(tests) < at_most:
        for test in group_tests(rng, 256, n):
            if not ledger.reserve(test[None]):
                return np.array(tests, dtype=bool).reshape(len(tests), n)
            tests.append(test)
    return np.array(tests)
