"""Who holds which rows? Ways in which real sites differ from each other."""

from __future__ import annotations

import numpy as np

from benchmarks.other_hand.pools import Array, Pool, Rng

SPLITS = ("iid", "dirichlet", "by-feature", "quantity", "sole-holder", "two-classes", "dirichlet-quantity")
FEWEST = 8


def _by_shares(rows: Array, shares: Array, rng: Rng) -> list[Array]:
    ends = np.round(np.cumsum(shares)[:-1] * len(rows)).astype(int)
    return np.split(rng.permutation(rows), ends)


def _by_class(y: Array, classes: int, shares: Array, rng: Rng) -> list[Array]:
    """``shares[c]`` are the clients' shares of class c."""
    parts = [_by_shares(np.flatnonzero(y == c), shares[c], rng) for c in range(classes)]
    return [np.concatenate([part[client] for part in parts]) for client in range(shares.shape[1])]


def _quantity(clients: int, rng: Rng) -> Array:
    sizes = rng.pareto(1.5, size=clients) + 0.4
    return sizes / sizes.sum()


def _two_classes(y: Array, classes: int, clients: int, rng: Rng) -> Array:
    held = np.zeros((classes, clients))
    for client in range(clients):
        held[rng.choice(classes, size=min(2, classes), replace=False), client] = rng.uniform(0.5, 1.5, min(2, classes))
    for empty in np.flatnonzero(held.sum(axis=1) == 0):
        held[empty, rng.integers(clients)] = 1.0
    return held / held.sum(axis=1, keepdims=True)


def split_rows(pool: Pool, how: str, alpha: float, clients: int, rng: Rng) -> list[Array]:
    """Row numbers of every client; each has at least ``FEWEST`` rows."""
    rows, even = np.arange(len(pool.y)), np.full(clients, 1 / clients)
    if how in ("dirichlet", "dirichlet-quantity"):
        weight = _quantity(clients, rng) * clients if how != "dirichlet" else np.ones(clients)
        shares = np.stack([rng.dirichlet(alpha * weight) for _ in range(pool.classes)])
        parts = _by_class(pool.y, pool.classes, shares, rng)
    elif how == "by-feature":
        flat = pool.x.reshape(len(rows), -1)
        position = flat @ rng.normal(size=flat.shape[1])
        position = position / position.std() + alpha * rng.normal(size=len(rows))
        parts = np.array_split(np.argsort(position), clients)
        rng.shuffle(parts)
    elif how == "sole-holder":
        shares = np.tile(even, (pool.classes, 1))
        shares[rng.integers(pool.classes)] = np.eye(clients)[rng.integers(clients)]
        parts = _by_class(pool.y, pool.classes, shares, rng)
    elif how == "two-classes":
        parts = _by_class(pool.y, pool.classes, _two_classes(pool.y, pool.classes, clients, rng), rng)
    else:
        parts = _by_shares(rows, _quantity(clients, rng) if how == "quantity" else even, rng)
    return [
        part if len(part) >= FEWEST else np.concatenate([part, rng.choice(rows, FEWEST - len(part), replace=False)])
        for part in parts
    ]
