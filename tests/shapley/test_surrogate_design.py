"""Which coalitions the surrogate evaluates."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from flcontrib_core.shapley.coalitions import coalitions_of_masks
from flcontrib_core.shapley.oracle import coalition_keys
from flcontrib_core.shapley.simplex_kernel import Kernel, Regression, SimplexPoints, metric_factor, points_of
from flcontrib_core.shapley.surrogate_design import Guide, Stratum, next_coalitions, size_quotas, size_shares
from flcontrib_core.vocabulary import CoalitionMatrix, CoalitionWeights, FloatArray

KERNEL = Kernel(1.0, 1e-4)


def weights(coalitions: CoalitionMatrix) -> CoalitionWeights:
    return np.asarray(coalitions / np.maximum(coalitions.sum(axis=1, keepdims=True), 1))


def factor(players: int) -> FloatArray:
    rng = np.random.default_rng(players)
    deltas = rng.normal(size=(players, 30)) + rng.normal(size=30)
    return metric_factor(deltas @ deltas.T)


def place(coalitions: CoalitionMatrix) -> SimplexPoints:
    return points_of(weights(coalitions), factor(coalitions.shape[1]))


def choose(stratum: Stratum, known: CoalitionMatrix, more: int, seed: int) -> CoalitionMatrix:
    guide = Guide(stratum, factor(known.shape[1]), place(known), KERNEL)
    return next_coalitions(guide, known, weights, more, np.random.default_rng(seed))


def start(players: int) -> CoalitionMatrix:
    return np.concatenate([np.ones((1, players), dtype=bool), np.eye(players, dtype=bool)])


def everything(players: int) -> Stratum:
    return Stratum(np.zeros(players, dtype=bool), None)


@pytest.mark.parametrize("players", [5, 10, 16, 40, 100])
def test_at_4n_every_size_has_been_looked_at(players: int) -> None:
    """Without quotas a greedy choice at 16 players never looks at the sizes 3 to 14."""
    more = 4 * players - (players + 1)
    more = min(more, 2**players - 2 - players)
    known = start(players)
    found = choose(everything(players), known, more, 0)
    assert len(found) == more
    assert set(found.sum(axis=1).tolist()) == set(range(2, players))
    assert len(set(coalition_keys(found)) | set(coalition_keys(known))) == len(found) + len(known)


def test_quotas_prefer_pairs_and_the_coalitions_without_one_player() -> None:
    counts = np.array([0, 10, *[0] * 8, 1])
    quotas = size_quotas(size_shares(10), [math.comb(10, s) for s in range(11)], counts, 29)
    assert quotas.sum() == 29
    assert quotas[2] == quotas.max()
    assert quotas[9] > quotas[5]
    assert quotas[0] == quotas[1] == quotas[10] == 0


def test_quotas_are_nested_and_never_exceed_what_a_size_has() -> None:
    counts = np.array([0, 6, 0, 0, 0, 0, 1])
    capacities = [math.comb(6, s) for s in range(7)]
    steps = [size_quotas(size_shares(6), capacities, counts, more) for more in range(60)]
    for smaller, larger in pairwise(steps):
        assert (larger >= smaller).all()
    assert (counts + steps[-1] <= capacities).all()
    assert steps[-1].sum() == 2**6 - 2 - 6


def test_each_choice_is_the_most_uncertain_one_left_in_its_quota() -> None:
    """Replayed with a regression fitted from scratch before every choice."""
    players = 7
    known = start(players)
    found = choose(everything(players), known, 14, 1)
    left = np.bincount(found.sum(axis=1), minlength=players + 1)
    everyone = coalitions_of_masks(np.arange(1 << players), players)
    sizes = everyone.sum(axis=1)
    evaluated = known
    for choice in found:
        fit = Regression(place(evaluated), np.zeros((len(evaluated), 1)), KERNEL)
        variance = np.diag(fit.posterior(place(everyone))).copy()
        variance[left[sizes] == 0] = -1.0
        variance[np.isin(coalition_keys(everyone), coalition_keys(evaluated))] = -1.0
        mine = int(choice @ (1 << np.arange(players)))
        assert variance[mine] == pytest.approx(variance.max(), rel=1e-6)
        left[choice.sum()] -= 1
        evaluated = np.concatenate([evaluated, choice[None]])


def test_families_keep_to_themselves() -> None:
    flagged = np.zeros(8, dtype=bool)
    flagged[[1, 4]] = True
    everyone = coalitions_of_masks(np.arange(1, 1 << 8), 8)
    sizes = everyone.sum(axis=1)
    for with_flagged in (False, True):
        stratum = Stratum(flagged, with_flagged)
        inside = stratum.holds(everyone)
        assert [stratum.count(s) for s in range(1, 9)] == [int((inside & (sizes == s)).sum()) for s in range(1, 9)]
        known = start(8)[stratum.holds(start(8))]
        found = choose(stratum, known, 25, 2)
        assert stratum.holds(found).all()
        assert len(found) == 25
        assert len(set(coalition_keys(found))) == 25


def test_an_exhausted_family_gives_what_it_has() -> None:
    flagged = np.array([False, False, False, True, True, True])
    stratum = Stratum(flagged, False)
    known = start(6)[stratum.holds(start(6))]
    found = choose(stratum, known, 30, 3)
    assert len(found) == 2**3 - 1 - 3
