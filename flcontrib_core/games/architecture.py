"""How is a declared architecture run, given its parameters as one flat vector?

``Architecture`` is the executable reading of model.json: both written forms, torch semantics, nothing resolved by
name outside the closed list of ``runs.operations``. It runs one model at a time and is the plain reference; the fast
ways to run many models of the same architecture live in ``executors``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs.model_spec import Node, check_model_spec, follow_shapes, normalise_spec, reads_tokens
from flcontrib_core.runs.operations import OPERATIONS
from flcontrib_core.runs.operations.record import Parameters, Site
from flcontrib_core.runs.operations.running import bind_fields, run_nodes
from flcontrib_core.runs.run_log import ParameterSpec


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

    @classmethod
    def from_spec(
        cls, spec: Mapping[str, Any], parameters: Sequence[ParameterSpec], classes: int | None
    ) -> Architecture:
        """Reads model.json against the manifest's parameters. Raises ``RunLogError`` where they do not fit.

        ``classes`` None leaves the shape of the output open.
        """
        problems = check_model_spec(spec, parameters, classes, None)
        if problems:
            raise RunLogError(tuple(problems))
        nodes = tuple(normalise_spec(spec))
        spans: dict[str, slice] = {}
        position = 0
        for parameter in parameters:
            spans[parameter.name] = slice(position, position + parameter.count)
            position += parameter.count
        input_shape = tuple(spec["input"])
        values = follow_shapes(nodes, input_shape, parameters, [])
        shapes = {name: value.shape for name, value in values.items()}
        folds = {name: max(1, value.fold) for name, value in values.items()}
        return cls(nodes, tuple(parameters), input_shape, shapes, spans, folds)

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
            tensor = vector[self.spans[name]].view(shape_of[name])
            if memory_format is None or tensor.ndim != 4:
                return tensor
            return tensor.contiguous(memory_format=memory_format)

        fields = [bind_fields(node, tensor_of, vector.device) for node in self.nodes]
        return lambda x: run_nodes(torch, self.nodes, fields, x)

    def multiply_adds(self, rows: int) -> float:
        """Multiply-adds of one forward pass over ``rows`` rows."""
        parameters = Parameters(self.parameters)
        total = 0
        for node in self.nodes:
            site = Site(node, [self.shapes[source] for source in node.inputs], parameters)
            total += OPERATIONS[node.op].cost(site, self.shapes[node.name]) * self.folds[node.name]
        return float(total) * rows
