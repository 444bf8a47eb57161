"""Seeded scheduling problems, and brute force written from the definitions alone."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from flcontrib_core.scheduling.schedule import FairnessMode, SchedulingProblem
from flcontrib_core.vocabulary import BoolArray, FloatArray

GAMMAS = (0.0, 0.03, 0.3, 1.0, 3.0)


def random_problem(epochs: int, clients: int, participation: float, seed: int) -> SchedulingProblem:
    """Falling, noisy movement and independent participation; some clients may never take part, some epochs be empty."""
    rng = np.random.default_rng([epochs, clients, round(1000 * participation), seed])
    movement = np.exp(-np.arange(epochs) / (epochs / 4)) * rng.gamma(2, 0.5, epochs) + 0.01 * rng.random(epochs)
    participated = rng.random((epochs, clients)) < participation
    return SchedulingProblem(
        movement=movement,
        participated=participated,
        client_ids=tuple(f"c{i}" for i in range(clients)),
        initial_utility=2.3,
        evaluations=2 ** participated.sum(axis=1),
    )


def every_set(epochs: int, k: int, at_most: bool) -> BoolArray:
    """(sets, T) all sets of exactly, or at most, k epochs."""
    sizes = range(0, k + 1) if at_most else (k,)
    chosen = [c for size in sizes for c in combinations(range(epochs), size)]
    sets = np.zeros((len(chosen), epochs), dtype=np.bool_)
    for row, epochs_of_row in enumerate(chosen):
        sets[row, list(epochs_of_row)] = True
    return sets


def objectives_by_definition(
    problem: SchedulingProblem,
    sets: BoolArray,
    fairness: FairnessMode,
    gamma: float,
    paper_denominator: bool = False,
    own_sums: bool = False,
) -> FloatArray:
    """(sets,) the three objectives term by term, pair by pair."""
    denominator = problem.movement.sum() + (abs(problem.initial_utility) if paper_denominator else 0)
    p = problem.movement / denominator if denominator else 0 * problem.movement
    counts = problem.participated.sum(axis=0)
    x = problem.participated[:, counts > 0] / counts[counts > 0]
    m = x.shape[1]
    pairs = list(combinations(range(m), 2))
    pair_divisor: float = max(1, m * m // 4)
    if own_sums:
        p = p / p.sum()
        pair_divisor = sum(float(np.abs(x[:, i] - x[:, j]).sum()) for i, j in pairs)
    utility = (sets * p).sum(axis=1)
    if fairness is FairnessMode.TOP_UTILITY:
        return utility
    if fairness is FairnessMode.ONE_SIDED:
        return utility + gamma * sum(((sets * x[:, i]).sum(axis=1) for i in range(m)), np.zeros(len(sets))) / max(1, m)
    differences = np.zeros(len(sets))
    for i, j in pairs:
        if fairness is FairnessMode.TWO_SIDED:
            differences += np.abs((sets * (x[:, i] - x[:, j])).sum(axis=1))
        else:
            differences += (sets * np.abs(x[:, i] - x[:, j])).sum(axis=1)
    return utility - gamma * differences / pair_divisor
