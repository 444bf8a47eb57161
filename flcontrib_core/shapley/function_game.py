"""Shapley values of any function of a coalition matrix: ``shapley_values(lambda S: S @ w, players=8)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from flcontrib_core.errors import SettingsError
from flcontrib_core.shapley.auto import Auto
from flcontrib_core.shapley.estimate import EpochEstimator
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.registry import epoch_estimator
from flcontrib_core.shapley.remarks import EstimatorRemark
from flcontrib_core.vocabulary import CoalitionMatrix, FloatArray, UtilityMatrix

CoalitionFunction = Callable[[CoalitionMatrix], ArrayLike]
"""(k, players) booleans -> k values, or (k, utilities)"""
MOST_LINES = 20


class FunctionGame:
    """A function of coalitions as a game; what it gives for the empty coalition is subtracted from every value."""

    def __init__(self, function: CoalitionFunction, players: int, utilities: Sequence[str] | None = None) -> None:
        self._function = function
        self.players = players
        empty = np.asarray(function(np.zeros((1, players), dtype=bool)), dtype=np.float64)
        if empty.ndim not in (1, 2) or len(empty) != 1:
            raise SettingsError(
                f"the function gives shape {empty.shape} for one coalition of {players} players; "
                "it should give one value per row, (k,), or several, (k, utilities)"
            )
        if not np.isfinite(empty).all():
            raise SettingsError(f"the function gives {empty.tolist()} for the empty coalition; give it a finite value")
        self.one_value = empty.ndim == 1
        self.empty_values: FloatArray = empty.reshape(-1)
        numbered = (f"utility {k}" for k in range(len(self.empty_values)))
        self.utilities = ("value",) if self.one_value else tuple(utilities or numbered)
        if len(self.utilities) != len(self.empty_values):
            raise SettingsError(f"{len(self.utilities)} names for {len(self.empty_values)} utilities")

    def evaluate(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        """(coalitions, utilities), the empty coalition's values subtracted."""
        values = np.asarray(self._function(coalitions), dtype=np.float64)
        if values.shape != (len(coalitions), *([] if self.one_value else [len(self.utilities)])):
            raise SettingsError(f"the function gives shape {values.shape} for {len(coalitions)} coalitions")
        return values.reshape(len(coalitions), -1) - self.empty_values


@dataclass(frozen=True, repr=False)
class ShapleyValues:
    """Shapley values of a function, and how they were obtained. They add up to f(everybody) − f(nobody)."""

    values: FloatArray
    """(players,), or (players, utilities) where the function gives several"""
    standard_errors: FloatArray
    """Of the same shape; 0 = exact, NaN = the method gives none."""
    evaluations: int
    """Distinct coalitions, the empty one not counted."""
    method: str
    exact: bool
    empty: FloatArray
    """f(nobody), which was subtracted: a number, or (utilities,)"""
    players: tuple[str, ...]
    utilities: tuple[str, ...]
    remarks: tuple[EstimatorRemark, ...] = ()

    def __repr__(self) -> str:
        count, several = len(self.players), len(self.players) != 1
        head = f"Shapley values of {count} player{'s' * several} ({self.method}, {self.evaluations} evaluations)"
        table = self.values.reshape(count, -1), self.standard_errors.reshape(count, -1)
        width = max(len(name) for name in (*self.players, "player"))
        lines = ["player".ljust(width) + "".join(f"  {name:>22}" for name in self.utilities)]
        for player, values, errors in zip(self.players[:MOST_LINES], *table, strict=False):
            cells = (f"{value:+.6g}" + _interval(error) for value, error in zip(values, errors, strict=True))
            lines.append(player.ljust(width) + "".join(f"  {cell:>22}" for cell in cells))
        if count > MOST_LINES:
            lines.append(f"… {count - MOST_LINES} more")
        return "\n".join([head, *lines])


def _interval(error: float) -> str:
    return f" ± {1.96 * error:.2g}" if error > 0 else ""


def shapley_values(
    function: CoalitionFunction,
    players: int | Sequence[str],
    *,
    estimator: EpochEstimator | str | None = None,
    utilities: Sequence[str] | None = None,
    seed: int = 0,
) -> ShapleyValues:
    """Shapley values of any function of coalitions.

    ``function`` takes a boolean matrix (k, players), a row per coalition, and returns k numbers or (k, utilities). Its
    value of the empty coalition is evaluated once and subtracted, so that the values add up to what everybody gains
    over nobody. ``players`` is a number or the players' names. ``estimator``: an object such as ``MonteCarlo()``, a
    name, or None for ``Auto()``: exact up to 12 players, a surrogate with standard errors above.

    >>> weights = np.array([1.0, 2.0, 3.0])
    >>> shapley_values(lambda coalitions: coalitions @ weights, players=3).values.round(9).tolist()
    [1.0, 2.0, 3.0]
    """
    names = tuple(str(k) for k in range(players)) if isinstance(players, int) else tuple(players)
    if not names:
        raise SettingsError("a game has at least one player")
    game = FunctionGame(function, len(names), utilities)
    method = epoch_estimator(estimator) if isinstance(estimator, str) else estimator or Auto()
    if not isinstance(method, EpochEstimator):
        raise SettingsError(f"{method!r} does not value a single game; give an estimator that works epoch by epoch")
    estimate = method.estimate(CoalitionOracle(game, player_names=names), np.random.default_rng(seed))
    shape = (len(names),) if game.one_value else (len(names), len(game.utilities))
    return ShapleyValues(
        values=estimate.values.reshape(shape),
        standard_errors=estimate.standard_errors.reshape(shape),
        evaluations=estimate.evaluations,
        method=estimate.method,
        exact=estimate.exact,
        empty=game.empty_values.reshape(shape[1:]),
        players=names,
        utilities=game.utilities,
        remarks=estimate.remarks,
    )
