"""What a traced node of a module is here: a value with a node of its own, a parameter, fixed numbers, or several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from flcontrib_core.runs.operations.record import Fields, Shape


@dataclass(frozen=True)
class Written:
    """A value that has a node. ``shape`` is the module's own; a shared value has no batch in it."""

    name: str
    shape: Shape
    shared: bool = False


@dataclass(frozen=True)
class Moved:
    """A value whose dimensions stand in another order, the batch not in front: it is read slice by slice."""

    source: Written
    order: tuple[int, ...]


@dataclass(frozen=True)
class FreeParameter:
    """A parameter used as a value; it becomes a node when it is known in which shape."""

    name: str
    shape: Shape


@dataclass(frozen=True)
class Fixed:
    """A tensor that depends on no input and no parameter."""

    tensor: Tensor

    @property
    def shape(self) -> Shape:
        return tuple(self.tensor.shape)


@dataclass(frozen=True)
class States:
    """The last states of a recurrent layer, one for each layer and direction; each that is read gets a node."""

    op: str
    source: Written
    fields: Fields
    count: int
    shape: Shape
    """(rows, features) of one of them"""


OF_THE_MODEL = Written | FreeParameter | States | Moved
"""What depends on the input or on parameters."""


def is_several(value: Any) -> bool:
    """Does this hold values of the model, rather than numbers?"""
    return isinstance(value, tuple) and any(isinstance(v, OF_THE_MODEL | Fixed) or is_several(v) for v in value)
