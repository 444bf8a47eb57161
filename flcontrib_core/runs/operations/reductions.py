"""Operations that sum up whole dimensions: means, norms, spreads, and Einstein's sums of products."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from flcontrib_core.runs.operations.convolutions import bounded
from flcontrib_core.runs.operations.record import (
    MAX_RANK,
    BadField,
    Call,
    DoesNotFit,
    Field,
    Fields,
    Operation,
    Shape,
    Site,
    Traced,
    Unwritable,
    extents,
    integer,
    number,
    only,
    truth,
)

_DIMS = {"dims": Field(extents(-MAX_RANK)), "keep": Field(truth, False)}
_SUM = re.compile(r"([a-y]{1,7})(?:,([a-y]{1,7}))?->([a-y]{1,7})")
"""Letters of a row's dimensions; z is the batch's."""


def _reduced(site: Site) -> Shape:
    axes = {site.axis(dim) for dim in site.fields["dims"]}
    if len(axes) != len(site.fields["dims"]):
        raise DoesNotFit(f"dims {list(site.fields['dims'])}", "each dimension once")
    kept = [1 if axis in axes else extent for axis, extent in enumerate(site.shape)]
    return tuple(e for axis, e in enumerate(kept) if site.fields["keep"] or axis not in axes)


def _reduce_write(call: Call) -> Fields:
    only(call, dtype=None, out=None)
    dim = call.settings.get("dim")
    if dim is None:
        raise Unwritable("over everything, the batch too")
    dims = dim if isinstance(dim, tuple | list) else [dim]
    fields: Fields = {"dims": [call.axis(d) for d in dims]}
    return {**fields, "keep": True} if call.settings.get("keepdim", False) else fields


def _reduction(
    name: str,
    run: Callable[[Any, Any, Fields], Any],
    traced: tuple[Traced, ...],
    further: dict[str, Field] | None = None,
    shape: Callable[[Site], Shape] = _reduced,
) -> Operation:
    return Operation(
        name,
        run=lambda torch, inputs, f: run(torch, inputs[0], f),
        fields=_DIMS | (further or {}),
        shape=shape,
        cost=lambda site, result: math.prod(site.shape),
        graph_only=True,
        traced=traced,
    )


def _plain(name: str, torchs: str, settings: tuple[str, ...]) -> Operation:
    return _reduction(
        name,
        lambda torch, x, f: getattr(torch, torchs)(x, dim=f["dims"], keepdim=f["keep"]),
        (Traced(functions=(f"torch.{torchs}",), methods=(torchs,), settings=settings, write=_reduce_write),),
    )


def _norm_write(default: str) -> Callable[[Call], Fields]:
    def write(call: Call) -> Fields:
        order = call.settings.get(default, 2)
        if order not in (None, "fro") and not isinstance(order, int | float):
            raise Unwritable(f"with {default}={order!r} (only numbers can be written)")
        return {**_reduce_write(call), "p": float(2 if order in (None, "fro") else order)}

    return write


def _order(value: object) -> float:
    order = number()(value)
    if order <= 0:
        raise BadField("a number above 0")
    return order


def _spread_write(call: Call) -> Fields:
    unbiased = call.settings.get("unbiased")
    correction = call.settings.get("correction")
    if isinstance(correction, float) and not correction.is_integer():
        raise Unwritable(f"with correction={correction!r} (only whole numbers can be written)")
    freed = int(correction) if correction is not None else int(unbiased is None or bool(unbiased))
    return _reduce_write(call) | ({} if freed == 1 else {"correction": freed})


def _spread_shape(site: Site) -> Shape:
    result = _reduced(site)
    together = math.prod(site.shape[site.axis(dim)] for dim in site.fields["dims"])
    if together <= site.fields["correction"]:
        raise DoesNotFit(f"a spread of {together} numbers", f"more than {site.fields['correction']} of them")
    return result


def _spread(name: str) -> Operation:
    return _reduction(
        name,
        lambda torch, x, f: getattr(torch, name)(x, dim=f["dims"], correction=f["correction"], keepdim=f["keep"]),
        (
            Traced(
                functions=(f"torch.{name}",),
                methods=(name,),
                settings=("dim", "unbiased", "keepdim", "correction"),
                write=_spread_write,
            ),
        ),
        {"correction": Field(integer(0), 1)},
        _spread_shape,
    )


def _equation(value: object) -> tuple[str, ...]:
    """The letters of each input and of the result."""
    found = _SUM.fullmatch(value) if isinstance(value, str) else None
    parts = [part for part in found.groups() if part] if found else []
    letters = set("".join(parts[:-1]))
    if not parts or any(len(set(part)) != len(part) for part in parts) or not set(parts[-1]) <= letters:
        raise BadField("a sum of products of one or two inputs such as 'ij,jk->ik', each letter once in each")
    return tuple(parts)


def _extents_of(site: Site) -> dict[str, int]:
    """The extent that each letter stands for."""
    sides, sizes = site.fields["equation"][:-1], dict[str, int]()
    if len(sides) != len(site.arriving):
        raise DoesNotFit(f"{len(site.arriving)} inputs for {','.join(sides)}", "one for each", "E_MODEL")
    for side, shape in zip(sides, site.arriving, strict=True):
        if len(side) != len(shape) or any(sizes.setdefault(x, e) != e for x, e in zip(side, shape, strict=True)):
            raise DoesNotFit(f"an input of shape {list(shape)} as {side}", "one extent for each letter")
    return sizes


def _einsum_shape(site: Site) -> Shape:
    sizes = _extents_of(site)
    shape = tuple(sizes[letter] for letter in site.fields["equation"][-1])
    bounded(math.prod(shape), f"a sum of shape {list(shape)}")
    return shape


def _einsum(torch: Any, inputs: list[Any], f: Fields) -> Any:
    *sides, result = f["equation"]
    rows = max(len(value) for value in inputs)
    # What all rows share stands once and has no batch in the sum, as in the module.
    batched = [len(value) == rows for value in inputs]
    terms = ",".join(f"z{side}" if own else side for side, own in zip(sides, batched, strict=True))
    values = [value if own else value[0] for value, own in zip(inputs, batched, strict=True)]
    return torch.einsum(f"{terms}->z{result}", *values)


EINSUM = Operation(
    "einsum",
    run=_einsum,
    fields={"equation": Field(_equation)},
    shape=_einsum_shape,
    cost=lambda site, result: math.prod(_extents_of(site).values()),
    inputs=(1, 2),
    graph_only=True,
    as_documented="a sum of products such as `ij,jk->ik`, without the batch's letter",
)

REDUCTIONS = (
    _plain("mean", "mean", ("dim", "keepdim", "dtype")),
    _plain("sum", "sum", ("dim", "keepdim", "dtype")),
    _plain("largest", "amax", ("dim", "keepdim")),
    _plain("smallest", "amin", ("dim", "keepdim")),
    _plain("logsumexp", "logsumexp", ("dim", "keepdim")),
    _reduction(
        "norm",
        lambda torch, x, f: torch.linalg.vector_norm(x, ord=f["p"], dim=f["dims"], keepdim=f["keep"]),
        (
            Traced(
                functions=("torch.norm",),
                methods=("norm",),
                settings=("p", "dim", "keepdim", "out", "dtype"),
                write=_norm_write("p"),
            ),
            Traced(
                functions=("torch.linalg.vector_norm",),
                settings=("ord", "dim", "keepdim", "dtype"),
                write=_norm_write("ord"),
            ),
        ),
        {"p": Field(_order, 2.0)},
    ),
    _spread("var"),
    _spread("std"),
    EINSUM,
)
