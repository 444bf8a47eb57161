"""The replies of one round as updates: each client's model minus the model that was sent out, made when asked for."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flcontrib_core.runs.claims import IdentityClaim
from flcontrib_core.runs.limits import MAX_DATA_SIZE
from flcontrib_core.vocabulary import Float32Array

ROUNDING = 1e-6
"""Relative to the model's largest number: a server model this close to the weighted mean is the weighted mean."""

LONGEST_REASON = 500
"""Characters of a reason that the log keeps."""

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Reply:
    """One node's answer."""

    node: str
    says: str | None
    """The name it gave, if any."""
    arrays: Arrays
    weight: Any

    def fault(self, before: Arrays, names: Sequence[str]) -> str | None:
        """Why this is no model of the federation's shape; None where it is."""
        for name in names:
            found = self.arrays.get(name)
            if found is None or found.dtype.kind not in "fiu" or found.shape != before[name].shape:
                what = "no tensor" if found is None else f"{found.dtype} of shape {found.shape}"
                return f"reply not recorded: {what} for {name!r}, expected shape {before[name].shape}"[:LONGEST_REASON]
        return None


class ReplyUpdates(Mapping[str, Float32Array]):
    """Each client's flat update, made from its reply when it is asked for."""

    def __init__(self, models: Mapping[str, Arrays], before: Arrays, names: Sequence[str]) -> None:
        self._models = models
        self.before = {name: before[name] for name in names}
        self._width = sum(array.size for array in self.before.values())

    def __getitem__(self, client: str) -> Float32Array:
        return self.of(self._models[client])

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    def of(self, model: Arrays) -> Float32Array:
        """The flat update of one reply."""
        flat, at = np.empty(self._width, np.float32), 0
        with np.errstate(over="ignore", invalid="ignore"):
            for name, old in self.before.items():
                np.subtract(model[name].ravel(), old.ravel(), out=flat[at : at + old.size], casting="same_kind")
                at += old.size
        return flat

    def mean(self, name: str, weights: Mapping[str, float]) -> np.ndarray:
        """What the server's tensor would be if it were the weighted mean of the replies."""
        old = self.before[name].astype(np.float64)
        total = sum(weights[client] for client in self._models) or 1.0
        moved = [weights[c] / total * (model[name] - old) for c, model in self._models.items()]
        return sum(moved, old)


def is_weighted_mean(updates: ReplyUpdates, weights: Mapping[str, float], server: Arrays) -> bool:
    """Is the server's model the weighted mean of the replies, up to rounding?"""
    largest = max((float(np.abs(a).max(initial=0.0)) for a in server.values()), default=0.0)
    for name, array in server.items():
        if not np.abs(updates.mean(name, weights) - array).max(initial=0.0) <= ROUNDING * max(largest, 1.0):
            return False
    return True


def with_hashes(
    claims: Iterable[IdentityClaim], replies: Sequence[Reply], updates: ReplyUpdates
) -> list[IdentityClaim]:
    """The claims with the hashes of both updates, so that nobody can later say which of them was meant."""
    by_node: dict[str, list[Reply]] = {}
    for reply in replies:
        by_node.setdefault(reply.node, []).append(reply)

    def digest(node: str, place: int) -> str:
        sent = by_node.get(node, [])
        if not sent or sent[place].fault(updates.before, list(updates.before)) is not None:
            return ""  # nothing that could be hashed as an update
        return hashlib.sha256(updates.of(sent[place].arrays).astype("<f4").tobytes()).hexdigest()

    return [replace(c, update=digest(c.node, -1), other_update=digest(c.other_node, 0)) for c in claims]


def is_count(value: Any) -> bool:
    """Can this weight stand as a number of examples?"""
    return is_finite(value) and 1 <= float(value) <= MAX_DATA_SIZE and float(value).is_integer()


def own_weights(replies: Mapping[str, Reply]) -> dict[str, float] | None:
    """The weights of replies that are not all numbers of examples; None where these, or nothing usable, were given."""
    given = {client: reply.weight for client, reply in replies.items()}
    if not all(is_finite(weight) and weight > 0 for weight in given.values()) or all(map(is_count, given.values())):
        return None
    return {client: float(weight) for client, weight in given.items()}


def is_finite(value: Any) -> bool:
    """Is this one finite number?"""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)
