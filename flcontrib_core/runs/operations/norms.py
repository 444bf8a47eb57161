"""Normalisations, in evaluation mode."""

from __future__ import annotations

import math
from typing import Any

from flcontrib_core.runs.operations.convolutions import bounded
from flcontrib_core.runs.operations.record import (
    AFFINE,
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
    extents,
    integer,
    number,
    or_none,
)

_EPS = Field(number(0.0), 1e-5)
_AFFINE = {"weight": OPTIONAL, "bias": OPTIONAL, "eps": _EPS}


def _channelwise(*names: str) -> Any:
    def shape(site: Site) -> Shape:
        for name in names:
            site.expect(name, (site.shape[0],))
        return site.shape

    return shape


def _batch_norm_write(call: Call) -> Fields:
    if call.settings.get("running_mean") is None:
        raise Unwritable("without running statistics")
    return {"eps": call.settings["eps"]}


def _twice(site: Site, result: Shape) -> int:
    return 2 * math.prod(result)


def _batch_norm(torch: Any, inputs: list[Any], f: Fields) -> Any:
    x, mean, var, eps = inputs[0], f["mean"], f["var"], f["eps"]
    if not mean.requires_grad:
        return torch.nn.functional.batch_norm(x, mean, var, f["weight"], f["bias"], training=False, eps=eps)
    # torch's own refuses a gradient with respect to running statistics, which updates move like any parameter
    over = (-1, *[1] * (x.dim() - 2))
    y = (x - mean.reshape(over)) / torch.sqrt(var.reshape(over) + eps)
    y = y if f["weight"] is None else y * f["weight"].reshape(over)
    return y if f["bias"] is None else y + f["bias"].reshape(over)


BATCH_NORM = Operation(
    "batch_norm",
    run=_batch_norm,
    fields={"mean": WEIGHT, "var": WEIGHT, **_AFFINE},
    shape=_channelwise("mean", "var", "weight", "bias"),
    traced=(
        Traced(
            layers=("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"),
            settings=("eps", "running_mean"),
            write=_batch_norm_write,
            parameters={"mean": "running_mean", "var": "running_var", **AFFINE},
        ),
    ),
)


def _instance_norm_shape(site: Site) -> Shape:
    if (site.fields["mean"] is None) != (site.fields["var"] is None):
        raise DoesNotFit("only one of mean and var", "both, or neither")
    if site.fields["mean"] is None and math.prod(site.shape[1:]) < 2:
        raise DoesNotFit(f"input of shape {list(site.shape)}", "more than one number per channel")
    return _channelwise("mean", "var", "weight", "bias")(site)  # type: ignore[no-any-return]


def _instance_norm(torch: Any, inputs: list[Any], f: Fields) -> Any:
    own = f["mean"] is None
    return torch.nn.functional.instance_norm(
        inputs[0], f["mean"], f["var"], f["weight"], f["bias"], use_input_stats=own, eps=f["eps"]
    )


INSTANCE_NORM = Operation(
    "instance_norm",
    run=_instance_norm,
    fields={"mean": OPTIONAL, "var": OPTIONAL, **_AFFINE},
    shape=_instance_norm_shape,
    cost=_twice,
    traced=(
        Traced(
            layers=("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"),
            settings=("eps",),
            write=lambda call: {"eps": call.settings["eps"]},
            parameters={"mean": "running_mean", "var": "running_var", **AFFINE},
        ),
    ),
)


def _last_dimensions(*names: str) -> Any:
    def shape(site: Site) -> Shape:
        normalised: Shape = site.fields["shape"]
        if site.shape[-len(normalised) :] != normalised:
            raise DoesNotFit(f"input of shape {list(site.shape)}", f"last dimensions {list(normalised)}")
        for name in names:
            site.expect(name, normalised)
        return site.shape

    return shape


def _layer_norm_write(call: Call) -> Fields:
    fields: Fields = {"shape": list(call.settings["normalized_shape"])}
    eps = call.settings.get("eps", 1e-5)
    return fields if eps is None else {**fields, "eps": eps}


LAYER_NORM = Operation(
    "layer_norm",
    run=lambda torch, inputs, f: torch.nn.functional.layer_norm(
        inputs[0], f["shape"], f["weight"], f["bias"], f["eps"]
    ),
    fields={"shape": Field(extents(1)), **_AFFINE},
    shape=_last_dimensions("weight", "bias"),
    cost=_twice,
    traced=(
        Traced(layers=("LayerNorm",), settings=("normalized_shape", "eps"), write=_layer_norm_write, parameters=AFFINE),
        Traced(
            functions=("torch.nn.functional.layer_norm",),
            settings=("normalized_shape", "weight", "bias", "eps"),
            write=_layer_norm_write,
            parameters=AFFINE,
        ),
    ),
)

RMS_NORM = Operation(
    "rms_norm",
    run=lambda torch, inputs, f: torch.nn.functional.rms_norm(inputs[0], f["shape"], f["weight"], f["eps"]),
    fields={"shape": Field(extents(1)), "weight": OPTIONAL, "eps": Field(or_none(number(0.0)), None)},
    shape=_last_dimensions("weight"),
    cost=_twice,
    traced=(
        Traced(
            layers=("RMSNorm",),
            settings=("normalized_shape", "eps"),
            write=_layer_norm_write,
            parameters={"weight": "weight"},
        ),
    ),
)


def _group_norm_shape(site: Site) -> Shape:
    channels, groups = site.shape[0], site.fields["groups"]
    if channels % groups:
        raise DoesNotFit(f"{channels} channels in {groups} groups", "channels that divide evenly")
    return _channelwise("weight", "bias")(site)  # type: ignore[no-any-return]


GROUP_NORM = Operation(
    "group_norm",
    run=lambda torch, inputs, f: torch.nn.functional.group_norm(
        inputs[0], f["groups"], f["weight"], f["bias"], f["eps"]
    ),
    fields={"groups": Field(integer(1)), **_AFFINE},
    shape=_group_norm_shape,
    cost=_twice,
    traced=(
        Traced(
            layers=("GroupNorm",),
            settings=("num_groups", "eps"),
            write=lambda call: {"groups": call.settings["num_groups"], "eps": call.settings["eps"]},
            parameters=AFFINE,
        ),
    ),
)


def _local_response_shape(site: Site) -> Shape:
    if len(site.shape) < 2:
        raise DoesNotFit(f"input of shape {list(site.shape)}", "channels and at least one more dimension")
    bounded((site.shape[0] + site.fields["size"]) * math.prod(site.shape[1:]), f"a size of {site.fields['size']}")
    return site.shape


LOCAL_RESPONSE_NORM = Operation(
    "local_response_norm",
    run=lambda torch, inputs, f: torch.nn.functional.local_response_norm(
        inputs[0], f["size"], f["alpha"], f["beta"], f["k"]
    ),
    fields={
        "size": Field(integer(1)),
        "alpha": Field(number(), 1e-4),
        "beta": Field(number(), 0.75),
        "k": Field(number(), 1.0),
    },
    shape=_local_response_shape,
    cost=lambda site, result: math.prod(result) * min(site.fields["size"], site.shape[0]),
    traced=(
        Traced(
            layers=("LocalResponseNorm",),
            settings=("size", "alpha", "beta", "k"),
            write=lambda call: {name: call.settings[name] for name in ("size", "alpha", "beta", "k")},
        ),
    ),
)

NORMS = (BATCH_NORM, LAYER_NORM, GROUP_NORM, INSTANCE_NORM, RMS_NORM, LOCAL_RESPONSE_NORM)
