"""Finished epochs as named arrays, so that nothing is computed twice.

Two things outlive an assessment: the whole answer of an epoch (the same settings again: nothing is computed) and the
utilities of its coalitions (another estimator, budget, seed or precision: only what is missing is computed). Both are
keyed by digests, so a growing run keeps what it has; where they are kept is the workspace's business.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Protocol

import numpy as np

from flcontrib_core.codec import declare, layout_of, pack, unpack
from flcontrib_core.history.epoch_work import EpochAnswer


class EpochCheckpoints(Protocol):
    """Finished epochs by key; ``keep`` returns only when the arrays are safe."""

    def recall(self, key: str) -> dict[str, np.ndarray] | None:
        """The arrays stored under a key; None where there are none."""
        ...

    def keep(self, key: str, arrays: dict[str, np.ndarray]) -> None:
        """Stores arrays under a key, whole or not at all."""
        ...


class UtilityMemory(Protocol):
    """Coalition utilities by the key of (epoch digest, weights, evaluator recipe)."""

    def recall_epoch(self, key: str) -> dict[bytes, np.ndarray]:
        """Coalition key → utilities of one epoch, as far as they are known."""
        ...

    def keep_epoch(self, key: str, values: dict[bytes, np.ndarray]) -> None:
        """Adds an epoch's utilities to the memory."""
        ...


def digest_of(*parts: object) -> str:
    """sha256 of the canonical JSON of the parts."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def pack_answer(answer: EpochAnswer) -> dict[str, np.ndarray]:
    """An answer as named arrays, without what differs between two equal computations or is kept elsewhere."""
    _declare_observation()
    return pack(EpochAnswer, replace(answer, fresh={}, fresh_logits={}, recalled=0, seconds=0.0))


def unpack_answer(arrays: dict[str, np.ndarray]) -> EpochAnswer:
    """The inverse of ``pack_answer``."""
    _declare_observation()
    return unpack(EpochAnswer, arrays)


def answer_layout() -> str:
    """Part of an answer's key: an answer of another layout is not found, and computed again."""
    _declare_observation()
    return layout_of(EpochAnswer)


def _declare_observation() -> None:
    """The observation's room loads torch: it is imported where answers exist, not where settings are read."""
    from flcontrib_core.games.observations import EpochObservation

    declare(EpochObservation=EpochObservation)


MOST_LOGIT_BYTES = 32 << 20
"""Logits kept per epoch; beyond it a higher precision evaluates them again (the utilities are still remembered)."""


def pack_logits(logits: dict[bytes, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Coalition keys and logits as two arrays; None when there are none or they are above the cap."""
    if not logits or sum(z.nbytes for z in logits.values()) > MOST_LOGIT_BYTES:
        return None
    keys = np.frombuffer(b"".join(logits), dtype=np.uint8).reshape(len(logits), -1)
    return {"keys": keys, "logits": np.stack(list(logits.values()))}


def unpack_logits(arrays: dict[str, np.ndarray] | None) -> dict[bytes, np.ndarray]:
    """Coalition key → logits, as ``pack_logits`` stored them; nothing where nothing was stored."""
    if arrays is None:
        return {}
    return {key.tobytes(): z for key, z in zip(arrays["keys"], arrays["logits"], strict=True)}
