"""How is model.json written down, and what does it say once defaults are filled in?

Both forms of the architecture – the hand-written sequence and the traced graph – become one list of ``Node``s in
running order. Only the grammar lives here: op names, fields, and which node feeds which. Whether the shapes fit the
parameters is the next module's question (``model_spec``). No name in the file is ever imported or looked up
outside the table below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flcontrib_core.errors import Problem, RunLogError
from flcontrib_core.runs.problems import MAX_PROBLEMS, problem, shown

INPUT = "input"
"""The name under which nodes read the model's input."""
MAX_NODES = 4096
MAX_RANK = 8
MAX_EXTENT = 2**31 - 1
"""Largest integer any field may hold; sizes are capped again, jointly, by the shape check."""


@dataclass(frozen=True)
class Node:
    """One operation: where it reads from and its fields, defaults filled in.

    Parameter fields hold names of manifest parameters (None where an optional one is left out); ``stride``,
    ``padding``, ``dilation``, ``kernel`` and ``size`` are (height, width) pairs; ``shape`` is a tuple.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    fields: dict[str, Any]


class _BadField(ValueError):
    """A field's value is not of its kind; the message says what was expected."""


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _parameter(value: object) -> str:
    if not isinstance(value, str):
        raise _BadField("the name of a manifest parameter")
    return value


def _optional_parameter(value: object) -> str | None:
    return None if value is None else _parameter(value)


def _integer(low: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if isinstance(value, int) and _is_int(value) and low <= value <= MAX_EXTENT:
            return value
        raise _BadField(f"an integer of at least {low}")

    return read


def _pair(low: int) -> Callable[[object], tuple[int, int]]:
    one = _integer(low)

    def read(value: object) -> tuple[int, int]:
        try:
            if isinstance(value, list | tuple) and len(value) == 2:
                return one(value[0]), one(value[1])
            return one(value), one(value)
        except _BadField:
            raise _BadField(f"an integer of at least {low}, or two of them (height, width)") from None

    return read


def _extents(low: int) -> Callable[[object], tuple[int, ...]]:
    one = _integer(low)

    def read(value: object) -> tuple[int, ...]:
        if not isinstance(value, list | tuple) or not 1 <= len(value) <= MAX_RANK:
            raise _BadField(f"a list of 1 to {MAX_RANK} integers")
        return tuple(one(extent) for extent in value)

    return read


def _reshape_extents(value: object) -> tuple[int, ...]:
    extents = _extents(-1)(value)
    if 0 in extents or extents.count(-1) > 1:
        raise _BadField("positive integers, at most one of them -1 (inferred)")
    return extents


def _number(low: float) -> Callable[[object], float]:
    def read(value: object) -> float:
        if isinstance(value, float | int) and not isinstance(value, bool):
            try:
                number = float(value)
            except OverflowError:
                number = math.inf
            if math.isfinite(number) and number >= low:
                return number
        raise _BadField(f"a finite number of at least {low:g}" if math.isfinite(low) else "a finite number")

    return read


_REQUIRED = object()
_SAME_AS_KERNEL = object()


@dataclass(frozen=True)
class _Field:
    read: Callable[[object], Any]
    default: object = _REQUIRED


@dataclass(frozen=True)
class _Op:
    fields: Mapping[str, _Field]
    inputs: int | None = 1
    """How many nodes it reads; None = one or more."""
    graph_only: bool = False


_WEIGHT = _Field(_parameter)
_OPTIONAL = _Field(_optional_parameter, None)
_EPS = _Field(_number(0.0), 1e-5)
_AFFINE = {"weight": _OPTIONAL, "bias": _OPTIONAL, "eps": _EPS}
_POOL = {
    "kernel": _Field(_pair(1)),
    "stride": _Field(_pair(1), _SAME_AS_KERNEL),
    "padding": _Field(_pair(0), (0, 0)),
}

_OPS: dict[str, _Op] = {
    "linear": _Op({"weight": _WEIGHT, "bias": _OPTIONAL}),
    "conv2d": _Op(
        {
            "weight": _WEIGHT,
            "bias": _OPTIONAL,
            "stride": _Field(_pair(1), (1, 1)),
            "padding": _Field(_pair(0), (0, 0)),
            "dilation": _Field(_pair(1), (1, 1)),
            "groups": _Field(_integer(1), 1),
        }
    ),
    "batch_norm": _Op({"mean": _WEIGHT, "var": _WEIGHT, **_AFFINE}),
    "layer_norm": _Op({"shape": _Field(_extents(1)), **_AFFINE}),
    "group_norm": _Op({"groups": _Field(_integer(1)), **_AFFINE}),
    "relu": _Op({}),
    "gelu": _Op({}),
    "tanh": _Op({}),
    "sigmoid": _Op({}),
    "silu": _Op({}),
    "flatten": _Op({}),
    "dropout": _Op({}),
    "leaky_relu": _Op({"slope": _Field(_number(-math.inf), 0.01)}),
    "max_pool2d": _Op(_POOL),
    "avg_pool2d": _Op(_POOL),
    "adaptive_avg_pool2d": _Op({"size": _Field(_pair(1))}),
    "embedding": _Op({"weight": _WEIGHT}),
    "add": _Op({}, inputs=2, graph_only=True),
    "mul": _Op({}, inputs=2, graph_only=True),
    "cat": _Op({"dim": _Field(_integer(-MAX_RANK), 1)}, inputs=None, graph_only=True),
    "reshape": _Op({"shape": _Field(_reshape_extents)}, graph_only=True),
}

KNOWN_OPS: tuple[str, ...] = tuple(_OPS)
SEQUENTIAL_OPS: tuple[str, ...] = tuple(name for name, op in _OPS.items() if not op.graph_only)
_STRUCTURAL = frozenset({"op", "name", "inputs"})


def normalise_spec(spec: Mapping[str, Any]) -> list[Node]:
    """Which operations does this architecture run, in order, with every default filled in?

    A sequence becomes nodes ``layer1``, ``layer2``, … each reading the one before it. In the graph form, nodes
    that the output does not depend on are left out; the last node of the list is always the output (see also
    ``output_name``). Raises ``RunLogError`` with every grammatical fault found.

    >>> [(n.name, n.op, n.inputs) for n in normalise_spec({"input": [4], "layers": [{"op": "relu"}]})]
    [('layer1', 'relu', ('input',))]
    """
    nodes, problems = parse_spec(spec)
    if problems:
        raise RunLogError(tuple(problems[:MAX_PROBLEMS]))
    return nodes


def output_name(spec: Mapping[str, Any]) -> str:
    """Which node gives the logits?"""
    return normalise_spec(spec)[-1].name


def input_shape(spec: Mapping[str, Any]) -> tuple[int, ...]:
    """Which shape has one input row, without the batch dimension? (After ``parse_spec`` found no fault.)"""
    return tuple(spec["input"])


def reads_tokens(nodes: list[Node]) -> bool:
    """Does the model take integers (its first operation is an embedding) instead of float features?"""
    return bool(nodes) and nodes[0].op == "embedding"


def parse_spec(spec: object) -> tuple[list[Node], list[Problem]]:
    """The nodes and every grammatical fault; the nodes are meaningless where there are faults."""
    problems: list[Problem] = []
    if not isinstance(spec, Mapping):
        return [], [_fault("model.json", type(spec).__name__, "an object with input and layers (or nodes)")]
    try:
        _extents(1)(spec.get("input"))
    except _BadField:
        problems.append(
            _fault("model.json:input", shown(spec.get("input")), f"the shape of one row, 1 to {MAX_RANK} integers ≥ 1")
        )
    if ("layers" in spec) == ("nodes" in spec):
        problems.append(_fault("model.json", f"keys {shown(sorted(map(str, spec)))}", "either layers or nodes"))
        return [], problems
    graph = "nodes" in spec
    key = "nodes" if graph else "layers"
    allowed = {"input", "nodes", "output"} if graph else {"input", "layers"}
    unknown = sorted(str(name) for name in spec if name not in allowed)
    if unknown:
        problems.append(_fault("model.json", f"unknown keys {shown(unknown)}", f"only {', '.join(sorted(allowed))}"))
    entries = spec[key]
    if not isinstance(entries, list) or not entries:
        problems.append(_fault(f"model.json:{key}", shown(entries), "a list of at least one operation"))
        return [], problems
    if len(entries) > MAX_NODES:
        problems.append(
            problem("E_MODEL_SIZE", f"model.json:{key}", f"{len(entries)} operations", f"at most {MAX_NODES}")
        )
        return [], problems
    nodes = _read_graph(entries, problems) if graph else _read_sequence(entries, problems)
    if graph and not problems:
        nodes = _ending_at_output(nodes, spec.get("output"), problems)
    return nodes, problems


def _read_sequence(entries: list[Any], problems: list[Problem]) -> list[Node]:
    nodes: list[Node] = []
    previous = INPUT
    for number, entry in enumerate(entries, start=1):
        where = f"model.json:layers[{number}]"
        checked = _read_op(entry, where, SEQUENTIAL_OPS, problems)
        if checked is None:
            continue
        op, fields = checked
        if "inputs" in entry:
            problems.append(_fault(where, "inputs", "no inputs in a sequence; use the graph form (nodes)"))
        nodes.append(Node(f"layer{number}", op, (previous,), fields))
        previous = f"layer{number}"
    return nodes


def _read_graph(entries: list[Any], problems: list[Problem]) -> list[Node]:
    nodes: list[Node] = []
    known = {INPUT}
    for number, entry in enumerate(entries, start=1):
        where = f"model.json:nodes[{number}]"
        checked = _read_op(entry, where, KNOWN_OPS, problems)
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not 1 <= len(name) <= 200 or name in known:
            problems.append(_fault(where, f"name {shown(name)}", "a name unlike earlier nodes' and 'input'"))
            continue
        known.add(name)
        if checked is None:
            continue
        op, fields = checked
        inputs = entry.get("inputs")
        wanted = _OPS[op].inputs
        if not isinstance(inputs, list) or not inputs or len(inputs) > MAX_NODES or wanted not in (None, len(inputs)):
            count = "at least one input" if wanted is None else f"{wanted} input{'s' if wanted > 1 else ''}"
            problems.append(_fault(where, f"inputs {shown(inputs)}", f"{count} for {op}"))
            continue
        strangers = [i for i in inputs if not isinstance(i, str) or i not in known or i == name]
        if strangers:
            problems.append(_fault(where, f"inputs {shown(strangers)}", "'input' or names of earlier nodes"))
            continue
        nodes.append(Node(name, op, tuple(inputs), fields))
    return nodes


def _ending_at_output(nodes: list[Node], output: object, problems: list[Problem]) -> list[Node]:
    if not isinstance(output, str) or output not in {node.name for node in nodes}:
        problems.append(_fault("model.json:output", shown(output), "the name of one of the nodes"))
        return []
    needed = {output}
    for node in reversed(nodes):
        if node.name in needed:
            needed.update(node.inputs)
    return [node for node in nodes if node.name in needed]


def _read_op(
    entry: object, where: str, known: tuple[str, ...], problems: list[Problem]
) -> tuple[str, dict[str, Any]] | None:
    """The op's name and its checked fields; faults go to ``problems`` and give None."""
    if not isinstance(entry, dict):
        problems.append(_fault(where, shown(entry), "an object with an op"))
        return None
    op = entry.get("op")
    if not isinstance(op, str) or op not in known:
        problems.append(problem("E_MODEL_OP", where, f"op {shown(op)}", f"one of {', '.join(known)}"))
        return None
    before = len(problems)
    table = _OPS[op].fields
    # dropout does nothing here, so its probability may be written down for the reader; every other unknown field
    # could change what is computed and is refused rather than ignored.
    unknown = [key for key in entry if key not in table and key not in _STRUCTURAL and (op, key) != ("dropout", "p")]
    if unknown:
        expected = f"only {', '.join(table)}" if table else "no fields"
        problems.append(_fault(where, f"{op} with unknown fields {shown(unknown)}", expected))
    fields: dict[str, Any] = {}
    for key, rule in table.items():
        if key not in entry:
            if rule.default is _REQUIRED:
                problems.append(_fault(where, f"{op} without {key}", f"{key} is required"))
            else:
                fields[key] = fields.get("kernel") if rule.default is _SAME_AS_KERNEL else rule.default
            continue
        try:
            fields[key] = rule.read(entry[key])
        except _BadField as bad:
            problems.append(_fault(f"{where}.{key}", shown(entry[key]), str(bad)))
    return (op, fields) if len(problems) == before else None


def _fault(where: str, found: str, expected: str) -> Problem:
    return problem("E_MODEL", where, found, expected)
