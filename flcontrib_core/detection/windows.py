"""The posterior of one window: a stretch of epochs of a client's series that stands above the rest.

For every window [a, b] at once, from cumulative sums: the log Bayes factor of "one mean inside, one shared mean
outside" (H1) against "half constant, half linear trend" (H0), both with a common unknown variance (Normal-Gamma).
Honest series drift; without the trend in H0 every slow drift would look like a window. The terms that depend only
on the number of observations (Γ(a_n), the weights' determinant) are equal in both hypotheses and cancel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

_HALF_LOG_TWO_PI = 0.9189385332046727


@dataclass(frozen=True)
class WindowModel:
    """The priors of the window model, in units of the standardised channels."""

    shape: float = 10.0
    rate: float = 10.0
    """σ² ~ InverseGamma(shape, rate): channels are standardised, so σ is near one before anything is seen."""
    precision_outside: float = 0.1
    precision_inside: float = 0.01
    slope_precision: float = 1.0
    """of the trend, with time scaled to unit variance"""
    smallest_shift: float = 1.5
    longest_share: float = 0.6
    """longest window as a share of the epochs with participants"""
    exhaustive_up_to: int = 100
    """epochs up to which every window is looked at; longer runs use a coarse grid and refine its best"""


@dataclass(frozen=True)
class WindowGrid:
    """Candidate windows over the rows of ``Channels`` (both ends inclusive)."""

    starts: IntArray
    ends: IntArray
    stands_for: FloatArray
    """how many windows each candidate represents (1 when exhaustive)"""

    def __len__(self) -> int:
        return len(self.starts)


@lru_cache(maxsize=64)
def window_grid(rows: int, model: WindowModel, first_row: int) -> WindowGrid:
    """Which windows of 2 … ⌊0.6·rows⌋ epochs are looked at?"""
    longest = int(model.longest_share * rows)
    if rows <= model.exhaustive_up_to:
        lengths, stride = np.arange(2, longest + 1), np.ones(max(longest - 1, 0), dtype=np.int64)
    else:
        lengths = np.unique(np.concatenate([np.arange(2, 13), np.geomspace(12, longest, 28).astype(np.int64)]))
        stride = np.maximum(1, lengths // 5)
    starts, ends, counts = [], [], []
    spacing = np.diff(np.append(lengths, longest + 1)) if len(lengths) else lengths
    for length, step, lengths_stood_for in zip(lengths, stride, spacing, strict=True):
        first = np.arange(first_row, rows - length + 1, step)
        starts.append(first)
        ends.append(first + length - 1)
        counts.append(np.full(len(first), float(step * lengths_stood_for)))
    if not starts:
        return WindowGrid(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    return WindowGrid(np.concatenate(starts), np.concatenate(ends), np.concatenate(counts))


def _running(cells: FloatArray) -> FloatArray:
    """(E + 1, m) sums over rows before each row."""
    total = np.zeros((len(cells) + 1, cells.shape[1]))
    np.cumsum(cells, axis=0, out=total[1:])
    return total


def inside(running: FloatArray, starts: IntArray, ends: IntArray) -> FloatArray:
    """(W, m) sums inside windows; ``starts`` and ``ends`` are (W,), or (W, m) when each client has its own."""
    if starts.ndim == 1:
        return np.asarray(running[ends + 1] - running[starts])
    return np.take_along_axis(running, ends + 1, axis=0) - np.take_along_axis(running, starts, axis=0)


@dataclass(frozen=True)
class SeriesSums:
    """What all windows of some series are judged from, whichever windows are asked for.

    Arrays are single precision; the running ones (E + 1, m) hold the sums over the rows before each row.
    """

    count: FloatArray
    """running number of observations"""
    weights: FloatArray
    """running sum of the observations' weights; ``count`` itself where all weigh the same"""
    sums: FloatArray
    squares: FloatArray
    """(m,)"""
    null: FloatArray
    """(m,) evidence of H0, less half the logarithm of the priors' precisions"""
    exact: bool
    """Has no observation extra variance?"""
    alike: bool
    """Do all series miss the same rows?"""

    @classmethod
    def of(
        cls, scores: FloatArray, extra_variance: FloatArray, model: WindowModel, curved_null: bool = False
    ) -> SeriesSums:
        """``scores`` and ``extra_variance`` are (E, m); missing cells are NaN. A cell with extra variance v counts with
        weight 1/(1 + v). ``curved_null`` adds a quadratic trend to H0, for a channel that honest clients bend (the size
        of updates)."""
        seen = np.isfinite(scores)
        weight = np.where(seen, 1.0 / (1.0 + extra_variance), 0.0)
        x = np.where(seen, scores, 0.0)
        exact = not extra_variance.any()
        count = _single(_running(seen.astype(np.float64)))
        squares = (weight * x * x).sum(axis=0)
        null = _null_evidence(x, weight, squares, model.shape + 0.5 * seen.sum(axis=0), model, curved_null)
        prior = 0.5 * np.log(model.precision_inside * model.precision_outside)
        return cls(
            count=count,
            weights=count if exact else _single(_running(weight)),
            sums=_single(_running(weight * x)),
            squares=_single(squares),
            null=_single(prior - null),
            exact=exact,
            alike=exact and bool((seen == seen[:, :1]).all()),
        )

    def only(self, columns: IntArray) -> SeriesSums:
        """The same of these series alone, to the same bits."""
        count = self.count[:, columns]
        return SeriesSums(
            count,
            count if self.exact else self.weights[:, columns],
            self.sums[:, columns],
            self.squares[columns],
            self.null[columns],
            self.exact,
            self.alike,
        )

    def evidence(self, starts: IntArray, ends: IntArray, model: WindowModel) -> FloatArray:
        """(W, m) log Bayes factor of each window and series; NaN where a series cannot say.

        A series has its say with ≥ 1 observation inside and ≥ 2 outside. ``model``: the one the sums are of, but for
        its smallest shift, which they do not depend on.
        """
        # where every series misses the same epochs, one column counts for all of them
        count = self.count[:, :1] if self.alike and starts.ndim == 1 else self.count
        weights = count if self.exact else self.weights
        n, n_in = count[-1], inside(count, starts, ends)
        w_in = n_in if self.exact else inside(weights, starts, ends)
        s_in = inside(self.sums, starts, ends)
        k_in = model.precision_inside + w_in
        k_out = (model.precision_outside + weights[-1]) - w_in
        mean_in, mean_out = s_in / k_in, (self.sums[-1] - s_in) / k_out
        explained = s_in * mean_in
        explained += (self.sums[-1] - s_in) * mean_out
        rate = model.rate + 0.5 * np.maximum(self.squares - explained, 0.0)
        shape = _single(model.shape + 0.5 * n)
        evidence = self.null - 0.5 * np.log(k_in * k_out)
        evidence -= shape * np.log(rate)
        variance = rate * ((k_in + k_out) / (k_in * k_out)) / shape
        evidence += _log_probability_of_shift(mean_in - mean_out, variance, shape, model)
        return np.where((n_in >= 1) & (n - n_in >= 2), evidence, np.float32(np.nan))


def _single(cells: FloatArray) -> FloatArray:
    """Single precision: there are thousands of windows per series, and 1e-4 nats decide nothing."""
    return np.asarray(cells, dtype=np.float32)


def _null_evidence(
    x: FloatArray, weight: FloatArray, squares: FloatArray, shape: FloatArray, model: WindowModel, curved: bool
) -> FloatArray:
    """(m,) log mean evidence of constant, linear and (if ``curved``) quadratic series, without what cancels with H1."""
    total, first = weight.sum(axis=0), (weight * x).sum(axis=0)
    k = model.precision_outside + total
    log_scale = 0.5 * np.log(model.precision_outside / k)
    rate = model.rate + 0.5 * np.maximum(squares - first**2 / k, 0.0)
    hypotheses = [log_scale - shape * np.log(rate)]
    for term in _trend_terms(weight, 2 if curved else 1):
        # the terms are orthogonal under these weights and so do not mix with each other
        slope_k = model.slope_precision + (weight * term**2).sum(axis=0)
        rate = np.maximum(rate - 0.5 * (weight * term * x).sum(axis=0) ** 2 / slope_k, model.rate)
        log_scale = log_scale + 0.5 * np.log(model.slope_precision / slope_k)
        hypotheses.append(log_scale - shape * np.log(rate))
    return np.asarray(np.logaddexp.reduce(np.stack(hypotheses), axis=0) - np.log(len(hypotheses)))


def _trend_terms(weight: FloatArray, degree: int) -> list[FloatArray]:
    """(E, m) time, time² …, each orthogonal to the constant and to the ones before, scaled to unit variance."""
    total = weight.sum(axis=0)
    safe = np.where(total > 0, total, 1.0)
    time = np.broadcast_to(np.arange(len(weight), dtype=np.float64)[:, None], weight.shape)
    terms: list[FloatArray] = []
    raw = time
    for _ in range(degree):
        term = raw - (weight * raw).sum(axis=0) / safe
        for earlier in terms:
            norm = (weight * earlier**2).sum(axis=0)
            term = term - earlier * (weight * earlier * raw).sum(axis=0) / np.where(norm > 0, norm, 1.0)
        spread = (weight * term**2).sum(axis=0) / safe
        terms.append(np.where(weight > 0, term / np.sqrt(np.where(spread > 1e-9, spread, 1.0)), 0.0))
        raw = terms[0] ** 2
    return terms


def _log_probability_of_shift(
    shift: FloatArray, variance: FloatArray, shape: FloatArray, model: WindowModel
) -> FloatArray:
    """log P(inside − outside > smallest shift): a Student t with 2·shape (≥ 24) degrees of freedom.

    Departure: the t tail is taken through Wallace's normal approximation z² = ((8ν+1)/(8ν+3))²·ν·ln(1 + t²/ν), and
    the normal tail as φ(z)/(0.661z + 0.339√(z² + 5.51)) (Börjesson and Sundberg 1979); together they err by less than
    0.02 nats at ν ≥ 24, which decides nothing, and are several times cheaper.
    """
    freedom = 2.0 * shape
    t = (shift - model.smallest_shift) / np.sqrt(variance)
    z2 = ((8 * freedom + 1) / (8 * freedom + 3)) ** 2 * freedom * np.log(1.0 + t * t / freedom)
    log_tail = -0.5 * z2 - np.float32(_HALF_LOG_TWO_PI)
    log_tail -= np.log(0.661 * np.sqrt(z2) + 0.339 * np.sqrt(z2 + 5.51))
    return np.where(t < 0, log_tail, np.log1p(-np.exp(np.minimum(log_tail, np.float32(-0.69)))))


def number_inside(seen: BoolArray, starts: IntArray, ends: IntArray) -> FloatArray:
    """(W, m) how many of the marked cells (E, m) lie inside each window."""
    return inside(_running(seen.astype(np.float64)), starts, ends)


def mean_inside(cells: FloatArray, starts: IntArray, ends: IntArray) -> tuple[FloatArray, BoolArray]:
    """(W, m) mean of the finite cells inside each window, and whether there is one."""
    seen = np.isfinite(cells)
    number = number_inside(seen, starts, ends)
    total = inside(_running(np.where(seen, cells, 0.0)), starts, ends)
    return total / np.maximum(number, 1.0), number > 0
