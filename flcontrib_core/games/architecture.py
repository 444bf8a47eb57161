"""How is a declared architecture run, given its parameters as one flat vector?

``Architecture`` is the executable reading of model.json: both written forms, torch semantics, nothing resolved by
name outside the closed table of ``operations``. It runs one model at a time and is the plain reference; the fast
ways to run many models of the same architecture live in ``executors``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flcontrib_core.errors import RunLogError
from flcontrib_core.games.operations import PARAMETER_FIELDS, Fields, multiply_adds_per_row, run_node
from flcontrib_core.runs.model_spec import INPUT, Node, check_model_spec, normalise_spec, reads_tokens
from flcontrib_core.runs.run_log import ParameterSpec


@dataclass(frozen=True)
class Architecture:
    """A model's operations in running order, and where each parameter lies in the flat vector."""

    nodes: tuple[Node, ...]
    parameters: tuple[ParameterSpec, ...]
    input_shape: tuple[int, ...]
    classes: int
    shapes: Mapping[str, tuple[int, ...]]
    """Shape of one row at the input and after each node."""
    spans: Mapping[str, slice]
    """Where each parameter lies in the flat vector."""

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], parameters: Sequence[ParameterSpec], classes: int) -> Architecture:
        """Reads model.json against the manifest's parameters. Raises ``RunLogError`` where they do not fit."""
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
        unshaped = cls(nodes, tuple(parameters), input_shape, classes, {}, spans)
        return cls(nodes, tuple(parameters), input_shape, classes, unshaped._infer_shapes(), spans)

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
        fields: list[Fields] = []
        shape_of = {p.name: p.shape for p in self.parameters}
        for node in self.nodes:
            bound = dict(node.fields)
            for field in PARAMETER_FIELDS:
                name = bound.get(field)
                if name is not None:
                    tensor = vector[self.spans[name]].view(shape_of[name])
                    if memory_format is not None and tensor.ndim == 4:
                        tensor = tensor.contiguous(memory_format=memory_format)
                    bound[field] = tensor
            fields.append(bound)
        return lambda x: self._run(fields, x)

    def multiply_adds(self, rows: int) -> float:
        """Multiply-adds of one forward pass over ``rows`` rows."""
        total = 0
        for node in self.nodes:
            weight = node.fields.get("weight")
            total += multiply_adds_per_row(node, self.shapes[node.name], self.shape_of(weight) if weight else None)
        return float(total) * rows

    def last_readers(self) -> dict[str, int]:
        """The position of the last node that reads each value, after which it may be dropped."""
        return {source: position for position, node in enumerate(self.nodes) for source in node.inputs}

    def _run(self, fields: list[Fields], x: Tensor) -> Tensor:
        values = {INPUT: x}
        last = self.last_readers()
        for position, (node, bound) in enumerate(zip(self.nodes, fields, strict=True)):
            values[node.name] = run_node(node, [values[source] for source in node.inputs], bound)
            for source in set(node.inputs):
                if last[source] == position:
                    del values[source]
        return values[self.nodes[-1].name]

    def _infer_shapes(self) -> dict[str, tuple[int, ...]]:
        """Runs every node on tensors without storage, with the very operations that will run the model."""
        dtype = torch.int64 if self.reads_tokens else torch.float32
        values = {INPUT: torch.empty(2, *self.input_shape, dtype=dtype, device="meta")}
        for node in self.nodes:
            fields = dict(node.fields)
            for field in PARAMETER_FIELDS:
                if fields.get(field) is not None:
                    fields[field] = torch.empty(self.shape_of(fields[field]), device="meta")
            values[node.name] = run_node(node, [values[source] for source in node.inputs], fields)
        return {name: tuple(value.shape[1:]) for name, value in values.items()}
