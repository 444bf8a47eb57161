"""The bytes a federated run is made of.

Pure functions without a file in sight. The recorder writes what they return; the simulator's in-memory runs only
hash it, so that both carry the same digest. Equal content always gives equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from safetensors.numpy import save

from flcontrib_core.errors import SettingsError
from flcontrib_core.runs.manifest import NUMBER_TYPES
from flcontrib_core.runs.problems import refusal
from flcontrib_core.runs.run_log import Client, ParameterSpec, Truth, Validation
from flcontrib_core.runs.tasks import CLASSIFICATION
from flcontrib_core.vocabulary import Float32Array

MANIFEST = "manifest.json"
EPOCHS = "epochs.jsonl"
INITIAL = "initial.safetensors"
MODEL = "model.json"
VALIDATION = "validation.safetensors"
Piece = bytes | memoryview


def sha256(content: bytes) -> str:
    """The hash as 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


def epoch_file(epoch: int) -> str:
    """The name of an epoch's tensors inside the run: ``epochs/00007.safetensors``."""
    return f"epochs/{epoch:05d}.safetensors"


def split_flat(vector: Float32Array, parameters: Sequence[ParameterSpec]) -> dict[str, Float32Array]:
    """The named tensors of a flat vector."""
    tensors, start = {}, 0
    for spec in parameters:
        tensors[spec.name] = vector[start : start + spec.count].reshape(spec.shape)
        start += spec.count
    return tensors


def initial_bytes(initial: Float32Array, parameters: Sequence[ParameterSpec]) -> bytes:
    """initial.safetensors: F⁰ by name."""
    return save(split_flat(initial, parameters))


def epoch_bytes(updates: Float32Array | None, global_model: Float32Array | None) -> bytes | None:
    """The tensors of one epoch, or None where there is nothing to store."""
    tensors = {"updates": updates, "global": global_model}
    present = {name: np.ascontiguousarray(value) for name, value in tensors.items() if value is not None}
    return save(present) if present else None


def checked_dtype(dtype: str) -> str:
    """The name of a number type in which updates can be stored."""
    if dtype not in NUMBER_TYPES:
        raise SettingsError(f"dtype must be one of {', '.join(NUMBER_TYPES)}, not {dtype!r}")
    return dtype


def stored_bytes(dtype: str) -> int:
    """How many bytes one stored number takes."""
    return 4 if dtype == "float32" else 2


def epoch_pieces(
    rows: Iterable[Float32Array], count: int, width: int, global_model: Float32Array | None, dtype: str = "float32"
) -> Iterator[Piece]:
    """The same bytes as ``epoch_bytes``, row by row: an epoch of large models is never in memory as a whole."""
    header: dict[str, Any] = {}
    kind, size = NUMBER_TYPES[dtype], stored_bytes(dtype)
    end = 4 * width if global_model is not None else 0
    if global_model is not None:
        header["global"] = {"dtype": "F32", "shape": [width], "data_offsets": [0, end]}
    if count:
        header["updates"] = {"dtype": kind, "shape": [count, width], "data_offsets": [end, end + count * width * size]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    if global_model is not None:
        yield global_model.astype("<f4", copy=False).data.cast("B")
    for row in rows:
        yield narrowed(row, dtype).data.cast("B")


def narrowed(row: Float32Array, dtype: str) -> np.ndarray:
    """The numbers as they are stored; bfloat16, which numpy lacks, as its bits, rounded to nearest."""
    if dtype == "bfloat16":
        bits = row.astype("<f4", copy=False).view("<u4")
        rounded = (bits + (0x7FFF + ((bits >> 16) & 1)).astype("<u4")) >> 16
        return np.where(np.isfinite(row), rounded, bits >> 16).astype("<u2")
    if dtype == "float16":
        with np.errstate(over="ignore"):
            short = row.astype("<f2")
        if np.isinf(short).any() and not np.isinf(row).any():
            raise refusal("E_ST_DTYPE:range", "update", f"a number of size {np.abs(row).max():.3g}", "at most 65504")
        return short
    return row.astype("<f4", copy=False)


def validation_bytes(validation: Validation) -> bytes:
    """validation.safetensors."""
    tensors = {"x": np.ascontiguousarray(validation.x), "y": np.ascontiguousarray(validation.y)}
    return save(tensors if validation.group is None else {**tensors, "group": validation.group})


def json_bytes(value: Any, indent: int | None = None, *, strict: bool = True) -> bytes:
    """JSON in UTF-8, where NaN and half characters end in ``ValueError``; ``strict=False`` leaves them for the
    reader's own check to refuse."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=not strict, indent=indent) + "\n"
    return text.encode(errors="strict" if strict else "surrogatepass")


_VERSION_TWO_KEYS = ("dtype", "frozen", "notes")


def manifest_record(
    clients: Sequence[Client], parameters: Sequence[ParameterSpec], files: Mapping[str, str], **optional: Any
) -> dict[str, Any]:
    """manifest.json as a mapping; optional keys that are None are left out. Version 2 only where a key needs it."""
    other_task = optional.get("task") not in (None, CLASSIFICATION)
    return {
        "format": "flrun",
        "version": 2 if other_task or any(optional.get(key) is not None for key in _VERSION_TWO_KEYS) else 1,
        **{key: value for key, value in optional.items() if value is not None},
        "clients": [{"id": c.id, "data_size": c.data_size} for c in clients],
        "parameters": [{"name": p.name, "shape": list(p.shape)} for p in parameters],
        "files": dict(files),
    }


def truth_record(truth: Truth | Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest says about who was dishonest, and when."""
    if not isinstance(truth, Truth):
        return dict(truth)
    labels: list[dict[str, Any]] = []
    for label in truth.dishonest:
        windows = [list(window) for window in label.windows]
        entry: dict[str, Any] = {"client": label.client, "windows": windows, "attack": label.attack}
        labels.append(entry if label.strength is None else {**entry, "strength": label.strength})
    return {"dishonest": labels}


_LINE_KEYS = (
    *("epoch", "participants", "data_sizes", "weights", "start_epoch", "asked", "failed", "metrics", "source"),
    *("claims", "gap", "file", "sha256"),
)


def epoch_line(
    epoch: int,
    participants: Sequence[str],
    *,
    asked: Sequence[str] | None = None,
    failed: Mapping[str, str] | None = None,
    **optional: Any,
) -> dict[str, Any]:
    """One line of epochs.jsonl as a mapping, its keys always in the same order; what is empty is left out."""
    given = {key: value for key, value in optional.items() if value}
    given |= {"epoch": epoch, "participants": list(participants)}
    if asked is not None:
        given["asked"] = list(asked)
    if failed:
        given["failed"] = [{"client": client, "reason": reason} for client, reason in failed.items()]
    return {key: given[key] for key in _LINE_KEYS if key in given}


def with_metrics(line: Mapping[str, Any], metrics: Mapping[str, float]) -> dict[str, Any]:
    """The line with the metrics that are known by now."""
    return {key: metrics if key == "metrics" else line[key] for key in _LINE_KEYS if key in line or key == "metrics"}


def run_digest(hashes: Mapping[str, str]) -> str:
    """The run's identity: sha256 over ``name + NUL + content hash + newline`` in byte order of the names."""
    ordered = sorted(hashes.items(), key=lambda item: item[0].encode())
    return sha256(b"".join(f"{name}\0{content}\n".encode() for name, content in ordered))
