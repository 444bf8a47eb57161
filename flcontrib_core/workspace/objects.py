"""Content that can neither be torn nor changed unnoticed: files named by the sha256 of what they hold.

Arrays are stored as *records*: a safetensors file whose header (its *label*) says what it is, so that a lost index can
be rebuilt by looking at the objects alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.provenance import canonical_json
from flcontrib_core.workspace.disk import Staged, Staging
from flcontrib_core.workspace.faults import DamagedObject

_LABEL = "flcontrib"
_LONGEST_HEADER = 1 << 24


class ObjectStore:
    """``objects/ab/abcdef…``: named in one step, verified on every read, moved aside when damaged."""

    def __init__(self, folder: Path, quarantine: Path, staging: Staging) -> None:
        self.folder = folder
        self.quarantine = quarantine
        self.staging = staging

    def path(self, name: str) -> Path:
        """Where the object of this name lies, or would."""
        return self.folder / name[:2] / name

    def holds(self, name: str) -> bool:
        """Is there an object of this name (whole or not)?"""
        return self.path(name).exists()

    def publish(self, staged: Staged) -> str:
        """Makes a staged file an object and returns its name; an equal or damaged one of that name is replaced."""
        self.staging.disk.settle(staged.path, self.path(staged.sha256))
        return staged.sha256

    def read(self, name: str) -> bytes:
        """The content, verified. Raises DamagedObject when it is missing or not what its name says."""
        with self._opened(name) as file:
            content = file.read()
        self._refuse_damage(name, hashlib.sha256(content).hexdigest())
        return content

    def verified_path(self, name: str) -> Path:
        """The object's file after its content was checked, for readers of large files."""
        with self._opened(name) as file:
            self._refuse_damage(name, hashlib.file_digest(file, "sha256").hexdigest())
        return self.path(name)

    def set_aside(self, name: str) -> str:
        """Moves a damaged object into quarantine, where nothing reads it again; says where it is now."""
        if not self.holds(name):
            return "nowhere: it was missing"
        return str(self.staging.disk.set_aside(self.path(name), self.quarantine))

    def names(self) -> Iterator[str]:
        """All objects, in order of their names."""
        for folder in sorted(self.folder.glob("??")):
            yield from sorted(os.listdir(folder))

    def labels(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(name, label) of every record, from its header alone; bundles and tables have none."""
        for name in self.names():
            with self.path(name).open("rb") as content:
                length = int.from_bytes(content.read(8), "little")
                label = _label_in(content.read(length)) if 2 <= length <= _LONGEST_HEADER else None
            if label is not None:
                yield name, label

    def _opened(self, name: str) -> BufferedReader:
        try:
            return self.path(name).open("rb")
        except FileNotFoundError as missing:
            raise DamagedObject(f"object {name[:12]}… is missing from {self.folder}", name) from missing

    def _refuse_damage(self, name: str, sha256: str) -> None:
        if sha256 != name:
            raise DamagedObject(f"object {name[:12]}… is damaged: its content has the sha256 {sha256[:12]}…", name)


def pack_record(label: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays and what they are, as one safetensors file; equal input gives equal bytes."""
    from safetensors.numpy import save

    plain: dict[str, np.ndarray] = {}
    for key, value in arrays.items():
        array = np.asarray(value, order="C")
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise WorkspaceError(f"array {key!r} has the type {array.dtype}, which cannot be stored; store numbers")
        plain[key] = array.astype(array.dtype.newbyteorder("<"), copy=False)
    content: bytes = save(plain, metadata={_LABEL: canonical_json(dict(label))})  # one key: the order cannot vary
    return content


def unpack_record(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The label and the arrays of a record."""
    from safetensors.numpy import load

    length = int.from_bytes(content[:8], "little")
    label = _label_in(content[8 : 8 + length])
    if label is None:
        raise WorkspaceError("this object is not a record of arrays")
    return label, dict(load(content))


def _label_in(header: bytes) -> dict[str, Any] | None:
    try:
        described = json.loads(header)
        label = json.loads(described["__metadata__"][_LABEL])
    except (ValueError, KeyError, TypeError):
        return None
    return label if isinstance(label, dict) else None
