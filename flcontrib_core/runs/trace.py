"""How does a live torch module become a declared architecture?

``trace_module`` records the module's operations with torch.fx and writes each as one of model.json's. The list of
operations is closed on both sides: what has no place in model.json is refused here, with the list of what has, and
nothing in the result is ever looked up by name when it is read. A traced architecture gives the module's logits to
the bit.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp
from torch.nn import functional as F

from flcontrib_core.errors import SettingsError
from flcontrib_core.runs.model_spec import INPUT, KNOWN_OPS
from flcontrib_core.runs.run_log import ParameterSpec
from flcontrib_core.vocabulary import Float32Array

_ROWS = 3
"""Rows sent through the module to learn its shapes: more than one, so that a folded batch dimension shows."""


def parameters_of(module: nn.Module) -> list[ParameterSpec]:
    """Names and shapes of the flat vector: every floating entry of the state dict, in its order.

    BatchNorm's running means and variances are among them (the server averages them like weights); its counter of
    batches is an integer and is not.
    """
    return [
        ParameterSpec(name, tuple(tensor.shape))
        for name, tensor in module.state_dict().items()
        if tensor.is_floating_point()
    ]


def flat_parameters(module: nn.Module) -> Float32Array:
    """(P,) the module's parameters as one float32 vector in the order of ``parameters_of``."""
    state = module.state_dict()
    parts = [state[spec.name].detach().cpu().float().reshape(-1) for spec in parameters_of(module)]
    return torch.cat(parts).numpy() if parts else torch.empty(0).numpy()


def trace_module(module: nn.Module, example_input: Tensor) -> dict[str, Any]:
    """model.json's graph form of this module, from one example batch (rows, …).

    Raises ``SettingsError`` naming the layer where the module does something that model.json has no operation for.

    >>> trace_module(nn.Sequential(nn.Linear(3, 2)), torch.zeros(1, 3))["nodes"]
    [{'name': 'n1', 'op': 'linear', 'inputs': ['input'], 'weight': '0.weight', 'bias': '0.bias'}]
    """
    model = _Root(copy.deepcopy(module)).eval()
    try:
        traced = fx.symbolic_trace(model)
    except (fx.proxy.TraceError, TypeError) as cause:
        raise SettingsError(
            f"the module cannot be traced ({cause}); its forward pass must not depend on the data. {_REMEDY}"
        ) from None
    rows = example_input[:1].repeat(_ROWS, *([1] * (example_input.ndim - 1)))
    with torch.inference_mode():
        ShapeProp(traced).propagate(rows)
    writer = _Writer(model)
    for node in traced.graph.nodes:
        writer.write(node)
    return {"input": list(example_input.shape[1:]), "nodes": writer.nodes, "output": writer.output}


class _Root(nn.Module):
    """Holds the module, so that one which is a single layer is traced as a layer too."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Any:
        return self.module(x)


_REMEDY = f"model.json knows {', '.join(KNOWN_OPS)}; or leave model.json out and pass the module itself beside the log"

Settings = Mapping[str, Any]
Fields = dict[str, Any]
Writing = tuple[str, tuple[str, ...], Callable[[Settings], Fields]]
"""op, names of its settings in positional order (after the input), and how they become fields."""


def _plain(settings: Settings) -> Fields:
    return {}


def _require(settings: Settings, **wanted: Any) -> None:
    for name, value in wanted.items():
        if name in settings and settings[name] != value:
            raise _Unwritable(f"with {name}={settings[name]!r} (only {value!r} can be written)")


class _Unwritable(ValueError):
    """A layer's settings have no place in model.json."""


def _pair(value: Any) -> list[int]:
    values = list(value) if isinstance(value, tuple | list) else [value, value]
    if not all(isinstance(v, int) for v in values):
        raise _Unwritable(f"with sizes {value!r} (only integers can be written)")
    return values * 2 if len(values) == 1 else values


def _gelu(settings: Settings) -> Fields:
    _require(settings, approximate="none")
    return {}


def _leaky_relu(settings: Settings) -> Fields:
    return {"slope": float(settings.get("negative_slope", 0.01))}


def _flatten(settings: Settings) -> Fields:
    if settings.get("start_dim", 0) != 1 or settings.get("end_dim", -1) != -1:
        raise _Unwritable("of other dimensions than 1 to the last")
    return {}


def _pool(settings: Settings) -> Fields:
    _require(settings, dilation=1, ceil_mode=False, return_indices=False)
    _require(settings, count_include_pad=True, divisor_override=None)
    kernel = settings["kernel_size"]
    stride = settings.get("stride")
    return {
        "kernel": _pair(kernel),
        "stride": _pair(kernel if stride is None or stride == () else stride),
        "padding": _pair(settings.get("padding", 0)),
    }


def _adaptive_pool(settings: Settings) -> Fields:
    return {"size": _pair(settings["output_size"])}


def _mean_of_pixels(settings: Settings) -> Fields:
    dim = settings.get("dim")
    if not isinstance(dim, tuple | list) or {d % 4 for d in dim} != {2, 3} or settings.get("dtype") is not None:
        raise _Unwritable("over other dimensions than height and width")
    return {"size": [1, 1]}


_POOL_SETTINGS = ("kernel_size", "stride", "padding")
_MAX_POOL: Writing = ("max_pool2d", (*_POOL_SETTINGS, "dilation", "ceil_mode", "return_indices"), _pool)
_AVG_POOL: Writing = ("avg_pool2d", (*_POOL_SETTINGS, "ceil_mode", "count_include_pad", "divisor_override"), _pool)
_ADAPTIVE_POOL: Writing = ("adaptive_avg_pool2d", ("output_size",), _adaptive_pool)
_RELU: Writing = ("relu", (), _plain)
_GELU: Writing = ("gelu", ("approximate",), _gelu)
_TANH: Writing = ("tanh", (), _plain)
_SIGMOID: Writing = ("sigmoid", (), _plain)
_SILU: Writing = ("silu", (), _plain)
_LEAKY_RELU: Writing = ("leaky_relu", ("negative_slope",), _leaky_relu)
_FLATTEN: Writing = ("flatten", ("start_dim", "end_dim"), _flatten)
_DROPOUT: Writing = ("dropout", (), _plain)
_MEAN: Writing = ("adaptive_avg_pool2d", ("dim", "keepdim", "dtype"), _mean_of_pixels)

_MODULES: dict[type[nn.Module], Writing] = {
    nn.ReLU: _RELU,
    nn.GELU: _GELU,
    nn.Tanh: _TANH,
    nn.Sigmoid: _SIGMOID,
    nn.SiLU: _SILU,
    nn.LeakyReLU: _LEAKY_RELU,
    nn.Flatten: _FLATTEN,
    nn.Dropout: _DROPOUT,
    nn.Dropout1d: _DROPOUT,
    nn.Dropout2d: _DROPOUT,
    nn.MaxPool2d: _MAX_POOL,
    nn.AvgPool2d: _AVG_POOL,
    nn.AdaptiveAvgPool2d: _ADAPTIVE_POOL,
}
_FUNCTIONS: dict[Any, Writing] = {
    F.relu: _RELU,
    torch.relu: _RELU,
    F.gelu: _GELU,
    F.tanh: _TANH,
    torch.tanh: _TANH,
    F.sigmoid: _SIGMOID,
    torch.sigmoid: _SIGMOID,
    F.silu: _SILU,
    F.leaky_relu: _LEAKY_RELU,
    torch.flatten: _FLATTEN,
    F.dropout: _DROPOUT,
    F.dropout2d: _DROPOUT,
    F.max_pool2d: _MAX_POOL,
    F.avg_pool2d: _AVG_POOL,
    F.adaptive_avg_pool2d: _ADAPTIVE_POOL,
    torch.mean: _MEAN,
}
_METHODS: dict[str, Writing] = {
    "relu": _RELU,
    "relu_": _RELU,
    "tanh": _TANH,
    "sigmoid": _SIGMOID,
    "flatten": _FLATTEN,
    "mean": _MEAN,
}
_TWO_INPUTS: dict[Any, str] = {
    operator.add: "add",
    operator.iadd: "add",
    torch.add: "add",
    "add": "add",
    "add_": "add",
    operator.mul: "mul",
    operator.imul: "mul",
    torch.mul: "mul",
    "mul": "mul",
    "mul_": "mul",
}
_RESHAPES = frozenset({"view", "reshape", torch.reshape})
_SHAPE_ONLY = frozenset({"size", "dim", getattr, operator.getitem, operator.floordiv})
"""Arithmetic on shapes: its results are constants by the time a reshape is written."""


def _with_parameters(path: str, layer: nn.Module) -> tuple[str, Fields] | None:
    """op and fields of a layer that holds parameters; None if it is not one of them. ``path`` ends with a dot."""
    if isinstance(layer, nn.Conv2d):
        if layer.padding_mode != "zeros":
            raise _Unwritable(f"with padding_mode={layer.padding_mode!r} (only 'zeros' can be written)")
        op, fields = (
            "conv2d",
            {
                "stride": _pair(layer.stride),
                "padding": _conv_padding(layer),
                "dilation": _pair(layer.dilation),
                "groups": layer.groups,
            },
        )
    elif isinstance(layer, nn.Linear):
        op, fields = "linear", {}
    elif isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
        if layer.running_mean is None:
            raise _Unwritable("without running statistics")
        op, fields = "batch_norm", {"mean": f"{path}running_mean", "var": f"{path}running_var", "eps": layer.eps}
    elif isinstance(layer, nn.LayerNorm):
        op, fields = "layer_norm", {"shape": list(layer.normalized_shape), "eps": layer.eps}
    elif isinstance(layer, nn.GroupNorm):
        op, fields = "group_norm", {"groups": layer.num_groups, "eps": layer.eps}
    elif isinstance(layer, nn.Embedding):
        if layer.max_norm is not None:
            raise _Unwritable("with max_norm (it changes its weights while it reads them)")
        op, fields = "embedding", {}
    else:
        return None
    for name in ("weight", "bias"):
        if getattr(layer, name, None) is not None:
            fields[name] = f"{path}{name}"
    return op, fields


def _conv_padding(layer: nn.Conv2d) -> list[int]:
    if layer.padding == "valid":
        return [0, 0]
    if layer.padding == "same":
        reach = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        if any(r % 2 for r in reach):
            raise _Unwritable("with padding='same' and an even kernel (it pads one side more)")
        return [r // 2 for r in reach]
    return _pair(layer.padding)


def _path(node: fx.Node) -> str:
    """The layer's prefix in the module's state dict: 'blocks.0.' or, for the module itself, ''."""
    return f"{node.target}.".removeprefix("module.")


class _Writer:
    """Turns the traced nodes, in order, into model.json's."""

    def __init__(self, model: nn.Module) -> None:
        self._layers = dict(model.named_modules())
        self._names: dict[fx.Node, str] = {}
        """What each traced value is called in the result; values that are only renamed share a name."""
        self.nodes: list[dict[str, Any]] = []
        self.output = ""

    def write(self, node: fx.Node) -> None:
        try:
            if node.op == "placeholder":
                if INPUT in self._names.values():
                    raise _Unwritable("of a second input")
                self._names[node] = INPUT
            elif node.op == "output":
                self._finish(node)
            elif node.op == "call_module":
                self._write_layer(node)
            else:
                self._write_call(node)
        except _Unwritable as reason:
            raise SettingsError(f"{self._where(node)} {reason}: no such operation in model.json. {_REMEDY}") from None

    def _write_layer(self, node: fx.Node) -> None:
        layer = self._layers[str(node.target)]
        path = _path(node)
        if isinstance(layer, nn.Identity):
            self._names[node] = self._input(node)
            return
        held = _with_parameters(path, layer)
        if held is not None:
            self._add(node, held[0], [self._input(node)], held[1])
            return
        writing = next((w for kind, w in _MODULES.items() if type(layer) is kind), None)
        if writing is None:
            raise _Unwritable("cannot be written")
        op, names, fields_of = writing
        self._add(node, op, [self._input(node)], fields_of({n: getattr(layer, n) for n in names}))

    def _write_call(self, node: fx.Node) -> None:
        target: Any = node.target
        if target in _SHAPE_ONLY and not isinstance(node.meta.get("tensor_meta"), tuple):
            return
        if target in _TWO_INPUTS:
            if len(node.args) != 2 or node.kwargs or not all(isinstance(a, fx.Node) for a in node.args):
                raise _Unwritable("with a constant")
            self._add(node, _TWO_INPUTS[target], [self._input(node, 0), self._input(node, 1)], {})
        elif target is torch.cat:
            values = node.args[0] if node.args else node.kwargs["tensors"]
            dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
            if not isinstance(values, list | tuple):
                raise _Unwritable("of something else than a list of values")
            self._add(node, "cat", [self._name_of(value) for value in values], {"dim": dim})
        elif target in _RESHAPES:
            self._add(node, "reshape", [self._input(node)], {"shape": list(self._row_shape(node))})
        else:
            table: Mapping[Any, Writing] = _METHODS if node.op == "call_method" else _FUNCTIONS
            if node.op == "get_attr" or target not in table:
                raise _Unwritable("cannot be written")
            self._write_known(node, table[target])

    def _write_known(self, node: fx.Node, writing: Writing) -> None:
        op, names, fields_of = writing
        settings = dict(zip(names, node.args[1:], strict=False)) | {k: v for k, v in node.kwargs.items() if k in names}
        self._add(node, op, [self._input(node)], fields_of(settings))
        if writing is _MEAN and not settings.get("keepdim", False):
            self._add(node, "flatten", [self._names[node]], {})

    def _add(self, node: fx.Node, op: str, inputs: list[str], fields: Fields) -> None:
        self._row_shape(node)
        self._names[node] = f"n{len(self.nodes) + 1}"
        self.nodes.append({"name": self._names[node], "op": op, "inputs": inputs, **fields})

    def _finish(self, node: fx.Node) -> None:
        result = node.args[0]
        if not isinstance(result, fx.Node) or not self.nodes:
            raise _Unwritable("of something else than one tensor of logits")
        self.output = self._name_of(result)

    def _input(self, node: fx.Node, position: int = 0) -> str:
        return self._name_of(node.args[position] if len(node.args) > position else node.kwargs.get("input"))

    def _name_of(self, value: Any) -> str:
        if not isinstance(value, fx.Node) or value not in self._names:
            raise _Unwritable(f"of {value!r}, which is no value of the model")
        return self._names[value]

    def _row_shape(self, node: fx.Node) -> tuple[int, ...]:
        meta = node.meta.get("tensor_meta")
        shape = tuple(getattr(meta, "shape", ()))
        if len(shape) < 2 or shape[0] != _ROWS:
            raise _Unwritable(f"giving {list(shape)} for {_ROWS} rows")
        return shape[1:]

    def _where(self, node: fx.Node) -> str:
        if node.op == "call_module":
            return f"layer {_path(node).rstrip('.')!r} ({type(self._layers[str(node.target)]).__name__})"
        called = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", node.target)
        return f"{called} (traced as {node.name!r})"
