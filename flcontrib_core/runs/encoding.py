"""How does a federated run become the bytes of a ``.flrun``?

Pure functions without a file in sight: what a caller hands over (ids and sizes, arrays or tensors by name, flat
vectors) is checked and becomes the exact bytes the format asks for. The recorder writes them to a directory; the
simulator's in-memory runs hash them, so that both carry the same digest. Needs numpy and safetensors only: tensors
of other libraries are recognised by their ``detach().cpu()``.

A refusal is a ``RunLogError`` with the code the reader would give the same fault.
"""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from safetensors.numpy import save

from flcontrib_core.errors import Problem, RunLogError
from flcontrib_core.runs.run_log import Client, ParameterSpec, Truth, Validation
from flcontrib_core.vocabulary import Float32Array

Numbers = Any
"""An array, nested lists of numbers, or a tensor of any library whose tensors know ``detach().cpu().numpy()``."""

MANIFEST, EPOCHS, INITIAL, MODEL, VALIDATION = (
    "manifest.json",
    "epochs.jsonl",
    "initial.safetensors",
    "model.json",
    "validation.safetensors",
)
LONGEST_ID = 200
LARGEST_SIZE = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""


def refusal(code: str, where: str, found: str, expected: str, fix: str) -> RunLogError:
    """The typed error of one fault."""
    return RunLogError((Problem(code, where, found, expected, fix),))


def epoch_file(epoch: int) -> str:
    """The name of an epoch's tensors inside the run: ``epochs/00007.safetensors``."""
    return f"epochs/{epoch:05d}.safetensors"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
        raise refusal("E_ST_DTYPE", where, f"values of type {array.dtype}", "numbers", "Record numeric arrays only.")
    with np.errstate(over="ignore"):
        return np.array(array, dtype=np.float32, order="C")


def as_size(value: Any, where: str) -> int:
    """A data size: a whole number of at least 1."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not 1 <= int(value) <= LARGEST_SIZE:
        raise refusal(
            "E_CLIENT_SIZE", where, repr(value), "a whole number of at least 1", "Give the number of training rows."
        )
    return int(value)


def as_clients(clients: Iterable[Any]) -> tuple[Client, ...]:
    """Clients from ``(id, size)`` pairs, ``{"id": …, "data_size": …}`` mappings or ``Client`` values."""
    checked: list[Client] = []
    seen: dict[str, str] = {}
    for position, given in enumerate(clients):
        where = f"clients[{position}]"
        if isinstance(given, Client):
            identity, size = given.id, given.data_size
        elif isinstance(given, Mapping):
            identity, size = given.get("id"), given.get("data_size")
        else:
            identity, size = given
        if not isinstance(identity, str) or not 1 <= len(identity) <= LONGEST_ID or not _encodable(identity):
            raise refusal(
                "E_CLIENT_ID",
                where,
                repr(identity)[:80],
                f"a text of 1 to {LONGEST_ID} characters",
                "Give every client a short text of its own.",
            )
        normal = unicodedata.normalize("NFC", identity)
        if normal in seen:
            raise refusal(
                "E_CLIENT_DUP", where, repr(identity), "ids that differ after NFC", "Give every client its own id."
            )
        seen[normal] = identity
        checked.append(Client(identity, as_size(size, f"{where} ({identity!r})")))
    if not checked:
        raise refusal("E_CLIENT_ID", "clients", "no client", "at least one", "List the clients of the federation.")
    return tuple(checked)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_parameters(parameters: Any) -> tuple[ParameterSpec, ...]:
    """Names and shapes from ``(name, shape)`` pairs, or from a mapping of named arrays such as a ``state_dict()``.

    Whole-number entries of a mapping (BatchNorm's ``num_batches_tracked``) are counters that no server averages;
    they are left out.
    """
    pairs: list[tuple[str, tuple[int, ...]]]
    if isinstance(parameters, Mapping):
        arrays = {str(name): as_array(value) for name, value in parameters.items()}
        pairs = [(name, array.shape) for name, array in arrays.items() if array.dtype.kind == "f"]
    else:
        pairs = [(p.name, p.shape) if isinstance(p, ParameterSpec) else (p[0], tuple(p[1])) for p in parameters]
    times = Counter(name for name, _ in pairs)
    for name, shape in pairs:
        sound = isinstance(name, str) and name not in ("", "__metadata__") and times[name] == 1
        if not sound or any(not isinstance(d, int | np.integer) or d < 1 for d in shape):
            raise refusal(
                "E_SHAPE",
                f"parameters[{name!r}]",
                f"shape {shape}",
                "unique names and positive whole dimensions",
                "List each tensor of the model once, in the order of the flattened vector.",
            )
    if not pairs:
        raise refusal("E_SHAPE", "parameters", "none", "at least one tensor", "List the tensors the server averages.")
    return tuple(ParameterSpec(name, tuple(int(d) for d in shape)) for name, shape in pairs)


def flatten(values: Numbers, parameters: Sequence[ParameterSpec], where: str) -> Float32Array:
    """One model or update as its flat vector (P,): from a mapping by name, a list of arrays in order, or a vector."""
    if isinstance(values, Mapping):
        return _flatten_named(values, parameters, where)
    if isinstance(values, list | tuple) and values and all(hasattr(v, "shape") and v.shape != () for v in values):
        if len(values) != len(parameters):
            raise refusal(
                "E_SHAPE",
                where,
                f"{len(values)} arrays",
                f"{len(parameters)} arrays in the manifest's order",
                "Record the run with one model.",
            )
        return _flatten_named({p.name: v for p, v in zip(parameters, values, strict=True)}, parameters, where)
    total = sum(p.count for p in parameters)
    vector = as_float32(values, where)
    if vector.shape != (total,):
        raise refusal(
            "E_SHAPE",
            where,
            f"{vector.size} numbers of shape {vector.shape}",
            f"a vector of the model's {total} numbers",
            "Record the run with one model.",
        )
    return vector


def _flatten_named(values: Mapping[str, Numbers], parameters: Sequence[ParameterSpec], where: str) -> Float32Array:
    known = {p.name for p in parameters}
    unknown = [n for n, v in values.items() if n not in known and as_array(v).dtype.kind == "f"]
    missing = [p.name for p in parameters if p.name not in values]
    if unknown or missing:
        raise refusal(
            "E_SHAPE",
            where,
            f"without {missing[:5]} and with the unknown {unknown[:5]}",
            "exactly the manifest's parameters",
            "Record the run with one model.",
        )
    pieces = []
    for spec in parameters:
        piece = as_float32(values[spec.name], f"{where}, {spec.name!r}")
        if piece.shape != spec.shape:
            raise refusal(
                "E_SHAPE",
                f"{where}, {spec.name!r}",
                f"shape {piece.shape}",
                f"shape {spec.shape}",
                "Record the run with one model.",
            )
        pieces.append(piece.reshape(-1))
    return np.concatenate(pieces)


def split_flat(vector: Float32Array, parameters: Sequence[ParameterSpec]) -> dict[str, Float32Array]:
    """The named tensors of a flat vector: the inverse of ``flatten``."""
    tensors, start = {}, 0
    for spec in parameters:
        tensors[spec.name] = vector[start : start + spec.count].reshape(spec.shape)
        start += spec.count
    return tensors


def as_validation(given: Any, classes: int | None, model: Mapping[str, Any] | None) -> Validation:
    """The validation set from ``(x, y)``, ``(x, y, group)`` or a ``Validation``, in the format's types."""
    x, y, group = (given.x, given.y, given.group) if isinstance(given, Validation) else (*given, None)[:3]
    features, labels = as_array(x), as_array(y)
    groups = None if group is None else as_array(group)
    rows = len(features)
    if rows == 0 or classes is None or classes < 1:
        raise refusal(
            "E_VALID_EMPTY" if rows == 0 else "E_MISSING",
            "validation",
            f"{rows} rows, classes = {classes}",
            "at least one row, and the number of classes",
            "Pass classes=… beside the validation set.",
        )
    for name, column in (("y", labels), ("group", groups)):
        if column is not None and (column.shape != (rows,) or column.dtype.kind not in "iu"):
            raise refusal(
                "E_LABEL",
                f"validation, {name!r}",
                f"{column.dtype} of shape {column.shape}",
                f"{rows} whole numbers",
                "Give one whole number per row.",
            )
    highest = max(classes, 2) - 1
    if labels.min() < 0 or labels.max() > highest:
        raise refusal(
            "E_LABEL",
            "validation, 'y'",
            f"labels {labels.min()} to {labels.max()}",
            f"labels 0 to {highest}",
            "Number the classes from 0.",
        )
    first_op = (model or {}).get("layers", (model or {}).get("nodes", [{}]))[0].get("op")
    x_out = features.astype(np.int64) if first_op == "embedding" else as_float32(features, "validation, 'x'")
    return Validation(x_out, labels.astype(np.int64), None if groups is None else groups.astype(np.int64))


def initial_bytes(initial: Float32Array, parameters: Sequence[ParameterSpec]) -> bytes:
    return save(split_flat(initial, parameters))


def epoch_bytes(updates: Float32Array | None, global_model: Float32Array | None) -> bytes | None:
    """The tensors of one epoch, or None where there is nothing to store."""
    tensors = {"updates": updates, "global": global_model}
    present = {name: np.ascontiguousarray(value) for name, value in tensors.items() if value is not None}
    return save(present) if present else None


def validation_bytes(validation: Validation) -> bytes:
    tensors = {"x": np.ascontiguousarray(validation.x), "y": validation.y}
    return save(tensors if validation.group is None else {**tensors, "group": validation.group})


def json_bytes(value: Any, indent: int | None = None) -> bytes:
    """Strict JSON in UTF-8: NaN and infinities never enter a log's text."""
    return (json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent) + "\n").encode()


def truth_record(truth: Truth | Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest says about who was dishonest, and when."""
    if not isinstance(truth, Truth):
        return dict(truth)
    return {
        "dishonest": [
            {
                "client": d.client,
                "windows": [list(w) for w in d.windows],
                "attack": d.attack,
                **({} if d.strength is None else {"strength": d.strength}),
            }
            for d in truth.dishonest
        ]
    }


def manifest_record(
    clients: Sequence[Client],
    parameters: Sequence[ParameterSpec],
    files: Mapping[str, str],
    **optional: Any,
) -> dict[str, Any]:
    """manifest.json as a mapping; optional keys that are None are left out."""
    return {
        "format": "flrun",
        "version": 1,
        **{key: value for key, value in optional.items() if value is not None},
        "clients": [{"id": c.id, "data_size": c.data_size} for c in clients],
        "parameters": [{"name": p.name, "shape": list(p.shape)} for p in parameters],
        "files": dict(files),
    }


def finite_metrics(metrics: Mapping[str, Any], where: str) -> dict[str, float]:
    values = {str(name): float(value) for name, value in metrics.items()}
    for name, value in values.items():
        if not math.isfinite(value):
            raise refusal(
                "E_JSON_NONFINITE", f"{where}, metric {name!r}", str(value), "a finite number", "Leave it out."
            )
    return values


def run_digest(hashes: Mapping[str, str]) -> str:
    """The run's identity: sha256 over ``name + NUL + content hash + newline`` in byte order of the names."""
    ordered = sorted(hashes.items(), key=lambda item: item[0].encode())
    return sha256(b"".join(f"{name}\0{content}\n".encode() for name, content in ordered))
