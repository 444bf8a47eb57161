"""What does GTG-Shapley say (Liu et al. 2022: guided truncation of rounds and of orders)?

An epoch whose increment |u(N)| ≤ ε_b is skipped: all values 0. Otherwise sweeps of n orders, each led by another
player; an order is cut where |u(N) − u(prefix)| < ε_i, the players behind the cut counting 0. After each sweep, from
30 orders on, it ends when the last 10 running means differ from the newest by ≤ 0.05 on average over the players,
relative to it. ε_b = 0.01 and ε_i = 0.001 are in accuracy units (see ``thresholds``). Every utility is skipped, cut
and judged by itself; the sweeps end when all have converged.

Participants are positions 0 … n − 1 whatever their ids; a cut value never enters a memo; nothing is renormalised by
sign. There is no standard error: orders share their leader, and the cuts bias the mean.

Departure: the relative test never ends for a value near zero, so at most max(300, 10n) orders are walked; a note says
when that happened. ``--evaluations`` ends it earlier, before the first order that would not fit uncut.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.shapley.coalitions import distinct_coalitions, everybody, random_permutations
from flcontrib_core.shapley.costs import Cost, refuse_foreign_options
from flcontrib_core.shapley.estimate import EstimatorSettings, ShapleyEstimate
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.permutation import truncated_marginals
from flcontrib_core.shapley.thresholds import utility_ranges
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

SKIP = 0.01
CUT = 0.001
FEWEST_ORDERS = 30
LOOK_BACK = 10
TOLERANCE = 0.05


def most_orders(players: int) -> int:
    return max(300, 10 * players)


def led_orders(rng: np.random.Generator, players: int) -> IntArray:
    """(players, players) one sweep: every player leads one order, leaders in random order, the rest uniform."""
    rest = random_permutations(rng, players, players - 1)
    leaders = rng.permutation(players)[:, None]
    return np.concatenate([leaders, rest + (rest >= leaders)], axis=1)  # skips the leader among the others


def converged(marginals: FloatArray) -> BoolArray:
    """(utilities,) from (orders, players, utilities): have the running means settled?"""
    orders = len(marginals)
    if orders < FEWEST_ORDERS:
        return np.zeros(marginals.shape[2], dtype=bool)
    means = np.cumsum(marginals, axis=0) / np.arange(1, orders + 1)[:, None, None]
    newest = means[-1]
    change = np.abs(means[-LOOK_BACK:] - newest)
    # a mean that is exactly 0 and stays 0 has settled; 0/0 must not say otherwise
    relative = np.divide(change, np.abs(newest), out=np.where(change == 0, 0.0, np.inf), where=newest != 0)
    settled: BoolArray = relative.mean(axis=1).max(axis=0) <= TOLERANCE
    return settled


class GTGShapley:
    """Guided truncation gradient Shapley, per epoch."""

    name = "gtg"

    def cost(self, players: int, multiply_adds: float | None, settings: EstimatorSettings) -> Cost:
        ceiling = distinct_coalitions(players)
        if settings.evaluations is not None:
            ceiling = min(ceiling, settings.evaluations)
        self._refuse_too_few(ceiling, players)
        sweeps = -(-FEWEST_ORDERS // players)
        known, per_order = players + 1, max(players - 2, 0)  # N and the singletons are paid once
        likely, most = (known + orders * per_order for orders in (sweeps * players, most_orders(players) + players))
        return Cost(min(ceiling, likely), min(ceiling, most))

    def estimate(
        self, oracle: CoalitionOracle, rng: np.random.Generator, settings: EstimatorSettings
    ) -> ShapleyEstimate:
        refuse_foreign_options(settings, self.name)
        n = oracle.players
        ceiling = distinct_coalitions(n) if settings.evaluations is None else settings.evaluations
        self._refuse_too_few(ceiling, n)
        ledger = Ledger(oracle, min(ceiling, distinct_coalitions(n)))
        total = ledger.evaluate(everybody(n))
        if n == 1:
            return ShapleyEstimate(total, np.zeros_like(total), ledger.spent, exact=True, method=self.name)
        ranges = utility_ranges(ledger)
        skipped = np.abs(total[0]) <= SKIP * ranges
        if skipped.all():
            values, verdict = np.zeros((n, len(ranges))), "epoch skipped: its increment is below the threshold"
        else:
            values, verdict = self._sweep(ledger, rng, total, CUT * ranges, skipped)
        partly = (f"{u}: skipped" for u, s in zip(oracle.utilities, skipped, strict=True) if s and not skipped.all())
        notes = (verdict, *partly)
        errors = np.full_like(values, np.nan)
        return ShapleyEstimate(values, errors, ledger.spent, exact=False, method=self.name, notes=notes)

    @staticmethod
    def _refuse_too_few(budget: int, players: int) -> None:
        if budget < min(2 * players - 1, distinct_coalitions(players)):
            raise SettingsError(
                f"gtg needs {2 * players - 1} evaluations for u(N), the singletons and one order of {players} "
                f"participants; --evaluations allows {budget}"
            )

    @staticmethod
    def _sweep(
        ledger: Ledger, rng: np.random.Generator, total: FloatArray, cut: FloatArray, skipped: BoolArray
    ) -> tuple[FloatArray, str]:
        """(players, utilities) mean marginals over the sweeps, 0 where the utility is skipped."""
        n = ledger.oracle.players
        affordable = ledger.budget >= distinct_coalitions(n)  # every prefix there is
        ledger.evaluate(np.eye(n, dtype=bool))  # the leaders' singletons, which begin every sweep
        walked: list[FloatArray] = []
        verdict = f"not converged after {most_orders(n)} orders"
        sweeps = -(-FEWEST_ORDERS // n)  # walked together where they surely fit: nothing is decided before them
        if not affordable:
            sweeps = max(1, min(sweeps, ledger.left // (n * (n - 2))))
        while len(walked) < most_orders(n):
            orders = np.concatenate([led_orders(rng, n) for _ in range(sweeps)])
            # with the singletons and N known, an uncut order costs at most n − 2 new coalitions
            fitting = len(orders) if affordable else min(len(orders), ledger.left // (n - 2))
            walked.extend(truncated_marginals(orders[:fitting], ledger, total, cut))
            sweeps = 1
            if fitting < len(orders):
                verdict = "not converged within the evaluations"
                break
            if (converged(np.array(walked)) | skipped).all():
                verdict = "converged"
                break
        values = np.where(skipped, 0.0, np.mean(walked, axis=0))
        return values, f"{len(walked)} orders, {verdict}"
