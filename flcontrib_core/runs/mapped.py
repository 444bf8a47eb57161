"""Arrays that are too large for memory, several at a time: they lie in files and are read in slices.

The updates of an epoch are mapped from the log itself; a model that no log stores goes into a temporary file without a
name (in the folder of ``TMPDIR``). What has been read of a mapped array is let go of on the way, so that a pass over
all of it needs memory for a slice.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LARGE = 256 << 20
"""Bytes from which on an array is not held in memory where it can lie in a file."""
_CELLS, _FEWEST_COLUMNS = 1 << 20, 1 << 12
"""Of a matrix, numbers that are turned into float64 at a time: 8 MiB, which stay where they are from block to block."""
_SLICE = 64 << 20
"""Bytes of mapped arrays that are in memory at a time."""


def room(shape: int | Sequence[int], dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """An array to be written to: in memory, or in a temporary file where it is large."""
    count = int(np.prod(shape))
    if count * np.dtype(dtype).itemsize < LARGE:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile(prefix="flcontrib-") as file:  # lives as long as its mapping
        return np.memmap(file, dtype=dtype, mode="w+", shape=(shape,) if isinstance(shape, int) else tuple(shape))


def let_go(array: NDArray[Any]) -> None:
    """Gives back the memory of a mapped array; its numbers stay where they are. Nothing for one that is not mapped."""
    owner: Any = array
    while owner is not None and not isinstance(owner, mmap.mmap):
        owner = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
    if owner is not None and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)


def columns_at_once(matrix: NDArray[Any]) -> int:
    """How many of its columns are cheap to turn into float64 together."""
    return max(_FEWEST_COLUMNS, _CELLS // max(1, len(matrix)))


def in_blocks(length: int, block: int, *arrays: NDArray[Any]) -> Iterator[slice]:
    """Slices of ``block`` columns; of large arrays, what has been read is let go of."""
    mapped = [array for array in arrays if array.nbytes >= LARGE]
    per_block = sum(array.nbytes for array in mapped) // max(length, 1) * block
    read = 0
    for start in range(0, length, block):
        yield slice(start, start + block)
        read += per_block
        if read > _SLICE:
            for array in mapped:
                let_go(array)
            read = 0
    for array in mapped:
        let_go(array)
