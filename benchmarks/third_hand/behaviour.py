"""What a client does other than plain local training, honestly or not: hooks that the federation calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from benchmarks.third_hand.chance import Generator, between, pick
from benchmarks.third_hand.sources import Array
from benchmarks.third_hand.splits import Rows
from benchmarks.third_hand.training import LocalPlan


@dataclass(frozen=True)
class View:
    """What a sender can know when it sends: its own trained update, and for those who see it, the others'."""

    client: int
    epoch: int
    own: Array
    updates: Mapping[int, Array]
    """What everybody trained in this epoch, before anybody tampered."""
    group: frozenset[int]
    """The sender and its accomplices."""
    weight: float
    """The sender's share of the mean."""
    models: list[Array]
    """The global models so far, the initial one first."""
    memory: dict[int, Array]
    """What the sender keeps from one epoch to the next."""
    rng: Generator

    def benign(self, everybody: bool) -> Array:
        """Updates to imitate: the honest ones where the sender sees them, else its own group's trained ones."""
        rows = [u for c, u in self.updates.items() if everybody == (c not in self.group)]
        return np.stack(rows or [self.own])


@dataclass(frozen=True)
class Behaviour:
    """A named way to act of some clients in some epochs; ``level`` is how strongly in an epoch, from 0 to 1."""

    name: str
    clients: tuple[int, ...]
    epochs: frozenset[int]
    strength: float = 0.0
    plan: Callable[[LocalPlan, int], LocalPlan] | None = None
    data: Callable[[Rows, float, Generator, int], Rows] | None = None
    send: Callable[[View, float], Array] | None = None
    level: Mapping[int, float] = field(default_factory=dict)
    lag: int = 0
    absent: bool = False

    def acts(self, client: int, epoch: int) -> bool:
        """Does this client behave so in this epoch?"""
        return client in self.clients and epoch in self.epochs


@dataclass(frozen=True)
class Scene:
    """What a drawn behaviour may refer to."""

    clients: int
    epochs: int
    classes: int
    shape: tuple[int, ...]
    sites: list[Rows]
    plan: LocalPlan
    size: int
    """How many parameters the model has."""


def window(rng: Generator, epochs: int, weights: tuple[float, ...] = (1, 1, 1, 1, 1)) -> tuple[str, list[int]]:
    """Early, in the middle, late, from some epoch on, or throughout; never shorter than three epochs."""
    kind = pick(rng, ["early", "middle", "late", "onward", "whole"], weights)
    length = max(3, round(epochs * rng.uniform(0.15, 0.4)))
    begin = {
        "early": 1 + int(rng.integers(0, max(1, epochs // 6))),
        "middle": 1 + int(epochs * rng.uniform(0.3, 0.55)),
        "late": epochs - length + 1,
        "onward": 1 + int(epochs * rng.uniform(0.2, 0.7)),
        "whole": 1,
    }[kind]
    end = epochs if kind in {"onward", "whole", "late"} else min(epochs, begin + length - 1)
    return kind, list(range(min(begin, epochs - 2), end + 1))


def some_clients(rng: Generator, candidates: list[int]) -> tuple[int, ...]:
    """One of them, several, or all."""
    scope = pick(rng, ["one", "several", "all"], [5, 3, 2])
    if scope == "all" or len(candidates) == 1:
        return tuple(candidates)
    count = 1 if scope == "one" else int(rng.integers(2, max(3, len(candidates) // 2 + 1)))
    return tuple(sorted(int(c) for c in rng.permutation(candidates)[:count]))


def rms(update: Array) -> float:
    """The usual size of an entry."""
    return float(np.sqrt(np.mean(np.square(update, dtype=np.float64)))) + 1e-12


def strength_between(rng: Generator, low: float, high: float) -> float:
    """A strength with two digits, as papers report it."""
    return float(f"{between(rng, low, high):.2g}")
