"""Whom to invite next: what each client's rounds were worth, how often that was seen, and how much is in doubt.

Values shrink as training goes on, so a value counts relative to its epoch: φ_i over the mean |φ| of that epoch's
participants (1 = an average share). Each client's mean is drawn towards that of all (a normal model with between- and
within-client variance from this history), so three lucky rounds do not beat thirty good ones, and a client never seen
stands at the average with the whole doubt. The order is the upper end, mean + ``explore`` · doubt (Bayes-UCB, Kaufmann
et al. 2012): 0 asks for the best known, more for the less known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import CellState, EpochByClient, FloatArray


@dataclass(frozen=True)
class Candidate:
    """One client as somebody to invite, in shares of an average participant's value; up is help."""

    client: str
    took_part: int
    """Epochs"""
    valued: int
    """Epochs whose value is known"""
    value: float
    """Its mean share, drawn towards everybody's"""
    doubt: float
    """Standard deviation of what that mean may be"""
    score: float
    """value + explore · doubt: the order of the list"""


def rank_candidates(history: ContributionHistory, utility: str = "loss", explore: float = 1.0) -> list[Candidate]:
    """All clients, the one to invite first at the top; equal scores keep the log's order.

    Raises MissingPart where fewer than two values are known: there is nothing to order by.
    """
    if not np.isfinite(explore) or explore < 0:
        raise SettingsError(f"explore is {explore:g}; give 0 (only what is known) or more")
    shares = _shares(history, utility)
    seen = np.isfinite(shares).sum(axis=0)
    if seen.sum() < 2:
        raise MissingPart(
            f"{history.run_name}: fewer than two values of {utility} are known, so nobody can be compared"
        )
    value, doubt = _posterior(shares, seen)
    score = value + explore * doubt
    took_part = history.participated.sum(axis=0)
    order = np.argsort(-score, kind="stable")
    return [
        Candidate(
            history.client_ids[i],
            int(took_part[i]),
            int(seen[i]),
            float(value[i]),
            float(doubt[i]),
            float(score[i]),
        )
        for i in order
    ]


def _shares(history: ContributionHistory, utility: str) -> EpochByClient:
    """(T, clients) help in units of the epoch's mean |φ|; NaN where no value is known or nothing moved."""
    known = (history.of(utility).state == CellState.COMPUTED) & history.participated
    values = np.where(known, -history.harm_sign(utility) * history.of(utility).values, np.nan)[1:]
    count = np.isfinite(values).sum(axis=1, keepdims=True)
    scale = np.nansum(np.abs(values), axis=1, keepdims=True) / np.maximum(count, 1)
    return np.asarray(np.divide(values, scale, out=np.full_like(values, np.nan), where=scale > 0))


def _posterior(shares: EpochByClient, seen: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and their standard deviations under a normal model whose two variances come from these shares."""
    sums = np.nansum(shares, axis=0)
    means = np.divide(sums, seen, out=np.zeros_like(sums), where=seen > 0)
    left = np.nansum((shares - means) ** 2)
    within = left / max(float(np.maximum(seen - 1, 0).sum()), 1.0)
    active = seen > 0
    centre = float(sums[active].sum() / seen[active].sum())
    spread = float(np.average((means[active] - centre) ** 2, weights=seen[active]))
    noise = within * float(active.sum()) / float(seen[active].sum())
    between = max(spread - noise, 0.1 * spread, 1e-12)  # never certain that all clients are alike
    trust = seen * between / (seen * between + max(within, 1e-12))
    return centre + trust * (means - centre), np.sqrt(between * (1.0 - trust))
