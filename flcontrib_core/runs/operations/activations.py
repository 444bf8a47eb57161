"""Operations that turn every number by itself, and those that compare the numbers along one dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flcontrib_core.runs.operations.record import (
    DIM,
    WEIGHT,
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
    integer,
    number,
    one_of,
    only,
    or_none,
)

Apply = Callable[[Any, Any, Fields], Any]


def _simple(name: str, layer: str, apply: Apply, *, exact: bool = False, methods: bool = False) -> Operation:
    """An activation without settings."""
    return Operation(
        name,
        run=lambda torch, inputs, fields: apply(torch, inputs[0], fields),
        elementwise=True,
        exact=exact,
        traced=(
            Traced(
                layers=(layer,) if layer else (),
                functions=(
                    *(f"torch.nn.functional.{name}", f"torch.{name}", f"torch.{name}_"),
                    *((f"operator.{name}",) if name in ("neg", "abs") else ()),
                ),
                methods=(name, f"{name}_") if methods else (),
            ),
        ),
    )


def _divisor(value: object) -> float:
    if (read := number()(value)) == 0:
        raise BadField("a finite number other than 0")
    return read


def _of_torch(name: str) -> Apply:
    return lambda torch, x, f: getattr(torch, name)(x)


def _with(
    name: str,
    layer: str,
    fields: dict[str, tuple[str, float]],
    apply: Apply,
    *,
    exact: bool = False,
    functions: tuple[str, ...] = (),
) -> Operation:
    """An activation with numbers: field -> (torch's name, default)."""

    def write(call: Call) -> Fields:
        return {ours: float(call.settings.get(torchs, default)) for ours, (torchs, default) in fields.items()}

    return Operation(
        name,
        run=lambda torch, inputs, given: apply(torch, inputs[0], given),
        fields={ours: Field(number(), default) for ours, (_, default) in fields.items()},
        elementwise=True,
        exact=exact,
        traced=(
            Traced(
                layers=(layer,),
                functions=(f"torch.nn.functional.{name}", *functions),
                settings=tuple(torchs for torchs, _ in fields.values()),
                write=write,
            ),
        ),
    )


def _gelu_write(call: Call) -> Fields:
    approximate = call.settings.get("approximate", "none")
    return {} if approximate == "none" else {"approximate": approximate}


GELU = Operation(
    "gelu",
    run=lambda torch, inputs, f: torch.nn.functional.gelu(inputs[0], approximate=f["approximate"]),
    fields={"approximate": Field(one_of("none", "tanh"), "none")},
    elementwise=True,
    traced=(
        Traced(layers=("GELU",), functions=("torch.nn.functional.gelu",), settings=("approximate",), write=_gelu_write),
    ),
)


def _clamp_write(call: Call) -> Fields:
    fields: Fields = {}
    for ours, names in (("low", ("min_val", "min")), ("high", ("max_val", "max"))):
        given = next((call.settings[name] for name in names if call.settings.get(name) is not None), None)
        if given is not None:
            if not isinstance(given, float | int):
                raise Unwritable("with a bound that is no number")
            fields[ours] = float(given)
    return fields


def _hardtanh_write(call: Call) -> Fields:
    return {"low": float(call.settings.get("min_val", -1.0)), "high": float(call.settings.get("max_val", 1.0))}


def _clamp_shape(site: Site) -> Shape:
    if site.fields["low"] is None and site.fields["high"] is None:
        raise DoesNotFit("neither low nor high", "at least one of them", "E_MODEL")
    return site.shape


CLAMP = Operation(
    "clamp",
    run=lambda torch, inputs, f: torch.clamp(inputs[0], f["low"], f["high"]),
    fields={"low": Field(or_none(number()), None), "high": Field(or_none(number()), None)},
    shape=_clamp_shape,
    elementwise=True,
    exact=True,
    traced=(
        Traced(
            layers=("Hardtanh",),
            functions=("torch.nn.functional.hardtanh",),
            settings=("min_val", "max_val"),
            write=_hardtanh_write,
        ),
        Traced(
            functions=("torch.clamp", "torch.clip"),
            methods=("clamp", "clamp_", "clip"),
            settings=("min", "max"),
            write=_clamp_write,
        ),
        Traced(
            functions=("torch.clamp_min",), methods=("clamp_min", "clamp_min_"), settings=("min",), write=_clamp_write
        ),
    ),
)


def _prelu_shape(site: Site) -> Shape:
    (count,) = site.parameters.of_rank(site.fields["weight"], 1, "weight")
    if count not in (1, site.shape[0]):
        raise DoesNotFit(f"{count} slopes for {site.shape[0]} channels", "one, or one for each channel")
    return site.shape


PRELU = Operation(
    "prelu",
    run=lambda torch, inputs, f: torch.nn.functional.prelu(inputs[0], f["weight"]),
    fields={"weight": WEIGHT},
    shape=_prelu_shape,
    traced=(
        Traced(
            layers=("PReLU",),
            functions=("torch.nn.functional.prelu",),
            settings=("weight",),
            parameters={"weight": "weight"},
        ),
    ),
)


def _along(site: Site) -> Shape:
    site.axis(site.fields["dim"])
    return site.shape


def _along_write(call: Call) -> Fields:
    only(call, dtype=None)
    dim = call.settings.get("dim")
    if dim is None:
        raise Unwritable("without saying along which dimension")
    return {"dim": call.axis(dim)}


def _softmax(name: str, layer: str) -> Operation:
    functions = (f"torch.nn.functional.{name}", f"torch.{name}")
    positional = ("dim", "_stacklevel", "dtype")
    return Operation(
        name,
        run=lambda torch, inputs, f: getattr(torch.nn.functional, name)(inputs[0], dim=f["dim"]),
        fields={"dim": DIM},
        shape=_along,
        cost=lambda site, result: 4 * math.prod(result),
        traced=(
            Traced(layers=(layer,), settings=("dim",), write=_along_write),
            Traced(functions=functions[:1], settings=positional, write=_along_write),
            Traced(functions=functions[1:], methods=(name,), settings=("dim", "dtype"), write=_along_write),
        ),
    )


def _glu_shape(site: Site) -> Shape:
    axis = site.axis(site.fields["dim"])
    if site.shape[axis] % 2:
        raise DoesNotFit(f"{site.shape[axis]} numbers to halve", "an even number")
    return (*site.shape[:axis], site.shape[axis] // 2, *site.shape[axis + 1 :])


GLU = Operation(
    "glu",
    run=lambda torch, inputs, f: torch.nn.functional.glu(inputs[0], f["dim"]),
    fields={"dim": Field(integer(-8), -1)},
    shape=_glu_shape,
    traced=(
        Traced(
            layers=("GLU",),
            functions=("torch.nn.functional.glu",),
            settings=("dim",),
            write=lambda call: {"dim": call.axis(call.settings.get("dim", -1))},
        ),
    ),
)

NORMALIZE = Operation(
    "normalize",
    run=lambda torch, inputs, f: torch.nn.functional.normalize(inputs[0], p=f["p"], dim=f["dim"], eps=f["eps"]),
    fields={"p": Field(number(0.0), 2.0), "dim": Field(integer(-8), 1), "eps": Field(number(0.0), 1e-12)},
    shape=_along,
    traced=(
        Traced(
            functions=("torch.nn.functional.normalize",),
            settings=("p", "dim", "eps"),
            write=lambda call: {
                "p": float(call.settings.get("p", 2.0)),
                "dim": call.axis(call.settings.get("dim", 1)),
                "eps": float(call.settings.get("eps", 1e-12)),
            },
        ),
    ),
)

ACTIVATIONS = (
    _simple("relu", "ReLU", lambda torch, x, f: torch.relu(x), exact=True, methods=True),
    GELU,
    _simple("tanh", "Tanh", lambda torch, x, f: torch.tanh(x), methods=True),
    _simple("sigmoid", "Sigmoid", lambda torch, x, f: torch.sigmoid(x), methods=True),
    _simple("silu", "SiLU", lambda torch, x, f: torch.nn.functional.silu(x)),
    _with(
        "leaky_relu",
        "LeakyReLU",
        {"slope": ("negative_slope", 0.01)},
        lambda torch, x, f: torch.nn.functional.leaky_relu(x, f["slope"]),
        exact=True,
    ),
    _simple("relu6", "ReLU6", lambda torch, x, f: torch.nn.functional.relu6(x), exact=True),
    _simple("hardswish", "Hardswish", lambda torch, x, f: torch.nn.functional.hardswish(x)),
    _simple("hardsigmoid", "Hardsigmoid", lambda torch, x, f: torch.nn.functional.hardsigmoid(x)),
    _simple("mish", "Mish", lambda torch, x, f: torch.nn.functional.mish(x)),
    _simple("selu", "SELU", lambda torch, x, f: torch.nn.functional.selu(x)),
    _simple("softsign", "Softsign", lambda torch, x, f: torch.nn.functional.softsign(x)),
    _simple("logsigmoid", "LogSigmoid", lambda torch, x, f: torch.nn.functional.logsigmoid(x)),
    _with("elu", "ELU", {"alpha": ("alpha", 1.0)}, lambda torch, x, f: torch.nn.functional.elu(x, f["alpha"])),
    replace(
        _with("celu", "CELU", {"alpha": ("alpha", 1.0)}, lambda torch, x, f: torch.nn.functional.celu(x, f["alpha"])),
        fields={"alpha": Field(_divisor, 1.0)},
    ),
    _with(
        "softplus",
        "Softplus",
        {"beta": ("beta", 1.0), "threshold": ("threshold", 20.0)},
        lambda torch, x, f: torch.nn.functional.softplus(x, f["beta"], f["threshold"]),
    ),
    CLAMP,
    PRELU,
    _softmax("softmax", "Softmax"),
    _softmax("log_softmax", "LogSoftmax"),
    GLU,
    NORMALIZE,
    *(
        _simple(name, "", _of_torch(name), methods=True)
        for name in ("exp", "log", "sqrt", "rsqrt", "abs", "neg", "square", "sin", "cos", "erf", "log1p")
    ),
)
