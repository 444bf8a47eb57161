"""Segments of one series: the exact posterior of Fearnhead (2006) over where they begin and which level they have.

Segments are independent given the change points; their lengths have mass g(l), the last one only survives to the
end. With P[s, e] the marginal likelihood of the observations s..e (0-based, inclusive) and n observations:

    Q[t] = Σ_{e=t}^{n−2} P[t, e] g(e+1−t) Q[e+1] + P[t, n−1] (1 − G(n−1−t))        (backward, evidence of the rest)
    A[t] = Σ_{s<t} A[s] P[s, t−1] g(t−s),  A[0] = 1                                (forward, a segment starts at t)
    p[t] = A[t] Q[t] / Q[0]                                                        (posterior, O(n²))
    S[s, e] = A[s] P[s, e] g(e+1−s) Q[e+1] / Q[0]                                  (s..e is a segment)

From S follows everything a reader of a window asks: the probability of at least one change among several epochs, and
that an epoch lies in a segment whose level deviates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import isfinite, lgamma, log

import numpy as np

from flcontrib_core.vocabulary import FloatArray

NEGLIGIBLE = 1e-6
"""Segments less probable than this are not asked for their level."""


class SegmentLikelihood(StrEnum):
    """What is unknown inside a segment."""

    STUDENT_T = "student-t"
    """Mean and variance (Normal-Gamma)."""
    GAUSSIAN = "gaussian"
    """The mean; one noise variance for the series, from its first differences."""
    TREND = "trend"
    """A straight line and its variance: for cumulative series, whose slope changes."""


class LengthPrior(StrEnum):
    """How long segments are before anything is seen."""

    CONSTANT = "constant"
    GEOMETRIC = "geometric"


@dataclass(frozen=True)
class SegmentModel:
    """A prior over segmentations and the likelihood inside a segment."""

    likelihood: SegmentLikelihood = SegmentLikelihood.STUDENT_T
    prior: LengthPrior = LengthPrior.CONSTANT
    standardise: bool = True
    """Bring the series to mean 0 and deviation 1 first; False where it has a unit of its own."""
    changes_expected: float = 1.0
    """Scales the prior mass of a change: 1 spreads it over all lengths, less makes a change rarer."""
    shape: float = 1.0
    rate: float = 1.0
    precision: float = 1.0
    """Normal-Gamma hyper-parameters α0, β0, κ0 of a segment (Student-t marginals)."""


PAPER_MODEL = SegmentModel()
"""Departure: the paper cites the algorithm without likelihood or prior. All hyper-parameters 1 on the standardised
series; the share of the mass inside a known window then matches its figures."""
UNIT_MODEL = SegmentModel(standardise=False, changes_expected=0.3, shape=5.0, rate=5.0, precision=0.1)
"""For series whose honest noise has about unit deviation. A change is expected in fewer than a third of them."""


@dataclass(frozen=True)
class Posterior:
    """One series: where segments start, how probable each segment is, the MAP segmentation, the log evidence."""

    start_probability: FloatArray
    """(n,) of a segment start at each observation; 0 at the first, which starts one by definition"""
    segment_probability: FloatArray
    """(n, n) that the observations s..e are one segment"""
    map_starts: tuple[int, ...]
    log_evidence: float

    def change_between(self, first: int, last: int) -> float:
        """Probability that at least one segment starts among the observations first..last (exact, not a sum)."""
        if first < 1:
            return 1.0
        return float(np.clip(1.0 - self.segment_probability[:first, last:].sum(), 0.0, 1.0))

    def inside(self, level_probability: FloatArray) -> FloatArray:
        """(n,) probability of lying in a segment of a kind; ``level_probability`` (n, n) that s..e is of that kind."""
        mass = self.segment_probability * level_probability
        edges = np.zeros(len(mass) + 1)
        edges[:-1] += mass.sum(axis=1)  # begins at s
        edges[1:] -= mass.sum(axis=0)  # ends with e
        return np.asarray(np.clip(np.cumsum(edges)[:-1], 0.0, 1.0))


def segment_posterior(observed: FloatArray, model: SegmentModel = PAPER_MODEL) -> Posterior:
    """Exact posterior of the segments of one series without gaps, O(n²) time and memory.

    Example: forty values at 0 followed by forty at 5 put more than 0.9 on position 40.
    """
    n = len(observed)
    if n < 2:
        return Posterior(np.zeros(n), np.ones((n, n)), (0,) if n else (), 0.0)
    x = _scaled(observed, model)
    segment = _LIKELIHOODS[model.likelihood](x, model)  # (n, n) log P[s, e]
    log_g, log_survival = _length_prior(model, n)
    ends = np.concatenate([log_g[1:n], [0.0]])
    backward, best, best_next = np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    for t in range(n - 1, -1, -1):
        last = float(segment[t, n - 1] + log_survival[n - 1 - t])
        backward[t], best[t], best_next[t] = last, last, n
        if t == n - 1:
            continue
        pieces = segment[t, t : n - 1] + log_g[1 : n - t]
        backward[t] = np.logaddexp(_log_sum(pieces + backward[t + 1 :]), last)
        pieces += best[t + 1 :]
        longest = int(pieces.argmax())
        if pieces[longest] >= last:
            best[t], best_next[t] = pieces[longest], t + 1 + longest
    forward = np.empty(n)
    forward[0] = 0.0
    ending = np.ascontiguousarray(segment.T)
    for t in range(1, n):
        forward[t] = _log_sum(forward[:t] + ending[t - 1, :t] + log_g[t:0:-1])
    start = np.exp(np.minimum(forward + backward - backward[0], 0.0))
    start[0] = 0.0
    starts = [0]
    while best_next[starts[-1]] < n:
        starts.append(int(best_next[starts[-1]]))
    whole = _segment_mass(segment, forward, backward, ends, log_survival)
    return Posterior(start, whole, tuple(starts), float(backward[0]))


def level_above(observed: FloatArray, limit: float, posterior: Posterior, model: SegmentModel) -> FloatArray:
    """(n, n) probability that the mean of the segment s..e lies above ``limit``; 0 for negligible segments."""
    from scipy.special import stdtr  # Student's t below x; many times quicker than scipy.stats

    x = _scaled(observed, model)
    length, sums, deviation = _segment_moments(x)
    asked = posterior.segment_probability > NEGLIGIBLE
    count, total = length[asked], sums[asked]
    precision = model.precision + count
    alpha = model.shape + count / 2
    beta = model.rate + 0.5 * deviation[asked] + 0.5 * model.precision * total**2 / (count * precision)
    probability = np.zeros_like(length)
    spread = np.sqrt(beta / (alpha * precision))
    probability[asked] = stdtr(2 * alpha, (total / precision - limit) / spread)
    return probability


def _scaled(observed: FloatArray, model: SegmentModel) -> FloatArray:
    x = np.asarray(observed, dtype=np.float64)
    if not model.standardise:
        return x
    spread = x.std()
    return (x - x.mean()) / spread if spread > 0 else np.zeros(len(x))


def _segment_mass(
    segment: FloatArray, forward: FloatArray, backward: FloatArray, log_g: FloatArray, log_survival: FloatArray
) -> FloatArray:
    """(n, n) S[s, e]; the lower triangle is 0."""
    n = len(forward)
    s, e = np.triu_indices(n)
    rest = np.append(backward[1:], 0.0)[e] + np.where(e < n - 1, log_g[np.minimum(e - s, n - 1)], log_survival[e - s])
    mass = np.zeros((n, n))
    mass[s, e] = np.exp(np.minimum(forward[s] + segment[s, e] + rest - backward[0], 0.0))
    return mass


def _log_sum(x: FloatArray) -> float:
    top = float(x.max())
    return top + log(float(np.exp(x - top).sum())) if isfinite(top) else top


def _length_prior(model: SegmentModel, n: int) -> tuple[FloatArray, FloatArray]:
    """log g(l) for l = 0..n and log(1 − G(l)) for l = 0..n−1."""
    lengths = np.arange(n + 1)
    if model.prior is LengthPrior.CONSTANT:
        g = np.full(n + 1, 1.0 / (n + 1))
    else:
        rate = 1.0 / max(n / 3, 2.0)
        g = rate * (1 - rate) ** np.maximum(lengths - 1, 0)
    g *= model.changes_expected
    g[0] = 0.0
    with np.errstate(divide="ignore"):
        return np.log(g), np.log1p(-np.cumsum(g)[:n])


@lru_cache(maxsize=4)
def _lengths(n: int) -> FloatArray:
    """(n, n) length of the segment s..e; shared by all clients that took part as often. Not to be written to."""
    lengths: FloatArray = np.maximum(np.arange(1, n + 1)[None, :] - np.arange(n)[:, None], 1).astype(np.float64)
    lengths.setflags(write=False)
    return lengths


@lru_cache(maxsize=4)
def _student_terms(n: int, shape: float, rate: float, precision: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(n, n) what the marginal of s..e owes to its length alone: constant, exponent, weight of the squared sum."""
    lengths = np.arange(n + 1, dtype=float)
    kappa, alpha = precision + lengths, shape + lengths / 2
    constant = np.array([lgamma(a) for a in alpha]) - lgamma(shape) + shape * np.log(rate)
    constant += 0.5 * np.log(precision / kappa) - lengths / 2 * np.log(2 * np.pi)
    index = _lengths(n).astype(np.int64)
    pull = 0.5 * precision / (np.maximum(lengths, 1.0) * kappa)
    return constant[index], alpha[index], pull[index]


def _segment_moments(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(n, n) lengths, sums and sums of squared deviations of x[s..e]; the lower triangle is meaningless."""
    total = np.concatenate([[0.0], np.cumsum(x)])
    squares = np.concatenate([[0.0], np.cumsum(x * x)])
    length = _lengths(len(x))
    sums = total[None, 1:] - total[:-1, None]
    deviation = squares[None, 1:] - squares[:-1, None] - sums**2 / length
    return length, sums, np.maximum(deviation, 0.0)


def _student_t(x: FloatArray, model: SegmentModel) -> FloatArray:
    """Normal-Gamma marginal around 0."""
    _, sums, deviation = _segment_moments(x)
    constant, alpha, pull = _student_terms(len(x), model.shape, model.rate, model.precision)
    return np.asarray(constant - alpha * np.log(model.rate + 0.5 * deviation + pull * sums**2))


def _gaussian(x: FloatArray, model: SegmentModel) -> FloatArray:
    """Known noise variance (from the median first difference), mean ~ N(0, 1)."""
    noise = max(float(np.median(np.abs(np.diff(x))) / 0.954), 0.05) ** 2
    length, sums, deviation = _segment_moments(x)
    mean_square = deviation + sums**2 / length
    shrunk = sums**2 / (length + noise)
    return np.asarray(
        -0.5 * length * np.log(2 * np.pi * noise)
        - 0.5 * np.log1p(length / noise)
        - 0.5 * (mean_square - shrunk) / noise
    )


def _trend(x: FloatArray, model: SegmentModel) -> FloatArray:
    """Bayesian line with unknown variance per segment: intercept and slope ~ N(0, σ²), σ⁻² ~ Gamma(1, .01)."""
    n = len(x)
    time = np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(n)

    def running(series: FloatArray) -> FloatArray:
        total = np.concatenate([[0.0], np.cumsum(series)])
        return np.asarray(total[None, 1:] - total[:-1, None])

    length = _segment_moments(x)[0]
    st, stt, sx, stx, sxx = running(time), running(time * time), running(x), running(time * x), running(x * x)
    a, b, d = length + 1.0, st, stt + 1.0  # posterior precision [[a, b], [b, d]]
    determinant = a * d - b * b
    explained = (d * sx * sx - 2 * b * sx * stx + a * stx * stx) / determinant
    alpha0, beta0 = 1.0, 0.01
    alpha = alpha0 + length / 2
    beta = beta0 + 0.5 * np.maximum(sxx - explained, 0.0)
    gammas = np.array([lgamma(alpha0 + k / 2) for k in range(n + 1)])[length.astype(np.int64)]
    return np.asarray(
        gammas
        - lgamma(alpha0)
        + alpha0 * np.log(beta0)
        - alpha * np.log(beta)
        - 0.5 * np.log(np.maximum(determinant, 1e-300))
        - length / 2 * np.log(2 * np.pi)
    )


_LIKELIHOODS: dict[SegmentLikelihood, Callable[[FloatArray, SegmentModel], FloatArray]] = {
    SegmentLikelihood.STUDENT_T: _student_t,
    SegmentLikelihood.GAUSSIAN: _gaussian,
    SegmentLikelihood.TREND: _trend,
}
