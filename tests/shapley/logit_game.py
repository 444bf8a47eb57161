"""A small federated epoch of a linear softmax model with everything a LogitGame offers, for the tests alone."""

from __future__ import annotations

import numpy as np

from flcontrib_core.vocabulary import CoalitionMatrix, CoalitionWeights, FloatArray, LogitTensor, UtilityMatrix


class LinearEpoch:
    """n updates of a (features, classes) matrix; utilities are loss and accuracy on V rows."""

    utilities = ("loss", "accuracy")

    def __init__(self, players: int, seed: int = 0, rows: int = 60, multiply_adds: float = 1e12) -> None:
        rng = np.random.default_rng(seed)
        self.players = players
        self.validation_rows = rows
        self.multiply_adds = multiply_adds
        truth = rng.normal(size=(5, 3))
        self.x = rng.normal(size=(rows, 5))
        self.y = (self.x @ truth + rng.normal(size=(rows, 3))).argmax(axis=1)
        self.base = 0.1 * rng.normal(size=(5, 3))
        self.deltas = 0.4 * truth + 0.4 * rng.normal(size=(players, 5, 3))
        self.sizes = rng.integers(20, 200, size=players).astype(float)
        self.evaluated = 0

    def weights(self, coalitions: CoalitionMatrix) -> CoalitionWeights:
        mass = coalitions * self.sizes
        return np.asarray(mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300))

    def gram(self) -> FloatArray:
        flat = self.deltas.reshape(self.players, -1)
        return np.asarray(flat @ flat.T)

    def _logits(self, coalitions: CoalitionMatrix) -> LogitTensor:
        models = self.base + np.tensordot(self.weights(coalitions), self.deltas, axes=1)
        return np.asarray(np.einsum("vf,cfk->cvk", self.x, models), dtype=np.float32)

    def _levels(self, logits: LogitTensor) -> FloatArray:
        z = logits.astype(float) - logits.max(axis=2, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(axis=2, keepdims=True))
        loss = -log_p[:, np.arange(len(self.y)), self.y].mean(axis=1)
        return np.stack([loss, (logits.argmax(axis=2) == self.y).mean(axis=1)], axis=1)

    def utilities_of_logits(self, logits: LogitTensor) -> UtilityMatrix:
        start = self._levels(self._logits(np.zeros((1, self.players), dtype=bool)))
        return np.asarray(self._levels(logits) - start)

    def evaluate_with_logits(self, coalitions: CoalitionMatrix) -> tuple[UtilityMatrix, LogitTensor]:
        self.evaluated += len(coalitions)
        logits = self._logits(coalitions)
        return self.utilities_of_logits(logits), logits

    def evaluate(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        return self.evaluate_with_logits(coalitions)[0]
