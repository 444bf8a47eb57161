"""Metric, kernel choice, regression and link, each against what it must equal."""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.shapley.logit_link import LogitLink
from flcontrib_core.shapley.simplex_kernel import (
    LENGTHS,
    NOISES,
    Kernel,
    Regression,
    SimplexPoints,
    choose_kernel,
    metric_factor,
    similarity,
)
from flcontrib_core.vocabulary import FloatArray


def updates(seed: int, players: int = 7) -> FloatArray:
    rng = np.random.default_rng(seed)
    return np.asarray(rng.normal(size=(1, 40)) + rng.random((players, 1)) * rng.normal(size=(players, 40)))


def points(seed: int, count: int, players: int = 7) -> SimplexPoints:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(players), size=count)
    return SimplexPoints(weights, weights @ metric_factor(updates(seed, players) @ updates(seed, players).T))


def test_distances_are_those_between_sub_models() -> None:
    deltas = updates(1)
    factor = metric_factor(deltas @ deltas.T)
    weights = np.random.default_rng(2).dirichlet(np.ones(7), size=12)
    models = weights @ deltas
    true = ((models[:, None] - models[None]) ** 2).sum(axis=2)
    placed = weights @ factor
    ours = ((placed[:, None] - placed[None]) ** 2).sum(axis=2)
    scale = ours[0, 1] / true[0, 1]
    assert np.allclose(ours, scale * true)
    pairs = ((factor[:, None] - factor[None]) ** 2).sum(axis=2)
    assert pairs[np.triu_indices(7, 1)].mean() == pytest.approx(2.0)


def test_a_metric_of_some_players_ignores_the_others() -> None:
    deltas = updates(3)
    deltas[2] *= 1000
    some = np.arange(7) != 2
    factor = metric_factor(deltas @ deltas.T, some)
    assert np.abs(factor[2]).max() < 1e-6
    pairs = ((factor[some][:, None] - factor[some][None]) ** 2).sum(axis=2)
    assert pairs[np.triu_indices(6, 1)].mean() == pytest.approx(2.0)


@pytest.mark.parametrize("deltas", [np.zeros((5, 9)), np.ones((5, 9)), np.full((5, 9), np.nan)])
def test_updates_without_geometry_get_one_axis_each(deltas: FloatArray) -> None:
    assert np.array_equal(metric_factor(deltas @ deltas.T), np.eye(5))


def test_the_kernel_has_the_largest_likelihood_of_the_grid() -> None:
    """Against the Gaussian density itself, its scale set to the best one for each grid point."""
    places, rng = points(4, 18), np.random.default_rng(5)
    root = np.linalg.cholesky(similarity(places, places, 0.7) + 1e-4 * np.eye(18))
    outputs = root @ rng.normal(size=(18, 30))
    outputs -= outputs.mean(axis=0)

    def log_density(length: float, noise: float) -> float:
        covariance = similarity(places, places, length) + noise * np.eye(18)
        scale = np.einsum("ij,ij->", outputs, np.linalg.solve(covariance, outputs)) / outputs.size
        logdet = np.linalg.slogdet(scale * covariance)[1]
        return float(-0.5 * outputs.shape[1] * (logdet + 18))

    best = max(((length, noise) for length in LENGTHS for noise in NOISES), key=lambda pair: log_density(*pair))
    assert choose_kernel(places, outputs) == Kernel(*best)


def test_the_regression_interpolates_what_it_was_shown() -> None:
    places = points(6, 15)
    outputs = np.sin(3 * places.weights @ np.random.default_rng(7).normal(size=(7, 4)))
    fit = Regression(places, outputs, Kernel(1.0, 1e-8))
    assert np.abs(fit.predict(places) - outputs).max() < 1e-4
    elsewhere = points(6, 400)
    spread = np.diag(fit.posterior(elsewhere))
    assert spread.min() > -1e-9
    assert np.diag(fit.posterior(places)).max() < 1e-6


def test_leaving_one_out_equals_fitting_without_it() -> None:
    places = points(8, 14)
    outputs = np.cos(2 * places.weights @ np.random.default_rng(9).normal(size=(7, 3)))
    kernel = Kernel(1.0, 1e-3)
    fit = Regression(places, outputs, kernel)
    found = fit.leave_one_out()
    centre, reach = outputs.mean(axis=0), 0.1 * np.ptp(outputs, axis=0)
    low, high = outputs.min(axis=0) - reach, outputs.max(axis=0) + reach
    for row in range(14):
        rest = np.arange(14) != row
        known, left = places.rows(rest), places.rows(np.array([row]))
        covariance = similarity(known, known, 1.0) + 1e-3 * np.eye(13)
        share = np.linalg.solve(covariance, similarity(known, left, 1.0))[:, 0]
        again = centre + share @ (outputs[rest] - centre)
        assert np.allclose(found[row], np.clip(again, low, high), atol=1e-8)


def test_predictions_stay_near_the_evaluated_range() -> None:
    places = points(10, 12)
    outputs = 1000.0 * np.sign(places.weights[:, :1] - 0.1)
    fit = Regression(places, outputs, Kernel(4.0, 1e-8))
    wide = fit.predict(points(11, 2000))
    assert np.abs(wide).max() <= 1200.0 + 1e-3


@pytest.mark.parametrize("classes", [1, 2, 3, 10])
def test_the_link_returns_centred_logits(classes: int) -> None:
    rng = np.random.default_rng(12)
    logits = (rng.normal(size=(6, 9, classes)) * 10.0 ** rng.uniform(-2, 6, size=(6, 1, 1))).astype(np.float32)
    link = LogitLink.from_singletons(logits)
    back = link.logits(link.outputs(logits))
    expected = logits if classes == 1 else logits - logits.mean(axis=2, keepdims=True)
    assert back.dtype == np.float32
    assert back.shape == logits.shape
    assert np.abs(back - expected).max() <= 1e-5 * np.abs(expected).max()
    assert np.allclose(back, expected, rtol=2e-4, atol=2e-6 * link.scale)


def test_the_link_survives_anything() -> None:
    assert LogitLink.from_singletons(np.zeros((3, 4, 2), dtype=np.float32)).scale == 1.0
    broken = np.full((3, 4, 2), np.nan, dtype=np.float32)
    assert LogitLink.from_singletons(broken).scale == 1.0
    assert not np.isfinite(LogitLink(1.0, 4, 2).outputs(broken)).any()
    assert np.isfinite(LogitLink(1e3, 1, 1).logits(np.array([[1e9], [-1e9]]))).all()
