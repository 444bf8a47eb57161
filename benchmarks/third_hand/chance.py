"""Random streams by name, so that one draw more in one place moves nothing elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")
Generator = np.random.Generator


def stream(*key: object) -> Generator:
    """The stream of this name: the same numbers on every machine."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:16], "big"))


def pick(rng: Generator, options: Sequence[T], weights: Sequence[float] | None = None) -> T:
    """One of the options, as it is (numpy would turn words and numbers into its own types)."""
    share = None if weights is None else np.asarray(weights, float) / np.sum(weights)
    return options[int(rng.choice(len(options), p=share))]


def between(rng: Generator, low: float, high: float) -> float:
    """A number on the logarithmic scale, where rates and strengths live."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
