"""A made-up table of people, for where none may be downloaded.

Two ways: a table with columns of its own, or one with the columns of a known table (Adult, COMPAS). Every table is
drawn with a concept of its own: skewed and plain numbers, named columns of unequal frequency, an outcome that depends
on a few columns and pairs of them and is otherwise chance. Classes overlap and are unequal, so even the best model is
wrong for one row in eight to one in three, as with records of people.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from flcontrib_core.vocabulary import Float32Array, FloatArray, IntArray

ROWS = 6000
NUMERIC = (3, 8)
NAMED = (3, 7)
VALUES = (2, 9)
"""Fewest and most numeric columns, named columns, and values of a named column (both ends included)."""
SHARPNESS = (1.0, 3.0)
"""Deviation of the outcome's log odds: at 1 the best model is right for about 70 % of the rows, at 3 for about 86 %."""
RARER_SHARE = (0.25, 0.5)
"""Share of the rarer outcome."""
RELEVANT = 0.6
"""Share of the columns on which the outcome depends."""


@dataclass(frozen=True)
class SyntheticTable:
    """Rows (N, columns), numeric columns first and as they are; named columns as 0/1."""

    x: Float32Array
    y: IntArray
    group: IntArray
    """(N,) is the row in the largest group of the first named column?"""
    numeric: int


class Column(StrEnum):
    """How a numeric column is spread."""

    PLAIN = "plain"
    SKEWED = "skewed"
    MOSTLY_ZERO = "mostly-zero"


@dataclass(frozen=True)
class TableSchema:
    """The shape of a known table: its columns, the share of the rarer outcome and how far chance decides."""

    numeric: tuple[Column, ...]
    named: tuple[int, ...]
    """Values of each named column; the first one gives the group."""
    sharpness: float
    rarer_share: float
    rows: int = ROWS


ADULT_SCHEMA = TableSchema(
    (Column.SKEWED, Column.PLAIN, Column.MOSTLY_ZERO, Column.MOSTLY_ZERO, Column.PLAIN),
    (2, 9, 7, 15, 6, 5, 42),
    sharpness=3.0,
    rarer_share=0.24,
)
"""Adult: age, education, capital gain and loss, hours; sex, work class, marital status, occupation, … (91 columns);
24 % above the income line; good models are right for about 85 % of the rows."""
COMPAS_SCHEMA = TableSchema(
    (Column.SKEWED, Column.MOSTLY_ZERO, Column.MOSTLY_ZERO, Column.MOSTLY_ZERO, Column.SKEWED),
    (6, 2, 2),
    sharpness=1.15,
    rarer_share=0.455,
)
"""COMPAS: age, three juvenile counts, priors; race, sex, charge (15 columns); 45.5 % re-offended; good models are right
for about 68 % of the rows."""
NONZERO = 0.08
"""Share of rows in which a mostly-zero column is something."""


def draw_like(schema: TableSchema, rng: np.random.Generator) -> SyntheticTable:
    """A new table with the columns of a known one and a new concept."""
    numeric = np.stack([_column(kind, rng, schema.rows) for kind in schema.numeric], axis=1)
    named = [_named(rng, schema.rows, values) for values in schema.named]
    x = np.concatenate([numeric, *named], axis=1)
    y = _outcome(rng, schema.sharpness * _score(rng, x), schema.rarer_share)
    largest = named[0][:, named[0].sum(axis=0).argmax()]
    return SyntheticTable(x.astype(np.float32), y, largest.astype(np.int64), numeric.shape[1])


def _column(kind: Column, rng: np.random.Generator, rows: int) -> FloatArray:
    plain = rng.normal(size=rows)
    if kind is Column.PLAIN:
        return plain
    if kind is Column.SKEWED:
        return np.asarray(np.round(np.exp(0.8 * plain), 1))
    return np.asarray(np.where(rng.random(rows) < NONZERO, np.ceil(np.exp(plain)), 0.0))


def draw_table(rng: np.random.Generator, rows: int = ROWS) -> SyntheticTable:
    """A new table with a new concept; the same ``rng`` state gives the same table."""
    numeric = _numbers(rng, rows, int(rng.integers(NUMERIC[0], NUMERIC[1] + 1)))
    named = [_named(rng, rows, int(rng.integers(VALUES[0], VALUES[1] + 1))) for _ in range(rng.integers(*NAMED) + 1)]
    x = np.concatenate([numeric, *named], axis=1)
    log_odds = rng.uniform(*SHARPNESS) * _score(rng, x)
    y = _outcome(rng, log_odds)
    largest = named[0][:, named[0].sum(axis=0).argmax()]
    return SyntheticTable(x.astype(np.float32), y, largest.astype(np.int64), numeric.shape[1])


def _outcome(rng: np.random.Generator, log_odds: FloatArray, rarer_share: float | None = None) -> IntArray:
    """(N,) 0 or 1; the share of ones is drawn where none is given."""
    # the intercept that gives the wanted share is a quantile of log odds plus logistic noise
    chance = log_odds + rng.logistic(size=len(log_odds))
    share = rng.uniform(*RARER_SHARE) if rarer_share is None else rarer_share
    return np.asarray(chance > np.quantile(chance, 1 - share)).astype(np.int64)


def _numbers(rng: np.random.Generator, rows: int, columns: int) -> FloatArray:
    """(N, columns) correlated; about half of them skewed, as incomes and counts are."""
    mixed = rng.normal(size=(rows, columns)) @ (np.eye(columns) + 0.4 * rng.normal(size=(columns, columns)))
    skewed = rng.random(columns) < 0.5
    return np.where(skewed, np.round(np.exp(0.8 * mixed / mixed.std(axis=0)), 1), mixed)


def _named(rng: np.random.Generator, rows: int, values: int) -> FloatArray:
    """(N, values) one 1 per row."""
    return np.asarray(np.eye(values)[rng.choice(values, size=rows, p=rng.dirichlet(np.full(values, 2.0)))])


def _score(rng: np.random.Generator, x: FloatArray) -> FloatArray:
    """(N,) what the outcome depends on, centred and of unit deviation: a weighted sum and a few products."""
    plain = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9)
    weights = rng.normal(size=x.shape[1]) * (rng.random(x.shape[1]) < RELEVANT)
    pairs = rng.integers(x.shape[1], size=(4, 2))
    score = plain @ weights + sum(rng.normal() * plain[:, a] * plain[:, b] for a, b in pairs)
    return np.asarray((score - score.mean()) / max(float(score.std()), 1e-9))
