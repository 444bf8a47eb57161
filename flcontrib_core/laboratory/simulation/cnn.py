"""The paper's convolutional network, trained by many clients.

Depth 3: three blocks of 3×3 convolution, BatchNorm, ReLU and 2×2 max-pooling, then one linear layer. The server
averages BatchNorm's running means and variances like every other parameter, so they are part of each update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation.batches import LocalBatches
from flcontrib_core.laboratory.simulation.kinds import Optimizer
from flcontrib_core.laboratory.simulation.local_training import LocalTraining
from flcontrib_core.laboratory.simulation.optimizers import MOMENTUM
from flcontrib_core.laboratory.simulation.precision import to_bfloat16
from flcontrib_core.runs.encoding import split_flat
from flcontrib_core.runs.run_log import ParameterSpec
from flcontrib_core.vocabulary import BoolArray, Float32Array

if TYPE_CHECKING:
    import torch

DEPTH = 3
LAYERS_PER_BLOCK = 4
EVALUATED_AT_ONCE = 125
"""Validation images per forward pass: larger batches fall out of the cache."""


@dataclass(frozen=True)
class Cnn:
    """The convolutional network for images of (channels, height, width)."""

    image: tuple[int, int, int]
    width: int
    classes: int

    @property
    def flat_features(self) -> int:
        _, height, width = self.image
        return self.width * (height >> DEPTH) * (width >> DEPTH)

    @property
    def parameters(self) -> tuple[ParameterSpec, ...]:
        specs: list[ParameterSpec] = []
        channels = self.image[0]
        for block in range(DEPTH):
            conv, norm = LAYERS_PER_BLOCK * block, LAYERS_PER_BLOCK * block + 1
            specs += [
                ParameterSpec(f"{conv}.weight", (self.width, channels, 3, 3)),
                ParameterSpec(f"{conv}.bias", (self.width,)),
                *(ParameterSpec(f"{norm}.{part}", (self.width,)) for part in ("weight", "bias", *_STATISTICS)),
            ]
            channels = self.width
        head = LAYERS_PER_BLOCK * DEPTH + 1
        specs += [
            ParameterSpec(f"{head}.weight", (self.classes, self.flat_features)),
            ParameterSpec(f"{head}.bias", (self.classes,)),
        ]
        return tuple(specs)

    @property
    def statistics(self) -> BoolArray:
        """(P,) BatchNorm's running means and variances."""
        return np.concatenate([np.full(p.count, p.name.rpartition(".")[2] in _STATISTICS) for p in self.parameters])

    @property
    def spec(self) -> dict[str, Any]:
        """model.json, sequential form."""
        layers: list[dict[str, Any]] = []
        for block in range(DEPTH):
            conv, norm = LAYERS_PER_BLOCK * block, LAYERS_PER_BLOCK * block + 1
            layers += [
                {"op": "conv2d", "weight": f"{conv}.weight", "bias": f"{conv}.bias", "padding": 1},
                {
                    "op": "batch_norm",
                    "mean": f"{norm}.running_mean",
                    "var": f"{norm}.running_var",
                    "weight": f"{norm}.weight",
                    "bias": f"{norm}.bias",
                },
                {"op": "relu"},
                {"op": "max_pool2d", "kernel": 2},
            ]
        head = LAYERS_PER_BLOCK * DEPTH + 1
        layers += [{"op": "flatten"}, {"op": "linear", "weight": f"{head}.weight", "bias": f"{head}.bias"}]
        return {"input": list(self.image), "layers": layers}

    def initial(self, rng: np.random.Generator) -> Float32Array:
        """F⁰: weights and biases uniform within ±1/√fan_in; BatchNorm starts as the identity."""
        pieces = []
        fan_in = 1
        for spec in self.parameters:
            part = spec.name.rpartition(".")[2]
            if len(spec.shape) > 1:
                fan_in = int(np.prod(spec.shape[1:]))
            if part in _STATISTICS or self._is_norm(spec):
                pieces.append(np.full(spec.count, 1.0 if part in ("weight", "running_var") else 0.0))
            else:
                pieces.append(rng.uniform(-1 / np.sqrt(fan_in), 1 / np.sqrt(fan_in), size=spec.count))
        return np.concatenate(pieces).astype(np.float32)

    def _is_norm(self, spec: ParameterSpec) -> bool:
        position = int(spec.name.partition(".")[0])
        return position < LAYERS_PER_BLOCK * DEPTH and position % LAYERS_PER_BLOCK == 1

    def train(
        self,
        start: Float32Array,
        x: Float32Array,
        batches: Sequence[LocalBatches],
        training: LocalTraining,
        noise: Sequence[np.random.Generator] = (),
    ) -> Float32Array:
        """Δ of every client (clients, P), all starting from ``start``; one client after the other."""
        import torch

        if training.row_privacy is not None:
            raise SettingsError("DP-SGD with the cnn: BatchNorm mixes the rows of a batch; choose the mlp")
        updates = np.empty((len(batches), len(start)), dtype=np.float32)
        network = self._network()
        for client, own in enumerate(batches):
            self._load(network, start)
            network.train()
            rule = _torch_rule(training, network)
            for step in range(own.steps):
                rows, labels = own.step(step)
                if len(rows) < 2:
                    continue  # BatchNorm has no deviation of a single row
                rule.zero_grad(set_to_none=True)
                logits = network(self._images(x[rows]))
                torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels)).backward()  # type: ignore[no-untyped-call]
                self._modify_gradients(network, training, start)
                rule.step()
            after = self._flat(network)
            if training.trainable is not None:
                after = np.where(training.trainable.mask, after, start)
            updates[client] = after - start
        return updates

    def _modify_gradients(self, network: torch.nn.Sequential, training: LocalTraining, start: Float32Array) -> None:
        """Turned, pulled back, frozen, shortened, rounded, in the order of the fully connected network's rules."""
        import torch

        if training.trainable is None and not (
            training.ascend or training.half_gradients or training.proximal or training.gradient_clip
        ):
            return
        origin = split_flat(start, self.parameters)
        mask = None
        if training.trainable is not None:
            mask = split_flat(training.trainable.mask.astype(np.float32), self.parameters)
        weights = dict(network.named_parameters())
        for name, weight in weights.items():
            gradient = weight.grad
            assert gradient is not None
            if training.ascend:
                gradient.neg_()
            if training.proximal:
                gradient.add_(training.proximal * (weight.detach() - torch.from_numpy(origin[name].copy())))
            if mask is not None:
                gradient.mul_(torch.from_numpy(mask[name]))
        if training.gradient_clip is not None:
            torch.nn.utils.clip_grad_norm_(list(weights.values()), training.gradient_clip)
        if training.half_gradients:
            for weight in weights.values():
                assert weight.grad is not None
                weight.grad.copy_(torch.from_numpy(to_bfloat16(weight.grad.contiguous().numpy())))

    def logits(self, models: Float32Array, x: Float32Array) -> Float32Array:
        """(models, rows, classes) for flat models (models, P), BatchNorm in evaluation mode."""
        import torch

        network = self._network()
        network.eval()
        out = np.empty((len(models), len(x), self.classes), dtype=np.float32)
        with torch.no_grad():
            for position, model in enumerate(models):
                self._load(network, model)
                for first in range(0, len(x), EVALUATED_AT_ONCE):
                    rows = slice(first, first + EVALUATED_AT_ONCE)
                    out[position, rows] = network(self._images(x[rows])).numpy()
        return out

    def _network(self) -> torch.nn.Sequential:
        import torch

        layers: list[torch.nn.Module] = []
        channels = self.image[0]
        for _ in range(DEPTH):
            layers += [
                torch.nn.Conv2d(channels, self.width, 3, padding=1),
                torch.nn.BatchNorm2d(self.width),
                torch.nn.ReLU(),
                torch.nn.MaxPool2d(2),
            ]
            channels = self.width
        network = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(self.flat_features, self.classes))
        return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def _images(self, rows: Float32Array) -> torch.Tensor:
        import torch

        images = torch.from_numpy(np.ascontiguousarray(rows)).reshape(len(rows), *self.image)
        return images.contiguous(memory_format=torch.channels_last)

    def _load(self, network: torch.nn.Sequential, flat: Float32Array) -> None:
        import torch

        state = network.state_dict()
        with torch.no_grad():
            for name, tensor in split_flat(flat, self.parameters).items():
                state[name].copy_(torch.from_numpy(np.ascontiguousarray(tensor)))

    def _flat(self, network: torch.nn.Sequential) -> Float32Array:
        state = network.state_dict()
        return np.concatenate([state[p.name].detach().numpy().reshape(-1) for p in self.parameters])


_STATISTICS = ("running_mean", "running_var")


def _torch_rule(training: LocalTraining, network: torch.nn.Sequential) -> torch.optim.Optimizer:
    import torch

    weights, decay = network.parameters(), training.weight_decay
    if training.optimizer is Optimizer.ADAM:
        return torch.optim.Adam(weights, lr=training.lr, weight_decay=decay)
    if training.optimizer is Optimizer.ADAMW:
        return torch.optim.AdamW(weights, lr=training.lr, weight_decay=decay)
    momentum = MOMENTUM if training.optimizer is Optimizer.MOMENTUM else 0.0
    return torch.optim.SGD(weights, lr=training.lr, momentum=momentum, weight_decay=decay)
