"""The completed federated Shapley value (ComFedSV, Fan et al. 2022).

The utilities form a matrix, epochs × coalitions of ALL clients. An entry is observed where the whole coalition took
part in that epoch; the others are guessed by a low-rank completion (alternating least squares, rank 5, ridge 0.1,
60 iterations), and an absent client receives what the guess says. Columns are the prefixes of max(10, ⌈m ln m⌉)
random orders of all m clients. A column that was never observed cannot be completed: its share is reported, and the
estimate is refused unless ``allow_unobserved`` is set, when such a column counts 0.

The original averages local models without data sizes, in the run as well as in its utilities: the caller builds the
epoch games with equal sizes (``uniform_weights``). Where the recorded sizes differ, the values therefore share out
other increments than the run's own, and do not add up to them. ``evaluations = N`` takes as many orders as keep every
epoch within N.

Departure: the observed entries are scaled to mean square 1 before the completion, because a fixed ridge would
otherwise mean something else for every utility and every stage of the training.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flcontrib_core.errors import CostRefusal, SettingsError
from flcontrib_core.shapley.base import BaseEstimator
from flcontrib_core.shapley.coalitions import distinct_coalitions, prefix_coalitions, random_permutations
from flcontrib_core.shapley.costs import Cost
from flcontrib_core.shapley.estimate import RunEstimate, RunGames
from flcontrib_core.shapley.oracle import coalition_keys
from flcontrib_core.shapley.remarks import NeverObserved
from flcontrib_core.vocabulary import BoolArray, CoalitionMatrix, FloatArray, IntArray

LARGEST_TABLE = 10**9
"""Cells of the (orders, positions, clients) table above which the request is refused."""


def order_count(clients: int) -> int:
    """max(10, ⌈m ln m⌉) orders of all clients."""
    return max(10, math.ceil(clients * math.log(clients)))


@dataclass(frozen=True)
class PrefixColumns:
    """The distinct prefixes of some orders, and which column every position of every order is."""

    orders: IntArray
    """(orders, clients)"""
    members: CoalitionMatrix
    """(columns, clients), in order of first appearance"""
    column_of: IntArray
    """(orders, positions)"""

    @staticmethod
    def of(orders: IntArray) -> PrefixColumns:
        """The distinct prefixes of these orders, one column each."""
        count, clients = orders.shape
        prefixes = prefix_coalitions(orders).reshape(-1, clients)
        first: dict[bytes, int] = {}
        column_of = [first.setdefault(key, len(first)) for key in coalition_keys(prefixes)]
        columns = np.array(column_of)
        rows = np.unique(columns, return_index=True)[1]
        return PrefixColumns(orders, prefixes[rows], columns.reshape(count, clients))

    def observed(self, participants: Sequence[tuple[int, ...]]) -> BoolArray:
        """(epochs, columns) True where the whole coalition took part."""
        seen = np.zeros((len(participants), len(self.members)), dtype=bool)
        for row, present in enumerate(participants):
            absent = np.ones(self.members.shape[1], dtype=bool)
            absent[list(present)] = False
            seen[row] = ~self.members[:, absent].any(axis=1)
        return seen

    def orders_within(self, evaluations: int, observed: BoolArray) -> int:
        """How many of the orders, from the first, keep every epoch within ``evaluations`` distinct coalitions."""
        first_order = np.full(len(self.members), len(self.orders))
        np.minimum.at(first_order, self.column_of, np.arange(len(self.orders))[:, None])
        new = np.zeros((len(observed), len(self.orders)), dtype=np.int64)
        for row, seen in enumerate(observed):
            new[row] = np.bincount(first_order[seen], minlength=len(self.orders))
        return int((np.cumsum(new, axis=1) <= evaluations).all(axis=0).sum())

    def player_factors(self, columns: FloatArray) -> FloatArray:
        """(clients, rank) mean over orders of h(prefix with i) − h(prefix before i), with h(∅) = 0."""
        steps = np.diff(columns[self.column_of], axis=1, prepend=0.0)  # (orders, positions, rank)
        gains = np.zeros((self.members.shape[1], columns.shape[1]))
        np.add.at(gains, self.orders, steps)
        return gains / len(self.orders)


def complete(
    matrix: FloatArray,
    observed: BoolArray,
    rng: np.random.Generator,
    rank: int = 5,
    ridge: float = 0.1,
    iterations: int = 60,
) -> tuple[FloatArray, FloatArray]:
    """W (rows, rank) and H (columns, rank) with W Hᵀ ≈ ``matrix`` where ``observed``; unobserved columns get H = 0."""
    seen = observed.astype(np.float64)
    filled = np.where(observed, matrix, 0.0)
    scale = math.sqrt(float((filled**2).sum()) / max(int(observed.sum()), 1)) or 1.0
    right = rng.normal(size=(matrix.shape[1], rank)) / math.sqrt(rank)
    for _ in range(iterations):
        left = _ridge_rows(seen, filled / scale, right, ridge)
        right = _ridge_rows(seen.T, filled.T / scale, left, ridge)
    return left * scale, right


def _ridge_rows(seen: FloatArray, filled: FloatArray, factor: FloatArray, ridge: float) -> FloatArray:
    """The ridge regression of every row's observed entries on the other side's factor, all rows at once."""
    rank = factor.shape[1]
    products = (factor[:, :, None] * factor[:, None, :]).reshape(len(factor), -1)
    normal = (seen @ products).reshape(-1, rank, rank) + ridge * np.eye(rank)
    return np.asarray(np.linalg.solve(normal, (filled @ factor)[:, :, None])[:, :, 0])


@dataclass(frozen=True, kw_only=True)
class ComFedSV(BaseEstimator):
    """Shapley values of all clients from a completed utility matrix."""

    allow_unobserved: bool = False
    """Whether a coalition that never took part together may count 0."""
    orders: int | None = None
    """Random orders of all clients; None = max(10, ⌈m ln m⌉)."""
    rank: int = 5
    ridge: float = 0.1
    iterations: int = 60

    name = "comfedsv"
    uniform_weights = True
    """The epoch games are to be built with equal data sizes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.rank, self.iterations, self.orders or 1) < 1 or not self.ridge > 0:
            raise SettingsError("comfedsv: rank, iterations and orders are at least 1, and the ridge is positive")

    def cost(self, players: int, multiply_adds: float | None) -> Cost:
        """Of an epoch in which all ``players`` clients take part; one with fewer costs less."""
        ceiling = distinct_coalitions(players)
        if self.evaluations is not None:
            ceiling = min(ceiling, self.evaluations)
        most = min(ceiling, 1 + (self.orders or order_count(players)) * (players - 1))
        return Cost(most, most)

    def estimate_run(self, run: RunGames, rng: np.random.Generator) -> RunEstimate:
        """Values of every client in every epoch, absent ones included."""
        if not len(run.epochs):
            raise SettingsError("comfedsv needs at least one epoch to observe")
        participants = [epoch.participants for epoch in run.epochs]
        columns = self._columns(participants, run.clients, rng)
        observed = columns.observed(participants)
        unobserved = float((~observed.any(axis=0)).mean())
        if unobserved and not self.allow_unobserved:
            raise SettingsError(
                f"comfedsv: {unobserved:.1%} of the {len(columns.members)} coalitions never took part together in one "
                "epoch, so nothing can be said about them. Record a run whose first epoch has all clients, use "
                "another estimator, or allow unobserved coalitions, which then count 0."
            )
        # one pass: an epoch's game may be read from disk and is not needed again
        rows = [
            epoch.oracle.evaluate(columns.members[seen][:, list(epoch.participants)])
            for epoch, seen in zip(run.epochs, observed, strict=True)
        ]
        utilities = rows[0].shape[1]
        per_epoch = np.empty((len(rows), run.clients, utilities))
        for k in range(utilities):
            matrix = np.zeros(observed.shape)
            matrix[observed] = np.concatenate([row[:, k] for row in rows])
            left, right = complete(matrix, observed, rng, self.rank, self.ridge, self.iterations)
            per_epoch[:, :, k] = left @ columns.player_factors(right).T
        return RunEstimate(
            per_epoch=per_epoch,
            totals=per_epoch.sum(axis=0),
            evaluations=observed.sum(axis=1),
            remarks=(NeverObserved(len(columns.orders), unobserved),),
            extra={"unobserved_columns": unobserved},
            method=self.name,
        )

    def _columns(
        self, participants: Sequence[tuple[int, ...]], clients: int, rng: np.random.Generator
    ) -> PrefixColumns:
        """The prefixes of the orders there are evaluations for."""
        count = self.orders or order_count(clients)
        if count * clients**2 > LARGEST_TABLE:
            raise CostRefusal(
                f"comfedsv over {clients} clients needs {count * clients:,} coalitions of up to {clients} members. "
                "Use auto, fedsv or complementary.",
                evaluations=float(count * clients),
                offered="auto, fedsv or complementary",
            )
        columns = PrefixColumns.of(random_permutations(rng, count, clients))
        if self.evaluations is None:
            return columns
        fitting = columns.orders_within(self.evaluations, columns.observed(participants))
        if not fitting:
            raise SettingsError(
                f"comfedsv: {self.evaluations} evaluations per epoch do not pay for one order of {clients} clients"
            )
        return PrefixColumns.of(columns.orders[:fitting])
