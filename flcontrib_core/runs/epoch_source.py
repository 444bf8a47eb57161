"""Gives a checked log's numbers back, one epoch at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from flcontrib_core.runs.containers import Container
from flcontrib_core.runs.log_checks import EpochFacts
from flcontrib_core.runs.mapped import LARGE, in_blocks, room
from flcontrib_core.runs.run_log import EpochData, EpochRecord, ParameterSpec, Validation
from flcontrib_core.runs.shape_checks import INITIAL, VALIDATION
from flcontrib_core.runs.tensors import Tensor, TensorLayout, read_tensors, stream_columns, view_tensor
from flcontrib_core.vocabulary import Float32Array


@dataclass(frozen=True)
class Verified:
    """An epoch file that was read through once: unchanged since, it need not be hashed and scanned again."""

    signature: tuple[int, ...]
    sha256: str
    weights: tuple[float, ...]
    """Of its rows"""
    facts: EpochFacts


@dataclass(frozen=True)
class BundleSource:
    """The binary parts of one log. Arrays are the caller's own: views of a private mapping, or freshly read.

    Nothing is kept between calls, so memory holds what the caller holds. A file that is no longer the one that was
    checked is refused (E_CHANGED).
    """

    container: Container
    layouts: Mapping[str, TensorLayout]
    parameters: Sequence[ParameterSpec]
    kept_rows: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """epoch -> rows of its file that count, where some hold NaN or infinities"""
    verified: Mapping[str, Verified] = field(default_factory=dict)
    differences: Mapping[int, float] = field(default_factory=dict)
    """epoch -> how far the stored global model is from the rebuilt one, where it is"""
    hashes: Mapping[str, str] = field(default_factory=dict)
    """file -> sha256 of the content that was checked"""
    nonfinite: str = "refuse"
    """How updates that are not finite were taken."""

    def unchanged(self, container: Container, name: str) -> bool:
        """Is this file of a later listing the one that was checked?"""
        known = name in self.hashes and name in self.layouts and name in container.sizes
        return known and self.container.signature(name) == container.signature(name)

    def initial(self) -> Float32Array:
        """F⁰ as a flat vector."""
        return self.initial_columns(0, sum(spec.count for spec in self.parameters))

    def initial_columns(self, first: int, last: int) -> Float32Array:
        """The numbers ``first`` … ``last`` (exclusive) of F⁰ without holding the others."""
        begins: dict[str, int] = {}
        total = 0
        for spec in self.parameters:
            begins[spec.name] = total
            total += spec.count
        found: Float32Array = room(min(last, total) - first)
        layout = self.layouts[INITIAL]
        stream = self.container.open(INITIAL)
        try:
            stream.skip(layout.data_offset)
            for tensor in layout.tensors:
                begin = begins[tensor.name] - first
                low, high = max(begin, 0), min(begin + tensor.count, len(found))
                flat = Tensor(tensor.name, tensor.dtype, (tensor.count,), tensor.begin, tensor.end)
                for block in stream_columns(stream, TensorLayout(0, (flat,)), low - begin, max(high, low) - begin):
                    found[begin + block.column : begin + block.column + block.values.size] = block.values[0]
        finally:
            stream.close()
        return found

    def epoch(self, record: EpochRecord) -> EpochData:
        """An epoch's rows as the file has them, and the server's model where it is stored."""
        width = sum(spec.count for spec in self.parameters)
        updates: Float32Array = np.zeros((0, width), dtype=np.float32)
        if record.file is None:
            return EpochData(updates, None)
        names = ["updates"] * bool(record.participants) + ["global"] * record.has_global
        tensors = self._read(record.file, names)
        if record.participants:
            updates = tensors["updates"]
            if record.epoch in self.kept_rows:
                updates = _rows(updates, self.kept_rows[record.epoch])
        return EpochData(updates, tensors.get("global"))

    def global_model(self, record: EpochRecord) -> Float32Array:
        """The server's model after an epoch whose file stores it, without the epoch's updates."""
        assert record.file is not None
        return self._read(record.file, ["global"])["global"]

    def validation(self) -> Validation | None:
        """The validation set, if the log has one."""
        if VALIDATION not in self.layouts:
            return None
        names = [tensor.name for tensor in self.layouts[VALIDATION].tensors]
        tensors = self._read(VALIDATION, names)
        return Validation(tensors["x"], tensors["y"], tensors.get("group"))

    def _read(self, file: str, names: Sequence[str]) -> dict[str, np.ndarray]:
        layout = self.layouts[file]
        wanted = {tensor.name: tensor for tensor in layout.tensors if tensor.name in names}
        mapped = self.container.map(file)
        if mapped is not None:
            view = memoryview(mapped)
            if not any(tensor.dtype in ("F16", "BF16") and 4 * tensor.count >= LARGE for tensor in wanted.values()):
                return {name: view_tensor(view, layout, tensor) for name, tensor in wanted.items()}
        arrays = {
            name: room(tensor.shape, np.int64 if tensor.dtype == "I64" else np.float32)
            for name, tensor in wanted.items()
        }
        stream = self.container.open(file)
        try:
            stream.read(layout.data_offset)
            read_tensors(stream, layout, {name: array.reshape(-1) for name, array in arrays.items()})
        finally:
            stream.close()
        return arrays

    def close(self) -> None:
        """Lets go of the container."""
        self.container.close()


def _rows(updates: Float32Array, kept: Sequence[int]) -> Float32Array:
    """These rows alone."""
    found: Float32Array = room((len(kept), updates.shape[1]))
    for block in in_blocks(updates.shape[1], 1 << 18, updates, found):
        found[:, block] = updates[list(kept), block]
    return found
