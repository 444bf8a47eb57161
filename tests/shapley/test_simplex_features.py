"""Closed-form Shapley values of functions of λ(S), against enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flcontrib_core.shapley.coalitions import coalitions_of_masks
from flcontrib_core.shapley.exact_values import shapley_from_table
from flcontrib_core.shapley.sampled_shapley import (
    ShapleySample,
    balanced_coalitions,
    sample_sizes,
    sampled_shapley,
    shapley_of_differences,
)
from flcontrib_core.shapley.simplex_features import AdaptiveFeatures, FixedFeatures
from flcontrib_core.vocabulary import CoalitionMatrix, FloatArray

RNG = np.random.default_rng(7)
SIZES = {
    "two": np.array([1.0, 5.0]),
    "equal": np.ones(9),
    "ordinary": RNG.random(10) + 0.1,
    "a thousand apart": 10.0 ** RNG.uniform(-1.5, 1.5, 9),
    "a million apart": 10.0 ** RNG.uniform(0, 6, 8),
}


def every_coalition(players: int) -> CoalitionMatrix:
    return coalitions_of_masks(np.arange(1 << players), players)


def adaptive(coalitions: CoalitionMatrix, sizes: FloatArray) -> FloatArray:
    mass = coalitions * sizes
    return np.asarray(mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300))


@pytest.mark.parametrize("name", SIZES)
def test_every_feature_has_its_enumerated_shapley_values(name: str) -> None:
    sizes = SIZES[name]
    features = AdaptiveFeatures(sizes, RNG.normal(size=(len(sizes), 3)))
    table = features.values(adaptive(every_coalition(len(sizes)), sizes))
    assert np.abs(features.shapley() - shapley_from_table(table).T).max() < 1e-8


def test_squares_along_directions_have_their_enumerated_shapley_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The form used above 32 players, forced upon few of them."""
    monkeypatch.setattr("flcontrib_core.shapley.simplex_features._ALL_PAIRS", 0)
    sizes = SIZES["a thousand apart"]
    features = AdaptiveFeatures(sizes, RNG.normal(size=(len(sizes), 4)))
    table = features.values(adaptive(every_coalition(len(sizes)), sizes))
    assert table.shape[1] == 2 * len(sizes) + 4
    assert np.abs(features.shapley() - shapley_from_table(table).T).max() < 1e-8


def test_fixed_weights_have_their_enumerated_shapley_values() -> None:
    shares = SIZES["ordinary"] / SIZES["ordinary"].sum()
    features = FixedFeatures(shares, RNG.normal(size=(10, 4)))
    table = features.values(every_coalition(10) * shares)
    assert np.abs(features.shapley() - shapley_from_table(table).T).max() < 1e-12


@pytest.mark.parametrize("players", [40, 100])
def test_a_hundred_players_share_each_weight_fully(players: int) -> None:
    """Efficiency is the check that needs no enumeration: the values of S ↦ λ_i(S) sum to λ_i(N)."""
    sizes = RNG.integers(1, 1000, size=players).astype(float)
    features = AdaptiveFeatures(sizes, RNG.normal(size=(players, 30)))
    whole = features.values(adaptive(np.ones((1, players), dtype=bool), sizes))[0]
    assert np.abs(features.shapley().sum(axis=1) - whole).max() < 1e-8


@pytest.mark.parametrize("players", [290, 700])
def test_everybody_is_with_and_without_in_every_size(players: int) -> None:
    """Otherwise one player has no mean of some size, and through efficiency nobody has a value."""
    planned = sample_sizes(players, 16384)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        for size in range(1, players):
            drawn = balanced_coalitions(rng, int(planned[size]), players, size)
            assert (drawn.sum(axis=1) == size).all()
            held = drawn.sum(axis=0)
            assert held.min() > 0
            assert held.max() < len(drawn)


def test_balanced_coalitions_are_of_one_size_and_fair() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 3, 9, 16):
        drawn = balanced_coalitions(rng, 85, 17, size)
        assert (drawn.sum(axis=1) == size).all()
        appearances = drawn.sum(axis=0)
        assert np.ptp(appearances) <= 2 * math.sqrt(85)
    assert len(balanced_coalitions(rng, 500, 10, 2)) == 45  # all of them, once


def test_a_function_of_the_features_is_valued_without_sampling_error() -> None:
    sizes = RNG.integers(5, 500, size=12).astype(float)
    directions = RNG.normal(size=(12, 4))
    quadratic = RNG.normal(size=(12, 12, 2))

    def predict(coalitions: CoalitionMatrix) -> FloatArray:
        weights = adaptive(coalitions, sizes)
        return np.einsum("si,sj,iju->su", weights, weights, quadratic)

    truth = shapley_from_table(predict(every_coalition(12)))
    values, errors = sampled_shapley(
        predict, lambda s: adaptive(s, sizes), AdaptiveFeatures(sizes, directions), 12, 1500, np.random.default_rng(1)
    )
    assert np.abs(values - truth).max() < 1e-6 * np.ptp(truth)
    assert errors.max() < 1e-5 * np.ptp(truth)


def test_any_function_is_valued_within_its_sampling_error() -> None:
    rng = np.random.default_rng(3)
    sizes = rng.integers(5, 50, size=13).astype(float)
    table = rng.normal(size=(1 << 13, 1)) + np.sin(6 * every_coalition(13) @ rng.random((13, 1)))
    table[0] = 0.0
    truth = shapley_from_table(table)
    features = AdaptiveFeatures(sizes, rng.normal(size=(13, 4)))
    scores = []
    for seed in range(12):
        values, errors = sampled_shapley(
            lambda s: table[s @ (1 << np.arange(13))],
            lambda s: adaptive(s, sizes),
            features,
            13,
            1500,
            np.random.default_rng(seed),
        )
        assert values.sum() == pytest.approx(table[-1, 0], abs=1e-9)
        scores.append((values - truth) / errors)
    assert 0.6 < np.std(scores) < 1.3
    assert abs(np.mean(scores)) < 0.3


def test_a_sample_that_grows_asks_only_for_what_is_new_and_errs_less() -> None:
    rng = np.random.default_rng(4)
    sizes = rng.integers(5, 50, size=13).astype(float)
    table = rng.normal(size=(1 << 13, 1)) + np.sin(6 * every_coalition(13) @ rng.random((13, 1)))
    table[0] = 0.0
    truth = shapley_from_table(table)
    asked: list[int] = []

    def predict(coalitions: CoalitionMatrix) -> FloatArray:
        asked.append(len(coalitions))
        return np.asarray(table[coalitions @ (1 << np.arange(13))])

    features = AdaptiveFeatures(sizes, rng.normal(size=(13, 4)))
    sample = ShapleySample(predict, lambda s: adaptive(s, sizes), features, 13, np.random.default_rng(0))
    errors = []
    for wanted in (300, 1000, 4000):
        sample.grow(wanted)
        values, error = sample.shapley()
        errors.append(error.max())
        assert (np.abs(values - truth) <= 4.5 * error + 1e-9).all()
    assert errors[0] > 1.5 * errors[1] > 2.0 * errors[2]
    assert sum(asked) < 1.2 * 4000  # a size that is taken whole in the end had some coalitions drawn twice
    sample.grow(1 << 14)  # every size whole, each coalition once
    values, error = sample.shapley()
    assert len(sample) == (1 << 13) - 2
    assert np.abs(values - truth).max() < 1e-9
    assert error.max() == 0


def test_sample_sizes_stay_near_the_request_and_within_what_there_is() -> None:
    planned = sample_sizes(30, 4000)
    assert 0.9 * 4000 < planned.sum() < 1.2 * 4000
    assert planned[1] == 30
    assert (planned[1:30] >= 2).all()


def test_differences_of_coalitions_change_the_values_as_a_table_says() -> None:
    rng = np.random.default_rng(5)
    masks = rng.choice(np.arange(1, 1 << 8), size=40, replace=False)
    table = np.zeros((1 << 8, 2))
    table[masks] = rng.normal(size=(40, 2))
    change = shapley_of_differences(coalitions_of_masks(masks, 8), table[masks])
    assert np.allclose(change, shapley_from_table(table), atol=1e-12)
