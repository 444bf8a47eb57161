"""GTG-Shapley, TMR, FedSV and ComFedSV against plain loops written from their papers' definitions.

Where both see the same orders the values must be equal; where the orders are drawn, equal within sampling error.
"""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from flcontrib_core.shapley import GTG, ComFedSV, FedSV, TruncatedMultiRound
from flcontrib_core.shapley.coalitions import random_permutations
from flcontrib_core.shapley.comfedsv import PrefixColumns
from flcontrib_core.shapley.estimate import EpochOfRun, RunGames
from flcontrib_core.shapley.gtg import led_orders
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.vocabulary import FloatArray
from tests.shapley.closed_form import random_table, table_game

Table = FloatArray
"""(2^n,) value of every coalition by its bit mask"""


def by_all_orders(table: Table) -> list[float]:
    """eq. (shapley_value): every order, every marginal, nothing clever."""
    n = len(table).bit_length() - 1
    totals = [0.0] * n
    for order in permutations(range(n)):
        mask = 0
        for player in order:
            totals[player] += table[mask | 1 << player] - table[mask]
            mask |= 1 << player
    return [total / math.factorial(n) for total in totals]


def gtg_by_its_algorithm(
    table: Table, rng: np.random.Generator, eps_b: float = 0.01, eps_i: float = 0.001
) -> tuple[list[float], int]:
    """Liu et al. 2022, algorithm 1, with its constants: sweeps led by every player, cut tails, the relative test."""
    n = len(table).bit_length() - 1
    everyone = (1 << n) - 1
    if abs(table[everyone] - table[0]) <= eps_b:
        return [0.0] * n, 0
    history: list[list[float]] = []
    means: list[list[float]] = []
    sweeps_at_once = -(-30 // n)
    while True:
        for order in np.concatenate([led_orders(rng, n) for _ in range(sweeps_at_once)]):
            marginals, mask, value = [0.0] * n, 0, 0.0
            for player in order:
                if abs(table[everyone] - value) < eps_i:
                    break
                joined = table[mask | 1 << int(player)]
                marginals[int(player)] = joined - value
                mask, value = mask | 1 << int(player), joined
            history.append(marginals)
            means.append([sum(column) / len(history) for column in zip(*history, strict=True)])
        sweeps_at_once = 1
        newest = means[-1]
        drifts = [
            sum(abs(a - b) / abs(b) if b else float(a != b) for a, b in zip(old, newest, strict=True)) / n
            for old in means[-10:]
        ]
        if (len(history) >= 30 and max(drifts) <= 0.05) or len(history) >= max(300, 10 * n):
            return newest, len(history)


@pytest.mark.parametrize("seed", range(4))
def test_gtg_equals_its_algorithm_order_by_order(seed: int) -> None:
    table = (random_table(seed, 6)[:, 0] * 0.1) + np.bitwise_count(np.arange(64)) * 0.08
    table[0] = 0.0
    ours = GTG().estimate(table_game(table[:, None], ("accuracy",)).oracle(), np.random.default_rng(seed))
    plain, orders = gtg_by_its_algorithm(table, np.random.default_rng(seed))
    np.testing.assert_allclose(ours.values[:, 0], plain, rtol=1e-9, atol=1e-12)
    assert getattr(ours.remarks[0], "orders", None) == orders


def test_gtg_skips_the_round_its_algorithm_skips() -> None:
    table = random_table(0, 5)[:, 0]
    table[-1] = 0.0099
    ours = GTG().estimate(table_game(table[:, None], ("loss",)).oracle(), np.random.default_rng(0))
    assert ours.values[:, 0].tolist() == gtg_by_its_algorithm(table, np.random.default_rng(0))[0] == [0.0] * 5


@pytest.mark.parametrize("decay", [1.0, 0.9])
def test_tmr_equals_every_order_of_the_rounds_it_keeps(decay: float) -> None:
    """Wei et al. 2020: Σ_t λ^t φ(t) over the rounds that moved the utility by more than 0.01."""
    rounds = [random_table(seed, 5)[:, 0] for seed in range(4)]
    rounds[1][-1], rounds[3][-1] = 0.01, -0.004
    total = np.zeros(5)
    for t, table in enumerate(rounds, start=1):
        if abs(table[-1]) > 0.01:
            total += decay**t * np.array(by_all_orders(table))
    ours = sum(
        TruncatedMultiRound(decay=decay)
        .estimate(CoalitionOracle(table_game(table[:, None], ("loss",)), epoch=t), np.random.default_rng(0))
        .values[:, 0]
        for t, table in enumerate(rounds, start=1)
    )
    np.testing.assert_allclose(ours, total, rtol=1e-10)


def test_fedsv_is_every_order_within_its_sampling_error() -> None:
    """Wang et al. 2020 by permutations: unbiased for the value over the participants."""
    table = random_table(7, 6)[:, 0]
    truth = np.array(by_all_orders(table))
    runs = [
        FedSV(evaluations=40).estimate(table_game(table[:, None]).oracle(), np.random.default_rng(seed)).values[:, 0]
        for seed in range(150)
    ]
    z = (np.mean(runs, axis=0) - truth) / (np.std(runs, axis=0, ddof=1) / math.sqrt(len(runs)))
    assert np.abs(z).max() < 4


def test_fedsv_group_testing_is_the_pairwise_difference_estimate() -> None:
    """Its definition: size k with probability ∝ 1/k + 1/(n − k); D_ij = Z mean (1_i − 1_j) u; φ_i − φ_j ≈ D_ij."""
    table = random_table(3, 5)[:, 0]
    truth = np.array(by_all_orders(table))
    n, rng = 5, np.random.default_rng(0)
    sizes = np.arange(1, n)
    chances = 1 / sizes + 1 / (n - sizes)
    z = 2 * sum(1 / k for k in range(1, n))
    differences = np.zeros((n, n))
    tests = 40_000
    for size in rng.choice(sizes, size=tests, p=chances / chances.sum()):
        inside = np.zeros(n)
        inside[rng.choice(n, size=size, replace=False)] = 1
        value = table[int(inside @ (1 << np.arange(n)))]
        differences += z * value * (inside[:, None] - inside[None, :]) / tests
    plain = table[-1] / n + differences.mean(axis=1)
    np.testing.assert_allclose(plain, truth, atol=0.06)
    ours = [
        FedSV(sampling="group-testing", evaluations=28)
        .estimate(table_game(table[:, None]).oracle(), np.random.default_rng(seed))
        .values[:, 0]
        for seed in range(200)
    ]
    spread = np.std(ours, axis=0, ddof=1) / math.sqrt(len(ours))
    assert (np.abs(np.mean(ours, axis=0) - truth) < 4 * spread + 0.02).all()


def completed(matrix: FloatArray, seen: np.ndarray, rng: np.random.Generator) -> FloatArray:
    """Alternating ridge regressions, rank 5, ridge 0.1, 60 rounds, on entries scaled to mean square 1."""
    rows, columns = matrix.shape
    scale = math.sqrt(np.mean(matrix[seen] ** 2))
    right = rng.normal(size=(columns, 5)) / math.sqrt(5)
    left = np.zeros((rows, 5))
    for _ in range(60):
        for r in range(rows):
            x = right[seen[r]]
            left[r] = np.linalg.solve(x.T @ x + 0.1 * np.eye(5), x.T @ (matrix[r, seen[r]] / scale))
        for c in range(columns):
            x = left[seen[:, c]]
            right[c] = np.linalg.solve(x.T @ x + 0.1 * np.eye(5), x.T @ (matrix[seen[:, c], c] / scale))
    return np.asarray(scale * left @ right.T)


def test_comfedsv_equals_a_plain_completion_of_the_utility_matrix() -> None:
    """Fan et al. 2022: epochs × prefixes, observed where all took part, completed; then mean marginals."""
    rng = np.random.default_rng(5)
    weights = rng.standard_normal(4)
    tables = [
        scale * np.array([sum(weights[i] for i in range(4) if m >> i & 1) for m in range(16)]) for scale in (1, 0.5, 2)
    ]
    present = [(0, 1, 2, 3), (0, 2), (1, 2, 3)]
    epochs = []
    for t, (table, members) in enumerate(zip(tables, present, strict=True), start=1):
        masks = [sum(1 << members[k] for k in range(len(members)) if s >> k & 1) for s in range(1 << len(members))]
        epochs.append(EpochOfRun(t, members, CoalitionOracle(table_game(table[masks][:, None], ("loss",)))))
    ours = ComFedSV().estimate_run(RunGames(epochs, 4), np.random.default_rng(9))
    again = np.random.default_rng(9)
    orders = random_permutations(again, max(10, math.ceil(4 * math.log(4))), 4)
    columns = PrefixColumns.of(orders)
    seen = np.array([[set(np.flatnonzero(m)) <= set(members) for m in columns.members] for members in present])
    matrix = np.array([[t[int(m @ (1 << np.arange(4)))] for m in columns.members] for t in tables])
    guessed = completed(matrix, seen, again)
    plain = np.zeros(4)
    for order in orders:
        mask = np.zeros(4, dtype=bool)
        before = np.zeros(3)
        for player in order:
            mask[player] = True
            column = next(c for c, m in enumerate(columns.members) if (m == mask).all())
            plain[player] += (guessed[:, column] - before).sum() / len(orders)
            before = guessed[:, column]
    np.testing.assert_allclose(ours.totals[:, 0], plain, rtol=1e-6, atol=1e-9)
