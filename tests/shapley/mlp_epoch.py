"""A real federated epoch in a few milliseconds: a small ReLU net, clients with skewed classes, for the tests alone."""

from __future__ import annotations

import numpy as np

from flcontrib_core.shapley.exact_values import evaluate_all, shapley_from_table
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.vocabulary import (
    CoalitionMatrix,
    CoalitionWeights,
    FloatArray,
    LogitTensor,
    PlayerByUtility,
    UtilityMatrix,
)

FEATURES, HIDDEN = 6, 12


class MLPEpoch:
    """Clients take gradient steps on their own rows from one model; a ``LogitGame`` over their updates.

    ``updates`` (players, P), ``sizes`` and ``fixed`` may be changed before the first evaluation; ``poison`` names
    coalitions (as tuples of players) whose logits turn into NaN while their utilities stay finite.
    """

    utilities: tuple[str, ...] = ("loss", "accuracy")

    def __init__(self, players: int, seed: int = 0, rows: int = 120, classes: int = 3, multiply_adds: float = 1e9):
        rng = np.random.default_rng(seed)
        self.players, self.validation_rows, self.multiply_adds = players, rows, multiply_adds
        self.classes, self.fixed = classes, False
        self.poison: set[tuple[int, ...]] = set()
        self.evaluated: list[tuple[int, ...]] = []
        self.largest_request = 0
        centres = 1.2 * rng.normal(size=(classes, FEATURES))
        mixes = rng.dirichlet(np.full(classes, 0.6), size=players)
        self.y = rng.integers(classes, size=rows)
        self.x = centres[self.y] + rng.normal(size=(rows, FEATURES))
        self.sizes = rng.integers(20, 60, size=players).astype(float)
        count = FEATURES * HIDDEN + HIDDEN + HIDDEN * classes
        self.base = 0.4 * rng.normal(size=count)
        self.updates = np.empty((players, count))
        for client in range(players):
            labels = rng.choice(classes, size=int(self.sizes[client]), p=mixes[client])
            inputs = centres[labels] + rng.normal(size=(len(labels), FEATURES))
            model = self.base.copy()
            for _ in range(15):
                model -= 0.5 * self._gradient(model, inputs, labels)
            self.updates[client] = model - self.base

    def _parts(self, models: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        first, second = FEATURES * HIDDEN, FEATURES * HIDDEN + HIDDEN
        shape = models.shape[:-1]
        return (
            models[..., :first].reshape(*shape, FEATURES, HIDDEN),
            models[..., None, first:second],
            models[..., second:].reshape(*shape, HIDDEN, self.classes),
        )

    def _gradient(self, model: FloatArray, x: FloatArray, y: np.ndarray) -> FloatArray:
        w, b, v = self._parts(model)
        before = x @ w + b
        hidden = np.maximum(before, 0.0)
        scores = hidden @ v
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(len(y)), y] -= 1.0
        back = (p @ v.T) * (before > 0)
        return np.concatenate([(x.T @ back).ravel(), back.sum(axis=0), (hidden.T @ p).ravel()]) / len(y)

    def weights(self, coalitions: CoalitionMatrix) -> CoalitionWeights:
        mass = coalitions * self.sizes
        total = self.sizes.sum() if self.fixed else np.maximum(mass.sum(axis=1, keepdims=True), 1e-300)
        return np.asarray(mass / total)

    def gram(self) -> FloatArray:
        return np.asarray(self.updates @ self.updates.T)

    def _logits(self, coalitions: CoalitionMatrix) -> LogitTensor:
        w, b, v = self._parts(self.base + self.weights(coalitions) @ self.updates)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.maximum(self.x @ w + b, 0.0) @ v, dtype=np.float32)

    def _levels(self, logits: LogitTensor) -> FloatArray:
        z = logits.astype(float) - logits.max(axis=2, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(axis=2, keepdims=True))
        loss = -log_p[:, np.arange(len(self.y)), self.y].mean(axis=1)
        found = {"loss": loss, "accuracy": (logits.argmax(axis=2) == self.y).mean(axis=1)}
        return np.stack([found[name] for name in self.utilities], axis=1)

    def utilities_of_logits(self, logits: LogitTensor) -> UtilityMatrix:
        self.largest_request = max(self.largest_request, logits.size)
        start = self._levels(self._logits(np.zeros((1, self.players), dtype=bool)))
        return np.asarray(self._levels(logits) - start)

    def evaluate_with_logits(self, coalitions: CoalitionMatrix) -> tuple[UtilityMatrix, LogitTensor]:
        members = [tuple(np.flatnonzero(row).tolist()) for row in coalitions]
        self.evaluated.extend(members)
        logits = self._logits(coalitions)
        values = self.utilities_of_logits(logits)
        values[~coalitions.any(axis=1)] = 0.0
        for row, group in enumerate(members):
            if group in self.poison:
                logits[row, 0, 0] = np.nan
        return values, logits

    def evaluate(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        return self.evaluate_with_logits(coalitions)[0]

    def exact(self) -> PlayerByUtility:
        """By enumeration, on a copy of the game's state that does not count."""
        before = list(self.evaluated)
        values = shapley_from_table(evaluate_all(CoalitionOracle(self)))
        self.evaluated = before
        return values


def relative_errors(values: PlayerByUtility, truth: PlayerByUtility) -> FloatArray:
    """(utilities,) mean squared error over the variance of the true values."""
    return np.asarray(((values - truth) ** 2).mean(axis=0) / truth.var(axis=0))
