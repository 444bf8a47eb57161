"""Does this architecture fit these parameters, before a byte of memory is taken for it?

Shapes are followed through the model as pure integers: every name must be a parameter of the manifest, every
operation must accept what reaches it, and the last one must give one logit per class. Sizes are capped on the way,
so that running the model later cannot ask for more than the caps allow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flcontrib_core.errors import Problem
from flcontrib_core.runs.limits import MAX_PARAMETERS
from flcontrib_core.runs.model_nodes import (
    INPUT,
    KNOWN_OPS,
    Node,
    input_shape,
    normalise_spec,
    output_name,
    parse_spec,
    reads_tokens,
)
from flcontrib_core.runs.problems import problem, shown
from flcontrib_core.runs.run_log import ParameterSpec

__all__ = ["INPUT", "KNOWN_OPS", "Node", "check_model_spec", "normalise_spec", "output_name", "reads_tokens"]

MAX_ACTIVATION = 1 << 24
"""Numbers that one input row may become anywhere inside the model."""

Shape = tuple[int, ...]
"""Without the batch dimension."""


class _DoesNotFit(ValueError):
    def __init__(self, found: str, expected: str, code: str = "E_MODEL_SHAPE") -> None:
        super().__init__(found)
        self.found, self.expected, self.code = found, expected, code


class _Parameters:
    """The manifest's shapes by name."""

    def __init__(self, parameters: Sequence[ParameterSpec]) -> None:
        self._shapes = {spec.name: spec.shape for spec in parameters}

    def of_rank(self, name: str, rank: int, what: str) -> Shape:
        shape = self._shapes.get(name)
        if shape is None:
            raise _DoesNotFit(f"{what} {shown(name)}", "a name from manifest.parameters", "E_MODEL_NAME")
        if len(shape) != rank:
            raise _DoesNotFit(f"{what} {shown(name)} of shape {list(shape)}", f"{rank} dimensions")
        return shape

    def expect(self, node: Node, field: str, shape: Shape) -> None:
        """An (optional) parameter field must have exactly this shape."""
        name = node.fields[field]
        if name is None:
            return
        actual = self.of_rank(name, len(shape), field)
        if actual != shape:
            raise _DoesNotFit(f"{field} {shown(name)} of shape {list(actual)}", f"shape {list(shape)}")


def check_model_spec(
    spec: Mapping[str, Any],
    parameters: Sequence[ParameterSpec],
    classes: int | None,
    validation_shape: Sequence[int] | None,
    *,
    parameter_cap: int = MAX_PARAMETERS,
) -> list[Problem]:
    """What is wrong with this architecture for these parameters? An empty list when it can be run.

    ``classes`` None leaves the number of logits open; ``validation_shape`` is the whole shape (V, …) of ``x``.

    >>> check_model_spec({"input": [3], "layers": [{"op": "linear", "weight": "w"}]},
    ...                  [ParameterSpec("w", (2, 3))], 2, (100, 3))
    []
    """
    total = sum(math.prod(spec.shape) for spec in parameters)
    if total > parameter_cap:
        return [problem("E_MODEL_SIZE", "manifest.json:parameters", f"{total} parameters", f"at most {parameter_cap}")]
    nodes, problems = parse_spec(spec)
    if problems:
        return problems
    features = input_shape(spec)
    if math.prod(features) > MAX_ACTIVATION:
        return [_misfit("model.json:input", _too_large(features))]
    if validation_shape is not None and tuple(validation_shape[1:]) != features:
        problems.append(
            problem(
                "E_FEATURES",
                "validation.safetensors:x",
                f"rows of shape {list(validation_shape[1:])}",
                f"model.json's input {list(features)}",
            )
        )
    output = _infer(nodes, features, _Parameters(parameters), problems)
    if output is not None and (len(output) != 1 or classes not in (None, output[0])):
        wanted = "one logit per class" if classes is None else f"{classes} logits (manifest.json:classes)"
        problems.append(_misfit(_where(nodes[-1]), _DoesNotFit(f"an output of shape {list(output)}", wanted)))
    return problems


def _infer(nodes: list[Node], features: Shape, parameters: _Parameters, problems: list[Problem]) -> Shape | None:
    """Follow the shapes; a node whose input is unknown because of an earlier fault is passed over."""
    shapes: dict[str, Shape | None] = {INPUT: features}
    tokens = reads_tokens(nodes)
    for node in nodes:
        arriving = [shapes[name] for name in node.inputs]
        shapes[node.name] = None
        try:
            if tokens and INPUT in node.inputs and node.op != "embedding":
                raise _DoesNotFit(f"{node.op} on token numbers", "an embedding first", "E_MODEL")
            if node.op == "embedding" and (not tokens or node.inputs != (INPUT,)):
                raise _DoesNotFit("an embedding further inside", "an embedding that reads the input, first", "E_MODEL")
            known = [shape for shape in arriving if shape is not None]
            if len(known) == len(arriving):
                shape = _RULES[node.op](node, known, parameters)
                if math.prod(shape) > MAX_ACTIVATION:
                    raise _too_large(shape)
                shapes[node.name] = shape
        except _DoesNotFit as misfit:
            problems.append(_misfit(_where(node), misfit))
    return shapes[nodes[-1].name]


def _where(node: Node) -> str:
    return f"model.json:{node.name} ({node.op})"


def _misfit(where: str, misfit: _DoesNotFit) -> Problem:
    return problem(misfit.code, where, misfit.found, misfit.expected)


def _too_large(shape: Shape) -> _DoesNotFit:
    return _DoesNotFit(f"shape {list(shape)} per row", f"at most {MAX_ACTIVATION} numbers", "E_MODEL_SIZE")


def _same(node: Node, arriving: list[Shape], parameters: _Parameters) -> Shape:
    return arriving[0]


def _linear(node: Node, arriving: list[Shape], parameters: _Parameters) -> Shape:
    (shape,) = arriving
    outputs, inputs = parameters.of_rank(node.fields["weight"], 2, "weight")
    if shape[-1] != inputs:
        raise _DoesNotFit(f"input of shape {list(shape)}", f"a last dimension of {inputs}")
    parameters.expect(node, "bias", (outputs,))
    return (*shape[:-1], outputs)


def _image(shape: Shape) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise _DoesNotFit(f"input of shape {list(shape)}", "channels, height, width")
    return shape[0], shape[1], shape[2]


def _slide(shape: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape = (1, 1)) -> Shape:
    """Height and width after a window has moved over them (torch's floor rule)."""
    sizes = []
    for extent, k, s, p, d in zip(shape, kernel, stride, padding, dilation, strict=True):
        room = extent + 2 * p - d * (k - 1) - 1
        if room < 0:
            raise _DoesNotFit(f"{extent} + 2·{p} numbers under a window of {d * (k - 1) + 1}", "a window that fits")
        sizes.append(room // s + 1)
    return tuple(sizes)


def _conv2d(node: Node, arriving: list[Shape], parameters: _Parameters) -> Shape:
    channels, height, width = _image(arriving[0])
    outputs, per_group, *kernel = parameters.of_rank(node.fields["weight"], 4, "weight")
    groups = node.fields["groups"]
    if per_group * groups != channels or outputs % groups:
        raise _DoesNotFit(
            f"{channels} channels for a weight of {outputs}×{per_group} in {groups} groups",
            "channels that divide evenly",
        )
    padding = node.fields["padding"]
    if math.prod(e + 2 * p for e, p in zip((height, width), padding, strict=True)) * channels > MAX_ACTIVATION:
        raise _DoesNotFit(f"padding {padding}", f"at most {MAX_ACTIVATION} numbers per row", "E_MODEL_SIZE")
    parameters.expect(node, "bias", (outputs,))
    size = _slide((height, width), tuple(kernel), node.fields["stride"], padding, node.fields["dilation"])
    return (outputs, *size)


def _batch_norm(node: Node, arriving: list[Shape], parameters: _Parameters) -> Shape:
    for field in ("mean", "var", "weight", "bias"):
        parameters.expect(node, field, (arriving[0][0],))
    return arriving[0]


def _layer_norm(node: Node, arriving: list[Shape], parameters: _Parameters) -> Shape:
    normalised: Shape = node.fields["shape"]
    if arriving[0][-len(normalised) :] != normalised:
        raise _DoesNotFit(f"input of shape {list(arriving[0])}", f"last dimensions {list(normalised)}")
    for field in ("weight", "bias"):
        parameters.expect(node, field, normalised)
    return arriving[0]


def _group_norm(node: Node, arriving: list[Shape], parameters: _Parameters) -> Shape:
    channels = arriving[0][0]
    if channels % node.fields["groups"]:
        raise _DoesNotFit(f"{channels} channels in {node.fields['groups']} groups", "channels that divide evenly")
    for field in ("weight", "bias"):
        parameters.expect(node, field, (channels,))
    return arriving[0]


def _flatten(node: Node, arriving: list[Shape], parameters: _Parameters) -> Shape:
    return (math.prod(arriving[0]),)


def _pool(node: Node, arriving: list[Shape], parameters: _Parameters) -> Shape:
    channels, *size = _image(arriving[0])
    kernel, padding = node.fields["kernel"], node.fields["padding"]
    if any(2 * p > k for k, p in zip(kernel, padding, strict=True)):
        raise _DoesNotFit(f"padding {padding} of a kernel {kernel}", "at most half of the kernel")
    return (channels, *_slide(tuple(size), kernel, node.fields["stride"], padding))


def _adaptive_pool(node: Node, arriving: list[Shape], parameters: _Parameters) -> Shape:
    return (_image(arriving[0])[0], *node.fields["size"])


def _embedding(node: Node, arriving: list[Shape], parameters: _Parameters) -> Shape:
    return (*arriving[0], parameters.of_rank(node.fields["weight"], 2, "weight")[1])


def _elementwise(node: Node, arriving: list[Shape], parameters: _Parameters) -> Shape:
    """Two inputs of one rank; an extent of 1 is repeated (a rank apart would reach into the batch dimension)."""
    first, second = arriving
    if len(first) != len(second) or any(a != b and 1 not in (a, b) for a, b in zip(first, second, strict=True)):
        raise _DoesNotFit(f"inputs of shapes {list(first)} and {list(second)}", "shapes that fit together")
    return tuple(max(a, b) for a, b in zip(first, second, strict=True))


def _cat(node: Node, arriving: list[Shape], parameters: _Parameters) -> Shape:
    rank = len(arriving[0])
    dim = node.fields["dim"]
    axis = dim - 1 if dim >= 0 else dim + rank  # dimension 0 is the batch
    if not 0 <= axis < rank:
        raise _DoesNotFit(f"dim {dim}", f"a dimension from 1 to {rank}")
    rest = {shape[:axis] + shape[axis + 1 :] for shape in arriving if len(shape) == rank}
    if len(rest) != 1 or any(len(shape) != rank for shape in arriving):
        raise _DoesNotFit(f"shapes {[list(shape) for shape in arriving[:4]]}", f"shapes equal except in dim {dim}")
    return (*arriving[0][:axis], sum(shape[axis] for shape in arriving), *arriving[0][axis + 1 :])


def _reshape(node: Node, arriving: list[Shape], parameters: _Parameters) -> Shape:
    wanted: Shape = node.fields["shape"]
    count = math.prod(arriving[0])
    known = math.prod(extent for extent in wanted if extent != -1)
    if (-1 in wanted and count % known) or (-1 not in wanted and count != known):
        raise _DoesNotFit(f"{count} numbers into shape {list(wanted)}", "the same number of values")
    return tuple(count // known if extent == -1 else extent for extent in wanted)


_RULES: dict[str, Callable[[Node, list[Shape], _Parameters], Shape]] = {
    "linear": _linear,
    "conv2d": _conv2d,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    **dict.fromkeys(("relu", "gelu", "tanh", "sigmoid", "silu", "leaky_relu", "dropout"), _same),
    "flatten": _flatten,
    "max_pool2d": _pool,
    "avg_pool2d": _pool,
    "adaptive_avg_pool2d": _adaptive_pool,
    "embedding": _embedding,
    "add": _elementwise,
    "mul": _elementwise,
    "cat": _cat,
    "reshape": _reshape,
}
