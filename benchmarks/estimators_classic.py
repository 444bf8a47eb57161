"""How accurate are the field's estimators at equal cost, and how fast are exact values from a table?

Epochs of a softmax regression on scikit-learn's digits: n clients with skewed class mixes each take local gradient
steps, the sub-models are data-weighted means of their updates, utilities are validation loss and accuracy. Nothing of
the product's games or simulator is used, so the figures stand on the estimators alone. NMSE = mean squared error over
the variance of the exact values; medians over epochs.
"""

from __future__ import annotations

import os
import time

import numpy as np

from benchmarks.measurement import Measurement
from flcontrib_core.games.table_game import TableGame
from flcontrib_core.shapley.elsewhere import VARIABLE, MethodBudget, estimate_elsewhere
from flcontrib_core.shapley.exact_values import evaluate_all, shapley_from_table
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.registry import epoch_estimator
from flcontrib_core.vocabulary import CoalitionMatrix, FloatArray, UtilityMatrix

METHODS: tuple[tuple[str, dict[str, object]], ...] = (
    ("complementary", {}),
    ("complementary-neyman", {}),
    ("monte-carlo", {}),
    ("monte-carlo", {"antithetic": True}),
    ("gtg", {}),
    ("fedsv", {}),
    ("fedsv-group-testing", {}),
    ("surrogate-blackbox", {}),
    ("surrogate-blackbox-unbiased", {}),
    ("shapiq:SVARM", {}),
    ("shapiq:KernelSHAP", {}),
)
NEWEST = ("LeverageSHAP", "RegressionMSR", "OddSHAP")


class DigitsEpoch:
    """One epoch of federated softmax regression as a coalition game over its participants."""

    utilities = ("loss", "accuracy")

    def __init__(self, players: int, seed: int, warm_up: int) -> None:
        from sklearn.datasets import load_digits

        rng = np.random.default_rng(seed)
        x, y = load_digits(return_X_y=True)
        x = np.hstack([x / 16.0, np.ones((len(x), 1))])
        order = rng.permutation(len(x))
        held_out, training = order[:360], order[360:]
        self.x, self.y = x[held_out], y[held_out]
        self.players = players
        mixes = rng.dirichlet(np.full(10, 0.5), size=players)
        owner = np.array([rng.choice(players, p=mixes[:, label] / mixes[:, label].sum()) for label in y[training]])
        parts = [training[owner == client] for client in range(players)]
        parts = [part if len(part) else training[:1] for part in parts]
        self.sizes = np.array([len(part) for part in parts], dtype=float)
        self.base = np.zeros((65, 10))
        for _ in range(warm_up):
            updates = [self._local(x[part], y[part]) for part in parts]
            self.base = self.base + np.tensordot(self.sizes / self.sizes.sum(), updates, axes=1)
        self.deltas = np.array([self._local(x[part], y[part]) for part in parts])
        self.start = self._levels(self.base[None])

    def _local(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Ten full-batch gradient steps from the global model."""
        model = self.base.copy()
        for _ in range(10):
            model -= 0.5 * x.T @ (_softmax(x @ model) - np.eye(10)[y]) / len(x)
        return model - self.base

    def _levels(self, models: FloatArray) -> FloatArray:
        logits = np.einsum("vf,cfk->cvk", self.x, models, optimize=True)
        log_p = np.log(_softmax(logits)[:, np.arange(len(self.y)), self.y] + 1e-300)
        return np.stack([-log_p.mean(axis=1), (logits.argmax(axis=2) == self.y).mean(axis=1)], axis=1)

    def evaluate(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        found = []
        for chunk in np.array_split(coalitions, max(1, len(coalitions) // 128)):
            mass = chunk * self.sizes
            weights = mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300)
            found.append(self._levels(self.base + np.tensordot(weights, self.deltas, axes=1)) - self.start)
        return np.concatenate(found)


def _softmax(logits: FloatArray) -> FloatArray:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def run(scale: str) -> list[Measurement]:
    """Accuracy at 2n, 4n, 8n and 32n evaluations for n = 10, and exact values from a table against shapiq's."""
    seeds = range(3 if scale == "small" else 8)
    epochs = [DigitsEpoch(10, seed, warm_up) for seed in seeds for warm_up in (0, 3, 12)]
    return [*_accuracy(epochs), *_newest(epochs), *_exact_from_table(14 if scale == "small" else 16)]


def _accuracy(epochs: list[DigitsEpoch]) -> list[Measurement]:
    tables = [evaluate_all(CoalitionOracle(epoch)) for epoch in epochs]
    truths = [shapley_from_table(table) for table in tables]
    measured = []
    for name, options in METHODS:
        for multiple in (2, 4, 8, 32):
            errors: list[FloatArray] = []
            inside: list[bool] = []
            mse: list[FloatArray] = []
            began = time.process_time()
            for number, (epoch, truth) in enumerate(zip(epochs, truths, strict=True)):
                rng = np.random.default_rng(number)
                estimate = epoch_estimator(name, evaluations=multiple * 10, **options).estimate(
                    CoalitionOracle(epoch), rng
                )
                mse.append(((estimate.values - truth) ** 2).mean(axis=0))
                errors.append(mse[-1] / truth.var(axis=0))
                given = ~np.isnan(estimate.half_widths)
                inside.extend((np.abs(estimate.values - truth) <= estimate.half_widths)[given])
            seconds = (time.process_time() - began) / len(epochs)
            label = " ".join([name, *options])
            loss, accuracy = np.median(errors, axis=0)
            covered = f", coverage {np.mean(inside):.2f} of {len(inside)}" if inside else ""
            of_loss, of_accuracy = np.median(mse, axis=0)
            cost = f"CPU {seconds:.3f} s an epoch, MSE {of_loss:.2g} / {of_accuracy:.2g}"
            note = f"accuracy {accuracy:.3g}{covered}; {cost}; {len(epochs)} epochs"
            measured.append(Measurement(f"{label}: NMSE of loss values at {multiple}n", float(loss), note=note))
    return measured


def _newest(epochs: list[DigitsEpoch]) -> list[Measurement]:
    """shapiq's newest methods at the same budgets, where an interpreter that has them is named."""
    python = os.environ.get(VARIABLE)
    if not python:
        return []
    tables = {number: evaluate_all(CoalitionOracle(epoch)) for number, epoch in enumerate(epochs)}
    truths = {number: shapley_from_table(table) for number, table in tables.items()}
    tasks = [MethodBudget(f"shapiq:{name}", multiple * 10) for name in NEWEST for multiple in (2, 4, 8, 32)]
    answer = estimate_elsewhere(python, tables, tasks, seed=0)
    measured = []
    for task in tasks:
        found = [e for e in answer.estimates if e.task == task]
        errors = [((e.values - truths[e.epoch]) ** 2).mean(axis=0) / truths[e.epoch].var(axis=0) for e in found]
        loss, accuracy = np.median(errors, axis=0)
        label = f"{task.method}: NMSE of loss values at {task.evaluations // 10}n"
        measured.append(Measurement(label, float(loss), note=f"accuracy {accuracy:.3g}; {len(found)} epochs"))
    return measured


def _exact_from_table(players: int) -> list[Measurement]:
    """CPU time from a game that looks its values up to its Shapley values, asking for all coalitions included."""
    from shapiq import ExactComputer

    table = np.random.default_rng(0).normal(size=(1 << players, 1))
    table[0] = 0.0
    game = TableGame(table, ["u"])
    began = time.process_time()
    peer = ExactComputer(n_players=players, game=lambda s: game.evaluate(s.astype(bool))[:, 0])("SV", 1)
    theirs = time.process_time() - began
    began = time.process_time()
    repeats = 10
    for _ in range(repeats):
        ours = shapley_from_table(evaluate_all(CoalitionOracle(game)))
    took = (time.process_time() - began) / repeats
    difference = float(np.abs(ours[:, 0] - [peer[(i,)] for i in range(players)]).max())
    return [
        Measurement(
            f"exact from a table, n = {players}: CPU of shapiq's ExactComputer / ours",
            theirs / took,
            5.0,
            unit="×",
            note=f"ours {1000 * took:.1f} ms",
        ),
        Measurement(f"exact values, n = {players}: largest difference from shapiq", difference, 1e-9, at_least=False),
    ]
