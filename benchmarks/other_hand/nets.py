"""What is trained? Models over one flat vector: written out in numpy, or torch modules whose tensors view it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from benchmarks.other_hand.pools import Array, Rng

Declared = dict[str, Any]


class Net(Protocol):
    """A classifier over a flat vector; ``trainable`` marks weights (BatchNorm's running moments are not)."""

    parameters: list[tuple[str, tuple[int, ...]]]
    declared: Declared
    trainable: Array

    def initial(self, rng: Rng) -> Array:
        """Random weights to begin with."""

    def gradient(self, flat: Array, x: Array, y: Array) -> Array:
        """Of the mean cross-entropy; running moments inside ``flat`` move along."""

    def logits(self, flat: Array, x: Array) -> Array:
        """What the model says, in evaluation mode."""


def size_of(parameters: list[tuple[str, tuple[int, ...]]]) -> int:
    """How many numbers there are in all."""
    return sum(int(np.prod(shape)) for _, shape in parameters)


def soft(logits: Array) -> Array:
    """Probabilities of the classes."""
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


class NumpyNet:
    """Softmax regression, or layers of ReLU or tanh units, with the gradient written out."""

    def __init__(self, sizes: list[int], activation: str) -> None:
        self.activation, self.layers = activation, list(zip(sizes[1:], sizes[:-1], strict=True))
        self.parameters: list[tuple[str, tuple[int, ...]]] = []
        ops: list[Declared] = []
        for number, shape in enumerate(self.layers):
            self.parameters += [(f"layer{number}.weight", shape), (f"layer{number}.bias", shape[:1])]
            ops.append({"op": "linear", "weight": f"layer{number}.weight", "bias": f"layer{number}.bias"})
            ops.append({"op": activation})
        self.declared = {"input": [sizes[0]], "layers": ops[:-1]}
        self.trainable = np.ones(size_of(self.parameters), dtype=bool)

    def initial(self, rng: Rng) -> Array:
        parts = [
            rng.normal(0, np.sqrt(1.5 / shape[-1]) if len(shape) > 1 else 0.0, shape) for _, shape in self.parameters
        ]
        return np.concatenate([part.ravel() for part in parts]).astype("float32")

    def _walk(self, flat: Array, x: Array) -> tuple[list[Array], list[Array]]:
        weights, inputs, at = [], [x.reshape(len(x), -1)], 0
        for number, (out, into) in enumerate(self.layers):
            weight, bias = flat[at : at + out * into].reshape(out, into), flat[at + out * into : at + out * into + out]
            at += out * into + out
            z = inputs[-1] @ weight.T + bias
            last = number == len(self.layers) - 1
            inputs.append(z if last else np.tanh(z) if self.activation == "tanh" else np.maximum(z, 0))
            weights.append(weight)
        return weights, inputs

    def gradient(self, flat: Array, x: Array, y: Array) -> Array:
        weights, inputs = self._walk(flat, x)
        back = soft(inputs[-1])
        back[np.arange(len(y)), y] -= 1
        back /= len(y)
        parts: list[Array] = []
        for number in range(len(weights) - 1, -1, -1):
            parts = [(back.T @ inputs[number]).ravel(), back.sum(axis=0), *parts]
            if number:
                a = inputs[number]
                back = (back @ weights[number]) * ((1 - a * a) if self.activation == "tanh" else (a > 0))
        return np.concatenate(parts)

    def logits(self, flat: Array, x: Array) -> Array:
        return self._walk(flat, x)[1][-1]


class TorchNet:
    """A torch module; its tensors are views of one working vector, so that a step is a step of that vector."""

    def __init__(self, module: nn.Sequential, input_shape: tuple[int, ...]) -> None:
        self.module, self.input_shape = module, input_shape
        kept = {n: t for n, t in module.state_dict().items() if not n.endswith("num_batches_tracked")}
        self.parameters = [(name, tuple(tensor.shape)) for name, tensor in kept.items()]
        self._work, self._slope = torch.zeros(size_of(self.parameters)), torch.zeros(size_of(self.parameters))
        weights, at, trainable = dict(module.named_parameters()), 0, []
        for name, tensor in kept.items():
            here = slice(at, at + tensor.numel())
            at += tensor.numel()
            self._work[here] = tensor.reshape(-1)
            view = self._work[here].view(tensor.shape)
            trainable.append(np.full(tensor.numel(), name in weights))
            if name in weights:
                weights[name].data, weights[name].grad = view, self._slope[here].view(tensor.shape)
            else:
                owner, _, leaf = name.rpartition(".")
                module.get_submodule(owner)._buffers[leaf] = view
        self.trainable = np.concatenate(trainable)
        self._start = self._work.numpy().copy()
        self.declared = {"input": list(input_shape), "layers": [_declare(n, m) for n, m in module.named_children()]}

    def initial(self, rng: Rng) -> Array:
        return self._start.copy()

    def _load(self, flat: Array, x: Array) -> torch.Tensor:
        self._work.copy_(torch.from_numpy(flat))
        return torch.from_numpy(np.ascontiguousarray(x)).reshape(-1, *self.input_shape)

    def gradient(self, flat: Array, x: Array, y: Array) -> Array:
        rows = self._load(flat, x)
        self.module.train()
        self._slope.zero_()
        nn.functional.cross_entropy(self.module(rows), torch.from_numpy(y)).backward()
        flat[~self.trainable] = self._work.numpy()[~self.trainable]
        return self._slope.numpy().copy()

    def logits(self, flat: Array, x: Array) -> Array:
        rows = self._load(flat, x)
        self.module.eval()
        with torch.no_grad():
            return self.module(rows).numpy()


def _declare(name: str, part: nn.Module) -> Declared:
    """One layer as model.json names it."""
    tensors = {"weight": f"{name}.weight", "bias": f"{name}.bias"}
    if isinstance(part, nn.Linear):
        return {"op": "linear", **tensors}
    if isinstance(part, nn.Conv2d):
        return {"op": "conv2d", **tensors, "padding": 1}
    if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
        return {"op": "batch_norm", **tensors, "mean": f"{name}.running_mean", "var": f"{name}.running_var"}
    if isinstance(part, nn.LayerNorm):
        return {"op": "layer_norm", "shape": list(part.normalized_shape), **tensors}
    if isinstance(part, nn.MaxPool2d):
        return {"op": "max_pool2d", "kernel": 2}
    return {"op": {nn.ReLU: "relu", nn.GELU: "gelu", nn.Flatten: "flatten"}[type(part)]}


def _convolutional(shape: tuple[int, ...], width: int, classes: int, norm: bool) -> nn.Sequential:
    channels, high, wide = shape
    layers: list[nn.Module] = []
    for into, out in ((channels, width), (width, 2 * width)):
        layers += [
            nn.Conv2d(into, out, 3, padding=1),
            *([nn.BatchNorm2d(out)] if norm else []),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2 * width * (high // 4) * (wide // 4), classes))


NETS = ("softmax", "mlp", "deep-mlp", "mlp-norm", "mlp-layer-norm", "cnn", "cnn-norm")


def make_net(kind: str, shape: tuple[int, ...], width: int, classes: int, rng: Rng) -> Net:
    """``width``: hidden units, or the channels of the first convolution."""
    inputs = int(np.prod(shape))
    if kind in ("softmax", "mlp", "deep-mlp"):
        hidden = {"softmax": [], "mlp": [width], "deep-mlp": [width, max(8, width // 2)]}[kind]
        return NumpyNet([inputs, *hidden, classes], "tanh" if rng.random() < 0.3 else "relu")
    torch.manual_seed(int(rng.integers(2**31)))
    if kind in ("cnn", "cnn-norm"):
        return TorchNet(_convolutional(shape, width, classes, kind == "cnn-norm"), shape)
    norm: nn.Module = nn.BatchNorm1d(width) if kind == "mlp-norm" else nn.LayerNorm(width)
    unit: nn.Module = nn.ReLU() if kind == "mlp-norm" else nn.GELU()
    return TorchNet(nn.Sequential(nn.Linear(inputs, width), norm, unit, nn.Linear(width, classes)), (inputs,))
