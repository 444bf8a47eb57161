"""Games whose Shapley values are known without enumerating coalitions, and a few games without such a formula.

Each generator returns the truth beside the game, derived from the literature or from an argument that shares no code
with the estimators (symmetry, dividends, ranks in a random order).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.vocabulary import CoalitionMatrix, FloatArray, UtilityMatrix


@dataclass
class Game:
    """A coalition game from a function of a coalition matrix; counts the coalitions it really evaluates."""

    players: int
    function: Callable[[CoalitionMatrix], FloatArray]
    utilities: tuple[str, ...] = ("u",)
    evaluated: int = 0

    def evaluate(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        self.evaluated += len(coalitions)
        return np.asarray(self.function(coalitions), dtype=float).reshape(len(coalitions), len(self.utilities))

    def oracle(self) -> CoalitionOracle:
        return CoalitionOracle(self)


@dataclass
class ClosedForm:
    """A game and its Shapley values (players, utilities)."""

    name: str
    game: Game
    values: FloatArray


def table_game(table: FloatArray, utilities: tuple[str, ...] | None = None) -> Game:
    """The game of a (2^n, utilities) table in mask order."""
    table = table.reshape(len(table), -1)
    players = len(table).bit_length() - 1
    names = utilities or tuple(f"u{k}" for k in range(table.shape[1]))
    return Game(players, lambda s: table[s @ (1 << np.arange(players))], names)


def random_table(seed: int, players: int, utilities: int = 1) -> FloatArray:
    """Values of any sign without structure, u(∅) = 0."""
    table = np.random.default_rng(seed).normal(size=(1 << players, utilities))
    table[0] = 0.0
    return table


def smooth_game(seed: int, players: int, utilities: int = 1) -> Game:
    """A game like an epoch's: curved in the mean of the members' directions, utilities of both signs."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(players, 4)) + rng.normal(size=4)
    target = rng.normal(size=(utilities, 4))

    def function(coalitions: CoalitionMatrix) -> FloatArray:
        mean = coalitions @ directions / np.maximum(coalitions.sum(axis=1), 1)[:, None]
        distance = ((mean[:, None, :] - target[None]) ** 2).sum(axis=2)
        start = (target**2).sum(axis=1)
        return np.tanh(distance / 8) - np.tanh(start / 8)

    return Game(players, function, tuple(f"u{k}" for k in range(utilities)))


def additive(seed: int, players: int) -> ClosedForm:
    """v(S) = Σ w_i: everybody is worth its weight, negative ones too."""
    weights = np.random.default_rng(seed).normal(size=players)
    return ClosedForm("additive", Game(players, lambda s: s @ weights), weights[:, None])


def unanimity_sum(seed: int, players: int, terms: int = 30) -> ClosedForm:
    """v(S) = Σ_T c_T [T ⊆ S], c of any sign: each T's dividend is shared equally by its members."""
    rng = np.random.default_rng(seed)
    groups = rng.random((terms, players)) < 0.4
    groups[np.arange(terms), rng.integers(players, size=terms)] = True
    dividends = rng.normal(size=terms)

    def function(coalitions: CoalitionMatrix) -> FloatArray:
        inside = ~(groups[None] & ~coalitions[:, None]).any(axis=2)
        return inside @ dividends

    values = (groups * (dividends / groups.sum(axis=1))[:, None]).sum(axis=0)
    return ClosedForm("unanimity sum", Game(players, function), values[:, None])


def airport(seed: int, players: int) -> ClosedForm:
    """v(S) = the longest runway any member needs: each piece is shared by those who need it (Littlechild & Owen)."""
    costs = np.sort(np.random.default_rng(seed).random(players))
    pieces = np.diff(costs, prepend=0.0) / np.arange(players, 0, -1)
    return ClosedForm("airport", Game(players, lambda s: (s * costs).max(axis=1)), np.cumsum(pieces)[:, None])


def gloves(left: int, right: int) -> ClosedForm:
    """v(S) = pairs of gloves; a left glove's value is the chance that it finds more right ones before it than left."""

    def chance(own: int, other: int) -> float:
        players = own + other
        total = 0.0
        for before in range(players):
            for others in range(max(0, before - own + 1), min(other, before) + 1):
                if others > before - others:
                    ways = math.comb(other, others) * math.comb(own - 1, before - others)
                    total += ways / math.comb(players - 1, before)
        return total / players

    values = np.array([chance(left, right)] * left + [chance(right, left)] * right)
    function = lambda s: np.minimum(s[:, :left].sum(axis=1), s[:, left:].sum(axis=1))  # noqa: E731
    return ClosedForm("gloves", Game(left + right, function), values[:, None])


def majority(players: int) -> ClosedForm:
    """v(S) = 1 where S is more than half: equals share equally."""
    values = np.full((players, 1), 1 / players)
    return ClosedForm("majority", Game(players, lambda s: 2 * s.sum(axis=1) > players), values)


def apex(players: int) -> ClosedForm:
    """The apex player wins with any partner, the others only all together."""
    others = 2 / (players * (players - 1))
    values = np.array([(players - 2) / players, *[others] * (players - 1)])
    function = lambda s: (s[:, 0] & (s.sum(axis=1) > 1)) | s[:, 1:].all(axis=1)  # noqa: E731
    return ClosedForm("apex", Game(players, function), values[:, None])


def security_council() -> ClosedForm:
    """Five vetoes and four of ten others: 421/2145 each for the five, 4/2145 for the ten."""
    values = np.array([421 / 2145] * 5 + [4 / 2145] * 10)
    function = lambda s: s[:, :5].all(axis=1) & (s[:, 5:].sum(axis=1) >= 4)  # noqa: E731
    return ClosedForm("security council", Game(15, function), values[:, None])


def all_closed_forms(players: int, seed: int = 7) -> list[ClosedForm]:
    """One of each kind with about ``players`` players."""
    return [
        additive(seed, players),
        unanimity_sum(seed, players),
        airport(seed, players),
        gloves(players // 2, players - players // 2),
        majority(players),
        apex(players),
    ]
