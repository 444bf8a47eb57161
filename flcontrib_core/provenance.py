"""From what, by what and where a number was made; the one JSON text of a value, and its digest."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from functools import cache
from pathlib import Path
from typing import Any

from flcontrib_core import __version__
from flcontrib_core.errors import SettingsError

_LIBRARIES = ("numpy", "torch", "scikit-learn", "tslearn", "ruptures", "pulp", "highspy")


def canonical_json(value: Any) -> str:
    """One ASCII text per value: sorted keys, no blanks, no NaN. Raises SettingsError for what JSON cannot hold.

    >>> canonical_json({"b": 1, "a": [True, None]})
    '{"a":[true,null],"b":1}'
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as fault:
        raise SettingsError(f"{fault}; use text, finite numbers, true/false, null, lists and mappings only") from fault


def digest_of(value: Any) -> str:
    """sha256 of the canonical JSON: the identity of settings, of a log entry, of a job."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def software_version() -> str:
    """The version whose results are not stale."""
    return __version__


@cache
def software() -> dict[str, str]:
    """Versions of everything that can move a digit (looked up, not imported)."""
    versions = {"flcontrib": software_version(), "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


@cache
def machine() -> dict[str, str]:
    """The platform on which results are bit-equal: system, architecture and processor."""
    return {"system": platform.system(), "architecture": platform.machine(), "processor": _processor()}


def _processor() -> str:
    """The processor's name: kernels are chosen by its instruction set, and with them the last bits."""
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def provenance(run_digest: str, settings: dict[str, Any]) -> dict[str, Any]:
    """What every kept result carries beside its numbers."""
    return {
        "run": run_digest,
        "settings": settings,
        "settings_digest": digest_of(settings),
        "software": software(),
        "machine": machine(),
    }
