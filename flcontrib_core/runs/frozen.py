"""The part of a model that a log names and does not hold: a frozen base, or a part that every client keeps.

The manifest gives names and shapes and, for a base that all clients share, a digest of its numbers. The part itself is
given when the log is read for an audit, and refused where it is another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np

from flcontrib_core.errors import Problem, RunLogError
from flcontrib_core.runs.containers import ByteStream
from flcontrib_core.runs.limits import MAX_HEADER_BYTES
from flcontrib_core.runs.problems import problem, refusal, shown
from flcontrib_core.runs.run_log import Run, RunLog
from flcontrib_core.runs.tensors import FLOAT_TYPES, read_layout, view_tensor
from flcontrib_core.vocabulary import Float32Array

Given = str | PathLike[str] | Mapping[str, Any]
"""A safetensors file, or tensors by name (a ``state_dict()``)."""


def frozen_digest(tensors: Mapping[str, Float32Array]) -> str:
    """sha256 over the tensors in byte order of their names: name, NUL, shape, NUL, the numbers as float32.

    A file that stores the same numbers in another order or type has the same digest.
    """
    digest = hashlib.sha256()
    for name in sorted(tensors, key=str.encode):
        tensor = np.ascontiguousarray(tensors[name], dtype="<f4")
        digest.update(f"{name}\0{','.join(map(str, tensor.shape))}\0".encode())
        digest.update(tensor.data.cast("B") if tensor.size else b"")
    return digest.hexdigest()


def frozen_record(
    frozen: Mapping[str, Any] | None, local: Mapping[str, Any] | None, module: Any, trained: Collection[str]
) -> dict[str, Any] | None:
    """The manifest's entry for a base that all share, or for a part that each client keeps.

    A torch module's base is whatever it has beside what is ``trained`` and what is local.
    """
    own = named_arrays(local or {})
    if frozen is None and module is not None:
        frozen = named_arrays(module.state_dict(), without={*trained, *own})
    tensors = {**named_arrays(frozen or {}), **own}
    if not tensors:
        return None
    listed = [{"name": name, "shape": list(tensor.shape)} for name, tensor in tensors.items()]
    # A digest stands for all of it: with a part that differs from client to client there is none.
    return {"parameters": listed} | ({} if own else {"sha256": frozen_digest(tensors)})


def with_frozen(run: RunLog, given: Given | None) -> RunLog:
    """The log with its frozen part; raises RunLogError where that is not the one the log names."""
    if given is None:
        return run
    if run.frozen is None:
        raise refusal("E_FROZEN:none", "manifest.json:frozen", "no frozen part")
    tensors = _read_file(Path(given)) if isinstance(given, str | PathLike) else named_arrays(given)
    problems: list[Problem] = []
    for spec in run.frozen.parameters:
        found = f"shape {list(tensors[spec.name].shape)}" if spec.name in tensors else "no such tensor"
        if found != (wanted := f"shape {list(spec.shape)}"):
            problems.append(problem("E_FROZEN", f"frozen part:{shown(spec.name)[1:-1]}", found, wanted))
    if problems:
        raise RunLogError(tuple(problems))
    own = {spec.name: tensors[spec.name] for spec in run.frozen.parameters}
    digest = frozen_digest(own)
    if run.frozen.sha256 is not None and digest != run.frozen.sha256:
        raise refusal("E_FROZEN", "frozen part", f"sha256 {digest}", f"sha256 {run.frozen.sha256}")
    return replace(run, frozen=replace(run.frozen, given=own, given_sha256=digest))


def given_to(run: Run, frozen: Given | None) -> Run:
    """The same for any run; a table has no model to give a part to."""
    if frozen is not None and not isinstance(run, RunLog):
        raise refusal("E_FROZEN:none", run.name, "a table")
    return with_frozen(run, frozen) if isinstance(run, RunLog) else run


def without_frozen(run: RunLog) -> RunLog:
    """The log without the numbers that were given to it."""
    return run if run.frozen is None else replace(run, frozen=replace(run.frozen, given=None))


def named_arrays(tensors: Mapping[str, Any], without: Collection[str] = ()) -> dict[str, Float32Array]:
    """The floating ones among tensors of any library, by name; counters are not averaged and not named."""
    from flcontrib_core.runs.inputs import as_array

    arrays = {str(name): as_array(value) for name, value in tensors.items() if name not in without}
    return {name: np.asarray(array, dtype=np.float32) for name, array in arrays.items() if array.dtype.kind == "f"}


def _read_file(path: Path) -> dict[str, Float32Array]:
    """The floating tensors of a safetensors file, mapped."""
    if not path.is_file():
        raise refusal("E_MISSING:path", str(path), "no such file", "a file with the frozen tensors")
    with path.open("rb") as stream:
        layout = read_layout(cast(ByteStream, stream), path.stat().st_size, path.name, MAX_HEADER_BYTES)
    view = np.memmap(path, dtype=np.uint8, mode="r").data
    return {tensor.name: view_tensor(view, layout, tensor) for tensor in layout.tensors if tensor.dtype in FLOAT_TYPES}
