"""Operations that sum up neighbourhoods, and interpolation, which goes the other way."""

from __future__ import annotations

import math
from typing import Any

from flcontrib_core.runs.operations.convolutions import bounded, channels_and_extents, slide
from flcontrib_core.runs.operations.record import (
    SAME_AS_KERNEL,
    BadField,
    Call,
    DoesNotFit,
    Field,
    Fields,
    Operation,
    Shape,
    Site,
    Traced,
    extents,
    integer,
    number,
    one_of,
    only,
    or_none,
    sizes,
    truth,
)


def _several(value: Any, dimensions: int) -> list[int]:
    values = list(value) if isinstance(value, tuple | list) else [value]
    return values * dimensions if len(values) == 1 else values


def _pool_shape(site: Site) -> Shape:
    fields = site.fields
    channels, extents_ = channels_and_extents(site.shape, len(fields["kernel"]))
    kernel, padding = fields["kernel"], fields["padding"]
    if any(2 * p > k for k, p in zip(kernel, padding, strict=True)):
        raise DoesNotFit(f"padding {padding} of a kernel {kernel}", "at most half of the kernel")
    if site.node.op == "avg_pool3d" and any(e < k for e, k in zip(extents_, kernel, strict=True)):
        raise DoesNotFit(f"{list(extents_)} under a kernel {list(kernel)}", "a kernel that fits without padding")
    return (channels, *slide(extents_, kernel, fields["stride"], padding, fields.get("dilation"), fields["ceil"]))


def _pool_write(dimensions: int) -> Any:
    def write(call: Call) -> Fields:
        only(call, return_indices=False, divisor_override=None)
        settings, kernel = call.settings, call.settings["kernel_size"]
        stride = settings.get("stride")
        fields: Fields = {
            "kernel": _several(kernel, dimensions),
            "stride": _several(kernel if stride is None or stride == () else stride, dimensions),
            "padding": _several(settings.get("padding", 0), dimensions),
        }
        if settings.get("ceil_mode", False):
            fields["ceil"] = True
        if settings.get("dilation", 1) not in (1, (1,) * dimensions):
            fields["dilation"] = _several(settings["dilation"], dimensions)
        if not settings.get("count_include_pad", True):
            fields["count_padding"] = False
        return fields

    return write


def _pool(kind: str, dimensions: int) -> Operation:
    name = f"{kind}_pool{dimensions}d"
    largest = kind == "max"

    def run(torch: Any, inputs: list[Any], f: Fields) -> Any:
        apply = getattr(torch.nn.functional, name)
        window = (inputs[0], f["kernel"], f["stride"], f["padding"])
        if largest:
            return apply(*window, f["dilation"], ceil_mode=f["ceil"])
        return apply(*window, ceil_mode=f["ceil"], count_include_pad=f["count_padding"])

    extra = (
        {"dilation": Field(sizes(dimensions, 1), (1,) * dimensions)}
        if largest
        else {"count_padding": Field(truth, True)}
    )
    window = ("kernel_size", "stride", "padding")
    further = (
        ("dilation", "ceil_mode", "return_indices")
        if largest
        else ("ceil_mode", "count_include_pad", *(("divisor_override",) if dimensions > 1 else ()))
    )
    layer = f"{kind.capitalize()}Pool{dimensions}d"
    functions = (f"torch.nn.functional.{name}", f"torch.{name}")
    return Operation(
        name,
        run=run,
        fields={
            "kernel": Field(sizes(dimensions, 1)),
            "stride": Field(sizes(dimensions, 1), SAME_AS_KERNEL),
            "padding": Field(sizes(dimensions, 0), (0,) * dimensions),
            "ceil": Field(truth, False),
            **extra,
        },
        shape=_pool_shape,
        cost=lambda site, result: math.prod(result) * math.prod(site.fields["kernel"]),
        traced=(
            Traced(layers=(layer,), functions=functions, settings=(*window, *further), write=_pool_write(dimensions)),
        ),
    )


def _adaptive_write(dimensions: int) -> Any:
    def write(call: Call) -> Fields:
        only(call, return_indices=False)
        given = _several(call.settings["output_size"], dimensions)
        # None keeps an extent as it is
        return {"size": [here if g is None else g for g, here in zip(given, call.shape[2:], strict=True)]}

    return write


def _adaptive(kind: str, dimensions: int) -> Operation:
    name = f"adaptive_{kind}_pool{dimensions}d"

    def shape(site: Site) -> Shape:
        return (channels_and_extents(site.shape, dimensions)[0], *site.fields["size"])

    return Operation(
        name,
        run=lambda torch, inputs, f: getattr(torch.nn.functional, name)(inputs[0], f["size"]),
        fields={"size": Field(sizes(dimensions, 1))},
        shape=shape,
        cost=lambda site, result: max(math.prod(result), math.prod(site.shape)),
        traced=(
            Traced(
                layers=(f"Adaptive{kind.capitalize()}Pool{dimensions}d",),
                functions=(f"torch.nn.functional.{name}",),
                settings=("output_size", "return_indices"),
                write=_adaptive_write(dimensions),
            ),
        ),
    )


def _scales(value: object) -> tuple[float, ...]:
    given = value if isinstance(value, list | tuple) else [value]
    if not 1 <= len(given) <= 3:
        raise BadField("one to three numbers")
    read = number(1e-6)
    return tuple(read(one) for one in given)


_MODES = ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area")


def _interpolate_shape(site: Site) -> Shape:
    channels, *rest = site.shape
    size, scale = site.fields["size"], site.fields["scale"]
    if (size is None) == (scale is None):
        raise DoesNotFit("both size and scale, or neither", "one of the two", "E_MODEL")
    fitting = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}.get(site.fields["mode"], len(rest))
    if fitting != len(rest) or not 1 <= len(rest) <= 3:
        raise DoesNotFit(f"{site.fields['mode']} on an input of shape {list(site.shape)}", "fitting dimensions")
    if site.fields["mode"] in ("nearest", "nearest-exact", "area") and site.fields["align_corners"] is not None:
        raise DoesNotFit("align_corners", "none for this mode", "E_MODEL")
    given = size if size is not None else scale
    if len(given) not in (1, len(rest)):
        raise DoesNotFit(f"{len(given)} sizes for {len(rest)} dimensions", "one, or one for each")
    many = given if len(given) == len(rest) else given * len(rest)
    result = many if size is not None else [math.floor(e * s) for e, s in zip(rest, many, strict=True)]
    if min(result) < 1:
        raise DoesNotFit(f"extents {list(result)}", "at least 1 each")
    bounded(channels * math.prod(int(e) for e in result), f"extents {list(result)}")
    return (channels, *(int(e) for e in result))


def _interpolate(torch: Any, inputs: list[Any], f: Fields) -> Any:
    rank = inputs[0].ndim - 2
    size, scale = (None if f[n] is None else f[n] if len(f[n]) == rank else f[n] * rank for n in ("size", "scale"))
    return torch.nn.functional.interpolate(
        inputs[0], size=size, scale_factor=scale, mode=f["mode"], align_corners=f["align_corners"]
    )


def _interpolate_write(call: Call) -> Fields:
    only(call, recompute_scale_factor=None, antialias=False)
    settings = call.settings
    fields: Fields = {"mode": settings.get("mode", "nearest")}
    if settings.get("align_corners") is not None:
        fields["align_corners"] = bool(settings["align_corners"])
    rank = len(call.shape) - 2
    if settings.get("size") is not None:
        fields["size"] = [int(e) for e in _several(settings["size"], rank)]
    else:
        fields["scale"] = [float(s) for s in _several(settings["scale_factor"], rank)]
    return fields


INTERPOLATE = Operation(
    "interpolate",
    run=_interpolate,
    fields={
        "size": Field(or_none(extents(1)), None),
        "scale": Field(or_none(_scales), None),
        "mode": Field(one_of(*_MODES), "nearest"),
        "align_corners": Field(or_none(truth), None),
    },
    shape=_interpolate_shape,
    cost=lambda site, result: math.prod(result) * (16 if site.fields["mode"] == "bicubic" else 4),
    traced=(
        Traced(
            layers=("Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d"),
            functions=("torch.nn.functional.interpolate", "torch.nn.functional.upsample"),
            settings=("size", "scale_factor", "mode", "align_corners", "recompute_scale_factor", "antialias"),
            write=_interpolate_write,
        ),
    ),
)


def _shuffle_shape(up: bool) -> Any:
    def shape(site: Site) -> Shape:
        channels, (height, width) = channels_and_extents(site.shape, 2)
        r = site.fields["factor"]
        if up:
            if channels % (r * r):
                raise DoesNotFit(f"{channels} channels for a factor of {r}", "a multiple of its square")
            return channels // (r * r), height * r, width * r
        if height % r or width % r:
            raise DoesNotFit(f"{height}×{width} for a factor of {r}", "multiples of it")
        return channels * r * r, height // r, width // r

    return shape


def _shuffle(name: str, layer: str, setting: str) -> Operation:
    return Operation(
        name,
        run=lambda torch, inputs, f: getattr(torch.nn.functional, name)(inputs[0], f["factor"]),
        fields={"factor": Field(integer(1))},
        shape=_shuffle_shape(name == "pixel_shuffle"),
        cost=lambda site, result: 0,
        traced=(
            Traced(
                layers=(layer,),
                functions=(f"torch.nn.functional.{name}",),
                settings=(setting,),
                write=lambda call: {"factor": call.settings[setting]},
            ),
        ),
    )


POOLING = (
    *(_pool(kind, n) for n in (1, 2, 3) for kind in ("max", "avg")),
    *(_adaptive(kind, n) for n in (1, 2, 3) for kind in ("avg", "max")),
    INTERPOLATE,
    _shuffle("pixel_shuffle", "PixelShuffle", "upscale_factor"),
    _shuffle("pixel_unshuffle", "PixelUnshuffle", "downscale_factor"),
)
