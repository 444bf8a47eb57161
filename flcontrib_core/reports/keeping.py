"""How is a finished audit kept and found again, without pickle?

A report is a tree of frozen dataclasses, plain values and arrays. ``pack_report`` turns it into named arrays, one of
them the JSON of everything that is not an array; ``unpack_report`` rebuilds it by the declared types, so a file can
only ever become the nouns of this package.
"""

from __future__ import annotations

import json
import types
import typing
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.errors import WorkspaceError

LAYOUT = 1
"""Raised when stored reports can no longer be read; they are then marked stale and computed again."""


def pack_report(report: AuditReport) -> dict[str, np.ndarray]:
    """The report as named arrays; ``words`` is JSON in bytes."""
    arrays: dict[str, np.ndarray] = {}
    words = {"layout": LAYOUT, "report": _plain(report, "", arrays)}
    arrays["words"] = np.frombuffer(json.dumps(words).encode(), dtype=np.uint8)
    return arrays


def unpack_report(arrays: dict[str, np.ndarray]) -> AuditReport:
    """The inverse; raises WorkspaceError when the arrays are of another layout."""
    try:
        words = json.loads(arrays["words"].tobytes().decode())
        if words["layout"] != LAYOUT:
            raise WorkspaceError(f"a stored result of layout {words['layout']}; this version reads {LAYOUT}: recompute")
        report = _rebuild(AuditReport, words["report"], arrays)
    except (KeyError, TypeError, ValueError) as odd:
        raise WorkspaceError(f"a stored result cannot be read by this version ({odd}); recompute it") from odd
    assert isinstance(report, AuditReport)
    return report


def _plain(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name), f"{path}/{f.name}", arrays) for f in fields(value)}
    if isinstance(value, dict):
        pairs = [(k, _plain(v, f"{path}/{n}", arrays)) for n, (k, v) in enumerate(value.items())]
        return {"pairs": [[k, v] for k, v in pairs]}
    if isinstance(value, (tuple, list)):
        return [_plain(v, f"{path}/{n}", arrays) for n, v in enumerate(value)]
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, np.generic):
        return value.item()
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _rebuild(kind: Any, value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """One value by its declared type; what does not fit raises TypeError or ValueError."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return _rebuild(next(p for p in parts if p is not type(None)), value, arrays)
    if origin is np.ndarray or kind is np.ndarray:
        return arrays[value["array"]]
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{f.name: _rebuild(hints[f.name], value[f.name], arrays) for f in fields(kind) if f.name in value})
    if origin is tuple:
        inner = [parts[0]] * len(value) if len(parts) == 2 and parts[1] is Ellipsis else list(parts)
        return tuple(_rebuild(p, v, arrays) for p, v in zip(inner, value, strict=True))
    if origin is frozenset:
        return frozenset(value)
    if origin is dict:
        return {_key(parts[0], k): _rebuild(parts[1], v, arrays) for k, v in value["pairs"]}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind(value)
    return _loose(value, arrays)


def _key(kind: Any, key: Any) -> Any:
    return int(key) if kind is int else key


def _loose(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Values declared as plain ``object`` (settings): dicts come back as dicts, lists as lists."""
    if isinstance(value, dict) and set(value) == {"pairs"}:
        return {k: _loose(v, arrays) for k, v in value["pairs"]}
    if isinstance(value, list):
        return [_loose(v, arrays) for v in value]
    return value
