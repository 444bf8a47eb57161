"""The window model against distributions of scipy, and the coarse grid against looking at every window."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from flcontrib_core.detection.windows import SeriesSums, WindowModel, mean_inside, window_grid

MODEL = WindowModel()


def _marginal(x: np.ndarray, weight: np.ndarray, design: np.ndarray, precision: list[float]) -> float:
    """log p(x) of a Bayesian linear model, as scipy's multivariate Student t."""
    covariance = np.diag(1 / weight) + design @ np.diag(1 / np.array(precision)) @ design.T
    shape = MODEL.rate / MODEL.shape * covariance
    return float(stats.multivariate_t.logpdf(x, loc=np.zeros(len(x)), shape=shape, df=2 * MODEL.shape))


def _by_hand(x: np.ndarray, variance: np.ndarray, start: int, end: int) -> float:
    """The log Bayes factor of one window, without any cumulative sum."""
    rows = np.flatnonzero(np.isfinite(x))
    values, weight = x[rows], 1 / (1 + variance[rows])
    within = ((rows >= start) & (rows <= end)).astype(float)
    one = np.ones(len(rows))
    both = np.stack([within, 1 - within], axis=1)
    h1 = _marginal(values, weight, both, [MODEL.precision_inside, MODEL.precision_outside])
    time = rows - np.average(rows, weights=weight)
    time = time / np.sqrt(np.average(time**2, weights=weight))
    constant = _marginal(values, weight, one[:, None], [MODEL.precision_outside])
    trend = _marginal(values, weight, np.stack([one, time], axis=1), [MODEL.precision_outside, MODEL.slope_precision])
    precision = both.T @ np.diag(weight) @ both + np.diag([MODEL.precision_inside, MODEL.precision_outside])
    mean = np.linalg.solve(precision, both.T @ (weight * values))
    rate = MODEL.rate + 0.5 * (np.sum(weight * values**2) - mean @ precision @ mean)
    shape = MODEL.shape + 0.5 * len(rows)
    scale = np.sqrt(rate / shape * np.trace(np.linalg.inv(precision)))
    above = stats.t.logsf((MODEL.smallest_shift - (mean[0] - mean[1])) / scale, df=2 * shape)
    return h1 - (np.logaddexp(constant, trend) - np.log(2)) + above


def test_evidence_equals_the_multivariate_student_t_of_scipy() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 4))
    x[10:17, 0] += 4
    x[:, 1] += np.linspace(-2, 2, 30)
    x[rng.random(x.shape) < 0.3] = np.nan
    variance = np.where(rng.random(x.shape) < 0.5, rng.exponential(size=x.shape), 0.0)
    grid = window_grid(30, MODEL, 2)
    evidence = SeriesSums.of(x, variance, MODEL).evidence(grid.starts, grid.ends, MODEL)
    for w in rng.choice(len(grid), 60, replace=False):
        for i in np.flatnonzero(np.isfinite(evidence[w])):
            expected = _by_hand(x[:, i], variance[:, i], grid.starts[w], grid.ends[w])
            assert evidence[w, i] == pytest.approx(expected, abs=0.01 + 0.002 * abs(expected))


def test_the_strongest_window_is_the_shifted_one() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 200)) * 0.8
    x[12:20] += 3.0
    grid = window_grid(40, MODEL, 2)
    best = np.argmax(SeriesSums.of(x, np.zeros_like(x), MODEL).evidence(grid.starts, grid.ends, MODEL), axis=0)
    assert np.mean(np.abs(grid.starts[best] - 12) + np.abs(grid.ends[best] - 19)) < 0.8


def test_a_linear_trend_is_not_a_window() -> None:
    ramp = np.linspace(-3, 3, 40)[:, None] + 0.5 * np.random.default_rng(3).normal(size=(40, 50))
    grid = window_grid(40, MODEL, 2)
    evidence = SeriesSums.of(ramp, np.zeros_like(ramp), MODEL).evidence(grid.starts, grid.ends, MODEL)
    assert evidence.max(axis=0).mean() < 1.0


def test_a_channel_without_observation_inside_has_no_say() -> None:
    x = np.random.default_rng(4).normal(size=(20, 1))
    x[8:12] = np.nan
    evidence = SeriesSums.of(x, np.zeros_like(x), MODEL).evidence(np.array([8, 7]), np.array([11, 11]), MODEL)
    assert np.isnan(evidence[0, 0])
    assert np.isfinite(evidence[1, 0])


def test_uncertain_cells_weigh_less() -> None:
    x = np.random.default_rng(5).normal(size=(30, 1)) * 0.5
    x[10:16] += 4
    sure = SeriesSums.of(x, np.zeros_like(x), MODEL).evidence(np.array([10]), np.array([15]), MODEL)
    noise = np.zeros_like(x)
    noise[10:16] = 20.0
    unsure = SeriesSums.of(x, noise, MODEL).evidence(np.array([10]), np.array([15]), MODEL)
    assert unsure[0, 0] < sure[0, 0] - 5


def test_every_window_is_on_the_grid_of_a_short_run() -> None:
    grid = window_grid(20, MODEL, 2)
    expected = {(a, b) for a in range(2, 20) for b in range(a + 1, 20) if b - a + 1 <= 12}
    assert set(zip(grid.starts.tolist(), grid.ends.tolist(), strict=True)) == expected
    assert (grid.stands_for == 1).all()


def test_the_coarse_grid_stands_for_all_windows() -> None:
    coarse = window_grid(400, MODEL, 2)
    every = sum(400 - 2 - length + 1 for length in range(2, 241))
    assert len(coarse) < every / 8
    assert coarse.stands_for.sum() == pytest.approx(every, rel=0.1)


def test_mean_inside_skips_missing_cells() -> None:
    cells = np.array([[1.0], [np.nan], [3.0], [np.nan]])
    mean, known = mean_inside(cells, np.array([0, 1, 3]), np.array([2, 2, 3]))
    assert mean[:, 0].tolist() == [2.0, 3.0, 0.0]
    assert known[:, 0].tolist() == [True, True, False]
