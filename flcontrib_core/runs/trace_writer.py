"""Writes a traced module down as model.json's operations, node by node.

Layers and functions with one input are looked up in the records of ``runs.operations``. What is left here are calls
that read several values or give several: arithmetic, indexing, recurrent layers, attention.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from flcontrib_core.errors import SettingsError
from flcontrib_core.runs.operations import INPUT, OPERATIONS
from flcontrib_core.runs.operations.record import MAX_CONSTANTS, Fields, Operation, Shape, Traced, Unwritable
from flcontrib_core.runs.trace_recording import asks_for_shape
from flcontrib_core.runs.trace_values import OF_THE_MODEL, Fixed, FreeParameter, Moved, Written, is_several

REMEDY = (
    f"docs/run-log.md lists the {len(OPERATIONS)} operations that model.json knows. Or leave the model out of the log "
    "and give the module at audit time: fl.audit(run, evaluator=fl.ModuleEvaluator(net, loader))"
)


Known = tuple[Operation, Traced]
_FILLED = frozenset({torch.zeros_like, torch.ones_like, torch.full_like, "new_zeros", "new_ones", "new_full"})
"""Calls that ask a value for its shape and fill another one."""
_TWO_OPERANDS = frozenset({"add", "sub", "mul", "div", "maximum", "minimum", "matmul"})


def _resolve(full_name: str) -> Any:
    module, _, name = full_name.rpartition(".")
    return getattr(importlib.import_module(module), name, None)


def _tables() -> tuple[dict[Any, Known], dict[Any, Known], dict[str, Known]]:
    layers: dict[Any, Known] = {}
    functions: dict[Any, Known] = {}
    methods: dict[str, Known] = {}
    for operation in OPERATIONS.values():
        for traced in operation.traced:
            known = (operation, traced)
            layers |= {getattr(nn, name): known for name in traced.layers if hasattr(nn, name)}
            functions |= {f: known for name in traced.functions if (f := _resolve(name)) is not None}
            methods |= dict.fromkeys(traced.methods, known)
    return layers, functions, methods


_LAYERS, _FUNCTIONS, _METHODS = _tables()


@dataclass(frozen=True)
class _Call:
    """One layer or function, as its record's ``write`` sees it."""

    settings: Mapping[str, Any]
    shape: Shape
    result: Shape
    rows: int
    shared: bool

    def axis(self, dim: int) -> int:
        position = dim % len(self.shape)
        if not self.shared and position == 0:
            raise Unwritable("over the batch dimension")
        return position + 1 if self.shared else position

    def row_shape(self) -> list[int]:
        return list(self.result if self.shared else self.result[1:])

    def fold(self) -> int:
        return 1 if self.shared else self.result[0] // self.rows


class TraceWriter:
    """Turns the traced nodes, in order, into model.json's."""

    def __init__(
        self,
        root: nn.Module,
        results: Mapping[fx.Node, Any],
        rows: int,
        calls: Mapping[Any, Callable[[TraceWriter, fx.Node], Any]],
        layers: Mapping[type[nn.Module], Callable[[TraceWriter, fx.Node, Any, str], Any]],
    ) -> None:
        """``calls`` and ``layers`` write what the records cannot; a layer's also get it and its path."""
        self._layers = dict(root.named_modules())
        self._parameters = {name for name, t in root.state_dict().items() if t.is_floating_point()}
        self.results = results
        self.rows = rows
        self.values: dict[fx.Node, Any] = {}
        """What each traced node is here: a value, several of them, or something that is no tensor."""
        self.nodes: list[dict[str, Any]] = []
        self.output = ""
        self._calls, self._layer_calls = calls, layers

    def write(self, node: fx.Node) -> None:
        """One traced node; raises ``SettingsError`` with its name where it cannot be written."""
        try:
            if node.op == "placeholder":
                if any(isinstance(v, Written) and v.name == INPUT for v in self.values.values()):
                    raise Unwritable("of a second input")
                self.values[node] = Written(INPUT, self.shape_of(node))
            elif node.op == "output":
                self._finish(node)
            else:
                self.values[node] = self._value_of(node)
        except Unwritable as reason:
            raise SettingsError(f"{self._where(node)} {reason}: no such operation in model.json. {REMEDY}") from None

    def _value_of(self, node: fx.Node) -> Any:
        result = self.results[node]
        if node.op == "get_attr":
            name = str(node.target).removeprefix("module.")
            if f"module.{name}" in self._parameters:
                return FreeParameter(name, tuple(result.shape) or (1,))
            return Fixed(result) if isinstance(result, Tensor) else result
        if node.op == "call_module":
            return self._layer(node)
        operands = [self.values[n] for n in node.all_input_nodes]
        if not any(isinstance(v, OF_THE_MODEL) or is_several(v) for v in operands):
            return Fixed(result) if isinstance(result, Tensor) else result
        if asks_for_shape(node):
            return result
        if node.target in _FILLED:
            return Fixed(result)
        if not isinstance(result, Tensor | tuple | list) and not any(is_several(v) for v in operands):
            raise Unwritable("of a number that depends on the data")
        special = self._calls.get(node.target)
        return self._known(node) if special is None else special(self, node)

    def _layer(self, node: fx.Node) -> Any:
        layer = self._layers[str(node.target)]
        path = f"{node.target}.".removeprefix("module.")
        if type(layer) in self._layer_calls:
            return self._layer_calls[type(layer)](self, node, layer, path)
        return self.layer_node(self.operand(node, 0), layer, path, self.shape_of(node))

    def layer_node(self, value: Written, layer: nn.Module, path: str, result: Shape) -> Written:
        """A layer that its record can write."""
        if type(layer) not in _LAYERS:
            raise Unwritable("cannot be written")
        operation, traced = _LAYERS[type(layer)]
        settings = {name: getattr(layer, name) for name in traced.settings if hasattr(layer, name)}
        call = _Call(settings, value.shape, result, self.rows, value.shared)
        held = {
            ours: f"{path}{theirs}"
            for ours, theirs in traced.parameters.items()
            if getattr(layer, theirs, None) is not None
        }
        return self.add(operation.name, [value], {**traced.write(call), **held}, result)

    def _known(self, node: fx.Node) -> Any:
        table: Mapping[Any, Known] = _METHODS if node.op == "call_method" else _FUNCTIONS
        if node.target not in table:
            raise Unwritable("cannot be written")
        operation, traced = table[node.target]
        if operation.name in _TWO_OPERANDS:
            return self._two_operands(node, operation.name)
        value = self.operand(node, 0)
        given = dict(zip(traced.settings, node.args[1:], strict=False))
        given |= {k: v for k, v in node.kwargs.items() if k in traced.settings}
        held: Fields = {}
        for ours, theirs in traced.parameters.items():
            parameter = given.pop(theirs, None)
            if isinstance(parameter, fx.Node):
                weight = self.values[parameter]
                if not isinstance(weight, FreeParameter):
                    raise Unwritable(f"with a {theirs} that is no parameter of the module")
                held[ours] = weight.name
        settings = {name: self.plain(argument) for name, argument in given.items()}
        result = self.shape_of(node)
        call = _Call(settings, value.shape, result, self.rows, value.shared)
        return self.add(operation.name, [value], {**traced.write(call), **held}, result)

    def _two_operands(self, node: fx.Node, op: str) -> Written:
        given = [*node.args, *(node.kwargs[k] for k in ("other", "mat2") if k in node.kwargs)]
        if len(given) != 2 or set(node.kwargs) - {"other", "mat2"}:
            raise Unwritable("with other settings than two values")
        sides: list[Any] = [self.values[a] if isinstance(a, fx.Node) else a for a in given]
        plain = [side for side in sides if isinstance(side, int | float)]
        result = self.shape_of(node)
        if plain:
            value = self.written(next(side for side in sides if not isinstance(side, int | float)))
            fields: Fields = {"value": float(plain[0])}
            if isinstance(sides[0], int | float) and op in ("sub", "div"):
                fields["reverse"] = True
            return self.add(op, [value], fields, result)
        if op == "matmul" and isinstance(sides[0], Written) and not sides[0].shared and len(sides[1].shape) == 2:
            return self.add(op, [sides[0], self.written(sides[1])], {}, result)  # one matrix for all rows
        return self.add(op, self.aligned(sides, len(result)), {}, result)

    def add(self, op: str, inputs: Sequence[Written], fields: Fields, result: Shape) -> Written:
        """One more node, whose result has this shape in the module."""
        shared = bool(inputs) and all(value.shared for value in inputs)
        if not shared and (len(result) < 2 or result[0] % self.rows):
            raise Unwritable(f"giving {list(result)} for {self.rows} rows")
        return self.node(op, [value.name for value in inputs], fields, result, shared)

    def node(self, op: str, inputs: list[str], fields: Fields, result: Shape, shared: bool) -> Written:
        """One more node, unchecked."""
        name = f"n{len(self.nodes) + 1}"
        self.nodes.append({"name": name, "op": op, "inputs": inputs, **fields})
        return Written(name, result, shared)

    def written(self, value: Any, row: Shape | None = None) -> Written:
        """The value as a node; ``row`` is the shape a shared one is wanted in."""
        if isinstance(value, Written):
            if row is not None and value.shared and value.shape != row:
                return self.node("reshape", [value.name], {"shape": list(row)}, row, True)
            return value
        if isinstance(value, FreeParameter):
            shape = value.shape if row is None else row
            return self.node("parameter", [], {"weight": value.name, "shape": list(shape)}, shape, True)
        if isinstance(value, Fixed):
            return self._constant(value.tensor, (value.shape or (1,)) if row is None else row)
        if isinstance(value, Moved):
            raise Unwritable("of values without the batch in front (use batch_first=True, or turn them back before)")
        raise Unwritable(f"of {value!r}, which is no value of the model")

    def _constant(self, tensor: Tensor, shape: Shape) -> Written:
        if tensor.numel() > MAX_CONSTANTS:
            raise Unwritable(f"of {tensor.numel()} constant numbers (register them as a buffer)")
        values = [
            v if abs(v) != float("inf") else ("inf" if v > 0 else "-inf") for v in tensor.float().flatten().tolist()
        ]
        return self.node("constant", [], {"values": values, "shape": list(shape)}, shape, True)

    def aligned(self, values: Sequence[Any], rank: int) -> list[Written]:
        """Values of one rank: what all rows share loses its batch dimension of 1, or gains dimensions of 1."""
        if all(not isinstance(v, Written) or v.shared for v in values):
            return [self.written(v, (1,) * (rank - len(v.shape)) + tuple(v.shape)) for v in values]
        aligned = []
        for value in values:
            row = None
            if isinstance(value, Moved):
                value = self.written(value)
            if not isinstance(value, Written) or value.shared:
                value = self._once(value, rank)
                shape: Shape = tuple(getattr(value, "shape", ()))
                if len(shape) == rank and shape[0] != 1:
                    raise Unwritable("with one value for each row of the batch")
                row = shape[1:] if len(shape) == rank else (1,) * (rank - 1 - len(shape)) + shape
            aligned.append(self.written(value, row))
        return aligned

    def _once(self, value: Any, rank: int) -> Any:
        """Fixed numbers that were made for every row of the batch, and are the same for all: one row of them."""
        if isinstance(value, Fixed) and len(value.shape) == rank and value.shape[0] == self.rows:
            row = value.tensor[:1]
            return Fixed(row) if torch.equal(row.expand_as(value.tensor), value.tensor) else value
        return value

    def operand(self, node: fx.Node, position: int = 0) -> Written:
        """The value that stands at this position of the call."""
        given = node.args[position] if len(node.args) > position else node.kwargs.get("input", node.kwargs.get("src"))
        return self.written(self.values[given] if isinstance(given, fx.Node) else given)

    def plain(self, argument: Any) -> Any:
        """The argument with the numbers that traced nodes stand for."""

        def look_up(node: fx.Node) -> Any:
            value = self.values[node]
            if isinstance(value, OF_THE_MODEL | Fixed) or is_several(value):
                raise Unwritable("with a setting that is a tensor")
            return value

        return fx.node.map_arg(argument, look_up)

    def shape_of(self, node: fx.Node) -> Shape:
        """The shape that the module's own run gave here."""
        result = self.results[node]
        if not isinstance(result, Tensor):
            raise Unwritable("giving something else than one tensor")
        return tuple(result.shape)

    def _finish(self, node: fx.Node) -> None:
        value = self.values.get(node.args[0]) if isinstance(node.args[0], fx.Node) else None
        if not isinstance(value, Written) or not self.nodes:
            raise Unwritable("of something else than one tensor of logits")
        if value.shared or len(value.shape) < 2 or value.shape[0] != self.rows:
            raise Unwritable(f"giving {list(value.shape)} for {self.rows} rows")
        self.output = value.name

    def _where(self, node: fx.Node) -> str:
        if node.op == "call_module":
            path = str(node.target).removeprefix("module").removeprefix(".")
            return f"layer {path!r} ({type(self._layers[str(node.target)]).__name__})"
        called = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", node.target)
        return f"{called} (traced as {node.name!r})"
