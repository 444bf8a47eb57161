"""Takes what a training loop hands over into the one form the format knows.

Ids and sizes, arrays or tensors by name, lists of arrays, flat vectors. Tensors of other libraries are recognised by
their ``detach().cpu()``, so none of them is imported. Whether the result is a sound run is not decided here: that is
asked of the reader's own checks, so that a refusal is the one the reader would give.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypedDict

import numpy as np

from flcontrib_core.runs import encoding
from flcontrib_core.runs.claims import IdentityClaim
from flcontrib_core.runs.limits import MAX_DATA_SIZE
from flcontrib_core.runs.manifest import is_count, read_clients, read_parameters
from flcontrib_core.runs.model_nodes import parse_spec, reads_tokens
from flcontrib_core.runs.problems import EnoughProblems, Findings, refusal, shown
from flcontrib_core.runs.run_log import Client, ParameterSpec, Validation
from flcontrib_core.runs.tasks import CLASSIFICATION, targets_of
from flcontrib_core.runs.validation_rows import first_row, sent_through
from flcontrib_core.vocabulary import Float32Array, IntArray

Numbers = Any
"""An array, nested lists of numbers, or a tensor of any library whose tensors know ``detach().cpu().numpy()``."""


class EpochOptions(TypedDict, total=False):
    """What may be told about an epoch beside its updates; ``RunRecorder.epoch`` says what each means."""

    participants: Sequence[str] | None
    data_sizes: Mapping[str, int] | Sequence[int] | None
    weights: Mapping[str, Any] | Sequence[float] | None
    start_epoch: Mapping[str, Any] | Sequence[int] | None
    global_model: Numbers | None
    failed: Mapping[str, str] | Iterable[Any] | None
    asked: Sequence[str] | None
    metrics: Mapping[str, Any] | None
    source: Mapping[str, Any] | None
    claims: Iterable[IdentityClaim]
    gap: str | None


def as_array(value: Numbers) -> np.ndarray:
    """Any library's numbers as a numpy array (bfloat16 has no numpy type and is widened)."""
    if hasattr(value, "detach"):
        tensor = value.detach().cpu()
        value = (tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy()
    return np.asarray(value)


def as_float32(value: Numbers, where: str) -> Float32Array:
    """Numbers as float32; values beyond its range become infinite and stay visible as such in the log."""
    array = as_array(value)
    if array.dtype.kind not in "fiu":
        raise refusal("E_ST_DTYPE", where, f"values of type {array.dtype}", "numbers")
    with np.errstate(over="ignore"):
        return np.asarray(array, dtype=np.float32, order="C")


def as_plain(value: Any) -> Any:
    """A number of numpy as Python's own; everything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def as_size(value: Any, where: str) -> int:
    """A data size: a whole number of at least 1."""
    size = as_plain(value)
    if not is_count(size, 1, MAX_DATA_SIZE):
        raise refusal("E_CLIENT_SIZE", where, shown(value))
    return int(size)


def as_clients(clients: Iterable[Any]) -> tuple[Client, ...]:
    """Clients from ``(id, size)`` pairs, id → size, ``{"id": …, "data_size": …}`` mappings or ``Client`` values."""
    entries: list[dict[str, Any]] = []
    for given in clients.items() if isinstance(clients, Mapping) else clients:
        identity: Any
        size: Any
        if isinstance(given, Client):
            identity, size = given.id, given.data_size
        elif isinstance(given, Mapping):
            identity, size = given.get("id"), given.get("data_size")
        elif isinstance(given, tuple | list) and len(given) == 2:
            identity, size = given
        else:
            raise refusal("E_CLIENT_SIZE", f"clients[{len(entries)}]", shown(given), "an id with its number of rows")
        entries.append({"id": identity, "data_size": as_plain(size)})
    findings = Findings()
    with suppress(EnoughProblems):
        checked = read_clients(entries, findings)
    findings.raise_errors()
    return checked


def as_parameters(parameters: Any) -> tuple[ParameterSpec, ...]:
    """Names and shapes from ``(name, shape)`` pairs, or from a mapping of named arrays such as a ``state_dict()``.

    Whole-number entries of a mapping (BatchNorm's ``num_batches_tracked``) are counters that no server averages;
    they are left out.
    """
    pairs: list[tuple[Any, Sequence[Any]]]
    if isinstance(parameters, Mapping):
        arrays = {str(name): as_array(value) for name, value in parameters.items()}
        pairs = [(name, array.shape) for name, array in arrays.items() if array.dtype.kind == "f"]
    else:
        pairs = [(p.name, p.shape) if isinstance(p, ParameterSpec) else (p[0], p[1]) for p in parameters]
    findings = Findings()
    with suppress(EnoughProblems):
        entries = [{"name": name, "shape": [as_plain(extent) for extent in shape]} for name, shape in pairs]
        checked = read_parameters(entries, findings)
    findings.raise_errors()
    return checked


def flatten(values: Numbers, parameters: Sequence[ParameterSpec], where: str) -> Float32Array:
    """One model or update as its flat vector (P,): from a mapping by name, a list of arrays in order, or a vector."""
    if isinstance(values, Mapping):
        return _flatten_named(values, parameters, where)
    if isinstance(values, list | tuple) and values and all(hasattr(v, "shape") and v.shape != () for v in values):
        if len(values) != len(parameters):
            expected = f"{len(parameters)} arrays in the manifest's order"
            raise refusal("E_SHAPE", where, f"{len(values)} arrays", expected)
        return _flatten_named({p.name: v for p, v in zip(parameters, values, strict=True)}, parameters, where)
    total = sum(p.count for p in parameters)
    vector = as_float32(values, where)
    if vector.shape != (total,):
        found = f"{vector.size} numbers of shape {vector.shape}"
        raise refusal("E_SHAPE", where, found, f"a vector of the model's {total} numbers")
    return vector


def _flatten_named(values: Mapping[str, Numbers], parameters: Sequence[ParameterSpec], where: str) -> Float32Array:
    known = {p.name for p in parameters}
    unknown = [n for n, v in values.items() if n not in known and as_array(v).dtype.kind == "f"]
    missing = [p.name for p in parameters if p.name not in values]
    if unknown or missing:
        found = f"without {missing[:5]} and with the unknown {unknown[:5]}"
        raise refusal("E_SHAPE", where, found, "exactly the manifest's parameters")
    pieces = []
    for spec in parameters:
        at = f"{where}, {spec.name!r}"
        piece = as_float32(values[spec.name], at)
        if piece.shape != spec.shape:
            raise refusal("E_SHAPE", at, f"shape {piece.shape}", f"shape {spec.shape}")
        pieces.append(piece.reshape(-1))
    return np.concatenate(pieces)


def as_validation(given: Any, model: Any, task: str = CLASSIFICATION) -> Validation:
    """The validation set from ``(x, y)``, ``(x, y, group)`` or a ``Validation``, in the format's types."""
    x, y, group = (given.x, given.y, given.group) if isinstance(given, Validation) else (*given, None)[:3]
    features = as_array(x)
    nodes, faults = ([], []) if model is None else parse_spec(model)
    if nodes and not faults and reads_tokens(nodes) and features.dtype.kind in "iu":
        features = features.astype(np.int64)
    else:
        features = as_float32(features, "validation, 'x'")
    targets = as_array(y)
    if "F32" in targets_of(task).dtypes and (targets.dtype.kind == "f" or task == "regression"):
        targets = as_float32(targets, "validation, 'y'")
    else:
        targets = _as_labels(targets, "y")
    return Validation(features, targets, None if group is None else _as_labels(group, "group"))


def opening_contents(
    initial: Float32Array | None,
    parameters: Sequence[ParameterSpec],
    model: Mapping[str, Any] | None,
    validation: Any | None,
    task: str,
) -> dict[str, bytes]:
    """The files of a run that are written once, as far as they are given."""
    contents: dict[str, bytes] = {}
    if initial is not None:
        contents[encoding.INITIAL] = encoding.initial_bytes(initial, parameters)
    if model is not None:
        contents[encoding.MODEL] = encoding.json_bytes(model, indent=1, strict=False)
        model = json.loads(contents[encoding.MODEL])
    if validation is not None:
        contents[encoding.VALIDATION] = encoding.validation_bytes(as_validation(validation, model, task))
    return contents


def _as_labels(values: Numbers, name: str) -> IntArray:
    labels = as_array(values)
    if labels.dtype.kind not in "iu":
        raise refusal("E_LABEL", f"validation, {name!r}", f"values of type {labels.dtype}", "whole numbers")
    return labels.astype(np.int64)


def as_model(module: Any, validation: Any | None) -> dict[str, Any]:
    """model.json of a torch module; needs one row to send through it."""
    if validation is None:
        raise refusal("E_MISSING:argument", "validation", "none", "rows to trace the module with")
    from flcontrib_core.runs.trace import trace_module

    row = first_row(validation.x if isinstance(validation, Validation) else validation[0], module)
    sent_through(module, row)
    return trace_module(copy.deepcopy(module).cpu(), row)


def as_classes(classes: int | None, model: Any, validation: Any | None, task: str | None = None) -> int | None:
    """The number of classes: as given, or as many as a torch module has logits, or as the labels show."""
    if classes is not None or validation is None or not targets_of(task or CLASSIFICATION).needs_classes:
        return as_plain(classes)  # type: ignore[no-any-return]
    x, y = (validation.x, validation.y) if isinstance(validation, Validation) else validation[:2]
    if hasattr(model, "state_dict"):
        outputs = sent_through(model, first_row(x, model))
        return int(outputs.shape[1 if task == "segmentation" else -1])
    return max(int(as_array(y).max(initial=0)) + 1, 2)


def as_metrics(metrics: Mapping[str, Any], where: str) -> dict[str, float]:
    """Metrics as finite floats."""
    values = {str(name): float(value) for name, value in metrics.items()}
    for name, value in values.items():
        if not math.isfinite(value):
            at = f"{where}, metric {name!r}"
            raise refusal("E_JSON_NONFINITE", at, str(value))
    return values


def as_failures(failed: Mapping[str, str] | Iterable[Any]) -> dict[str, str]:
    """id → reason, from such a mapping or from ids, ``(id, reason)`` pairs or ``{"client", "reason"}`` mappings."""
    if isinstance(failed, Mapping):
        return dict(failed)
    reasons: dict[str, str] = {}
    for entry in failed:
        if isinstance(entry, str):
            reasons[entry] = NO_REPLY
        elif isinstance(entry, Mapping):
            reasons[entry["client"]] = entry.get("reason", NO_REPLY)
        else:
            identity, reason = entry
            reasons[identity] = reason
    return reasons


NO_REPLY = "no reply"
