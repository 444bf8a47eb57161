"""The record of one operation of model.json: its fields, its shape rule, how it runs, how it is traced, what it costs.

Nothing here imports torch: the reader of untrusted logs checks shapes as plain integers. Whoever runs or traces a model
hands torch in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from flcontrib_core.runs.problems import shown
from flcontrib_core.runs.run_log import ParameterSpec

INPUT = "input"
"""The name under which nodes read the model's input."""
MAX_RANK = 8
MAX_EXTENT = 2**31 - 1
"""Largest integer any field may hold; sizes are capped again, jointly, by the shape check."""
MAX_ACTIVATION = 1 << 24
"""Numbers that one input row may become anywhere inside the model."""
MAX_AT_ONCE = 1 << 26
"""Numbers of one input row that may be held at a time while the model runs."""
MAX_WORK = 1 << 38
"""Multiply-adds and numbers written for one input row: forty times what the largest vision transformers ask for."""
MAX_SCRATCH = 1 << 28
"""Numbers that one operation may need beside its result for one row (the unfolded windows of a convolution)."""
MAX_NUMBER = 3.4028234663852886e38
"""The largest number that float32 holds; torch refuses a larger one only when the model runs."""
MAX_CONSTANTS = 1 << 16
"""Numbers that may stand in model.json itself, per operation."""

Shape = tuple[int, ...]
"""Without the batch dimension."""
Fields = dict[str, Any]


class DoesNotFit(ValueError):
    """An operation does not accept what reaches it, or its parameters."""

    def __init__(self, found: str, expected: str, code: str = "E_MODEL_SHAPE") -> None:
        super().__init__(found)
        self.found, self.expected, self.code = found, expected, code


class BadField(ValueError):
    """A field's value is not of its kind; the message says what was expected."""


class Unwritable(ValueError):
    """What a live module does has no place in model.json; the message follows the name of the layer."""


@dataclass(frozen=True)
class Node:
    """One operation of a model: where it reads from and its fields, defaults filled in.

    Parameter fields hold names of manifest parameters (None where an optional one is left out); sizes along several
    dimensions (``stride``, ``kernel``, …) are tuples, one number for each.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    fields: Fields


class Parameters:
    """The manifest's shapes by name."""

    def __init__(self, parameters: Sequence[ParameterSpec]) -> None:
        self._shapes = {spec.name: spec.shape for spec in parameters}

    def shape(self, name: str, what: str = "weight") -> Shape:
        """The shape of a parameter that must be there."""
        shape = self._shapes.get(name)
        if shape is None:
            raise DoesNotFit(f"{what} {shown(name)}", "a name from manifest.parameters", "E_MODEL_NAME")
        return shape

    def of_rank(self, name: str, rank: int, what: str) -> Shape:
        """The shape of a parameter that must have this many dimensions."""
        shape = self.shape(name, what)
        if len(shape) != rank:
            raise DoesNotFit(f"{what} {shown(name)} of shape {list(shape)}", f"{rank} dimensions")
        return shape

    def exactly(self, name: str | None, shape: Shape, what: str) -> None:
        """A parameter, if it is given at all, must have exactly this shape."""
        if name is None:
            return
        actual = self.of_rank(name, len(shape), what)
        if actual != shape:
            raise DoesNotFit(f"{what} {shown(name)} of shape {list(actual)}", f"shape {list(shape)}")


@dataclass(frozen=True)
class Site:
    """What an operation is given at its place in a model."""

    node: Node
    arriving: list[Shape]
    parameters: Parameters

    @property
    def fields(self) -> Fields:
        return self.node.fields

    @property
    def shape(self) -> Shape:
        """The shape of the first input's rows; an operation that reads nothing has none."""
        return self.arriving[0]

    def expect(self, field_name: str, shape: Shape) -> None:
        """An (optional) parameter field must have exactly this shape."""
        self.parameters.exactly(self.fields[field_name], shape, field_name)

    def axis(self, dim: int) -> int:
        """A position in the row's shape, from a dimension that counts the batch as 0."""
        rank = len(self.shape)
        axis = dim - 1 if dim >= 0 else dim + rank
        if not 0 <= axis < rank:
            raise DoesNotFit(f"dim {dim}", f"a dimension from 1 to {rank}")
        return axis


class Call(Protocol):
    """A traced layer or function, as an operation's ``write`` sees it. Shapes are the module's own, batch included."""

    @property
    def settings(self) -> Mapping[str, Any]: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def result(self) -> Shape: ...

    def axis(self, dim: int) -> int:
        """The dimension as model.json counts it: the batch is 0."""
        ...

    def row_shape(self) -> list[int]:
        """The result's shape as model.json writes it, without the batch."""
        ...

    def fold(self) -> int:
        """Rows that each input row became (windows folded into the batch); 1 is usual."""
        ...


def nothing_to_write(call: Call) -> Fields:
    """An operation without fields besides its parameters."""
    return {}


def only(call: Call, **wanted: Any) -> None:
    """Refuses settings other than these."""
    for name, value in wanted.items():
        if name in call.settings and call.settings[name] != value:
            raise Unwritable(f"with {name}={call.settings[name]!r} (only {value!r} can be written)")


@dataclass(frozen=True)
class Traced:
    """Under which names torch knows an operation, and how its settings become fields."""

    layers: tuple[str, ...] = ()
    """Classes in torch.nn."""
    functions: tuple[str, ...] = ()
    """Full names: ``torch.relu``, ``operator.add``."""
    methods: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    """Their names in positional order, after the operands."""
    write: Callable[[Call], Fields] = nothing_to_write
    parameters: Mapping[str, str] = field(default_factory=dict)
    """field -> the layer's attribute (and the function's argument) that holds it."""


def per_output(site: Site, result: Shape) -> int:
    """One multiply-add for each number that comes out."""
    return math.prod(result)


def free(site: Site, result: Shape) -> int:
    """No arithmetic at all."""
    return 0


def same(site: Site) -> Shape:
    """The shape that came in."""
    return site.shape


REQUIRED = object()
SAME_AS_KERNEL = object()


@dataclass(frozen=True)
class Field:
    """How one field is read; ``parameter``: it holds names of manifest parameters."""

    read: Callable[[object], Any]
    default: object = REQUIRED
    parameter: bool = False


@dataclass(frozen=True)
class Operation:
    """Everything the house knows of one operation."""

    name: str
    run: Callable[[Any, list[Any], Fields], Any]
    """(torch, inputs, fields with tensors in place of names) -> the result; evaluation mode, batch first."""
    fields: Mapping[str, Field] = field(default_factory=dict)
    shape: Callable[[Site], Shape] = same
    cost: Callable[[Site, Shape], int] = per_output
    """Multiply-adds for one row."""
    traced: tuple[Traced, ...] = ()
    inputs: tuple[int, int] = (1, 1)
    """Fewest and most nodes it reads."""
    graph_only: bool = False
    elementwise: bool = False
    """Every number of the result comes from one number of the input: any layout will do."""
    exact: bool = False
    """No vectorised approximation: the bits do not depend on where a number stands."""
    reads_tokens: bool = False
    """Takes whole numbers as they are."""
    as_documented: str = ""
    """What docs/run-log.md says of it beside its fields."""

    def parameter_fields(self) -> tuple[str, ...]:
        """Fields that hold names of manifest parameters."""
        return tuple(name for name, rule in self.fields.items() if rule.parameter)


def is_int(value: object) -> bool:
    """A whole number, and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def _parameter(value: object) -> str:
    if not isinstance(value, str):
        raise BadField("the name of a manifest parameter")
    return value


def _parameters(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= 4096:
        raise BadField("a list of names of manifest parameters")
    return tuple(_parameter(name) for name in value)


def integer(low: int) -> Callable[[object], int]:
    """A whole number from ``low`` on."""

    def read(value: object) -> int:
        if isinstance(value, int) and is_int(value) and low <= value <= MAX_EXTENT:
            return value
        raise BadField(f"an integer of at least {low}")

    return read


def sizes(dimensions: int, low: int) -> Callable[[object], tuple[int, ...]]:
    """One whole number for every dimension, or a list with one for each."""
    one = integer(low)

    def read(value: object) -> tuple[int, ...]:
        try:
            if isinstance(value, list | tuple) and len(value) == dimensions:
                return tuple(one(extent) for extent in value)
            return (one(value),) * dimensions
        except BadField:
            several = "two of them (height, width)" if dimensions == 2 else f"a list of {dimensions}"
            raise BadField(f"an integer of at least {low}, or {several}") from None

    return read


def extents(low: int) -> Callable[[object], tuple[int, ...]]:
    """A list of one to eight whole numbers."""
    one = integer(low)

    def read(value: object) -> tuple[int, ...]:
        if not isinstance(value, list | tuple) or not 1 <= len(value) <= MAX_RANK:
            raise BadField(f"a list of 1 to {MAX_RANK} integers")
        return tuple(one(extent) for extent in value)

    return read


def number(low: float = -MAX_NUMBER) -> Callable[[object], float]:
    """A number from ``low`` on that float32 holds."""

    def read(value: object) -> float:
        # Compared before it is converted: a whole number may be longer than any float.
        if isinstance(value, float | int) and not isinstance(value, bool) and low <= value <= MAX_NUMBER:
            return float(value)
        raise BadField(f"a finite number from {low:.3g} to {MAX_NUMBER:.3g}")

    return read


def any_number(value: object) -> float:
    """A number, or the words "inf" and "-inf", which JSON has no number for."""
    if value in ("inf", "-inf"):
        return float(str(value))
    return number()(value)


def numbers(value: object) -> tuple[float, ...]:
    """A list of numbers, as many as may stand in model.json."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_CONSTANTS:
        raise BadField(f"a list of 1 to {MAX_CONSTANTS} numbers")
    return tuple(any_number(one) for one in value)


def truth(value: object) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise BadField("true or false")
    return value


def one_of(*words: str) -> Callable[[object], str]:
    """One of these words."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise BadField(f"one of {', '.join(words)}")
        return value

    return read


def or_none(read: Callable[[object], Any]) -> Callable[[object], Any]:
    """The same, or null."""
    return lambda value: None if value is None else read(value)


WEIGHT = Field(_parameter, parameter=True)
OPTIONAL = Field(or_none(_parameter), None, parameter=True)
SEVERAL_WEIGHTS = Field(_parameters, parameter=True)
DIM = Field(integer(-MAX_RANK))
AFFINE = {"weight": "weight", "bias": "bias"}
