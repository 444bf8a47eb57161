"""Step rules for many clients at once: SGD, momentum, Adam and AdamW on rows of flat weights.

Every epoch starts with fresh moments, as clients keep no state between epochs.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flcontrib_core.laboratory.simulation.kinds import Optimizer
from flcontrib_core.laboratory.simulation.local_training import LocalTraining
from flcontrib_core.laboratory.simulation.precision import to_bfloat16
from flcontrib_core.vocabulary import Float32Array

MOMENTUM = 0.9
ADAM_MEAN, ADAM_SQUARE, ADAM_FLOOR = 0.9, 0.999, 1e-8


class StepRule(Protocol):
    """Moves weights (clients, P) in place; the gradient (clients, P) is used up. The first rows are the active ones."""

    def step(self, weights: Float32Array, gradient: Float32Array) -> None: ...


def step_rule(training: LocalTraining, start: Float32Array, weights: Float32Array) -> StepRule:
    """The rule a client's training asks for; ``start`` (P,) is the global model."""
    rule: StepRule
    match training.optimizer:
        case Optimizer.SGD:
            rule = _Sgd(training.lr)
        case Optimizer.MOMENTUM:
            rule = _Momentum(weights, training.lr)
        case Optimizer.ADAM:
            rule = _Adam(weights, training.lr)
        case Optimizer.ADAMW:
            rule = _AdamW(weights, training.lr, training.weight_decay)
    return _Modified(rule, training, start) if _modifies(training) else rule


def _modifies(training: LocalTraining) -> bool:
    return (
        training.ascend
        or training.half_gradients
        or training.proximal > 0
        or training.weight_decay > 0
        or training.gradient_clip is not None
        or training.trainable is not None
    )


class _Modified:
    """A rule whose gradient is changed first: turned, frozen, pulled back, shortened, decayed, rounded."""

    def __init__(self, rule: StepRule, training: LocalTraining, start: Float32Array) -> None:
        self._rule, self._training, self._start = rule, training, start

    def step(self, weights: Float32Array, gradient: Float32Array) -> None:
        training = self._training
        frozen = None if training.trainable is None else ~training.trainable.mask
        if training.ascend:
            np.negative(gradient, out=gradient)
        if training.proximal:
            gradient += np.float32(training.proximal) * (weights - self._start)
        if frozen is not None:
            gradient[:, frozen] = 0
        if training.gradient_clip is not None:
            length = np.linalg.norm(gradient, axis=1, keepdims=True)
            gradient *= np.minimum(1.0, training.gradient_clip / np.maximum(length, 1e-12)).astype(np.float32)
        if training.half_gradients:
            gradient[:] = to_bfloat16(gradient)
        if training.weight_decay and training.optimizer is not Optimizer.ADAMW:
            gradient += np.float32(training.weight_decay) * weights
        self._rule.step(weights, gradient)
        if frozen is not None:  # weight decay and moments must not move them either
            weights[:, frozen] = self._start[frozen]


class _Sgd:
    def __init__(self, lr: float) -> None:
        self._lr = np.float32(lr)

    def step(self, weights: Float32Array, gradient: Float32Array) -> None:
        gradient *= self._lr
        weights -= gradient


class _Momentum:
    def __init__(self, weights: Float32Array, lr: float) -> None:
        self._lr = np.float32(lr)
        self._velocity = np.zeros_like(weights)

    def step(self, weights: Float32Array, gradient: Float32Array) -> None:
        velocity = self._velocity[: len(weights)]
        velocity *= np.float32(MOMENTUM)
        velocity += gradient
        weights -= self._lr * velocity


class _Adam:
    def __init__(self, weights: Float32Array, lr: float) -> None:
        self._lr = lr
        self._mean = np.zeros_like(weights)
        self._square = np.zeros_like(weights)
        self._steps = 0

    def step(self, weights: Float32Array, gradient: Float32Array) -> None:
        active = len(weights)
        mean, square = self._mean[:active], self._square[:active]
        self._steps += 1
        mean *= np.float32(ADAM_MEAN)
        mean += np.float32(1 - ADAM_MEAN) * gradient
        square *= np.float32(ADAM_SQUARE)
        np.multiply(gradient, gradient, out=gradient)
        gradient *= np.float32(1 - ADAM_SQUARE)
        square += gradient
        np.sqrt(square, out=gradient)
        gradient /= np.float32(np.sqrt(1 - ADAM_SQUARE**self._steps))
        gradient += np.float32(ADAM_FLOOR)
        np.divide(mean, gradient, out=gradient)
        gradient *= np.float32(self._lr / (1 - ADAM_MEAN**self._steps))
        weights -= gradient


class _AdamW(_Adam):
    """Adam whose weight decay shrinks the weights directly (Loshchilov and Hutter, ICLR 2019)."""

    def __init__(self, weights: Float32Array, lr: float, weight_decay: float) -> None:
        super().__init__(weights, lr)
        self._kept = np.float32(1 - lr * weight_decay)

    def step(self, weights: Float32Array, gradient: Float32Array) -> None:
        weights *= self._kept
        super().step(weights, gradient)
