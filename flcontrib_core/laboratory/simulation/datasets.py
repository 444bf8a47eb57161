"""The rows that a simulated federation learns from.

Digits, breast cancer and wine come with scikit-learn; ``synthetic``, ``adult-like`` and ``compas-like`` are drawn anew
for each seed; Adult, COMPAS, CIFAR-10, MNIST and Fashion-MNIST are read from a data folder. Each gets its standard
preprocessing, and a seeded split into training rows and validation rows.

Scaling never divides by a deviation close to zero: digits and images are divided by their constant range, and a
column that hardly varies is only centred. Otherwise an unseen row would explode the loss, and an honest client that
holds it would look harmful.
"""

from __future__ import annotations

import csv
import gzip
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.laboratory.simulation.kinds import DatasetName
from flcontrib_core.laboratory.simulation.synthetic_table import ADULT_SCHEMA, COMPAS_SCHEMA, draw_like, draw_table
from flcontrib_core.vocabulary import BoolArray, Float32Array, FloatArray, IntArray

DATA_VARIABLE = "FLCONTRIB_DATA"
SMALLEST_DEVIATION = 1e-3
"""Relative to the largest value of a column: below, it counts as constant."""
VALIDATION_SHARE = 0.2
"""Of the rows, where the source has no test part."""
LARGEST_VALIDATION = 1000

ADULT_NUMERIC = ("age", "education_num", "capital_gain", "capital_loss", "hours_per_week")
ADULT_NAMED = (
    "workclass",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native_country",
)
COMPAS_NUMERIC = ("age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count")
COMPAS_NAMED = ("sex", "race", "c_charge_degree")


@dataclass(frozen=True)
class Dataset:
    """Rows to learn from and rows to judge by; ``x`` is flat, ``image`` gives its channels, height and width."""

    name: DatasetName
    x_train: Float32Array
    """(N, features)"""
    y_train: IntArray
    x_validation: Float32Array
    y_validation: IntArray
    group_validation: IntArray | None
    """The sensitive attribute of the validation rows: 1 = male (Adult), 1 = African-American (COMPAS), 1 = in the
    largest group of the first named column (synthetic)."""
    classes: int
    image: tuple[int, int, int] | None


@dataclass(frozen=True)
class _Source:
    """A data set as read: all rows, and which of them form the source's own test part (None: it has none)."""

    x: Float32Array
    y: IntArray
    group: IntArray | None
    test: BoolArray | None
    standardise: tuple[int, ...]
    """Columns to be centred and scaled by the training rows."""
    image: tuple[int, int, int] | None = None


def load_dataset(
    name: DatasetName,
    rng: np.random.Generator,
    data_dir: Path | None = None,
    train_rows: int | None = None,
    validation_rows: int | None = None,
) -> Dataset:
    """The data set with a stratified split drawn by ``rng``.

    Raises ``MissingPart`` where the data folder or the file is not there, ``SettingsError`` where more rows are asked
    for than exist.
    """
    if name in _DRAWN:
        source = _drawn(name, rng)
    else:
        source = _read(name, str(_folder(name, data_dir)) if name not in _BUNDLED else "")
    everything = np.arange(len(source.y))
    if source.test is None:
        count = validation_rows or min(LARGEST_VALIDATION, round(VALIDATION_SHARE * len(source.y)))
        validation = _stratified(everything, source.y, count, rng, name)
        available = np.setdiff1d(everything, validation)
    else:
        available, test = everything[~source.test], everything[source.test]
        validation = _stratified(test, source.y, validation_rows or min(LARGEST_VALIDATION, len(test)), rng, name)
    learned = available if train_rows is None else _stratified(available, source.y, train_rows, rng, name)
    x = source.x
    if source.standardise:
        columns = list(source.standardise)
        centre, scale = column_scale(x[learned][:, columns])
        x = x.copy()
        x[:, columns] = ((x[:, columns] - centre) / scale).astype(np.float32)
    return Dataset(
        name,
        x[learned],
        source.y[learned],
        x[validation],
        source.y[validation],
        None if source.group is None else source.group[validation],
        int(source.y.max()) + 1,
        source.image,
    )


def column_scale(columns: Float32Array) -> tuple[FloatArray, FloatArray]:
    """Mean and deviation of each column; the deviation of a column that hardly varies is taken as 1."""
    values = columns.astype(np.float64)
    centre, scale = values.mean(axis=0), values.std(axis=0)
    constant = scale < SMALLEST_DEVIATION * np.maximum(np.abs(values).max(axis=0), 1e-300)
    return centre, np.where(constant, 1.0, scale)


def _stratified(rows: IntArray, labels: IntArray, size: int, rng: np.random.Generator, name: DatasetName) -> IntArray:
    """``size`` of the rows, each class in its share, ascending."""
    if not 1 <= size <= len(rows):
        raise SettingsError(f"{size} rows of {name}: it has {len(rows)} to choose from")
    shuffled = rng.permutation(rows)
    classes, position_in_class, count = np.unique(labels[shuffled], return_inverse=True, return_counts=True)
    rank = np.empty(len(rows))
    for c in range(len(classes)):
        own = position_in_class == c
        rank[own] = (np.arange(count[c]) + 0.5) / count[c]  # the first w of this order hold every class's share
    return np.sort(shuffled[np.argsort(rank, kind="stable")[:size]])


def _folder(name: DatasetName, data_dir: Path | None) -> Path:
    place = data_dir or os.environ.get(DATA_VARIABLE)
    if not place:
        raise MissingPart(
            f"the data set {name.value} is read from a folder of yours: name that data folder, or set "
            f"${DATA_VARIABLE}; digits, breast-cancer and wine need none"
        )
    folder = Path(place)
    if not folder.is_dir():
        raise MissingPart(f"the data folder {folder} does not exist: name another or set ${DATA_VARIABLE}")
    return folder


def _file(folder: str, name: str) -> Path:
    path = Path(folder) / name
    if not path.is_file():
        raise MissingPart(f"the data folder {folder} has no file {name}; put it there or choose another data set")
    return path


@lru_cache(maxsize=3)
def _read(name: DatasetName, folder: str) -> _Source:
    readers = {
        DatasetName.DIGITS: _read_bundled,
        DatasetName.BREAST_CANCER: _read_bundled,
        DatasetName.WINE: _read_bundled,
        DatasetName.ADULT: _read_adult,
        DatasetName.COMPAS: _read_compas,
        DatasetName.CIFAR10: _read_images,
        DatasetName.MNIST: _read_images,
        DatasetName.FASHION_MNIST: _read_images,
    }
    return readers[name](name, folder)


_BUNDLED = (DatasetName.DIGITS, DatasetName.BREAST_CANCER, DatasetName.WINE)


_DRAWN = (DatasetName.SYNTHETIC, DatasetName.ADULT_LIKE, DatasetName.COMPAS_LIKE)


def _drawn(name: DatasetName, rng: np.random.Generator) -> _Source:
    if name is DatasetName.SYNTHETIC:
        table = draw_table(rng)
    else:
        table = draw_like(ADULT_SCHEMA if name is DatasetName.ADULT_LIKE else COMPAS_SCHEMA, rng)
    return _Source(table.x, table.y, table.group, None, tuple(range(table.numeric)))


def _read_bundled(name: DatasetName, folder: str) -> _Source:
    from sklearn import datasets

    load = {
        DatasetName.DIGITS: datasets.load_digits,
        DatasetName.BREAST_CANCER: datasets.load_breast_cancer,
        DatasetName.WINE: datasets.load_wine,
    }[name]
    x, y = load(return_X_y=True)
    if name is DatasetName.DIGITS:
        return _Source((x / 16).astype(np.float32), y.astype(np.int64), None, None, (), (1, 8, 8))
    return _Source(x.astype(np.float32), y.astype(np.int64), None, None, tuple(range(x.shape[1])))


def _read_adult(name: DatasetName, folder: str) -> _Source:
    rows = _read_csv(_file(folder, "adult.csv.gz"))
    x = _table(rows, ADULT_NUMERIC, ADULT_NAMED)
    return _Source(
        x,
        _whole(rows, "income_gt_50k"),
        np.array([row["sex"] == "Male" for row in rows], dtype=np.int64),
        np.array([row["split"] == "test" for row in rows]),
        tuple(range(len(ADULT_NUMERIC))),
    )


def _read_compas(name: DatasetName, folder: str) -> _Source:
    """ProPublica's filter: a charge within 30 days of the screening, a known outcome, no ordinary traffic offence."""
    everybody = _read_csv(_file(folder, "compas-two-years.csv.gz"))
    rows = [
        row
        for row in everybody
        if row["days_b_screening_arrest"]
        and abs(float(row["days_b_screening_arrest"])) <= 30
        and row["is_recid"] != "-1"
        and row["c_charge_degree"] != "O"
    ]
    return _Source(
        _table(rows, COMPAS_NUMERIC, COMPAS_NAMED),
        _whole(rows, "two_year_recid"),
        np.array([row["race"] == "African-American" for row in rows], dtype=np.int64),
        None,
        tuple(range(len(COMPAS_NUMERIC))),
    )


def _read_images(name: DatasetName, folder: str) -> _Source:
    file = {
        DatasetName.CIFAR10: "cifar10-12k.npz",
        DatasetName.MNIST: "mnist.npz",
        DatasetName.FASHION_MNIST: "fashion-mnist-12k.npz",
    }[name]
    with np.load(_file(folder, file), allow_pickle=False) as arrays:
        pixels = np.concatenate([arrays["x_train"], arrays["x_test"]])
        labels = np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(np.int64)
        test = np.arange(len(labels)) >= len(arrays["y_train"])
    image = (1, *pixels.shape[1:]) if pixels.ndim == 3 else pixels.shape[1:]
    x: Float32Array = pixels.reshape(len(pixels), -1).astype(np.float32) / np.float32(255)
    if name is DatasetName.CIFAR10:
        x = ((x - 0.5) / 0.25).astype(np.float32)
    channels, height, width = image
    return _Source(x, labels, None, test, (), (channels, height, width))


def _read_csv(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _whole(rows: list[dict[str, str]], column: str) -> IntArray:
    return np.array([int(row[column]) for row in rows], dtype=np.int64)


def _table(rows: list[dict[str, str]], numeric: tuple[str, ...], named: tuple[str, ...]) -> Float32Array:
    """Numeric columns as they are, then one 0/1 column per value of each named column, values in sorted order."""
    blocks = [np.array([[float(row[c]) for c in numeric] for row in rows], dtype=np.float32)]
    for column in named:
        values, position = np.unique([row[column] for row in rows], return_inverse=True)
        blocks.append(np.eye(len(values), dtype=np.float32)[position])
    return np.concatenate(blocks, axis=1)
