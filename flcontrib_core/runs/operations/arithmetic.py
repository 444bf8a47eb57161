"""Operations between two values, or a value and a number; parameters and constants as values of their own."""

from __future__ import annotations

import math
from typing import Any

from flcontrib_core.runs.operations.record import (
    MAX_CONSTANTS,
    WEIGHT,
    BadField,
    DoesNotFit,
    Field,
    Fields,
    Operation,
    Shape,
    Site,
    Traced,
    any_number,
    extents,
    free,
    integer,
    number,
    numbers,
    one_of,
    or_none,
    truth,
)


def together(shapes: list[Shape]) -> Shape:
    """Shapes of one rank; an extent of 1 is repeated (a rank apart would reach into the batch dimension)."""
    result = shapes[0]
    for other in shapes[1:]:
        if len(result) != len(other) or any(a != b and 1 not in (a, b) for a, b in zip(result, other, strict=True)):
            raise DoesNotFit(f"inputs of shapes {list(result)} and {list(other)}", "shapes that fit together")
        result = tuple(max(a, b) if 0 not in (a, b) else 0 for a, b in zip(result, other, strict=True))
    return result


def _elementwise(site: Site) -> Shape:
    with_number = site.fields["value"] is not None
    if with_number == (len(site.arriving) == 2):
        raise DoesNotFit(f"{len(site.arriving)} inputs", "two inputs, or one and a value", "E_MODEL")
    if site.fields.get("reverse") and not with_number:
        raise DoesNotFit("reverse with two inputs", "the inputs in the other order", "E_MODEL")
    return together(site.arriving)


def _arithmetic(name: str, torchs: str, *names: str, reversible: bool = False) -> Operation:
    """``names`` are the operator's and the methods' names."""

    def run(torch: Any, inputs: list[Any], f: Fields) -> Any:
        apply = getattr(torch, torchs)
        if f["value"] is None:
            return apply(inputs[0], inputs[1])
        if f.get("reverse"):
            # as Python's own operator does it: torch has several routines, which differ in the last bit
            return f["value"] - inputs[0] if name == "sub" else f["value"] / inputs[0]
        return apply(inputs[0], f["value"])

    operators = tuple(f"operator.{n}" for n in (name, f"i{name}", *names) if n not in ("div", "idiv"))
    return Operation(
        name,
        run=run,
        fields={
            "value": Field(or_none(number()), None),
            **({"reverse": Field(truth, False)} if reversible else {}),
        },
        shape=_elementwise,
        inputs=(1, 2),
        graph_only=True,
        exact=True,
        traced=(Traced(functions=(*operators, f"torch.{torchs}"), methods=(torchs, f"{torchs}_")),),
    )


def _extreme(name: str) -> Operation:
    return Operation(
        name,
        run=lambda torch, inputs, f: getattr(torch, name)(*inputs),
        shape=lambda site: together(site.arriving),
        inputs=(2, 2),
        graph_only=True,
        exact=True,
        traced=(Traced(functions=(f"torch.{name}",), methods=(name,)),),
    )


POWER = Operation(
    "pow",
    run=lambda torch, inputs, f: torch.pow(inputs[0], f["exponent"]),
    fields={"exponent": Field(number())},
    elementwise=True,
    traced=(
        Traced(
            functions=("operator.pow", "torch.pow"),
            methods=("pow",),
            settings=("exponent",),
            # a whole exponent takes another routine than the same number as a float
            write=lambda call: {"exponent": float(call.settings["exponent"])},
        ),
    ),
)

_KINDS = ("eq", "ne", "lt", "le", "gt", "ge")

COMPARE = Operation(
    "compare",
    run=lambda torch, inputs, f: getattr(torch, f["kind"])(inputs[0], f["value"]).to(torch.float32),
    fields={"kind": Field(one_of(*_KINDS)), "value": Field(number())},
    graph_only=True,
    exact=True,
    reads_tokens=True,
    as_documented="1 where it is so, else 0",
    traced=tuple(
        Traced(
            functions=(f"operator.{kind}", f"torch.{kind}"),
            methods=(kind,),
            settings=("other",),
            write=lambda call, kind=kind: {"kind": kind, "value": float(call.settings["other"])},  # type: ignore[misc]
        )
        for kind in _KINDS
    ),
)

MASKED_FILL = Operation(
    "masked_fill",
    run=lambda torch, inputs, f: inputs[0].masked_fill(inputs[1] != 0, f["value"]),
    fields={"value": Field(any_number)},
    shape=lambda site: _into_first(site),
    inputs=(2, 2),
    graph_only=True,
    exact=True,
    as_documented="where the second input is not 0",
)


def _into_first(site: Site) -> Shape:
    result = together(site.arriving)
    if result != site.shape:
        raise DoesNotFit(f"a mask of shape {list(site.arriving[1])}", f"one that fits into {list(site.shape)}")
    return result


def _matmul_shape(site: Site) -> Shape:
    first, second = site.arriving
    if len(first) == 1 and len(second) == 2 and first[0] == second[0]:
        return (second[1],)
    if len(first) < 2 or len(first) != len(second) or first[-1] != second[-2]:
        raise DoesNotFit(f"inputs of shapes {list(first)} and {list(second)}", "matrices of one rank that fit")
    return (*together([first[:-2], second[:-2]]), first[-2], second[-1])


def _matmul(torch: Any, inputs: list[Any], f: Fields) -> Any:
    first, second = inputs
    # a matrix that all rows share is multiplied as one, not as a batch of copies
    shared = second.ndim == 3 and second.shape[0] == 1 and (first.ndim == 2 or first.shape[0] > 1)
    return torch.matmul(first, second[0] if shared else second)


MATMUL = Operation(
    "matmul",
    run=_matmul,
    shape=_matmul_shape,
    cost=lambda site, result: math.prod(result) * site.arriving[0][-1],
    inputs=(2, 2),
    graph_only=True,
    traced=(Traced(functions=("operator.matmul", "torch.matmul", "torch.bmm"), methods=("matmul", "bmm")),),
)


def _positions(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_CONSTANTS:
        raise BadField(f"a list of 1 to {MAX_CONSTANTS} positions")
    read = integer(0)
    return tuple(read(one) for one in value)


def _parameter_shape(site: Site) -> Shape:
    own, index, shape = site.parameters.shape(site.fields["weight"]), site.fields["index"], site.fields["shape"]
    if index is not None:
        if not own or max(index) >= own[0]:
            raise DoesNotFit(f"row {max(index)} of a parameter of shape {list(own)}", "rows that it has")
        own = (len(index), *own[1:])
    if math.prod(own) != math.prod(shape):
        raise DoesNotFit(f"{math.prod(own)} numbers as shape {list(shape)}", "the same number of values")
    return tuple(shape)


def _parameter(torch: Any, inputs: list[Any], f: Fields) -> Any:
    weight = f["weight"]
    if f["index"] is not None:
        weight = weight[torch.tensor(f["index"], device=weight.device)]
    return weight.reshape(1, *f["shape"])


PARAMETER = Operation(
    "parameter",
    run=_parameter,
    fields={"weight": WEIGHT, "shape": Field(extents(1)), "index": Field(or_none(_positions), None)},
    shape=_parameter_shape,
    cost=free,
    inputs=(0, 0),
    graph_only=True,
    as_documented="a parameter (or some of its rows) as a value that all rows share",
)


def _constant_shape(site: Site) -> Shape:
    shape = site.fields["shape"]
    if math.prod(shape) != len(site.fields["values"]):
        raise DoesNotFit(f"{len(site.fields['values'])} values as shape {list(shape)}", "as many as the shape has")
    return tuple(shape)


CONSTANT = Operation(
    "constant",
    run=lambda torch, inputs, f: torch.tensor(f["values"], dtype=torch.float32, device=f.get("device")).reshape(
        1, *f["shape"]
    ),
    fields={"values": Field(numbers), "shape": Field(extents(1))},
    shape=_constant_shape,
    cost=free,
    inputs=(0, 0),
    graph_only=True,
    as_documented="numbers of the model's own; `inf` and `-inf` as words",
)


ARITHMETIC = (
    _arithmetic("add", "add"),
    _arithmetic("mul", "mul"),
    _arithmetic("sub", "sub", reversible=True),
    _arithmetic("div", "div", "truediv", "itruediv", reversible=True),
    _extreme("maximum"),
    _extreme("minimum"),
    POWER,
    COMPARE,
    MASKED_FILL,
    MATMUL,
    PARAMETER,
    CONSTANT,
)
