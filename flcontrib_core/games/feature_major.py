"""The executor of flat networks: a whole chunk of them at the speed of the matrix product.

A hidden state of several models is one tensor (models, features, rows), and a linear layer one batched matrix product
into memory that is kept. Parameters are mixed for a chunk of models; small networks then run the whole chunk at once,
and where one model's state already fills the cache, the models run one after the other.

The first layer is special: its input is the same for every model, and its weights are linear in the coalition's
weights Λ. What it makes of the input is prepared once for the base and each update; a coalition then costs
players × out × rows instead of in × out × rows multiply-adds (``prepare``).
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from flcontrib_core.blas import side_by_side
from flcontrib_core.games.architecture import Architecture
from flcontrib_core.games.devices import free_bytes
from flcontrib_core.games.mixtures import Mixture, ParameterBuffers, ParameterChunk
from flcontrib_core.games.utilities import padded_rows
from flcontrib_core.runs.model_spec import INPUT, Node
from flcontrib_core.runs.operations import OPERATIONS

_MiB = 1 << 20
STATE_BYTES = 2 * _MiB
"""As many models run at once as keep their widest hidden state below this …"""
ALONE_BYTES = _MiB
"""… but one at a time where a single model's widest state reaches this."""
LARGEST_GROUP = 64
MIXED_AT_ONCE = 16
"""Larger models are mixed about this many at a time, because each pass reads all updates …"""
LARGER_MODEL = 1 << 16
"""… from this many parameters on. Smaller ones are mixed as they run: a request rarely fills the last chunk."""
BLOCK_BYTES = 16 * _MiB
"""Validation rows are split into blocks where the widest state would exceed this."""
PARAMETER_BYTES = 256 * _MiB
"""No chunk's parameters take more than this; where eight models' would, models are mixed one at a time."""
PREPARED_BYTES = 128 * _MiB
"""First layers are prepared where neither the products nor their mixtures take more than this."""

_IN_PLACE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "tanh": torch.tanh_,
    "sigmoid": torch.sigmoid_,
}
_RENAMES = frozenset({"flatten", "reshape", "dropout"})
"""Ops that leave flat features as they are."""
_OTHERS = frozenset({"linear", "batch_norm", "layer_norm", "add", "mul", "sub", "cat"})


def is_flat(architecture: Architecture) -> bool:
    """Does every value after the input consist of plain features, and can every op run feature-major?"""
    if architecture.reads_tokens:
        return False
    readers = [node for node in architecture.nodes if INPUT in node.inputs]
    if len(architecture.input_shape) != 1 and any(node.op not in _RENAMES for node in readers):
        return False
    return all(
        (node.op in _RENAMES | _OTHERS or OPERATIONS[node.op].elementwise)
        and len(architecture.shapes[node.name]) == 1
        and architecture.folds[node.name] == 1
        for node in architecture.nodes
    )


def _sizes(state: int, parameter_count: int, free: int | None = None) -> tuple[int, int]:
    """(models mixed at once, models run at once) for a widest state and a model of this size.

    The first is a multiple of the second, and both of eight unless they are 1: every group is full, so that every
    matrix product has the same shape.
    """
    fitting = (PARAMETER_BYTES if free is None else free // 4) // (4 * parameter_count) // 8 * 8
    if fitting == 0:
        return 1, 1
    if free is not None:  # no cache to stay in: as many side by side as the device's memory takes
        together = min(LARGEST_GROUP, max(1, free // 8 // state) // 8 * 8 or 1, fitting)
        return together, together
    together = min(LARGEST_GROUP, max(8, STATE_BYTES // state // 16 * 16), fitting)
    if state >= ALONE_BYTES:
        together = 1
    mixed = MIXED_AT_ONCE if parameter_count >= LARGER_MODEL else 8
    return together * max(1, min(mixed, fitting) // together), together


class FeatureMajorExecutor:
    """Runs chunks of flat networks; not for use by two threads at once (its buffers are its own)."""

    def __init__(self, architecture: Architecture, x: Tensor) -> None:
        self.architecture = architecture
        self.rows = len(x)
        self._shape = {p.name: p.shape for p in architecture.parameters}
        exact = all(OPERATIONS[node.op].exact for node in architecture.nodes)
        columns = self.rows if exact else padded_rows(self.rows)
        state = 4 * columns * max(architecture.shapes[node.name][0] for node in architecture.nodes)
        free = free_bytes(x.device)
        self.chunk, self.together = _sizes(state, max(1, architecture.parameter_count), free)
        blocks = math.ceil(self.together * state / (BLOCK_BYTES if free is None else max(1, free // 8)))
        self.block_rows = columns if blocks == 1 else padded_rows(math.ceil(columns / blocks))
        features = F.pad(x.reshape(self.rows, -1).T, (0, columns - self.rows))  # (features, columns)
        self._x = [features[:, a : a + self.block_rows].contiguous() for a in range(0, columns, self.block_rows)]
        self._parameters = ParameterBuffers(self.chunk, x.device)
        self._buffers: dict[str, Tensor] = {}
        # Renaming ops disappear: their readers read the value behind them.
        self._behind = {INPUT: INPUT}
        self._nodes: list[Node] = []
        for node in architecture.nodes:
            inputs = tuple(self._behind[source] for source in node.inputs)
            self._behind[node.name] = inputs[0] if node.op in _RENAMES else node.name
            if node.op not in _RENAMES:
                self._nodes.append(Node(node.name, node.op, inputs, node.fields))
        self._reads = Counter(source for node in self._nodes for source in node.inputs)

    def logits(self, models: ParameterChunk, count: int) -> Tensor:
        out = torch.zeros(self.chunk, self.architecture.classes, padded_rows(self.rows), device=self._x[0].device)
        self._parameters.take(models)
        for block, x in enumerate(self._x):
            columns = slice(block * self.block_rows, block * self.block_rows + x.shape[1])
            prepared = self._first_layers(models, block)
            for start in range(0, count, self.together):
                group = slice(start, start + self.together)
                out[group, :, columns] = self._run(group, x, prepared)
        return out[:count]

    def twin(self) -> FeatureMajorExecutor:
        twin = copy.copy(self)
        twin._parameters, twin._buffers = ParameterBuffers(self.chunk, self._x[0].device), {}
        return twin

    def prepare(self, mixture: Mixture) -> None:
        for node in self._prepared(mixture.players):
            out = self._shape[node.fields["weight"]][0]
            for block, x in enumerate(self._x):
                of_updates = torch.empty(mixture.players, out * x.shape[1], device=x.device)

                def fill(player: int, node: Node = node, x: Tensor = x, into: Tensor = of_updates) -> None:
                    with torch.inference_mode():
                        into[player] = self._first_layer(node, mixture.updates[player], x)

                side_by_side(fill, range(mixture.players))
                mixture.products[node.name, block] = self._first_layer(node, mixture.base, x), of_updates

    def multiply_adds(self, players: int) -> float:
        forward = self.architecture.multiply_adds(self.rows)
        mixed = self.architecture.parameter_count
        for node in self._prepared(players):
            out, width = self._shape[node.fields["weight"]]
            forward += float(out) * self.rows * (players - width)
            mixed -= out * width
        return forward + float(mixed) * players

    def recipe(self) -> dict[str, Any]:
        return {
            "executor": "feature-major",
            "chunk": self.chunk,
            "together": self.together,
            "block_rows": self.block_rows,
        }

    def _prepared(self, players: int) -> list[Node]:
        """First layers for which mixing outputs is cheaper than mixing weights and fits in memory, by shape alone."""
        nodes: list[Node] = []
        for node in self._nodes:
            if node.op == "linear" and node.inputs[0] == INPUT:
                out, width = self._shape[node.fields["weight"]]
                kept, mixed = (players + 1) * self.rows, self.chunk * self.block_rows
                if 0 < players < width and 4 * out * max(kept, mixed) <= PREPARED_BYTES:
                    nodes.append(node)
        return nodes

    def _first_layer(self, node: Node, vector: Tensor, x: Tensor) -> Tensor:
        """(out · rows,) the layer's output for one parameter vector (or update)."""
        weight = node.fields["weight"]
        product = vector[self.architecture.spans[weight]].view(self._shape[weight]) @ x
        if node.fields["bias"] is not None:
            product += vector[self.architecture.spans[node.fields["bias"]]][:, None]
        return product.reshape(-1)

    def _first_layers(self, models: ParameterChunk, block: int) -> dict[str, Tensor]:
        """node -> (chunk, out, rows) of the first layers whose outputs are mixed instead of their weights."""
        layers: dict[str, Tensor] = {}
        rows = self._x[block].shape[1]
        for node in self._nodes:
            if models.has_first_layer(node.name, block):
                out = self._shape[node.fields["weight"]][0]
                result = self._buffer(f"{node.name} mixed", self.chunk, out, rows)
                models.form_first_layer(node.name, block, result.view(self.chunk, -1))
                layers[node.name] = result
        return layers

    def _run(self, group: slice, x: Tensor, prepared: dict[str, Tensor]) -> Tensor:
        """(together, classes, rows) logits of some models of the chunk for one block of rows."""
        values = {INPUT: x}
        for node in self._nodes:
            inputs = [values[source] for source in node.inputs]
            if node.name in prepared:
                values[node.name] = prepared[node.name][group]
            elif node.op == "linear":
                values[node.name] = self._linear(node, inputs[0], group)
            else:
                values[node.name] = self._other(node, inputs, group)
        return values[self._behind[self.architecture.nodes[-1].name]]

    def _linear(self, node: Node, h: Tensor, group: slice) -> Tensor:
        """(in, rows) shared or (together, in, rows) -> (together, out, rows)."""
        out, width = self._shape[node.fields["weight"]]
        rows = h.shape[-1]
        result = self._buffer(node.name, self.together, out, rows)
        weight = self._parameters.of(self.architecture.spans[node.fields["weight"]])[group]  # (together, out·in)
        bias = self._vectors(node, "bias", group)
        if h.ndim == 2:
            torch.mm(weight.view(-1, width), h, out=result.view(-1, rows))
            return result if bias is None else result.add_(bias)
        weight = weight.view(-1, out, width)
        if bias is None:
            return torch.bmm(weight, h, out=result)
        if self.together == 1:
            torch.addmm(bias[0], weight[0], h[0], out=result[0])
            return result
        return torch.baddbmm(bias, weight, h, out=result)

    def _other(self, node: Node, inputs: list[Tensor], group: slice) -> Tensor:
        h = inputs[0]
        if OPERATIONS[node.op].elementwise or node.op in ("add", "mul", "sub"):
            # The shared input (two dimensions) and values with another reader must survive.
            may_overwrite = h.ndim == 3 and self._reads[node.inputs[0]] == 1 and node.op in _IN_PLACE
            result: Tensor = (
                _IN_PLACE[node.op](h) if may_overwrite else OPERATIONS[node.op].run(torch, inputs, node.fields)
            )
            return result
        if node.op == "cat":
            return torch.cat([h.expand(self.together, -1, -1) for h in inputs], dim=1)
        weight, bias = self._vectors(node, "weight", group), self._vectors(node, "bias", group)
        if node.op == "batch_norm":
            mean, variance = self._vectors(node, "mean", group), self._vectors(node, "var", group)
        else:
            mean, variance = h.mean(-2, keepdim=True), h.var(-2, correction=0, keepdim=True)
        assert mean is not None
        assert variance is not None
        scale = torch.rsqrt(variance + node.fields["eps"])
        scale = scale if weight is None else scale * weight
        shifted = (h - mean) * scale
        return shifted if bias is None else shifted.add_(bias)

    def _vectors(self, node: Node, field: str, group: slice) -> Tensor | None:
        """(together, features, 1) of an optional parameter with one number per feature."""
        name = node.fields[field]
        return None if name is None else self._parameters.of(self.architecture.spans[name])[group, :, None]

    def _buffer(self, name: str, models: int, width: int, rows: int) -> Tensor:
        """(models, width, rows) in memory that is kept for the next block and chunk."""
        if name not in self._buffers:
            self._buffers[name] = torch.empty(models * width * self.block_rows, device=self._x[0].device)
        return self._buffers[name][: models * width * rows].view(models, width, rows)
