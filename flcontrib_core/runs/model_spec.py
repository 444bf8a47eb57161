"""Checks that an architecture fits its parameters, before a byte of memory is taken for it.

Shapes are followed through the model as pure integers: every name must be a parameter of the manifest, every
operation must accept what reaches it, and the last one must give one logit per class. Sizes are capped on the way,
so that running the model later cannot ask for more than the caps allow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flcontrib_core.errors import Problem
from flcontrib_core.runs.limits import most_parameters
from flcontrib_core.runs.model_nodes import (
    INPUT,
    KNOWN_OPS,
    Node,
    input_shape,
    normalise_spec,
    output_name,
    parse_spec,
    reads_tokens,
    token_values,
)
from flcontrib_core.runs.operations import OPERATIONS
from flcontrib_core.runs.operations.record import (
    MAX_ACTIVATION,
    MAX_AT_ONCE,
    MAX_WORK,
    DoesNotFit,
    Parameters,
    Shape,
    Site,
)
from flcontrib_core.runs.problems import problem, shown
from flcontrib_core.runs.run_log import ParameterSpec

__all__ = [
    "INPUT",
    "KNOWN_OPS",
    "Node",
    "check_model_spec",
    "follow_shapes",
    "normalise_spec",
    "numbers_at_once",
    "output_name",
    "reads_tokens",
    "work_per_row",
]

SHARED = 0
"""The fold of a value that all rows share (a parameter, a constant)."""


@dataclass(frozen=True)
class Value:
    """What is known of a value inside the model before it exists."""

    shape: Shape
    fold: int = 1
    """Rows that each input row became: windows folded into the batch; ``SHARED`` where all rows share one."""


def check_model_spec(
    spec: Mapping[str, Any],
    parameters: Sequence[ParameterSpec],
    classes: int | tuple[int, ...] | None,
    validation_shape: Sequence[int] | None,
) -> list[Problem]:
    """What is wrong with this architecture for these parameters? An empty list when it can be run.

    ``classes``: how many logits a row has, or the shape of its output; None leaves it open. ``validation_shape`` is
    the whole shape (V, …) of ``x``.

    >>> check_model_spec({"input": [3], "layers": [{"op": "linear", "weight": "w"}]},
    ...                  [ParameterSpec("w", (2, 3))], 2, (100, 3))
    []
    """
    total = sum(math.prod(spec.shape) for spec in parameters)
    if total > (most := most_parameters()):
        return [problem("E_MODEL_SIZE", "manifest.json:parameters", f"{total} parameters", f"at most {most}")]
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
    values = follow_shapes(nodes, features, parameters, problems)
    if not problems:
        problems += _cost_problems(nodes, values, Parameters(parameters))
    output = values.get(nodes[-1].name)
    shape = (classes,) if isinstance(classes, int) else classes
    if output is not None and (output.fold != 1 or (shape is not None and output.shape != shape)):
        wanted = "one output per row" if shape is None else f"shape {list(shape)}, as the targets have it"
        if isinstance(classes, int):
            wanted = f"{classes} logits (manifest.json:classes)"
        rows = "" if output.fold == 1 else f" for {output.fold or 'no'} rows per input row"
        found = f"an output of shape {list(output.shape)}{rows}"
        problems.append(_misfit(_where(nodes[-1]), DoesNotFit(found, wanted)))
    return problems


def follow_shapes(
    nodes: Sequence[Node], features: Shape, parameters: Sequence[ParameterSpec], problems: list[Problem]
) -> dict[str, Value]:
    """Every value that the faults, which go to ``problems``, leave known; nothing after a fault is looked at twice."""
    values = {INPUT: Value(features)}
    shapes = Parameters(parameters)
    whole = token_values(list(nodes)) if reads_tokens(list(nodes)) else set()
    for node in nodes:
        try:
            _check_tokens(node, whole)
            arriving = [values[name] for name in node.inputs if name in values]
            if len(arriving) == len(node.inputs):
                values[node.name] = _result(Site(node, [value.shape for value in arriving], shapes), arriving)
        except DoesNotFit as misfit:
            problems.append(_misfit(_where(node), misfit))
    return values


def numbers_at_once(nodes: Sequence[Node], values: Mapping[str, Value]) -> int:
    """Numbers of one input row that are held at a time: a value is let go after its last reader."""
    held = {name: math.prod(value.shape) * max(value.fold, 1) for name, value in values.items()}
    last = {source: position for position, node in enumerate(nodes) for source in node.inputs}
    now = most = held[INPUT]
    for position, node in enumerate(nodes):
        now += held[node.name]
        most = max(most, now)
        now -= sum(held[source] for source in set(node.inputs) if last[source] == position)
    return most


def work_per_row(nodes: Sequence[Node], values: Mapping[str, Value], parameters: Parameters) -> tuple[int, int]:
    """Multiply-adds of one input row, and the numbers that are written for it on the way."""
    multiply_adds = written = 0
    for node in nodes:
        value = values[node.name]
        site = Site(node, [values[source].shape for source in node.inputs], parameters)
        multiply_adds += OPERATIONS[node.op].cost(site, value.shape) * max(value.fold, 1)
        written += math.prod(value.shape) * max(value.fold, 1)
    return multiply_adds, written


def _cost_problems(nodes: Sequence[Node], values: Mapping[str, Value], parameters: Parameters) -> list[Problem]:
    """Would running it once for a single row already take more than a model may?"""
    found = []
    if (held := numbers_at_once(nodes, values)) > MAX_AT_ONCE:
        found.append((f"{held} numbers held at a time for one row", f"at most {MAX_AT_ONCE}"))
    if (work := sum(work_per_row(nodes, values, parameters))) > MAX_WORK:
        found.append((f"{work} multiply-adds and numbers written for one row", f"at most {MAX_WORK}"))
    return [problem("E_MODEL_SIZE", "model.json", told, expected) for told, expected in found]


def _check_tokens(node: Node, whole: set[str]) -> None:
    if node.op in ("embedding", "embedding_bag"):
        if node.inputs[0] not in whole:
            raise DoesNotFit("an embedding further inside", "an embedding that reads the input, first", "E_MODEL")
    elif whole.intersection(node.inputs) and not OPERATIONS[node.op].reads_tokens:
        raise DoesNotFit(f"{node.op} on token numbers", "an embedding first", "E_MODEL")


def _result(site: Site, arriving: list[Value]) -> Value:
    folds = {value.fold for value in arriving if value.fold != SHARED}
    if len(folds) > 1:
        raise DoesNotFit(f"inputs of {sorted(folds)} rows per input row", "as many rows in each")
    fold = folds.pop() if folds else SHARED
    if site.node.op == "reshape" and site.fields["fold"] != max(fold, 1):
        if fold == SHARED or -1 in site.fields["shape"]:
            raise DoesNotFit(f"fold {site.fields['fold']}", "rows of a known shape to fold")
        site, fold = _refolded(site, fold), site.fields["fold"]
    shape = OPERATIONS[site.node.op].shape(site)
    if math.prod(shape) * max(fold, 1) > MAX_ACTIVATION:
        raise _too_large(shape)
    return Value(shape, fold)


def _refolded(site: Site, fold: int) -> Site:
    """The same numbers in another number of rows: the rule of ``reshape`` sees what one new row holds."""
    count = math.prod(site.shape) * fold
    if count % site.fields["fold"]:
        raise DoesNotFit(f"{count} numbers in {site.fields['fold']} rows", "a number that divides evenly")
    return Site(site.node, [(count // site.fields["fold"],)], site.parameters)


def _where(node: Node) -> str:
    return f"model.json:{shown(node.name)[1:-1]} ({node.op})"


def _misfit(where: str, misfit: DoesNotFit) -> Problem:
    return problem(misfit.code, where, misfit.found, misfit.expected)


def _too_large(shape: Shape) -> DoesNotFit:
    return DoesNotFit(f"shape {list(shape)} per row", f"at most {MAX_ACTIVATION} numbers", "E_MODEL_SIZE")
