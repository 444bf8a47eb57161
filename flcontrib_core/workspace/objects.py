"""How is content kept so that it can neither be torn nor changed unnoticed?

An object is an immutable file named by the sha256 of its content. Arrays are stored as *records*: a safetensors
file whose header says what it is, so that a lost index can be rebuilt by looking at the objects alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.workspace.disk import Disk, Staged, Staging
from flcontrib_core.workspace.faults import DamagedObject
from flcontrib_core.workspace.provenance import canonical_json

_CHUNK = 1 << 20
_LABEL = "flcontrib"
_LONGEST_HEADER = 1 << 24


class ObjectStore:
    """``objects/ab/abcdef…``: put by rename, verified on every read, moved aside when damaged."""

    def __init__(self, folder: Path, quarantine: Path, staging: Staging, disk: Disk) -> None:
        self.folder = folder
        self.quarantine = quarantine
        self.staging = staging
        self.disk = disk

    def path(self, name: str) -> Path:
        return self.folder / name[:2] / name

    def holds(self, name: str) -> bool:
        return self.path(name).exists()

    def publish(self, staged: Staged) -> str:
        """Makes a staged file an object and returns its name."""
        self.staging.place(staged, self.path(staged.sha256))
        return staged.sha256

    def read(self, name: str) -> bytes:
        """The content, verified. Raises DamagedObject when it is missing or not what its name says."""
        try:
            content = self.path(name).read_bytes()
        except FileNotFoundError as missing:
            raise DamagedObject(f"object {name[:12]}… is missing from {self.folder}", name) from missing
        self._refuse_damage(name, hashlib.sha256(content).hexdigest())
        return content

    def verified_path(self, name: str) -> Path:
        """The object's file after its content was checked, for readers of large files."""
        digest = hashlib.sha256()
        try:
            with self.path(name).open("rb") as content:
                while chunk := content.read(_CHUNK):
                    digest.update(chunk)
        except FileNotFoundError as missing:
            raise DamagedObject(f"object {name[:12]}… is missing from {self.folder}", name) from missing
        self._refuse_damage(name, digest.hexdigest())
        return self.path(name)

    def set_aside(self, name: str) -> Path:
        """Moves a damaged object into quarantine, where nothing reads it again, and returns its new place."""
        return set_aside(self.path(name), self.quarantine, self.disk)

    def remove(self, name: str) -> int:
        """Deletes an object; returns the bytes that were freed (0 when it was gone already)."""
        try:
            size = self.path(name).stat().st_size
        except FileNotFoundError:
            return 0
        self.disk.remove(self.path(name))
        self.disk.sync_folder(self.path(name).parent)
        return size

    def names(self) -> Iterator[str]:
        """All objects, in order of their names."""
        for folder in sorted(self.folder.glob("??")):
            yield from sorted(os.listdir(folder))

    def label(self, name: str) -> dict[str, Any] | None:
        """What a record says it is, from its header alone; None for bundles."""
        with self.path(name).open("rb") as content:
            length = int.from_bytes(content.read(8), "little")
            if not 2 <= length <= _LONGEST_HEADER:
                return None
            return _label_in(content.read(length))

    def _refuse_damage(self, name: str, found: str) -> None:
        if found != name:
            raise DamagedObject(f"object {name[:12]}… is damaged: its content has the sha256 {found[:12]}…", name)


def set_aside(damaged: Path, quarantine: Path, disk: Disk) -> Path:
    """Moves a file into quarantine under its own name, numbered when that name is taken."""
    disk.make_folder(quarantine)
    taken = 0
    while (target := quarantine / (f"{damaged.name}.{taken}" if taken else damaged.name)).exists():
        taken += 1
    disk.rename(damaged, target)
    disk.sync_folder(quarantine)
    return target


def pack_record(label: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays and what they are, as one safetensors file; equal input gives equal bytes."""
    from safetensors.numpy import save

    plain: dict[str, np.ndarray] = {}
    for key, value in arrays.items():
        array = np.asarray(value, order="C")
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise WorkspaceError(
                f"array {key!r} has the type {array.dtype}, which cannot be kept; keep numbers, and text as JSON "
                "in a uint8 array (text_array)"
            )
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


def text_array(value: Any) -> np.ndarray:
    """A JSON value (text, names, notes) as a uint8 array, to be kept among numbers."""
    return np.frombuffer(canonical_json(value).encode(), dtype=np.uint8)


def text_of(array: np.ndarray) -> Any:
    """The JSON value that ``text_array`` packed."""
    return json.loads(array.astype(np.uint8).tobytes())


def _label_in(header: bytes) -> dict[str, Any] | None:
    try:
        described = json.loads(header)
        label = json.loads(described["__metadata__"][_LABEL])
    except (ValueError, KeyError, TypeError):
        return None
    return label if isinstance(label, dict) else None
