"""Is the greedy server's subset really the best one?"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from flcontrib_core.laboratory.simulation.aggregation import TRY_ALL_SUBSETS, best_subset, fedavg, subset_models

RNG = np.random.default_rng(5)


def quadratic(target: np.ndarray):  # type: ignore[no-untyped-def]
    return lambda models: ((models.astype(np.float64) - target) ** 2).sum(axis=1)


def test_fedavg_is_the_weighted_mean() -> None:
    start, updates, sizes = np.float32([1, 2]), np.float32([[1, 0], [0, 3]]), np.array([30, 10])
    np.testing.assert_allclose(fedavg(start, updates, sizes), [1.75, 2.75])
    np.testing.assert_array_equal(fedavg(start, np.zeros((0, 2), np.float32), np.zeros(0, np.int64)), start)


def test_subset_models_renormalise_the_weights() -> None:
    start, updates, sizes = np.float32([0, 0]), np.float32([[1, 0], [0, 3], [5, 5]]), np.array([30, 10, 60])
    models = subset_models(start, updates, sizes, np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool))
    np.testing.assert_allclose(models, [[0.75, 0.75], [5, 5], [0, 0]], rtol=1e-6)


def test_the_best_of_all_subsets_up_to_the_limit() -> None:
    for n in (1, 3, 6, TRY_ALL_SUBSETS):
        start, updates = np.zeros(4, np.float32), RNG.normal(size=(n, 4)).astype(np.float32)
        sizes, target = RNG.integers(5, 50, n), RNG.normal(size=4)
        found = np.flatnonzero(best_subset(start, updates, sizes, quadratic(target))[0])
        losses: dict[tuple[int, ...], float] = {(): float((target**2).sum())}
        for size in range(1, n + 1):
            for members in combinations(range(n), size):
                weights = sizes[list(members)] / sizes[list(members)].sum()
                losses[members] = float(((weights @ updates[list(members)] - target) ** 2).sum())
        assert losses[tuple(found)] <= min(losses.values()) + 1e-6


def test_above_the_limit_the_search_ends_in_a_local_optimum() -> None:
    n = 16
    start, updates = np.zeros(6, np.float32), RNG.normal(size=(n, 6)).astype(np.float32)
    sizes, loss = RNG.integers(5, 50, n), quadratic(RNG.normal(size=6))
    chosen = best_subset(start, updates, sizes, loss)
    value = loss(subset_models(start, updates, sizes, chosen))[0]
    neighbours = chosen ^ np.eye(n, dtype=bool)
    assert (loss(subset_models(start, updates, sizes, neighbours)) >= value).all()
    assert value <= loss(fedavg(start, updates, sizes)[None])[0]


def test_where_every_update_harms_nobody_is_taken() -> None:
    updates = np.ones((4, 3), np.float32)
    chosen = best_subset(np.zeros(3, np.float32), updates, np.full(4, 10), quadratic(-np.ones(3)))
    assert not chosen.any()


def test_a_model_that_blew_up_is_never_the_best() -> None:
    updates = np.float32([[3e38], [1.0]])

    def loss(models: np.ndarray) -> np.ndarray:
        return np.where(models[:, 0] > 1e30, np.nan, np.abs(models[:, 0] - 1))

    chosen = best_subset(np.zeros(1, np.float32), updates, np.array([1, 1]), loss)
    assert chosen[0].tolist() == [False, True]
