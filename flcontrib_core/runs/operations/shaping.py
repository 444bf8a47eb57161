"""Operations that move numbers without changing them. The batch stays in front."""

from __future__ import annotations

import math
from typing import Any

from flcontrib_core.runs.operations.convolutions import bounded
from flcontrib_core.runs.operations.record import (
    DIM,
    MAX_EXTENT,
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
    free,
    integer,
    number,
    one_of,
    or_none,
)


def _reshape_extents(value: object) -> tuple[int, ...]:
    result = extents(-1)(value)
    if 0 in result or result.count(-1) > 1:
        raise BadField("positive integers, at most one of them -1 (inferred)")
    return result


def _reshape_shape(site: Site) -> Shape:
    wanted: Shape = site.fields["shape"]
    count = math.prod(site.shape)
    known = math.prod(extent for extent in wanted if extent != -1)
    if (-1 in wanted and count % known) or (-1 not in wanted and count != known):
        raise DoesNotFit(f"{count} numbers into shape {list(wanted)}", "the same number of values")
    return tuple(count // known if extent == -1 else extent for extent in wanted)


def _reshape(torch: Any, inputs: list[Any], f: Fields) -> Any:
    rows = len(inputs[0]) if -1 in f["shape"] else -1  # windows folded into the batch change the number of rows
    return inputs[0].reshape(rows, *f["shape"])


def _reshape_write(call: Call) -> Fields:
    fields: Fields = {"shape": call.row_shape()}
    return {**fields, "fold": call.fold()} if call.fold() > 1 else fields


RESHAPE = Operation(
    "reshape",
    run=_reshape,
    fields={"shape": Field(_reshape_extents), "fold": Field(integer(1), 1)},
    shape=_reshape_shape,
    cost=free,
    graph_only=True,
    exact=True,
    reads_tokens=True,
    as_documented="without the batch dimension, one extent may be -1; `fold`: rows that each row becomes",
    traced=(
        Traced(
            layers=("Unflatten",),
            functions=("torch.reshape", "torch.squeeze", "torch.unsqueeze", "torch.unflatten"),
            methods=("view", "reshape", "squeeze", "unsqueeze", "unflatten", "view_as", "reshape_as"),
            write=_reshape_write,
        ),
    ),
)

FLATTEN = Operation(
    "flatten",
    run=lambda torch, inputs, f: torch.flatten(inputs[0], 1),
    shape=lambda site: (math.prod(site.shape),),
    cost=free,
    exact=True,
    as_documented="from dimension 1",
)

DROPOUT = Operation(
    "dropout",
    run=lambda torch, inputs, f: inputs[0],
    cost=free,
    exact=True,
    as_documented="does nothing here and may carry its `p`",
    traced=(
        Traced(
            layers=("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"),
            functions=tuple(f"torch.nn.functional.{n}" for n in ("dropout", "dropout1d", "dropout2d", "dropout3d")),
        ),
    ),
)


def _permute_shape(site: Site) -> Shape:
    dims = site.fields["dims"]
    if sorted(dims) != list(range(1, len(site.shape) + 1)):
        raise DoesNotFit(f"dims {list(dims)}", f"each of 1 to {len(site.shape)} once (the batch stays in front)")
    return tuple(site.shape[dim - 1] for dim in dims)


PERMUTE = Operation(
    "permute",
    run=lambda torch, inputs, f: inputs[0].permute(0, *f["dims"]),
    fields={"dims": Field(extents(1))},
    shape=_permute_shape,
    cost=free,
    graph_only=True,
    exact=True,
    as_documented="the row's dimensions, counted from 1, in their new order",
)


def _slice_shape(site: Site) -> Shape:
    axis, extent = site.axis(site.fields["dim"]), 0
    extent = len(range(site.shape[axis])[site.fields["start"] : site.fields["stop"] : site.fields["step"]])
    if extent < 1:
        raise DoesNotFit(f"nothing of {site.shape[axis]} numbers", "at least one")
    return (*site.shape[:axis], extent, *site.shape[axis + 1 :])


def _slice(torch: Any, inputs: list[Any], f: Fields) -> Any:
    dim = f["dim"] % inputs[0].ndim
    return inputs[0][(slice(None),) * dim + (slice(f["start"], f["stop"], f["step"]),)]


SLICE = Operation(
    "slice",
    run=_slice,
    fields={
        "dim": DIM,
        "start": Field(or_none(integer(-MAX_EXTENT)), None),
        "stop": Field(or_none(integer(-MAX_EXTENT)), None),
        "step": Field(integer(1), 1),
    },
    shape=_slice_shape,
    cost=free,
    graph_only=True,
    exact=True,
    reads_tokens=True,
    as_documented="as in Python",
)


def _cat_shape(site: Site) -> Shape:
    arriving, dim = site.arriving, site.fields["dim"]
    rank, axis = len(arriving[0]), site.axis(dim)
    rest = {shape[:axis] + shape[axis + 1 :] for shape in arriving if len(shape) == rank}
    if len(rest) != 1 or any(len(shape) != rank for shape in arriving):
        raise DoesNotFit(f"shapes {[list(shape) for shape in arriving[:4]]}", f"shapes equal except in dim {dim}")
    return (*arriving[0][:axis], sum(shape[axis] for shape in arriving), *arriving[0][axis + 1 :])


def _cat(torch: Any, inputs: list[Any], f: Fields) -> Any:
    rows = max(len(value) for value in inputs)  # what all rows share stands once
    return torch.cat([v if len(v) == rows else v.expand(rows, *v.shape[1:]) for v in inputs], dim=f["dim"])


CAT = Operation(
    "cat",
    run=_cat,
    fields={"dim": Field(integer(-MAX_RANK), 1)},
    shape=_cat_shape,
    inputs=(1, 4096),
    graph_only=True,
    exact=True,
)


def _expand_shape(site: Site) -> Shape:
    wanted: Shape = site.fields["shape"]
    fits = len(wanted) == len(site.shape) and all(a in (1, b) for a, b in zip(site.shape, wanted, strict=False))
    if not fits:
        raise DoesNotFit(f"{list(site.shape)} expanded to {list(wanted)}", "only extents of 1 to grow")
    return wanted


EXPAND = Operation(
    "expand",
    run=lambda torch, inputs, f: inputs[0].expand(-1, *f["shape"]),
    fields={"shape": Field(extents(1))},
    shape=_expand_shape,
    cost=free,
    graph_only=True,
    exact=True,
)


def _pad_sizes(value: object) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or not 2 <= len(value) <= 2 * MAX_RANK or len(value) % 2:
        raise BadField("two integers for each dimension, the last one first")
    read = integer(-MAX_EXTENT)
    return tuple(read(one) for one in value)


def _pad_shape(site: Site) -> Shape:
    sizes = site.fields["sizes"]
    padded = list(site.shape)
    if len(sizes) // 2 > len(padded):
        raise DoesNotFit(f"{len(sizes) // 2} dimensions of {len(padded)}", "at most as many as there are")
    if site.fields["mode"] != "constant" and len(sizes) // 2 != len(padded) - 1:
        raise DoesNotFit(f"{site.fields['mode']} over {len(sizes) // 2} dimensions", "all but the channels")
    for number_, (before, after) in enumerate(zip(sizes[::2], sizes[1::2], strict=True)):
        extent = site.shape[-1 - number_]
        most = extent - 1 if site.fields["mode"] == "reflect" else extent
        if site.fields["mode"] in ("reflect", "circular") and max(before, after) > most:
            raise DoesNotFit(f"{max(before, after)} numbers of {extent} mirrored", f"at most {most}")
        padded[-1 - number_] = extent + before + after
        if padded[-1 - number_] < 1 or extent + min(before, 0) + min(after, 0) < 1:
            raise DoesNotFit(f"an extent of {padded[-1 - number_]}", "at least 1")
    bounded(math.prod(padded), f"shape {padded}")
    return tuple(padded)


def _pad_write(call: Call) -> Fields:
    settings = call.settings
    sizes = settings.get("pad", settings.get("padding"))
    mode = settings.get("mode", "constant")
    fields: Fields = {"sizes": list(sizes) if isinstance(sizes, tuple | list) else sizes}
    if len(fields["sizes"]) // 2 >= len(call.shape):
        raise Unwritable("of the batch dimension")
    if mode != "constant":
        return {**fields, "mode": mode}
    value = settings.get("value")
    return {**fields, "value": float(value)} if value else fields


def _mode_layers(mode: str, *names: str) -> Traced:
    def write(call: Call) -> Fields:
        return {"sizes": list(call.settings["padding"]), **({} if mode == "constant" else {"mode": mode})}

    return Traced(layers=names, settings=("padding",), write=write)


PAD = Operation(
    "pad",
    run=lambda torch, inputs, f: torch.nn.functional.pad(
        inputs[0], f["sizes"], mode=f["mode"], **({"value": f["value"]} if f["mode"] == "constant" else {})
    ),
    fields={
        "sizes": Field(_pad_sizes),
        "mode": Field(one_of("constant", "reflect", "replicate", "circular"), "constant"),
        "value": Field(number(), 0.0),
    },
    shape=_pad_shape,
    exact=True,
    traced=(
        Traced(functions=("torch.nn.functional.pad",), settings=("pad", "mode", "value"), write=_pad_write),
        Traced(
            layers=("ConstantPad1d", "ConstantPad2d", "ConstantPad3d"), settings=("padding", "value"), write=_pad_write
        ),
        _mode_layers("constant", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d"),
        _mode_layers("reflect", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d"),
        _mode_layers("replicate", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d"),
    ),
)


def _roll_shape(site: Site) -> Shape:
    if len(site.fields["shifts"]) != len(site.fields["dims"]):
        raise DoesNotFit(f"{len(site.fields['shifts'])} shifts", "one for each dim")
    for dim in site.fields["dims"]:
        site.axis(dim)
    return site.shape


def _roll_write(call: Call) -> Fields:
    shifts, dims = call.settings["shifts"], call.settings.get("dims")
    if dims is None:
        raise Unwritable("without dims (the batch would be mixed)")
    many = dims if isinstance(dims, tuple | list) else [dims]
    return {
        "shifts": list(shifts) if isinstance(shifts, tuple | list) else [shifts],
        "dims": [call.axis(dim) for dim in many],
    }


ROLL = Operation(
    "roll",
    run=lambda torch, inputs, f: torch.roll(inputs[0], f["shifts"], f["dims"]),
    fields={"shifts": Field(extents(-MAX_EXTENT)), "dims": Field(extents(-MAX_RANK))},
    shape=_roll_shape,
    cost=free,
    graph_only=True,
    exact=True,
    traced=(Traced(functions=("torch.roll",), methods=("roll",), settings=("shifts", "dims"), write=_roll_write),),
)


def _flip_shape(site: Site) -> Shape:
    if len({site.axis(dim) for dim in site.fields["dims"]}) != len(site.fields["dims"]):
        raise DoesNotFit(f"dims {list(site.fields['dims'])}", "each dimension once")
    return site.shape


FLIP = Operation(
    "flip",
    run=lambda torch, inputs, f: torch.flip(inputs[0], f["dims"]),
    fields={"dims": Field(extents(-MAX_RANK))},
    shape=_flip_shape,
    cost=free,
    graph_only=True,
    exact=True,
    traced=(
        Traced(
            functions=("torch.flip",),
            methods=("flip",),
            settings=("dims",),
            write=lambda call: {"dims": [call.axis(dim) for dim in call.settings["dims"]]},
        ),
    ),
)

SHAPING = (FLATTEN, DROPOUT, CAT, RESHAPE, PERMUTE, SLICE, EXPAND, PAD, ROLL, FLIP)
