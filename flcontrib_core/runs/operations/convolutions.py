"""Linear maps: fully connected, convolutions in one to three dimensions, and their transposes."""

from __future__ import annotations

import math
from typing import Any

from flcontrib_core.runs.operations.record import (
    AFFINE,
    MAX_ACTIVATION,
    MAX_SCRATCH,
    OPTIONAL,
    WEIGHT,
    Call,
    DoesNotFit,
    Field,
    Fields,
    Operation,
    Shape,
    Site,
    Traced,
    Unwritable,
    integer,
    sizes,
)


def _linear_shape(site: Site) -> Shape:
    outputs, inputs = site.parameters.of_rank(site.fields["weight"], 2, "weight")
    if site.shape[-1] != inputs:
        raise DoesNotFit(f"input of shape {list(site.shape)}", f"a last dimension of {inputs}")
    site.expect("bias", (outputs,))
    return (*site.shape[:-1], outputs)


def _linear(torch: Any, inputs: list[Any], f: Fields) -> Any:
    (x,), weight = inputs, f["weight"]
    if x.ndim > 2 and not x.is_contiguous():
        # Here torch chooses its routine by whether the weights are trained, as a module's own are.
        with torch.inference_mode(mode=False):
            weight = weight.clone().requires_grad_()
    return torch.nn.functional.linear(x, weight, f["bias"])


LINEAR = Operation(
    "linear",
    run=_linear,
    fields={"weight": WEIGHT, "bias": OPTIONAL},
    shape=_linear_shape,
    cost=lambda site, result: math.prod(result) * site.shape[-1],
    exact=True,
    traced=(
        Traced(
            layers=("Linear",),
            functions=("torch.nn.functional.linear",),
            settings=("weight", "bias"),
            parameters=AFFINE,
        ),
    ),
)


def slide(
    shape: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape | None = None, ceil: bool = False
) -> Shape:
    """Extents after a window has moved over them (torch's rules)."""
    result = []
    for extent, k, s, p, d in zip(shape, kernel, stride, padding, dilation or (1,) * len(shape), strict=True):
        room = extent + 2 * p - d * (k - 1) - 1
        if room < 0:
            raise DoesNotFit(f"{extent} + 2·{p} numbers under a window of {d * (k - 1) + 1}", "a window that fits")
        steps = -(-room // s) if ceil else room // s
        if ceil and steps * s >= extent + p:  # no window begins in the padding behind the end
            steps -= 1
        result.append(steps + 1)
    return tuple(result)


def channels_and_extents(shape: Shape, dimensions: int) -> tuple[int, Shape]:
    """Channels, and the extents after them."""
    if len(shape) != dimensions + 1:
        names = {1: "channels, length", 2: "channels, height, width", 3: "channels, depth, height, width"}
        raise DoesNotFit(f"input of shape {list(shape)}", names[dimensions])
    return shape[0], shape[1:]


def bounded(numbers: int, what: str, most: int = MAX_ACTIVATION) -> None:
    """Refuses work that would need more numbers per row than this."""
    if numbers > most:
        raise DoesNotFit(what, f"at most {most} numbers per row", "E_MODEL_SIZE")


def _conv_shape(site: Site) -> Shape:
    fields = site.fields
    weight = site.parameters.of_rank(fields["weight"], len(fields["stride"]) + 2, "weight")
    channels, extents = channels_and_extents(site.shape, len(fields["stride"]))
    outputs, per_group, *kernel = weight
    groups, padding = fields["groups"], fields["padding"]
    if per_group * groups != channels or outputs % groups:
        raise DoesNotFit(
            f"{channels} channels for a weight of {outputs}×{per_group} in {groups} groups",
            "channels that divide evenly",
        )
    bounded(math.prod(e + 2 * p for e, p in zip(extents, padding, strict=True)) * channels, f"padding {padding}")
    site.expect("bias", (outputs,))
    result = slide(extents, tuple(kernel), fields["stride"], padding, fields["dilation"])
    bounded(channels * math.prod(kernel) * math.prod(result), f"windows of {kernel} at {result} places", MAX_SCRATCH)
    return (outputs, *result)


def _transposed_shape(site: Site) -> Shape:
    fields = site.fields
    weight = site.parameters.of_rank(fields["weight"], len(fields["stride"]) + 2, "weight")
    channels, extents = channels_and_extents(site.shape, len(fields["stride"]))
    inputs, per_group, *kernel = weight
    groups = fields["groups"]
    if inputs != channels or channels % groups:
        raise DoesNotFit(f"{channels} channels for a weight of {inputs} in {groups} groups", "channels that fit")
    outputs = per_group * groups
    site.expect("bias", (outputs,))
    result = []
    names = ("stride", "padding", "dilation", "output_padding")
    for extent, k, s, p, d, further in zip(extents, kernel, *(fields[name] for name in names), strict=True):
        if further >= max(s, d):
            raise DoesNotFit(f"output_padding {further}", f"less than the stride {s} or the dilation {d}")
        size = (extent - 1) * s - 2 * p + d * (k - 1) + further + 1
        if size < 1:
            raise DoesNotFit(f"{extent} numbers that become {size}", "at least one")
        bounded(size + 2 * p, f"an extent of {size + 2 * p}")
        result.append(size)
    bounded(outputs * math.prod(kernel) * math.prod(extents), f"windows of {kernel} at {extents} places", MAX_SCRATCH)
    return (outputs, *result)


def _conv_cost(site: Site, result: Shape) -> int:
    return math.prod(result) * math.prod(site.parameters.shape(site.fields["weight"])[1:])


def _transposed_cost(site: Site, result: Shape) -> int:
    return math.prod(site.shape) * math.prod(site.parameters.shape(site.fields["weight"])[1:])


def _several(value: Any, dimensions: int) -> list[int]:
    values = list(value) if isinstance(value, tuple | list) else [value]
    if not all(isinstance(v, int) for v in values):
        raise Unwritable(f"with sizes {value!r} (only integers can be written)")
    return values * dimensions if len(values) == 1 else values


def _conv_write(dimensions: int) -> Any:
    def write(call: Call) -> Fields:
        settings = call.settings
        if settings.get("padding_mode", "zeros") != "zeros":
            raise Unwritable(f"with padding_mode={settings['padding_mode']!r} (only 'zeros' can be written)")
        dilation = _several(settings.get("dilation", 1), dimensions)
        fields: Fields = {
            "stride": _several(settings.get("stride", 1), dimensions),
            "padding": _padding(settings, dilation, dimensions),
            "dilation": dilation,
            "groups": settings.get("groups", 1),
        }
        if "output_padding" in settings:
            fields["output_padding"] = _several(settings["output_padding"], dimensions)
        return fields

    return write


def _padding(settings: Any, dilation: list[int], dimensions: int) -> list[int]:
    padding = settings.get("padding", 0)
    if padding == "valid":
        return [0] * dimensions
    if padding == "same":
        if "kernel_size" not in settings:
            raise Unwritable("with padding='same' (write the numbers)")
        return [d * (k - 1) // 2 for d, k in zip(dilation, settings["kernel_size"], strict=True)]
    return _several(padding, dimensions)


def _conv(dimensions: int) -> Operation:
    def run(torch: Any, inputs: list[Any], f: Fields) -> Any:
        apply = getattr(torch.nn.functional, f"conv{dimensions}d")
        return apply(inputs[0], f["weight"], f["bias"], f["stride"], f["padding"], f["dilation"], f["groups"])

    settings = ("stride", "padding", "dilation", "groups")
    return Operation(
        f"conv{dimensions}d",
        run=run,
        fields={
            "weight": WEIGHT,
            "bias": OPTIONAL,
            "stride": Field(sizes(dimensions, 1), (1,) * dimensions),
            "padding": Field(sizes(dimensions, 0), (0,) * dimensions),
            "dilation": Field(sizes(dimensions, 1), (1,) * dimensions),
            "groups": Field(integer(1), 1),
        },
        shape=_conv_shape,
        cost=_conv_cost,
        traced=(
            Traced(
                layers=(f"Conv{dimensions}d",),
                settings=(*settings, "padding_mode", "kernel_size"),
                write=_conv_write(dimensions),
                parameters=AFFINE,
            ),
            Traced(
                functions=(f"torch.nn.functional.conv{dimensions}d", f"torch.conv{dimensions}d"),
                settings=("weight", "bias", *settings),
                write=_conv_write(dimensions),
                parameters=AFFINE,
            ),
        ),
    )


def _transposed(dimensions: int) -> Operation:
    def run(torch: Any, inputs: list[Any], f: Fields) -> Any:
        apply = getattr(torch.nn.functional, f"conv_transpose{dimensions}d")
        further = f["output_padding"]
        return apply(inputs[0], f["weight"], f["bias"], f["stride"], f["padding"], further, f["groups"], f["dilation"])

    return Operation(
        f"conv_transpose{dimensions}d",
        run=run,
        fields={
            **_conv(dimensions).fields,
            "output_padding": Field(sizes(dimensions, 0), (0,) * dimensions),
        },
        shape=_transposed_shape,
        cost=_transposed_cost,
        traced=(
            Traced(
                layers=(f"ConvTranspose{dimensions}d",),
                settings=("stride", "padding", "output_padding", "groups", "dilation", "padding_mode"),
                write=_conv_write(dimensions),
                parameters=AFFINE,
            ),
        ),
    )


CONVOLUTIONS = (LINEAR, *(_conv(n) for n in (1, 2, 3)), *(_transposed(n) for n in (1, 2, 3)))
