"""Where do the rows come from? Each pool is a classification task: packaged, made up, or read from a folder of data."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Rng = np.random.Generator
AT_MOST = 2600
"""Rows of one pool: what a federation of a second or two can use."""


@dataclass(frozen=True)
class Pool:
    """Rows and labels; ``x`` is (rows, features) or (rows, channels, height, width)."""

    name: str
    x: Array
    y: Array
    classes: int

    @property
    def is_image(self) -> bool:
        return self.x.ndim == 4


def _scaled(x: Array) -> Array:
    spread = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(spread < 1e-6, 1.0, spread)


def _packaged(name: str) -> Pool:
    from sklearn import datasets

    if name == "digits":
        x, y = datasets.load_digits(return_X_y=True)
        return Pool(name, (x / 16.0).reshape(-1, 1, 8, 8), y, 10)
    x, y = {"breast-cancer": datasets.load_breast_cancer, "wine": datasets.load_wine}[name](return_X_y=True)
    return Pool(name, _scaled(x), y, int(y.max()) + 1)


def _interactions(rng: Rng) -> Pool:
    """A table whose classes depend on products of columns, with noise columns and some unavoidable doubt."""
    rows, columns, classes = int(rng.integers(900, 2600)), int(rng.integers(6, 30)), int(rng.integers(2, 7))
    x = rng.normal(size=(rows, columns))
    x[:, 0] = rng.exponential(size=rows) - 1
    x[:, 1] = rng.integers(0, 2, size=rows) - 0.5
    first, second = rng.integers(0, columns, size=(2, 2 * classes))
    products = x[:, first] * x[:, second]
    scores = products @ rng.normal(size=(2 * classes, classes)) + 1.5 * x @ rng.normal(size=(columns, classes))
    return Pool("interactions", x, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1), classes)


def _words(rng: Rng) -> Pool:
    """Counts of words, a topic per class over a shared everyday vocabulary; square roots tame long texts."""
    rows, vocabulary, classes = int(rng.integers(900, 2200)), int(rng.integers(60, 220)), int(rng.integers(3, 9))
    everyday = rng.dirichlet(np.full(vocabulary, 0.5))
    topics = 0.5 * everyday + 0.5 * rng.dirichlet(np.full(vocabulary, 0.08), size=classes)
    y = rng.integers(0, classes, size=rows)
    x = np.stack([rng.multinomial(int(n), topics[c]) for n, c in zip(rng.integers(15, 90, rows), y, strict=True)])
    return Pool("words", 0.5 * np.sqrt(x), y, classes)


def _shapes(rng: Rng) -> Pool:
    """Small grey pictures: bars, diagonals, discs, rings, crosses and corners under noise."""
    rows, side, classes = int(rng.integers(900, 2200)), int(rng.integers(8, 13)), int(rng.integers(4, 7))
    down, across = np.mgrid[:side, :side]
    y = rng.integers(0, classes, size=rows)
    x = np.empty((rows, 1, side, side))
    for row, kind in enumerate(y):
        top, left = rng.integers(2, side - 2, size=2)
        radius = np.hypot(down - top, across - left)
        drawn = (
            np.abs(down - top) < 1,
            np.abs(across - left) < 1,
            np.abs(down - top - across + left) < 1,
            radius < 2.2,
            np.abs(radius - 2.6) < 0.8,
            (down >= top) & (across >= left),
        )[kind]
        x[row, 0] = rng.uniform(0.5, 1.0) * drawn + rng.normal(0, 0.25, size=(side, side))
    return Pool("shapes", x, y, classes)


MADE_UP: dict[str, Callable[[Rng], Pool]] = {"interactions": _interactions, "words": _words, "shapes": _shapes}
PACKAGED = ("digits", "breast-cancer", "wine")
STORED = ("adult", "compas", "mnist", "fashion", "cifar")


def stored_folder() -> Path | None:
    """The folder named by FLCONTRIB_DATA, where it holds all the sets used here."""
    folder = Path(os.environ.get("FLCONTRIB_DATA", "/nowhere"))
    files = ("adult.csv.gz", "compas-two-years.csv.gz", "mnist.npz", "fashion-mnist-12k.npz", "cifar10-12k.npz")
    return folder if all((folder / file).exists() for file in files) else None


def pool_names() -> tuple[str, ...]:
    """What can be drawn from here: the stored sets only where they are."""
    return (*PACKAGED, *MADE_UP, *(STORED if stored_folder() else ()))


def _shrunk(images: Array, by: int) -> Array:
    rows, channels, high, wide = images.shape
    return images.reshape(rows, channels, high // by, by, wide // by, by).mean(axis=(3, 5))


def _table(file: Path, name: str) -> Pool:
    import pandas as pd

    rows = pd.read_csv(file)
    if name == "adult":
        label, dropped, keep = "income_gt_50k", ["fnlwgt", "education", "split", "native_country"], slice(None)
    else:
        label, dropped, keep = "two_year_recid", [], slice(None)
        rows = rows[["sex", "age", "race", "priors_count", "juv_fel_count", "juv_misd_count", "c_charge_degree", label]]
    y = rows.pop(label).to_numpy()[keep]
    return Pool(name, _scaled(pd.get_dummies(rows.drop(columns=dropped)).to_numpy("float64")), y, 2)


@lru_cache(maxsize=12)
def _fixed(name: str) -> Pool:
    folder = stored_folder()
    if name in PACKAGED or folder is None:
        return _packaged(name)
    if name in ("adult", "compas"):
        return _table(folder / {"adult": "adult.csv.gz", "compas": "compas-two-years.csv.gz"}[name], name)
    file = {"mnist": "mnist.npz", "fashion": "fashion-mnist-12k.npz", "cifar": "cifar10-12k.npz"}[name]
    with np.load(folder / file) as stored:
        x, y = stored["x_train"][:10000].astype("float64") / 255, stored["y_train"][:10000]
    x = x if x.ndim == 4 else x[:, None]
    return Pool(name, _shrunk(x, 4 if name == "cifar" else 2) - (0.5 if name == "cifar" else 0.0), y, 10)


def open_pool(name: str, rng: Rng) -> Pool:
    """At most ``AT_MOST`` rows of the pool in an order of this draw; images of pools may be flat rows for an MLP."""
    pool = MADE_UP[name](rng) if name in MADE_UP else _fixed(name)
    order = rng.permutation(len(pool.y))[:AT_MOST]
    return Pool(name, pool.x[order].astype("float32"), pool.y[order].astype("int64"), pool.classes)
