"""The surrogate, corrected by sampled residuals: unbiased, and better than plain sampling where the fit is good.

Half of the evaluations fit the surrogate. The other half are coalitions drawn at random, whatever the fit says of them,
and what it misses there, r(S) = u(S) − û(S), has Shapley values that a maximum-sample-reuse estimate gives without
bias: a coalition of size s, drawn with probability q_s among its kind, adds r(S)/q_s · (1/s for members, −1/(n − s) for
others) to everybody (regression-adjusted, Witter et al. 2025). The surrogate's own values are those of a
table, or of an unbiased sample of its predictions, so the sum is unbiased however wrong the fit is; the better the fit,
the smaller the rest and its classical standard error. The interval rests on no calibration.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flcontrib_core.shapley.coalitions import distinct_coalitions, random_coalitions_of_size
from flcontrib_core.shapley.costs import Cost
from flcontrib_core.shapley.oracle import CoalitionOracle, coalition_keys
from flcontrib_core.shapley.surrogate import Surrogate
from flcontrib_core.shapley.surrogate_fit import Check, SurrogateFit
from flcontrib_core.vocabulary import CoalitionMatrix, FloatArray, PlayerByUtility


@dataclass(frozen=True, kw_only=True)
class UnbiasedSurrogate(Surrogate):
    """The surrogate plus a maximum-sample-reuse estimate of what it misses, on as many evaluations again."""

    @property
    def name(self) -> str:
        """surrogate-unbiased, or surrogate-blackbox-unbiased."""
        return f"{super().name}-unbiased"

    def _cost(self, players: int, first_check: int) -> Cost:
        """Twice the surrogate's where no evaluations are given."""
        fit = super()._cost(players, first_check)
        if self.evaluations is not None:
            return fit
        everything = distinct_coalitions(players)
        likely, most = min(2 * fit.likely, everything), min(2 * fit.most, everything)
        return Cost(likely, most, fit.likely if most < everything else 0)

    def fit_evaluations(self, most: int, players: int) -> int:
        """Half, or what the fit cannot do without; the rest is drawn."""
        if self.evaluations is None:
            return most // 2
        return max(-(-self.evaluations // 2), min(players + 2, self.evaluations - 2))

    def finished(self, fit: SurrogateFit, check: Check, rng: np.random.Generator) -> tuple[Check, int]:
        """The check with the correction added and its own standard errors."""
        draws = fit.evaluated if self.evaluations is None else self.evaluations - fit.evaluated
        values, sampling = fit.values()
        correction, errors, fresh = residual_values(fit, fit.oracle, max(draws, 2), rng)
        errors = np.maximum(errors, least_errors(fit, max(draws, 2)))
        return replace(check, values=values + correction, errors=np.hypot(errors, sampling)), fresh


def least_errors(fit: SurrogateFit, draws: int) -> FloatArray:
    """(utilities,) what no number of draws without a miss rules out of a utility that counts rows, 0 for others.

    By the rule of three three of so many draws may have missed by one row: ±1.96 of this error is that much.
    """
    sizes, chances = np.arange(1, fit.players), size_chances(fit.players)
    share = np.sqrt((1.0 / (sizes * (fit.players - sizes)) / chances).sum())  # of a player in a draw, root mean square
    return np.asarray(np.where(fit.steps, 3.0 / 1.96 * fit.prior.row * share / draws, 0.0))


def size_chances(players: int) -> FloatArray:
    """(n − 1,) q_s of the sizes 1 … n − 1: best where all residuals are alike."""
    sizes = np.arange(1, players)
    spread = np.sqrt(1.0 / sizes + 1.0 / (players - sizes))
    return np.asarray(spread / spread.sum())


def residual_values(
    fit: SurrogateFit, oracle: CoalitionOracle, draws: int, rng: np.random.Generator
) -> tuple[PlayerByUtility, PlayerByUtility, int]:
    """Unbiased values of what the fit misses, their standard errors, and how many new coalitions were evaluated."""
    n = oracle.players
    chances = size_chances(n)
    sizes = rng.choice(np.arange(1, n), size=draws, p=chances)
    drawn: CoalitionMatrix = np.concatenate([random_coalitions_of_size(rng, 1, n, int(size)) for size in sizes])
    row_of = {key: row for row, key in enumerate(coalition_keys(fit.evidence.coalitions))}
    keys = coalition_keys(drawn)
    fresh = [row for row, key in enumerate(keys) if key not in row_of]
    residuals = np.zeros((draws, len(oracle.utilities)))  # an evaluated coalition has its true value in the table
    if fresh:
        residuals[fresh] = oracle.evaluate(drawn[fresh]) - fit.predict(drawn[fresh])
    share = np.where(drawn, 1.0 / sizes[:, None], -1.0 / (n - sizes)[:, None]) / chances[sizes - 1][:, None]
    scores = share[:, :, None] * residuals[:, None, :]  # (draws, players, utilities)
    errors = scores.std(axis=0, ddof=1) / np.sqrt(draws)
    return scores.mean(axis=0), errors, len({keys[row] for row in fresh})
