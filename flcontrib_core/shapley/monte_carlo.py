"""Monte Carlo over random orders of joining (Castro 2009, Ghorbani & Zou 2019), with standard errors.

Options: ``truncate`` stops an order once its prefix is within 1 % of u(N) (each later player of that order counts 0: a
bias the standard error does not show; the shortcut is never written into a memo); ``antithetic`` walks every order
backwards too and averages the pair. Orders are drawn until the next one no longer fits the evaluations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.shapley.base import Sample, SamplingEstimator
from flcontrib_core.shapley.coalitions import everybody
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.permutation import (
    BATCH,
    draw_orders,
    marginals_along,
    mean_and_error,
    orders_within,
    truncated_marginals,
)
from flcontrib_core.shapley.remarks import EstimatorRemark, Orders, OrdersCut
from flcontrib_core.vocabulary import FloatArray


@dataclass(frozen=True, kw_only=True)
class MonteCarlo(SamplingEstimator):
    """Random orders with standard errors; plain, truncated, antithetic or both."""

    truncate: bool = False
    antithetic: bool = False
    truncation: float = 0.01
    """An order is cut where |u(N) − u(prefix)| < this share of |u(N)|; nothing is cut where u(N) = 0."""

    name = "monte-carlo"

    @property
    def method(self) -> str:
        """The name and the options in use."""
        return self.name + " truncated" * self.truncate + " antithetic" * self.antithetic

    def one_draw(self, players: int) -> tuple[int, str]:
        """An order, and its reverse where it is antithetic."""
        needed = 2 * players - 1 if self.antithetic else players
        return needed, f"one order of {players} participants{' and its reverse' if self.antithetic else ''}"

    def sample(self, ledger: Ledger, rng: np.random.Generator) -> Sample:
        """The mean over as many orders as the budget pays for."""
        at_most = max(1000, 4 * ledger.budget)  # ends the free walk over prefixes that are all known
        remarks: tuple[EstimatorRemark, ...] = ()
        if self.truncate:
            marginals = self._truncated(ledger, rng, at_most)
            remarks = (OrdersCut(self.truncation),)
        else:
            marginals = marginals_along(orders_within(ledger, rng, self.antithetic, at_most), ledger)
        values, errors = mean_and_error(marginals)
        return Sample(values, errors, (Orders(len(marginals)), *remarks))

    def _truncated(self, ledger: Ledger, rng: np.random.Generator, at_most: int) -> FloatArray:
        """(orders, players, utilities); an order starts only if the budget pays for it uncut, so none is half done."""
        players = ledger.oracle.players
        total = ledger.evaluate(everybody(players))
        tolerance = self.truncation * np.abs(total)
        walks = 2 if self.antithetic else 1
        samples: list[FloatArray] = []
        # after N itself is paid, an uncut order costs n − 1 new coalitions per walk
        while len(samples) < at_most and ledger.left >= walks * (players - 1):
            fitting = min(BATCH, at_most - len(samples), ledger.left // (walks * (players - 1)))
            orders = draw_orders(rng, fitting, players, self.antithetic)
            marginals = truncated_marginals(orders.reshape(-1, players), ledger, total, tolerance)
            samples.extend(marginals.reshape(fitting, walks, players, -1).mean(axis=1))
        return np.array(samples)
