"""How the rows of one pool come to the clients: evenly, by class, by amount, in shards, or seen by other sensors."""

from __future__ import annotations

import numpy as np

from benchmarks.third_hand.chance import Generator, between, pick
from benchmarks.third_hand.sources import Array, Data

SPLITS = {"iid": 3, "near-iid": 2, "dirichlet": 5, "quantity": 2, "shards": 1, "feature-shift": 2}
FEWEST = 10
Rows = tuple[Array, Array]


def _by_share(rng: Generator, rows: Array, share: Array) -> list[Array]:
    cuts = np.round(np.cumsum(share)[:-1] * len(rows)).astype(int)
    return np.split(rng.permutation(rows), cuts)


def _by_class(rng: Generator, y: Array, clients: int, alpha: float) -> list[Array]:
    parts: list[list[Array]] = [[] for _ in range(clients)]
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        for own, more in zip(parts, _by_share(rng, rows, rng.dirichlet(np.full(clients, alpha))), strict=True):
            own.append(more)
    return [np.concatenate(own) for own in parts]


def _shards(rng: Generator, y: Array, clients: int) -> list[Array]:
    each = pick(rng, [2, 3, 4])
    pieces = np.array_split(np.argsort(y, kind="stable"), clients * each)
    order = rng.permutation(len(pieces))
    return [np.concatenate([pieces[i] for i in order[c::clients]]) for c in range(clients)]


def split(rng: Generator, data: Data, clients: int) -> tuple[str, list[Rows]]:
    """The split's name and every client's rows; nobody has fewer than a handful."""
    kind = pick(rng, list(SPLITS), list(SPLITS.values()))
    everything = np.arange(len(data.y))
    name = kind
    if kind == "dirichlet":
        alpha = pick(rng, [0.1, 0.3, 0.5, 1.0, 2.0, 5.0], [1, 2, 3, 3, 2, 1])
        name, parts = f"dirichlet({alpha:g})", _by_class(rng, data.y, clients, alpha)
    elif kind == "near-iid":
        parts = _by_class(rng, data.y, clients, 50.0)
    elif kind == "quantity":
        parts = _by_share(rng, everything, rng.dirichlet(np.full(clients, pick(rng, [0.7, 1.5, 4.0]))))
    elif kind == "shards":
        parts = _shards(rng, data.y, clients)
    else:
        parts = _by_share(rng, everything, np.full(clients, 1 / clients))
    few = [c for c, own in enumerate(parts) if len(own) < FEWEST]
    for c in few:
        parts[c] = np.concatenate([parts[c], rng.choice(everything, FEWEST - len(parts[c]), replace=False)])
    sites = [(data.x[own], data.y[own]) for own in parts]
    if kind == "feature-shift":
        sites = [(shifted(rng, x, 0.25), y) for x, y in sites]
    return name, sites


def shifted(rng: Generator, x: Array, size: float) -> Array:
    """The same rows seen by another sensor: another gain and offset, per column in tables, overall in pictures."""
    shape = x.shape[1:] if x.ndim == 2 else (1, 1, 1)
    gain = np.exp(rng.normal(size=shape) * size * 0.5)
    return np.asarray(x * gain + rng.normal(size=shape) * size * between(rng, 0.5, 1.5) * x.std(), np.float32)


def relabelled(rng: Generator, y: Array, share: float, classes: int) -> Array:
    """Labels of which this share is wrong at random."""
    wrong = rng.random(len(y)) < share
    return np.where(wrong, (y + rng.integers(1, max(classes, 2), len(y))) % classes, y)
