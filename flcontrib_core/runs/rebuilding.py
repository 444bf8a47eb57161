"""The model that a recorded run has come to, rebuilt from its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flcontrib_core.runs.containers import DirectoryContainer
from flcontrib_core.runs.encoding import EPOCHS
from flcontrib_core.runs.epoch_rows import per_row
from flcontrib_core.runs.tensors import read_layout, stream_blocks
from flcontrib_core.vocabulary import Float32Array


def line_weights(line: Mapping[str, Any], sizes: Mapping[str, int]) -> list[float]:
    """What the server weighed each row of an epoch with, as its line has it."""
    names = line["participants"]
    given = line.get("weights") or {**sizes, **line.get("data_sizes", {})}
    return [float(weight) for weight in per_row(given, names)]


def last_model(path: Path, initial: Float32Array, sizes: Mapping[str, int]) -> Float32Array:
    """The flat model after the last line of epochs.jsonl.

    A stored ``global`` where an epoch has one, otherwise the weighted mean of eq. (fl_naive). Read block by block:
    beside the model itself only a few megabytes are in memory.
    """
    model = initial.astype(np.float64)
    container = DirectoryContainer(path)
    for text in (path / EPOCHS).read_bytes().splitlines():
        line = json.loads(text)
        if "file" not in line:
            continue
        weights = np.array(line_weights(line, sizes))
        stream = container.open(line["file"])
        try:
            layout = read_layout(stream, container.sizes[line["file"]], line["file"])
            stored = layout.get("global") is not None
            for block in stream_blocks(stream, layout):
                here = slice(block.column, block.column + block.values.shape[1])
                if block.tensor.name == "global":
                    model[here] = block.values[0]
                elif not stored:
                    rows = slice(block.row, block.row + len(block.values))
                    model[here] += (weights[rows] / weights.sum()) @ block.values.astype(np.float64)
        finally:
            stream.close()
    return model.astype(np.float32)


def same_model(flat: Float32Array, last: Float32Array, initial: Float32Array, dtype: str) -> bool:
    """Is this the last model, up to the rounding of the updates as they are stored?"""
    if dtype == "float32":
        return bool(np.allclose(flat, last, rtol=1e-5, atol=1e-6))
    moved = np.linalg.norm(last - initial)
    return bool(np.linalg.norm(flat - last) <= 2.0**-7 * moved + 1e-6 * np.sqrt(len(flat)))
