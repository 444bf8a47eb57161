"""Runs the nodes of a model on a batch. Torch is handed in; nothing here imports it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flcontrib_core.runs.operations import INPUT, OPERATIONS, Node
from flcontrib_core.runs.operations.record import Fields


def bind_fields(node: Node, tensor_of: Callable[[str], Any], device: Any) -> Fields:
    """The node's fields with tensors in place of the names of parameters."""
    bound = {**node.fields, "device": device}
    for field in OPERATIONS[node.op].parameter_fields():
        given = bound[field]
        if isinstance(given, tuple):
            bound[field] = [tensor_of(name) for name in given]
        elif given is not None:
            bound[field] = tensor_of(given)
    return bound


def run_nodes(torch: Any, nodes: Sequence[Node], fields: Sequence[Fields], x: Any) -> Any:
    """What the last node gives; a value is let go after its last reader."""
    values = {INPUT: x}
    last = {source: position for position, node in enumerate(nodes) for source in node.inputs}
    for position, (node, bound) in enumerate(zip(nodes, fields, strict=True)):
        values[node.name] = OPERATIONS[node.op].run(torch, [values[source] for source in node.inputs], bound)
        for source in set(node.inputs):
            if last[source] == position:
                del values[source]
    return values[nodes[-1].name]
