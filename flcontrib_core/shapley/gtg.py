"""GTG-Shapley (Liu et al. 2022): guided truncation of rounds and of orders.

An epoch whose increment |u(N)| ≤ ε_b is skipped: all values 0. Otherwise sweeps of n orders, each led by another
player; an order is cut where |u(N) − u(prefix)| < ε_i, the players behind the cut counting 0. After each sweep, from
30 orders on, it ends when the last 10 running means differ from the newest by ≤ 0.05 on average over the players,
relative to it. ε_b = 0.01 and ε_i = 0.001 are the published constants, taken as they are for every utility unless
``units`` says otherwise (see ``thresholds``). Every utility is skipped, cut and tested by itself; the sweeps end when
all have converged. Every constant is an option.

Participants are positions 0 … n − 1 whatever their ids; a cut value never enters a memo; nothing is renormalised by
sign. There is no standard error: orders share their leader, and the cuts bias the mean.

Departure: the relative test never ends for a value near zero, so at most max(300, 10n) orders are walked; a note says
when that happened. ``evaluations`` ends it earlier, before the first order that would not fit uncut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.shapley.base import BaseEstimator, one_of
from flcontrib_core.shapley.coalitions import distinct_coalitions, everybody, random_permutations
from flcontrib_core.shapley.costs import Cost, refuse_too_few
from flcontrib_core.shapley.estimate import ShapleyEstimate
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.permutation import truncated_marginals
from flcontrib_core.shapley.remarks import IncrementSmall, Stop, SweepEnded
from flcontrib_core.shapley.thresholds import THRESHOLD_UNITS, ThresholdUnits, utility_units
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray


def led_orders(rng: np.random.Generator, players: int) -> IntArray:
    """(players, players) one sweep: every player leads one order, leaders in random order, the rest uniform."""
    rest = random_permutations(rng, players, players - 1)
    leaders = rng.permutation(players)[:, None]
    return np.concatenate([leaders, rest + (rest >= leaders)], axis=1)  # skips the leader among the others


@dataclass(frozen=True, kw_only=True)
class GTG(BaseEstimator):
    """Guided truncation gradient Shapley, per epoch."""

    round_threshold: float = 0.01
    """ε_b: an epoch that moved less is skipped."""
    order_threshold: float = 0.001
    """ε_i: an order is cut once it is this close to u(N)."""
    tolerance: float = 0.05
    """Converged where the running means differ by no more than this, relative to the newest."""
    window: int = 10
    """How many of the last running means are compared with the newest."""
    fewest_orders: int = 30
    """No test for convergence before this many."""
    most_orders: int | None = None
    """The end of the sweeps whatever the test says; None = max(300, 10n)."""
    units: ThresholdUnits = "published"
    """Thresholds as published, or multiplied by the epoch's own range of a utility outside [0, 1]."""

    name = "gtg"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("units", self.units, THRESHOLD_UNITS)
        if min(self.round_threshold, self.order_threshold, self.tolerance) < 0:
            raise SettingsError("gtg: thresholds and tolerance are not negative")
        if min(self.window, self.fewest_orders, self.most_orders or 1) < 1:
            raise SettingsError("gtg: window, fewest_orders and most_orders are at least 1")

    def cost(self, players: int, multiply_adds: float | None) -> Cost:
        """What the fewest and the most orders take uncut."""
        ceiling = self.budget(players)
        needed = min(2 * players - 1, distinct_coalitions(players))
        refuse_too_few(self.name, ceiling, needed, f"u(N), the singletons and one order of {players} participants")
        sweeps = -(-self.fewest_orders // players)
        start, per_order = players + 1, max(players - 2, 0)  # N and the singletons are paid once
        most_orders = self._most_orders(players) + players
        likely, most = (start + orders * per_order for orders in (sweeps * players, most_orders))
        return Cost(min(ceiling, likely), min(ceiling, most))

    def budget(self, players: int) -> int:
        """All coalitions where no evaluations are given: convergence ends it."""
        return min(self.evaluations or distinct_coalitions(players), distinct_coalitions(players))

    def estimate(self, oracle: CoalitionOracle, rng: np.random.Generator) -> ShapleyEstimate:
        """Mean marginals over the sweeps; no standard errors."""
        n = oracle.players
        self.cost(n, None)
        ledger = Ledger(oracle, self.budget(n))
        total = ledger.evaluate(everybody(n))
        if n == 1:
            return ShapleyEstimate(total, np.zeros_like(total), ledger.spent, exact=True, method=self.name)
        units = utility_units(ledger, self.units)
        skipped = np.abs(total[0]) <= self.round_threshold * units
        if skipped.all():
            values, ended = np.zeros((n, len(units))), None
        else:
            values, ended = self._sweep(ledger, rng, total, self.order_threshold * units, skipped)
        small = tuple(u for u, s in zip(oracle.utilities, skipped, strict=True) if s)
        remarks = (*(() if ended is None else (ended,)), *((IncrementSmall(small),) if small else ()))
        errors = np.full_like(values, np.nan)
        return ShapleyEstimate(values, errors, ledger.spent, exact=False, method=self.name, remarks=remarks)

    def converged(self, marginals: FloatArray) -> BoolArray:
        """(utilities,) from (orders, players, utilities): True where the running means have settled."""
        orders = len(marginals)
        if orders < self.fewest_orders:
            return np.zeros(marginals.shape[2], dtype=bool)
        means = np.cumsum(marginals, axis=0) / np.arange(1, orders + 1)[:, None, None]
        newest = means[-1]
        change = np.abs(means[-self.window :] - newest)
        # a mean that is exactly 0 and stays 0 has settled; 0/0 must not say otherwise
        relative = np.divide(change, np.abs(newest), out=np.where(change == 0, 0.0, np.inf), where=newest != 0)
        settled: BoolArray = relative.mean(axis=1).max(axis=0) <= self.tolerance
        return settled

    def _most_orders(self, players: int) -> int:
        return self.most_orders or max(300, 10 * players)

    def _sweep(
        self, ledger: Ledger, rng: np.random.Generator, total: FloatArray, cut: FloatArray, skipped: BoolArray
    ) -> tuple[FloatArray, SweepEnded]:
        """(players, utilities) mean marginals over the sweeps, 0 where the utility is skipped."""
        n = ledger.oracle.players
        most_orders = self._most_orders(n)
        affordable = ledger.budget >= distinct_coalitions(n)  # every prefix there is
        ledger.evaluate(np.eye(n, dtype=bool))  # the leaders' singletons, which begin every sweep
        walked: list[FloatArray] = []
        stop = Stop.MOST_ORDERS
        sweeps = -(-self.fewest_orders // n)  # walked together where they surely fit: nothing is decided before them
        if not affordable:
            sweeps = max(1, min(sweeps, ledger.left // (n * (n - 2))))
        while len(walked) < most_orders:
            orders = np.concatenate([led_orders(rng, n) for _ in range(sweeps)])
            # with the singletons and N evaluated, an uncut order costs at most n − 2 new coalitions
            fitting = len(orders) if affordable else min(len(orders), ledger.left // (n - 2))
            walked.extend(truncated_marginals(orders[:fitting], ledger, total, cut))
            sweeps = 1
            if fitting < len(orders):
                stop = Stop.EVALUATIONS
                break
            if (self.converged(np.array(walked)) | skipped).all():
                stop = Stop.CONVERGED
                break
        values = np.where(skipped, 0.0, np.mean(walked, axis=0))
        return values, SweepEnded(stop, len(walked))
