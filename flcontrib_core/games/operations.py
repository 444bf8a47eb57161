"""What does each operation of model.json do to a batch? (torch semantics, evaluation mode)

The table is closed: an operation that is not here cannot run, whatever a file says. Parameter fields arrive as
tensors under the field's name, other fields as checked by ``runs.model_nodes``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from flcontrib_core.runs.model_spec import Node

PARAMETER_FIELDS = ("weight", "bias", "mean", "var")
"""Fields that hold the name of a manifest parameter."""

Fields = dict[str, Any]


def _conv2d(x: Tensor, f: Fields) -> Tensor:
    return F.conv2d(x, f["weight"], f["bias"], f["stride"], f["padding"], f["dilation"], f["groups"])


def _batch_norm(x: Tensor, f: Fields) -> Tensor:
    return F.batch_norm(x, f["mean"], f["var"], f["weight"], f["bias"], training=False, eps=f["eps"])


_ONE_INPUT: dict[str, Callable[[Tensor, Fields], Tensor]] = {
    "linear": lambda x, f: F.linear(x, f["weight"], f["bias"]),
    "conv2d": _conv2d,
    "batch_norm": _batch_norm,
    "layer_norm": lambda x, f: F.layer_norm(x, f["shape"], f["weight"], f["bias"], f["eps"]),
    "group_norm": lambda x, f: F.group_norm(x, f["groups"], f["weight"], f["bias"], f["eps"]),
    "relu": lambda x, f: F.relu(x),
    "gelu": lambda x, f: F.gelu(x),
    "tanh": lambda x, f: torch.tanh(x),
    "sigmoid": lambda x, f: torch.sigmoid(x),
    "silu": lambda x, f: F.silu(x),
    "leaky_relu": lambda x, f: F.leaky_relu(x, f["slope"]),
    "flatten": lambda x, f: torch.flatten(x, 1),
    "dropout": lambda x, f: x,
    "max_pool2d": lambda x, f: F.max_pool2d(x, f["kernel"], f["stride"], f["padding"]),
    "avg_pool2d": lambda x, f: F.avg_pool2d(x, f["kernel"], f["stride"], f["padding"]),
    "adaptive_avg_pool2d": lambda x, f: F.adaptive_avg_pool2d(x, f["size"]),
    "embedding": lambda x, f: F.embedding(x, f["weight"]),
    "reshape": lambda x, f: x.reshape(len(x), *f["shape"]),
}
_TWO_INPUTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"add": torch.add, "mul": torch.mul}


def run_node(node: Node, inputs: Sequence[Tensor], fields: Fields) -> Tensor:
    """The node's output for a batch; the first dimension of every input is the batch."""
    if node.op in _TWO_INPUTS:
        return _TWO_INPUTS[node.op](inputs[0], inputs[1])
    if node.op == "cat":
        return torch.cat(tuple(inputs), dim=fields["dim"])
    return _ONE_INPUT[node.op](inputs[0], fields)


def multiply_adds_per_row(node: Node, output_shape: tuple[int, ...], weight_shape: tuple[int, ...] | None) -> int:
    """How many multiply-adds does the node spend on one row? Elementwise work counts one per output."""
    outputs = 1
    for extent in output_shape:
        outputs *= extent
    if node.op == "linear" and weight_shape is not None:
        return outputs * weight_shape[1]
    if node.op == "conv2d" and weight_shape is not None:
        return outputs * weight_shape[1] * weight_shape[2] * weight_shape[3]
    if node.op in ("max_pool2d", "avg_pool2d"):
        return outputs * int(node.fields["kernel"][0]) * int(node.fields["kernel"][1])
    if node.op in ("flatten", "reshape", "dropout"):
        return 0
    return outputs
