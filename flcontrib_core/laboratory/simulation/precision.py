"""Numbers with fewer bits: what a half-precision format leaves of float32 values."""

from __future__ import annotations

import numpy as np

from flcontrib_core.vocabulary import Float32Array


def to_bfloat16(values: Float32Array) -> Float32Array:
    """Each value rounded to the nearest one with 8 bits of mantissa, ties to even; finite values only."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def to_float16(values: Float32Array) -> Float32Array:
    """Each value rounded to the nearest half-precision one; what is too large becomes the largest."""
    largest = np.finfo(np.float16).max
    return np.clip(values, -largest, largest).astype(np.float16).astype(np.float32)
