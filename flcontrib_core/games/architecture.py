"""A declared architecture, run with its parameters as one flat vector.

``Architecture`` is the executable reading of model.json: both written forms, torch semantics, nothing resolved by
name outside the closed list of ``runs.operations``. It runs one model at a time and is the plain reference; the fast
ways to run many models of the same architecture live in ``executors``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from flcontrib_core.errors import RunLogError
from flcontrib_core.games.mixtures import as_tensor, on_boundary
from flcontrib_core.runs.model_spec import (
    Node,
    check_model_spec,
    follow_shapes,
    normalise_spec,
    numbers_at_once,
    reads_tokens,
    work_per_row,
)
from flcontrib_core.runs.operations.record import Parameters
from flcontrib_core.runs.operations.running import bind_fields, run_nodes
from flcontrib_core.runs.run_log import FrozenPart, ParameterSpec


@dataclass(frozen=True)
class Architecture:
    """A model's operations in running order, and where each parameter lies in the flat vector."""

    nodes: tuple[Node, ...]
    parameters: tuple[ParameterSpec, ...]
    input_shape: tuple[int, ...]
    shapes: Mapping[str, tuple[int, ...]]
    """Shape of one row at the input and after each node."""
    spans: Mapping[str, slice]
    """Where each parameter lies in the flat vector."""
    folds: Mapping[str, int]
    """Rows that each input row became, where windows are folded into the batch."""
    multiply_adds_per_row: int
    numbers_per_row: int
    """Written on the way for one input row."""
    numbers_at_once: int
    """Held at a time for one input row."""
    frozen: Mapping[str, Tensor] = field(default_factory=dict)
    """What the model has beside the flat vector."""
    frozen_digest: str | None = None

    @classmethod
    def from_spec(
        cls,
        spec: Mapping[str, Any],
        parameters: Sequence[ParameterSpec],
        classes: int | None,
        frozen: FrozenPart | None = None,
    ) -> Architecture:
        """Reads model.json against the manifest's parameters. Raises ``RunLogError`` where they do not fit.

        ``classes`` None leaves the shape of the output open. ``frozen``: the part that is not in the flat vector.
        """
        specs = (*parameters, *(frozen.parameters if frozen else ()))
        problems = check_model_spec(spec, specs, classes, None)
        if problems:
            raise RunLogError(tuple(problems))
        nodes = tuple(normalise_spec(spec))
        spans: dict[str, slice] = {}
        position = 0
        for parameter in parameters:
            spans[parameter.name] = slice(position, position + parameter.count)
            position += parameter.count
        input_shape = tuple(spec["input"])
        values = follow_shapes(nodes, input_shape, specs, [])
        shapes = {name: value.shape for name, value in values.items()}
        folds = {name: max(1, value.fold) for name, value in values.items()}
        work = work_per_row(nodes, values, Parameters(specs))
        held = numbers_at_once(nodes, values)
        given = {name: as_tensor(array) for name, array in (frozen.given or {}).items()} if frozen else {}
        digest = frozen.given_sha256 if frozen else None
        return cls(nodes, tuple(parameters), input_shape, shapes, spans, folds, *work, held, given, digest)

    def on(self, device: str) -> Architecture:
        """The same with its frozen part on a device."""
        return replace(self, frozen={name: tensor.to(device) for name, tensor in self.frozen.items()})

    @property
    def output_shape(self) -> tuple[int, ...]:
        """What one row becomes: (classes,) for logits, (classes, height, width) for a class per pixel."""
        return self.shapes[self.nodes[-1].name]

    @property
    def classes(self) -> int:
        """Numbers that come out for one row."""
        return math.prod(self.output_shape)

    @property
    def parameter_count(self) -> int:
        """P, the length of the flat vector."""
        return sum(p.count for p in self.parameters)

    @property
    def reads_tokens(self) -> bool:
        """Is the input made of integers (an embedding comes first)?"""
        return reads_tokens(list(self.nodes))

    def shape_of(self, parameter: str) -> tuple[int, ...]:
        """The shape of a parameter by its name."""
        return next(p.shape for p in self.parameters if p.name == parameter)

    def forward(self, vector: Tensor, x: Tensor) -> Tensor:
        """(P,) and (rows, …) -> logits (rows, classes): the same torch calls, in the same order, as the module."""
        return self.bind(vector)(x)

    def bind(self, vector: Tensor, memory_format: torch.memory_format | None = None) -> Callable[[Tensor], Tensor]:
        """The model with these parameters, as a function of a batch. Convolution weights take ``memory_format``."""
        shape_of = {p.name: p.shape for p in self.parameters}

        def tensor_of(name: str) -> Tensor:
            tensor = self.frozen[name] if name in self.frozen else vector[self.spans[name]].view(shape_of[name])
            if memory_format is None or tensor.ndim != 4:
                return on_boundary(tensor)
            return tensor.contiguous(memory_format=memory_format)

        fields = [bind_fields(node, tensor_of, vector.device) for node in self.nodes]
        return lambda x: run_nodes(torch, self.nodes, fields, x)

    def multiply_adds(self, rows: int) -> float:
        """Multiply-adds of one forward pass over ``rows`` rows."""
        return float(self.multiply_adds_per_row) * rows
