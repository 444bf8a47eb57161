"""What does the gradient estimator cost and miss for 10, 100 and 1 000 participants, and beside GTG-Shapley?

One epoch of a small network on Adult in which everybody takes part, data sizes unequal. The reference takes the
estimator's own linear game, whose values are known, and adds the rest from sampled orders of true evaluations: it is
unbiased, and its own error (from two halves) stands beside it. NMSE of the loss, CPU seconds of one process.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.measurement import Measurement
from benchmarks.simulated_epochs import cpu, simulated_epochs
from flcontrib_core.errors import MissingPart
from flcontrib_core.games.submodels import EpochGame
from flcontrib_core.laboratory.simulation import SimulationSettings
from flcontrib_core.laboratory.simulation.kinds import DatasetName, Sizes, Split
from flcontrib_core.shapley.exact_values import evaluate_all, shapley_from_table
from flcontrib_core.shapley.gradient import Gradient
from flcontrib_core.shapley.gtg import GTG
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.simplex_features import quadratic_game_values
from flcontrib_core.vocabulary import FloatArray, WeightMode

ORDERS = {100: 300, 1000: 60}


def run(scale: str) -> list[Measurement]:
    """n = 10 and 100; full: 1 000 too."""
    return [m for n in ((10, 100) if scale == "small" else (10, 100, 1000)) for m in _measured(n)]


def _measured(n: int) -> Iterator[Measurement]:
    settings = SimulationSettings(
        dataset=DatasetName.ADULT, clients=n, epochs=2, hidden=(16,), split=Split.DIRICHLET,
        sizes=Sizes.UNEQUAL, batch=8, seed=3, train_rows=20 * max(n, 100), validation_rows=300,
    )  # fmt: skip
    try:
        (epoch,) = simulated_epochs(f"adult, n = {n}", settings, (2,))
    except MissingPart as missing:
        yield Measurement("adult", 0.0, note=str(missing))
        return
    g = epoch.game
    for mode in (WeightMode.FIXED, WeightMode.ADAPTIVE):
        game = EpochGame(g.base, g.updates, g.data_sizes, g.evaluator, weights=mode)
        truth, own = _reference(game, n)
        names = f"n = {n}, {mode.value} weights"
        CoalitionOracle(game).evaluate(np.eye(n, dtype=bool))  # what only the first evaluation pays is nobody's cost
        found, seconds = cpu(Gradient().estimate, CoalitionOracle(game), np.random.default_rng(0))
        error = _nmse(found.values[:, 0], truth)
        inside = float((np.abs(found.values[:, 0] - truth) <= found.half_widths[:, 0]).mean())
        yield Measurement(
            f"gradient, {names}: NMSE", error, note=f"reference's own {own:.1e}; intervals hold {inside:.2f}"
        )
        yield Measurement(f"gradient, {names}: CPU", seconds, unit="s", note=f"{found.evaluations} evaluations")
        if n <= 100:
            peer, of_peer = cpu(GTG().estimate, CoalitionOracle(game), np.random.default_rng(0))
            note = f"NMSE {_nmse(peer.values[:, 0], truth):.1e}, {peer.evaluations} evaluations"
            yield Measurement(
                f"GTG-Shapley, {names}: CPU over the gradient's",
                of_peer / seconds,
                50.0 if n == 100 else None,
                unit="times",
                note=note,
            )


def _nmse(values: FloatArray, truth: FloatArray) -> float:
    return float(((values - truth) ** 2).mean() / truth.var())


def _reference(game: EpochGame, n: int) -> tuple[FloatArray, float]:
    """(players,) values of the loss, and the NMSE of this reference itself."""
    if n <= 12:
        return shapley_from_table(evaluate_all(CoalitionOracle(game)))[:, 0], 0.0
    halves = [_sampled(game, n, ORDERS[n] // 2, seed) for seed in (1, 2)]
    truth = np.mean(halves, axis=0)
    return truth, float(((halves[0] - halves[1]) ** 2).mean() / 4 / truth.var())


def _sampled(game: EpochGame, n: int, orders: int, seed: int) -> FloatArray:
    """Mean marginals over random orders of what a simple game, whose values are known, leaves."""
    rng = np.random.default_rng(seed)
    oracle = CoalitionOracle(game)
    shares = game.weights(np.ones((1, n), dtype=bool))[0]
    slopes = game.loss_slopes(shares)
    adaptive = game.weight_mode is WeightMode.ADAPTIVE

    def simple(coalitions: np.ndarray) -> FloatArray:
        weights = game.weights(coalitions)
        return np.asarray(weights @ slopes)

    known = _simple_values(shares, slopes, adaptive, n)
    total = np.zeros(n)
    for _ in range(orders):
        order = rng.permutation(n)
        prefixes = np.zeros((n, n), dtype=bool)
        prefixes[:, order] = np.tri(n, dtype=bool)
        rest = oracle.evaluate(prefixes)[:, 0] - simple(prefixes)
        total[order] += np.diff(rest, prepend=0.0)
    return known + total / orders


def _simple_values(shares: FloatArray, slopes: FloatArray, adaptive: bool, n: int) -> FloatArray:
    """Values of Σ λ_j(S) a_j: a sum for fixed weights, a quadrature for adaptive ones."""
    if not adaptive:
        return shares * slopes
    return quadratic_game_values(shares, slopes, np.zeros(n))
