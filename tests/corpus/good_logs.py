"""Run logs written by hand: numpy, safetensors, json and zipfile, following the format's description alone.

Nothing here imports flcontrib_core, so these files are what somebody else's script would write.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

Files = dict[str, bytes]
"""File name -> content: a run directory, or what a bundle holds."""

CLIENTS = (("hospital-a", 179), ("hospital-b", 180), ("hospital-c", 60))
FEATURES, HIDDEN, CLASSES = 6, 4, 3
SHAPES = {
    "0.weight": (HIDDEN, FEATURES),
    "0.bias": (HIDDEN,),
    "2.weight": (CLASSES, HIDDEN),
    "2.bias": (CLASSES,),
}
PARAMETERS = sum(int(np.prod(shape)) for shape in SHAPES.values())
MODEL = {
    "input": [FEATURES],
    "layers": [
        {"op": "linear", "weight": "0.weight", "bias": "0.bias"},
        {"op": "relu"},
        {"op": "linear", "weight": "2.weight", "bias": "2.bias"},
    ],
}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode()


def line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


class LogWriter:
    """A small federated run whose every part can be changed before the hashes are taken."""

    def __init__(self, seed: int = 0, epochs: int = 4, rows: int = 120, clients: Any = CLIENTS) -> None:
        rng = np.random.default_rng(seed)
        self.clients: list[dict[str, Any]] = [{"id": name, "data_size": size} for name, size in clients]
        self.initial = {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
        self.model: Any = MODEL
        self.validation: dict[str, np.ndarray] | None = {
            "x": rng.normal(size=(rows, FEATURES)).astype(np.float32),
            "y": rng.integers(0, CLASSES, rows),
        }
        self.classes: Any = CLASSES
        self.extra_manifest: dict[str, Any] = {}
        self.lines: list[dict[str, Any]] = []
        self.tensors: list[dict[str, np.ndarray] | None] = []
        ids = [client["id"] for client in self.clients]
        for epoch in range(1, epochs + 1):
            # Everybody in the first epoch, then one client rests in turn.
            absent = ids[epoch % len(ids)] if epoch > 1 and len(ids) > 1 else None
            self.add_epoch([name for name in ids if name != absent], rng)

    def add_epoch(self, participants: list[str], rng: np.random.Generator) -> None:
        self.lines.append({"epoch": len(self.lines) + 1, "participants": participants})
        updates = rng.normal(scale=0.1, size=(len(participants), PARAMETERS)).astype(np.float32)
        self.tensors.append({"updates": updates} if participants else None)

    def add_globals(self) -> None:
        """The server's model after every epoch: the weighted mean, in float32."""
        sizes = {client["id"]: client["data_size"] for client in self.clients}
        model = np.concatenate([self.initial[name].reshape(-1) for name in SHAPES])
        for entry, tensors in zip(self.lines, self.tensors, strict=True):
            if tensors is not None and len(entry["participants"]):
                own = {**sizes, **entry.get("data_sizes", {})}
                weights = np.array([own[name] for name in entry["participants"]], dtype=np.float64)
                model = (model + (weights / weights.sum()) @ tensors["updates"]).astype(np.float32)
                tensors["global"] = model

    def manifest(self, files: Files) -> dict[str, Any]:
        return {
            "format": "flrun",
            "version": 1,
            "clients": self.clients,
            "classes": self.classes,
            "parameters": [{"name": name, "shape": list(array.shape)} for name, array in self.initial.items()],
            "files": {name: sha256(content) for name, content in files.items()},
            **self.extra_manifest,
        }

    def files(self) -> Files:
        once: Files = {"initial.safetensors": save(self.initial)}
        if self.model is not None:
            once["model.json"] = as_json(self.model)
        if self.validation is not None:
            once["validation.safetensors"] = save(self.validation)
        epochs: Files = {}
        lines = []
        for entry, tensors in zip(self.lines, self.tensors, strict=True):
            entry = dict(entry)
            if tensors is not None:
                name = f"epochs/{entry['epoch']:05d}.safetensors"
                epochs[name] = save(tensors)
                entry = {**entry, "file": name, "sha256": sha256(epochs[name])}
            lines.append(entry)
        return {
            "manifest.json": as_json(self.manifest(once)),
            "epochs.jsonl": b"".join(map(line, lines)),
            **once,
            **epochs,
        }


def rehash(files: Files) -> Files:
    """The same files with every hash of the manifest and the epoch lines made right again, as far as they parse."""
    fixed = dict(files)
    manifest = json.loads(files["manifest.json"])
    manifest["files"] = {name: sha256(files[name]) for name in manifest["files"] if name in files}
    fixed["manifest.json"] = as_json(manifest)
    lines = [json.loads(text) for text in files["epochs.jsonl"].splitlines()]
    for entry in lines:
        if entry.get("file") in files:
            entry["sha256"] = sha256(files[entry["file"]])
    fixed["epochs.jsonl"] = b"".join(map(line, lines))
    return fixed


def zipped(files: Files, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """The files as one archive, the same bytes every time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, date_time=(2026, 1, 1, 0, 0, 0))
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content, compress_type=method)
    return buffer.getvalue()


def write_directory(files: Files, path: Path) -> Path:
    for name, content in files.items():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return path
