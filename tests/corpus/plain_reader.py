"""What does a trusting reader see: json, zipfile and safetensors without any check? The peer of our reader."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load

from flcontrib_core.runs.run_log import RunLog
from tests.corpus.good_logs import Files


def files_of(path: Path) -> Files:
    if path.is_dir():
        return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def assert_same_content(run: RunLog, path: Path) -> None:
    """Every name, size, number and hash of an accepted log is the one that the plain libraries read."""
    files = files_of(path)
    manifest: dict[str, Any] = json.loads(files["manifest.json"])
    lines = [json.loads(text) for text in files["epochs.jsonl"].splitlines() if _is_json(text)]
    assert [(c.id, c.data_size) for c in run.clients] == [(c["id"], c["data_size"]) for c in manifest["clients"]]
    assert [(p.name, list(p.shape)) for p in run.parameters] == [
        (p["name"], p["shape"]) for p in manifest["parameters"]
    ]
    assert run.classes == manifest.get("classes")
    assert run.model == (json.loads(files["model.json"]) if "model.json" in files else None)
    initial = load(files["initial.safetensors"])
    same(run.initial(), np.concatenate([initial[p.name].astype(np.float32).reshape(-1) for p in run.parameters]))
    assert [record.epoch for record in run.epochs] == [entry["epoch"] for entry in lines]
    for record, entry in zip(run.epochs, lines, strict=True):
        assert [run.clients[position].id for position in record.participants] == entry["participants"]
        sizes = {c.id: c.data_size for c in run.clients} | entry.get("data_sizes", {})
        assert list(record.data_sizes) == [sizes[name] for name in entry["participants"]]
        data = run.epoch_data(record.epoch)
        tensors = load(files[entry["file"]]) if entry.get("file") else {}
        same(data.updates, tensors.get("updates", np.zeros((0, run.parameter_count))).astype(np.float32))
        assert (data.global_model is None) == ("global" not in tensors)
        if data.global_model is not None:
            same(data.global_model, tensors["global"].astype(np.float32))
    validation = run.validation()
    assert (validation is None) == ("validation.safetensors" not in files)
    if validation is not None:
        stored = load(files["validation.safetensors"])
        same(validation.x, stored["x"])
        same(validation.y, stored["y"])


def same(ours: np.ndarray, plain: np.ndarray) -> None:
    assert ours.shape == plain.shape
    assert ours.tobytes() == np.ascontiguousarray(plain, dtype=ours.dtype).tobytes()


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
