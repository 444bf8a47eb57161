"""Small torch modules beside their declared architectures: what the evaluator must agree with."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flcontrib_core.games.architecture import Architecture
from flcontrib_core.runs.run_log import Validation
from flcontrib_core.runs.trace import parameters_of

Spec = dict[str, Any]


def mlp(*sizes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width, out in pairwise(sizes):
        layers += [nn.Linear(width, out), activation()]
    return nn.Sequential(*layers[:-1])


def mlp_spec(*sizes: int, op: str = "relu") -> Spec:
    layers: list[Spec] = []
    for number in range(len(sizes) - 1):
        layers += [{"op": "linear", "weight": f"{2 * number}.weight", "bias": f"{2 * number}.bias"}, {"op": op}]
    return {"input": [sizes[0]], "layers": layers[:-1]}


def architecture_of(module: nn.Module, spec: Spec, classes: int) -> Architecture:
    return Architecture.from_spec(spec, parameters_of(module), classes)


def flat_vector(module: nn.Module) -> Tensor:
    return torch.cat([t.reshape(-1) for t in module.state_dict().values() if t.is_floating_point()]).clone()


def load_vector(module: nn.Module, vector: np.ndarray) -> nn.Module:
    """The naive way: a state dict from the vector, loaded into the module."""
    state = module.state_dict()
    position = 0
    for name, tensor in state.items():
        if tensor.is_floating_point():
            values = vector[position : position + tensor.numel()]
            state[name] = torch.from_numpy(np.array(values)).reshape(tensor.shape)
            position += tensor.numel()
    module.load_state_dict(state)
    return module.eval()


def jittered(module: nn.Module, models: int, rng: np.random.Generator, scale: float = 0.1) -> np.ndarray:
    """(models, P) parameter vectors around the module's; variances of BatchNorm stay positive."""
    start = flat_vector(module).numpy()
    vectors = start + scale * rng.standard_normal((models, len(start))).astype(np.float32)
    position = 0
    for name, tensor in module.state_dict().items():
        if tensor.is_floating_point():
            if name.endswith("running_var"):
                span = slice(position, position + tensor.numel())
                vectors[:, span] = 0.5 + np.abs(vectors[:, span])
            position += tensor.numel()
    return vectors


def random_validation(
    shape: tuple[int, ...], classes: int, rows: int, rng: np.random.Generator, groups: bool = False
) -> Validation:
    x = rng.standard_normal((rows, *shape), dtype=np.float32)
    y = rng.integers(0, max(classes, 2), rows)
    return Validation(x, y, rng.integers(0, 3, rows) if groups else None)
