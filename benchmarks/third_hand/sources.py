"""Data for a federation: tables, digits, patches, strokes, words and signals, most of them made up or bundled."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets as bundled

from benchmarks.third_hand.chance import Generator, pick

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Data:
    """A pool to be split among clients, and the server's validation set."""

    name: str
    x: Array
    y: Array
    validation_x: Array
    validation_y: Array
    classes: int


def _folder() -> Path | None:
    folder = os.environ.get("FLCONTRIB_DATA")
    return Path(folder) if folder else None


def _standard(x: Array) -> Array:
    return (x - x.mean(0)) / np.maximum(x.std(0), 0.05)


@functools.cache
def _bundled(name: str) -> tuple[Array, Array]:
    x, y = getattr(bundled, f"load_{name}")(return_X_y=True)
    return np.asarray(x), np.asarray(y)


def _digits(rng: Generator, rows: int) -> tuple[Array, Array]:
    x, y = _bundled("digits")
    return (x / 16).reshape(-1, 1, 8, 8), y


def _breast_cancer(rng: Generator, rows: int) -> tuple[Array, Array]:
    x, y = _bundled("breast_cancer")
    return _standard(x), y


def _wine_like(rng: Generator, rows: int) -> tuple[Array, Array]:
    """More bottles of the three bundled kinds: each kind's mean and covariance, drawn again."""
    x, y = _bundled("wine")
    x, labels = _standard(x), rng.choice(3, rows, p=[0.33, 0.4, 0.27])
    made = np.empty((rows, x.shape[1]))
    for kind in range(3):
        own = x[y == kind]
        spread = np.cov(own.T) * pick(rng, [1.0, 2.0, 4.0])
        made[labels == kind] = rng.multivariate_normal(own.mean(0), spread, int((labels == kind).sum()))
    return made, labels


def _uneven(rng: Generator, classes: int) -> Array:
    """How frequent the classes are: equal, or a long tail."""
    tail = pick(rng, [1.0, 1.0, 0.8, 0.6])
    share = tail ** np.arange(classes)
    return rng.permutation(share / share.sum())


def _linear_table(rng: Generator, rows: int) -> tuple[Array, Array]:
    classes, columns = int(rng.integers(2, 9)), int(rng.integers(8, 40))
    x = rng.normal(size=(rows * 3, columns)) @ (np.eye(columns) + 0.3 * rng.normal(size=(columns, columns)))
    score = _standard(x) @ rng.normal(size=(columns, classes)) / np.sqrt(columns)
    y = (score + rng.gumbel(size=score.shape) * pick(rng, [0.05, 0.15, 0.3])).argmax(1)
    keep = rng.random(len(y)) < (_uneven(rng, classes) * classes)[y]
    return _standard(x)[keep][:rows], y[keep][:rows]


def _clusters(rng: Generator, rows: int) -> tuple[Array, Array]:
    """Several clouds to a class, as in the usual generator of classification problems."""
    classes, columns = int(rng.integers(3, 13)), int(rng.integers(6, 30))
    y = rng.choice(classes, rows, p=_uneven(rng, classes))
    centres = rng.normal(size=(classes, 3, columns)) * pick(rng, [0.9, 1.3, 1.8])
    return centres[y, rng.integers(0, 3, rows)] + rng.normal(size=(rows, columns)), y


def _rings(rng: Generator, rows: int) -> tuple[Array, Array]:
    """Classes by distance and angle, rotated into more columns: no plane separates them."""
    classes, columns = int(rng.integers(3, 7)), int(rng.integers(4, 14))
    y = rng.choice(classes, rows, p=_uneven(rng, classes))
    angle, radius = rng.uniform(0, 2 * np.pi, rows), 0.6 * y + 0.6 + rng.normal(size=rows) * 0.12
    plane = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
    turned = np.linalg.qr(rng.normal(size=(columns, columns)))[0][:2]
    return plane @ turned * 1.5 + 0.15 * rng.normal(size=(rows, columns)), y


def _words(rng: Generator, rows: int) -> tuple[Array, Array]:
    """Counts of words by topic, on the logarithmic scale."""
    classes, vocabulary = int(rng.integers(3, 9)), int(rng.integers(40, 160))
    topics = rng.dirichlet(np.full(vocabulary, 0.2), classes)
    y = rng.choice(classes, rows, p=_uneven(rng, classes))
    mixed = pick(rng, [0.3, 0.5, 0.7]) * topics[y] + topics.mean(0) * 0.5
    return np.log1p(rng.poisson(mixed / mixed.sum(1, keepdims=True) * pick(rng, [15, 30, 60]))), y


def _signals(rng: Generator, rows: int) -> tuple[Array, Array]:
    """Windows of a worn sensor: an activity is a rhythm with overtones, every person in another phase."""
    classes, length = int(rng.integers(3, 7)), 32
    y = rng.integers(0, classes, rows)
    rhythm = rng.uniform(0.8, 5, classes)[y][:, None] * np.linspace(0, 2 * np.pi, length)
    over = rng.uniform(0, 1, classes)[y][:, None]
    phase = rng.normal(size=(rows, 1)) * 0.7
    return np.sin(rhythm + phase) + over * np.sin(2 * rhythm + phase) + 0.5 * rng.normal(size=(rows, length)), y


def _strokes(rng: Generator, rows: int) -> tuple[Array, Array]:
    """Bars, crosses, boxes and discs of any place on noise."""
    side, classes = pick(rng, [8, 10, 12]), int(rng.integers(4, 9))
    y = rng.choice(classes, rows, p=_uneven(rng, classes))
    v, h = np.mgrid[0:side, 0:side]
    cy, cx = (rng.integers(3, side - 3, rows)[:, None, None] for _ in range(2))
    dy, dx, size = v - cy, h - cx, rng.integers(2, 4, rows)[:, None, None]
    inside = np.maximum(abs(dy), abs(dx)) <= size
    shapes = [
        (dy == 0) & inside,
        (dx == 0) & inside,
        (dy == dx) & inside,
        (dy == -dx) & inside,
        ((dy == 0) | (dx == 0)) & inside,
        np.maximum(abs(dy), abs(dx)) == size,
        dy**2 + dx**2 <= size**2,
        (abs(dy) == abs(dx)) & inside,
    ]
    drawn = np.stack(shapes)[y, np.arange(rows)]
    ink = rng.uniform(0.7, 1.3, (rows, 1, 1))
    noise = rng.normal(size=drawn.shape) * pick(rng, [0.15, 0.3, 0.45])
    return (drawn * ink + noise)[:, None], y


@functools.cache
def _table(name: str) -> tuple[Array, Array]:
    import pandas as pd

    folder = _folder()
    assert folder is not None
    if name == "adult":
        d = pd.read_csv(folder / "adult.csv.gz")
        y = d.pop("income_gt_50k").to_numpy()
        d = d.drop(columns=["split", "fnlwgt", "education", "native_country"])
    else:
        d = pd.read_csv(folder / "compas-two-years.csv.gz")
        d = d[d.days_b_screening_arrest.between(-30, 30) & (d.is_recid != -1)]
        y = d.two_year_recid.to_numpy()
        columns = ["sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
        d = d[[*columns, "c_charge_degree"]]
    numeric = d.select_dtypes("number").columns
    d[numeric] = (d[numeric] - d[numeric].mean()) / d[numeric].std()
    return np.asarray(pd.get_dummies(d, dtype="float32").to_numpy().clip(-4, 4)), np.asarray(y)


@functools.cache
def _pictures(name: str) -> tuple[Array, Array]:
    folder = _folder()
    assert folder is not None
    with np.load(folder / name) as z:
        x, y = z["x_train"][:10000], z["y_train"][:10000].astype(int)
    return (x.mean(1) if x.ndim == 4 else x).astype("float32"), y


def _patches(file: str, side: int, rng: Generator) -> tuple[Array, Array]:
    """Grey pictures made smaller, of a few classes or all."""
    x, y = _pictures(file)
    step = x.shape[1] // side
    x = x[:, : side * step, : side * step].reshape(len(x), side, step, side, step).mean((2, 4))
    kept = rng.permutation(10)[: pick(rng, [3, 5, 10])]
    rows = np.isin(y, kept)
    return (x[rows, None] - x.mean()) / x.std(), np.searchsorted(np.sort(kept), y[rows])


Maker = Callable[[Generator, int], tuple[Array, Array]]
MADE: dict[str, Maker] = {
    "digits": _digits,
    "breast-cancer": _breast_cancer,
    "wine-like": _wine_like,
    "linear-table": _linear_table,
    "clusters": _clusters,
    "rings": _rings,
    "words": _words,
    "signals": _signals,
    "strokes": _strokes,
}
READ: dict[str, Maker] = {
    "adult": lambda rng, rows: _table("adult"),
    "compas": lambda rng, rows: _table("compas"),
    "cifar-grey": lambda rng, rows: _patches("cifar10-12k.npz", pick(rng, [8, 10]), rng),
    "mnist-small": lambda rng, rows: _patches("mnist.npz", pick(rng, [7, 9]), rng),
    "fashion-small": lambda rng, rows: _patches("fashion-mnist-12k.npz", pick(rng, [7, 9]), rng),
}
"""Where FLCONTRIB_DATA names the folder."""


def missing(name: str) -> bool:
    """Does this source need the data folder, which is not named?"""
    return name in READ and _folder() is None


def load(name: str, rng: Generator, rows: int, validation: int) -> Data:
    """At most so many rows to train on and to validate with, drawn anew for every run."""
    x, y = (MADE | READ)[name](rng, rows + validation)
    order = rng.permutation(len(y))[: rows + validation]
    kinds, labels = np.unique(y[order], return_inverse=True)
    x, held = np.asarray(x[order], np.float32), min(validation, len(order) * 2 // 5)
    labels = labels.astype(np.int64)
    return Data(name, x[held:], labels[held:], x[:held], labels[:held], len(kinds))
