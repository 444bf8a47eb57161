"""The interval with the largest sum: gaps and calm epochs inside, several per client, never from one cell."""

from __future__ import annotations

import itertools

import numpy as np

from flcontrib_core.detection.stretches import largest_totals, stretches


def test_the_largest_total_is_that_of_the_best_interval() -> None:
    rng = np.random.default_rng(3)
    cells = np.where(rng.random((14, 40)) < 0.2, np.nan, rng.normal(-0.3, 1.0, (14, 40)))
    total, first, last = largest_totals(cells)
    for i in range(40):
        sums = {
            (a, b): np.nansum(cells[a : b + 1, i]) for a, b in itertools.combinations_with_replacement(range(14), 2)
        }
        best = max(0.0, *sums.values())
        assert np.isclose(total[i], best)
        if best > 0:
            assert np.isclose(sums[(first[i], last[i])], best)


def test_stretches_of_an_on_and_off_client_come_apart() -> None:
    cells = np.full((20, 3), -1.0)
    cells[[4, 5, 6, 12, 13, 14], 1] = 2.0
    cells[9, 2] = 2.0
    cells[5, 1] = np.nan
    found = stretches(cells, 3.0)
    assert [(s.client, s.epochs, s.total) for s in found] == [(1, (4, 6), 4.0), (1, (12, 13, 14), 6.0)]


def test_a_calm_epoch_inside_does_not_break_a_stretch() -> None:
    cells = np.array([[-1.0], [2.0], [-0.5], [2.0], [-1.0]])
    assert [s.epochs for s in stretches(cells, 3.0)] == [(1, 2, 3)]
