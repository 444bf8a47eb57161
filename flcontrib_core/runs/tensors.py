"""The layout of a safetensors file, and its numbers as float32, without trusting its header.

The header is parsed here and not by the library: lengths, counts, offsets and sizes are compared with the file before
memory is taken (the library needs 12 s for a header of 500 000 tensors). Data is always read in pieces.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from flcontrib_core.errors import Problem, RunLogError
from flcontrib_core.runs.containers import ByteStream
from flcontrib_core.runs.limits import MAX_HEADER_BYTES, MAX_TENSORS, PIECE_BYTES
from flcontrib_core.runs.mapped import let_go
from flcontrib_core.runs.model_nodes import MAX_RANK
from flcontrib_core.runs.problems import MAX_PROBLEMS, refusal, shown
from flcontrib_core.runs.strict_json import parse_json

_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8,
}  # fmt: skip
FLOAT_TYPES = ("F32", "F16", "BF16")
"""What a model tensor may be stored as; the last two are cast to float32 and that is recorded."""
_SHORT_HEADER, _MOST_KNOWN = 1024, 64
_LET_GO = 1 << 24
"""Numbers after which those of an array in a file are given back to it."""


@dataclass(frozen=True)
class Tensor:
    """One tensor's place in the data section."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def count(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def rows(self) -> int:
        """A vector is one row; everything else has its first extent of them."""
        return self.shape[0] if len(self.shape) > 1 else 1


@dataclass(frozen=True)
class TensorLayout:
    """A checked header: tensors in file order, side by side from the first byte of the data to the last."""

    data_offset: int
    tensors: tuple[Tensor, ...]

    def get(self, name: str) -> Tensor | None:
        """The tensor of that name, if the file has it."""
        return next((tensor for tensor in self.tensors if tensor.name == name), None)


_KNOWN_HEADERS: dict[tuple[bytes, int], TensorLayout] = {}
"""(header, size of the file) -> layout, for the last few short headers"""


def is_pickled(head: bytes) -> bool:
    """Do these first bytes belong to a format that runs code when it is loaded (pickle, numpy object array)?"""
    if head.startswith(b"\x93NUMPY"):
        return b"'O'" in head or b"|O" in head
    return len(head) >= 2 and head[0] == 0x80 and 2 <= head[1] <= 5


def read_layout(stream: ByteStream, size: int, where: str, longest_header: int = MAX_HEADER_BYTES) -> TensorLayout:
    """The layout of a safetensors file of ``size`` bytes; only the header is read from ``stream``."""
    head = stream.read(min(size, 8))
    if is_pickled(head) or head.startswith(b"\x93NUMPY"):
        raise refusal("E_PICKLE", where, "a pickle or numpy file")
    length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
    if not 2 <= length <= size - 8:
        raise _bad_header(where, f"a header length of {length} in a file of {size} bytes")
    if length > longest_header:
        sample = stream.read(1 << 16)
        if b"data_offsets" in sample:
            raise _too_many(where, f"a header of {length} bytes")
        raise _bad_header(where, f"a header of {length} bytes, more than {longest_header}")
    header = stream.read(length)
    if length > _SHORT_HEADER:
        return _parse_header(header, size, where)
    known = _KNOWN_HEADERS.get((header, size))  # every epoch of a run has the same few tensors
    if known is None:
        known = _parse_header(header, size, where)
        if len(_KNOWN_HEADERS) >= _MOST_KNOWN:
            _KNOWN_HEADERS.clear()
        _KNOWN_HEADERS[header, size] = known
    return known


def _parse_header(header: bytes, size: int, where: str) -> TensorLayout:
    if not header.startswith(b"{"):
        raise _bad_header(where, f"a header that begins with {header[:8]!r}")
    if (objects := header.count(b"{")) > MAX_TENSORS + 2:
        raise _too_many(where, f"about {objects} tensors")
    try:
        described = parse_json(header.rstrip(b" "), where)
    except RunLogError as bad:
        raise _bad_header(where, bad.problems[0].found) from None
    if not isinstance(described, dict):
        raise _bad_header(where, "a header that is no object")
    return _lay_out(described, 8 + len(header), size - 8 - len(header), where)


def _lay_out(described: dict[str, Any], data_offset: int, data_size: int, where: str) -> TensorLayout:
    problems: list[Problem] = []
    tensors: list[Tensor] = []
    for name, entry in described.items():
        if name == "__metadata__":
            continue
        try:
            tensors.append(_read_tensor(name, entry, f"{where}:{shown(name)[1:-1]}"))
        except RunLogError as bad:
            problems += bad.problems
    if problems:
        raise RunLogError(tuple(problems[:MAX_PROBLEMS]))
    tensors.sort(key=lambda tensor: (tensor.begin, tensor.end))
    at = 0
    for tensor in tensors:
        if tensor.begin != at:
            fault = "overlaps the tensor before it" if tensor.begin < at else f"leaves {tensor.begin - at} bytes unused"
            raise _bad_offsets(where, f"{shown(tensor.name)} {fault}")
        at = tensor.end
    if at != data_size:
        raise _bad_offsets(where, f"tensors of {at} bytes in a data section of {data_size}")
    return TensorLayout(data_offset, tuple(tensors))


def _read_tensor(name: str, entry: object, where: str) -> Tensor:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _bad_header(where, "a tensor without dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _BYTES:
        raise wrong_dtype(where, shown(dtype), FLOAT_TYPES)
    if not _naturals(shape) or len(shape) > MAX_RANK:
        raise _bad_header(where, f"shape {shown(shape)}")
    if not _naturals(offsets) or len(offsets) != 2:
        raise _bad_header(where, f"data_offsets {shown(offsets)}")
    begin, end = offsets
    needed = math.prod(shape) * _BYTES[dtype]
    if end - begin != needed:
        raise _bad_offsets(where, f"{end - begin} bytes for {dtype} {shown(shape)}, which takes {needed}")
    return Tensor(name, dtype, tuple(shape), begin, end)


def _naturals(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in value)


def wrong_dtype(where: str, found: str, expected: tuple[str, ...]) -> RunLogError:
    """The refusal of a tensor stored in another type."""
    return refusal("E_ST_DTYPE", where, f"dtype {found}", " or ".join(expected))


def _bad_header(where: str, found: str) -> RunLogError:
    return refusal("E_ST_HDR", where, found)


def _bad_offsets(where: str, found: str) -> RunLogError:
    return refusal("E_ST_OFF", where, found)


def _too_many(where: str, found: str) -> RunLogError:
    return refusal("E_ST_MANY", where, found)


def decode(data: bytes | memoryview, dtype: str) -> np.ndarray:
    """Little-endian bytes as float32 (or int64): F16 is widened, BF16 is the upper half of a float32."""
    if dtype == "F32":
        return np.frombuffer(data, dtype="<f4")
    if dtype == "F16":
        return np.frombuffer(data, dtype="<f2").astype(np.float32)
    if dtype == "BF16":
        return (np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
    if dtype == "I64":
        return np.frombuffer(data, dtype="<i8")
    raise ValueError(f"{dtype} is refused before anything is decoded")


@dataclass(frozen=True)
class Block:
    """A piece of a tensor seen as rows × columns: whole rows, or a stretch of one row that is too long to hold."""

    tensor: Tensor
    row: int
    column: int
    values: np.ndarray
    """(rows, columns) float32 or int64"""


def stream_columns(stream: ByteStream, layout: TensorLayout, first: int, last: int) -> Iterator[Block]:
    """The columns ``first`` … ``last`` (exclusive) of every row; what lies between them is skipped, not decoded."""
    for tensor in layout.tensors:
        if tensor.count == 0:
            continue
        width, item = tensor.count // tensor.rows, _BYTES[tensor.dtype]
        low, high = min(first, width), min(last, width)
        stretch = PIECE_BYTES // item
        for row in range(tensor.rows):
            stream.skip(low * item)
            for column in range(low, high, stretch):
                columns = min(stretch, high - column)
                values = decode(stream.read(columns * item), tensor.dtype)
                yield Block(tensor, row, column, values.reshape(1, columns))
            stream.skip((width - high) * item)


def stream_blocks(stream: ByteStream, layout: TensorLayout) -> Iterator[Block]:
    """Every number of the file, in file order, in blocks of about a megabyte. ``stream`` stands after the header."""
    for tensor in layout.tensors:
        if tensor.count == 0:
            continue
        rows, width = tensor.rows, tensor.count // tensor.rows
        item = _BYTES[tensor.dtype]
        together = max(1, PIECE_BYTES // (width * item))
        stretch = min(width, PIECE_BYTES // item)
        for row in range(0, rows, together):
            height = min(together, rows - row)
            for column in range(0, width, stretch):
                columns = min(stretch, width - column)
                values = decode(stream.read(height * columns * item), tensor.dtype)
                yield Block(tensor, row, column, values.reshape(height, columns))


def read_tensors(stream: ByteStream, layout: TensorLayout, into: Mapping[str, np.ndarray]) -> None:
    """Fill flat arrays with the tensors of these names; the stream stands after the header and is read to its end."""
    filled = dict.fromkeys(into, 0)
    for block in stream_blocks(stream, layout):
        name = block.tensor.name
        if name in into:
            if filled[name] // _LET_GO != (filled[name] + block.values.size) // _LET_GO:
                let_go(into[name])
            into[name][filled[name] : filled[name] + block.values.size] = block.values.reshape(-1)
            filled[name] += block.values.size


def view_tensor(mapped: memoryview, layout: TensorLayout, tensor: Tensor) -> np.ndarray:
    """One tensor of a mapped file: the file's own pages where it is float32 or int64, a cast copy otherwise."""
    begin = layout.data_offset + tensor.begin
    data = mapped[begin : layout.data_offset + tensor.end]
    values = decode(data, tensor.dtype).reshape(tensor.shape)
    return values if values.flags.aligned else values.copy()
