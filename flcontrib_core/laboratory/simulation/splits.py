"""Splits: which rows each client holds.

Sizes come first, then class mixes: how much a client has and what it has are two separate knobs. Every client draws
rows without replacement until it has its size; where a class runs out, the mix is renormalised over what is left.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation.kinds import Sizes, Split
from flcontrib_core.vocabulary import FloatArray, IntArray

SPREAD_OF_SIZES = 4.0
"""Unequal sizes: the largest client may hold this many times the smallest one's rows."""
FEWEST_ROWS = 2


def share_out(
    labels: IntArray, clients: int, split: Split, alpha: float, sizes: Sizes, rng: np.random.Generator
) -> tuple[IntArray, ...]:
    """The row positions of each client; together they are all rows, each once.

    ``iid``: every client has the overall mix. ``dirichlet``: client i's mix is drawn from Dirichlet(α·K·p) with p the
    overall mix over K classes. ``beta``: each class of client i is weighted by its own draw from Beta(α, α).

    Departure: the appendix says "a Beta distribution with parameter β, lower is more heterogeneous" and no more; the
    weights of ``beta`` are our reading of it, for any number of classes.
    """
    targets = _sizes(len(labels), clients, sizes, rng)
    classes = int(labels.max()) + 1
    overall = np.bincount(labels, minlength=classes) / len(labels)
    mixes = _mixes(overall, clients, split, alpha, rng)
    pools = [list(rng.permutation(np.flatnonzero(labels == c))) for c in range(classes)]
    held: list[list[int]] = [[] for _ in range(clients)]
    # Clients with the most particular mix choose first: late choosers get what is left, close to the overall mix.
    for client in np.argsort(-np.abs(mixes - overall).sum(axis=1), kind="stable"):
        missing = int(targets[client])
        while missing:
            left = np.array([len(pool) for pool in pools])
            mix = np.where(left > 0, mixes[client], 0.0)
            mix = mix / mix.sum() if mix.sum() > 0 else left / left.sum()
            taken = np.minimum(_whole_parts(mix, missing, rng), left)
            for c, count in enumerate(taken):
                held[client] += [int(pools[c].pop()) for _ in range(count)]
            missing -= int(taken.sum())
    return tuple(np.sort(np.array(rows, dtype=np.int64)) for rows in held)


def _sizes(rows: int, clients: int, sizes: Sizes, rng: np.random.Generator) -> IntArray:
    if rows < clients * FEWEST_ROWS:
        raise SettingsError(f"{rows} rows for {clients} clients: each needs at least {FEWEST_ROWS}; use fewer clients")
    if sizes is Sizes.EQUAL:
        return np.full(clients, rows // clients) + (np.arange(clients) < rows % clients)
    shares = np.exp(rng.uniform(0.0, np.log(SPREAD_OF_SIZES), size=clients))
    spare = rows - clients * FEWEST_ROWS
    return FEWEST_ROWS + _whole_parts(shares / shares.sum(), spare, rng)


def _mixes(overall: FloatArray, clients: int, split: Split, alpha: float, rng: np.random.Generator) -> FloatArray:
    """(clients, classes), rows sum to 1."""
    if split is Split.IID:
        return np.tile(overall, (clients, 1))
    if split is Split.DIRICHLET:
        drawn = rng.standard_gamma(np.tile(alpha * len(overall) * overall, (clients, 1)))
    else:
        drawn = overall * rng.beta(alpha, alpha, size=(clients, len(overall)))
    # With a tiny α every draw of a client may underflow to zero: it then holds one random class.
    for client in np.flatnonzero(drawn.sum(axis=1) <= 0):
        drawn[client, rng.choice(len(overall), p=overall)] = 1.0
    mixes: FloatArray = drawn / drawn.sum(axis=1, keepdims=True)
    return mixes


def _whole_parts(shares: FloatArray, total: int, rng: np.random.Generator) -> IntArray:
    """``total`` as whole parts in these shares: rounded down, the rest to the largest remainders, ties by lot."""
    exact = shares * total
    parts = np.floor(exact).astype(np.int64)
    order = np.lexsort((rng.random(len(shares)), -(exact - parts)))
    parts[order[: total - int(parts.sum())]] += 1
    return parts
