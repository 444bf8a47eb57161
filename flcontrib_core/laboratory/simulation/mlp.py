"""Small fully connected networks, trained by many clients at once.

All clients of an epoch advance together: their weights are rows of one matrix, each mini-batch step is a few stacked
matrix products, forward and backward written out by hand. Thousands of simulated federations become affordable, and
each client's numbers are the same as if it had trained alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flcontrib_core.laboratory.simulation.batches import LocalBatches
from flcontrib_core.laboratory.simulation.local_training import LocalTraining, RowPrivacy
from flcontrib_core.laboratory.simulation.optimizers import step_rule
from flcontrib_core.runs.run_log import ParameterSpec
from flcontrib_core.vocabulary import BoolArray, Float32Array, IntArray

TOGETHER = 2**18
"""Weights trained side by side (clients × parameters): about a second-level cache."""


@dataclass(frozen=True)
class Mlp:
    """A fully connected network with ReLU between its layers and cross-entropy on its logits."""

    widths: tuple[int, ...]
    """Input features, hidden units …, classes."""

    @property
    def parameters(self) -> tuple[ParameterSpec, ...]:
        specs: list[ParameterSpec] = []
        for layer, (fan_in, fan_out) in enumerate(zip(self.widths, self.widths[1:], strict=False)):
            specs += [
                ParameterSpec(f"{2 * layer}.weight", (fan_out, fan_in)),
                ParameterSpec(f"{2 * layer}.bias", (fan_out,)),
            ]
        return tuple(specs)

    @property
    def statistics(self) -> BoolArray:
        """(P,) none: every parameter is a weight."""
        return np.zeros(sum(p.count for p in self.parameters), dtype=bool)

    @property
    def spec(self) -> dict[str, Any]:
        """model.json, sequential form."""
        layers: list[dict[str, Any]] = []
        for layer in range(len(self.widths) - 1):
            layers += [{"op": "linear", "weight": f"{2 * layer}.weight", "bias": f"{2 * layer}.bias"}, {"op": "relu"}]
        return {"input": [self.widths[0]], "layers": layers[:-1]}

    def initial(self, rng: np.random.Generator) -> Float32Array:
        """F⁰: every weight and bias uniform within ±1/√fan_in."""
        pieces = []
        for fan_in, fan_out in zip(self.widths, self.widths[1:], strict=False):
            bound = 1.0 / np.sqrt(fan_in)
            pieces.append(rng.uniform(-bound, bound, size=fan_out * fan_in + fan_out))
        return np.concatenate(pieces).astype(np.float32)

    def train(
        self,
        start: Float32Array,
        x: Float32Array,
        batches: Sequence[LocalBatches],
        training: LocalTraining,
        noise: Sequence[np.random.Generator] = (),
    ) -> Float32Array:
        """Δ of every client (clients, P), all starting from ``start``; ``batches[i]`` are client i's steps.

        ``noise[i]`` is where client i's private gradients get theirs from; only DP-SGD needs it.
        """
        updates = np.empty((len(batches), len(start)), dtype=np.float32)
        # The clients with the most steps first, so that those still training are always the first rows.
        order = sorted(range(len(batches)), key=lambda i: -batches[i].steps)
        at_once = max(1, TOGETHER // len(start))
        for first in range(0, len(order), at_once):
            chunk = order[first : first + at_once]
            weights = np.repeat(start[None], len(chunk), axis=0)
            own_noise = [noise[i] for i in chunk] if training.row_privacy else []
            self._train_together(weights, x, [batches[i] for i in chunk], training, start, own_noise)
            updates[chunk] = weights - start
        return updates

    def logits(self, models: Float32Array, x: Float32Array) -> Float32Array:
        """(models, rows, classes) for flat models (models, P)."""
        hidden: Float32Array = x
        layers = self._views(models)
        for depth, (weight, bias) in enumerate(layers):
            hidden = np.matmul(hidden, weight.transpose(0, 2, 1)) + bias[:, None, :]
            if depth < len(layers) - 1:
                np.maximum(hidden, 0, out=hidden)
        return hidden

    def _views(self, flat: Float32Array) -> list[tuple[Float32Array, Float32Array]]:
        """Per layer the weights (clients, out, in) and biases (clients, out) inside the flat rows, without a copy."""
        views, start = [], 0
        for fan_in, fan_out in zip(self.widths, self.widths[1:], strict=False):
            middle, end = start + fan_out * fan_in, start + fan_out * fan_in + fan_out
            views.append((flat[:, start:middle].reshape(len(flat), fan_out, fan_in), flat[:, middle:end]))
            start = end
        return views

    def _train_together(
        self,
        weights: Float32Array,
        x: Float32Array,
        batches: Sequence[LocalBatches],
        training: LocalTraining,
        start: Float32Array,
        noise: Sequence[np.random.Generator],
    ) -> None:
        """Trains the rows of ``weights`` in place."""
        widest = max(b.width for b in batches)
        steps = np.array([b.steps for b in batches])
        gradient = np.empty_like(weights)
        rule, private = step_rule(training, start, weights), training.row_privacy
        for step in range(int(steps.max(initial=0))):
            active = int((steps > step).sum())
            rows = np.zeros((active, widest), dtype=np.int64)
            labels = np.zeros((active, widest), dtype=np.int64)
            share = np.zeros((active, widest), dtype=np.float32)
            for i in range(active):
                own_rows, own_labels = batches[i].step(step)
                rows[i, : len(own_rows)], labels[i, : len(own_rows)] = own_rows, own_labels
                share[i, : len(own_rows)] = 1.0 / len(own_rows)  # rows beyond a short batch weigh nothing
            self._gradient(weights[:active], x[rows], labels, share, gradient[:active], private)
            if private is not None:
                for own, deviates, rng in zip(gradient[:active], share.max(axis=1), noise, strict=False):
                    own += rng.normal(0.0, private.noise * private.clip * deviates, size=len(own)).astype(np.float32)
            rule.step(weights[:active], gradient[:active])

    def _gradient(
        self,
        weights: Float32Array,
        x: Float32Array,
        labels: IntArray,
        share: Float32Array,
        out: Float32Array,
        private: RowPrivacy | None = None,
    ) -> None:
        """The gradient of every client's mean cross-entropy over its batch, written into ``out`` (clients, P)."""
        layers, gradients = self._views(weights), self._views(out)
        inputs = [x]  # per layer: (clients, batch, features)
        for weight, bias in layers[:-1]:
            hidden = np.matmul(inputs[-1], weight.transpose(0, 2, 1))
            hidden += bias[:, None, :]
            inputs.append(np.maximum(hidden, 0, out=hidden))
        weight, bias = layers[-1]
        error = np.matmul(inputs[-1], weight.transpose(0, 2, 1))
        error += bias[:, None, :]
        error -= error.max(axis=2, keepdims=True)
        np.exp(error, out=error)
        error /= error.sum(axis=2, keepdims=True)
        clients, width = labels.shape
        error[np.arange(clients)[:, None], np.arange(width)[None, :], labels] -= 1.0
        if private is not None:
            error *= _shortening(layers, inputs, error, private.clip)[:, :, None]
        error *= share[:, :, None]  # ∂loss/∂logits
        for depth in range(len(layers) - 1, -1, -1):
            to_weight, to_bias = gradients[depth]
            np.matmul(error.transpose(0, 2, 1), inputs[depth], out=to_weight)
            error.sum(axis=1, out=to_bias)
            if depth:
                error = np.matmul(error, layers[depth][0])
                error *= inputs[depth] > 0


def _shortening(
    layers: list[tuple[Float32Array, Float32Array]], inputs: list[Float32Array], error: Float32Array, clip: float
) -> Float32Array:
    """(clients, batch) by which factor each row's gradient has to shrink to be no longer than ``clip``.

    A row's gradient of a linear layer is the outer product of its error and its input, so its length is the product
    of their lengths: no row's gradient has to be formed (Goodfellow, arXiv 1510.01799).
    """
    squared = np.zeros(error.shape[:2], dtype=np.float32)
    for depth in range(len(layers) - 1, -1, -1):
        squared += (error**2).sum(axis=2) * ((inputs[depth] ** 2).sum(axis=2) + 1)
        if depth:
            error = np.matmul(error, layers[depth][0]) * (inputs[depth] > 0)
    return np.minimum(1.0, clip / np.maximum(np.sqrt(squared), 1e-12)).astype(np.float32)
