"""Coalitions: enumerated, drawn at random, and as prefixes of orders.

A coalition of n ≤ 62 players is also a bitmask: player i is bit i, so mask 0 is ∅ and mask 2^n − 1 is everybody.
Tables over all coalitions are indexed by that mask.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from flcontrib_core.vocabulary import CoalitionMatrix, IntArray

ENUMERATION_CHUNK = 1 << 16


def distinct_coalitions(players: int) -> int:
    """2^n − 1: what there is to evaluate, the empty coalition being free."""
    return (1 << players) - 1


def coalitions_of_masks(masks: IntArray, players: int) -> CoalitionMatrix:
    """(masks, players) the members of each bitmask.

    >>> coalitions_of_masks(np.array([0, 5]), 3).tolist()
    [[False, False, False], [True, False, True]]
    """
    members: CoalitionMatrix = (masks[:, None] >> np.arange(players)) & 1 == 1
    return members


def all_coalitions(players: int, chunk: int = ENUMERATION_CHUNK) -> Iterator[tuple[IntArray, CoalitionMatrix]]:
    """(masks, members) of all 2^n coalitions in mask order, a chunk at a time."""
    for start in range(0, 1 << players, chunk):
        masks = np.arange(start, min(start + chunk, 1 << players), dtype=np.int64)
        yield masks, coalitions_of_masks(masks, players)


def coalition_sizes(players: int) -> IntArray:
    """(2^n,) members of each bitmask."""
    return np.bitwise_count(np.arange(1 << players, dtype=np.uint64)).astype(np.int64)


def everybody(players: int) -> CoalitionMatrix:
    """(1, players) the grand coalition as a matrix of one row."""
    return np.ones((1, players), dtype=bool)


def random_permutations(rng: np.random.Generator, count: int, players: int) -> IntArray:
    """(count, players) independent uniform orders."""
    return rng.permuted(np.tile(np.arange(players), (count, 1)), axis=1)


def prefix_coalitions(permutations: IntArray) -> CoalitionMatrix:
    """(permutations, players, players): entry [p, k] holds the first k + 1 players of order p."""
    positions = np.argsort(permutations, axis=1)
    prefixes: CoalitionMatrix = positions[:, None, :] <= np.arange(permutations.shape[1])[None, :, None]
    return prefixes


def random_coalitions_of_size(rng: np.random.Generator, count: int, players: int, size: int) -> CoalitionMatrix:
    """(count, players) independent uniform coalitions with ``size`` members each."""
    rank = np.argsort(rng.random((count, players)), axis=1)
    members: CoalitionMatrix = np.zeros((count, players), dtype=bool)
    np.put_along_axis(members, rank[:, :size], True, axis=1)
    return members


def coalitions_of_size(players: int, size: int) -> CoalitionMatrix:
    """(C(n, size), players) every coalition with ``size`` members, each once."""
    from itertools import chain, combinations

    count = math.comb(players, size)
    members = np.zeros((count, players), dtype=bool)
    if size:
        groups = chain.from_iterable(combinations(range(players), size))
        indices = np.fromiter(groups, dtype=np.int64, count=count * size).reshape(count, size)
        np.put_along_axis(members, indices, True, axis=1)
    return members
