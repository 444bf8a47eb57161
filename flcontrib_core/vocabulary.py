"""Words and array shapes that the whole house shares.

Index convention, once and everywhere: row ``t`` of an array with ``T + 1`` rows is the paper's epoch ``t``;
row 0 is the initial model. What is known of a cell is its ``CellState``, kept in one matrix and asked by everybody;
nobody reads it out of NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, StrEnum
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

CoalitionMatrix = NDArray[np.bool_]
"""(coalitions, players): True where the player belongs to the coalition."""
CoalitionWeights = NDArray[np.float64]
"""(coalitions, players): λ(i, S), rows sum to 1 (adaptive) except for the empty coalition's zero row."""
UtilityMatrix = NDArray[np.float64]
"""(coalitions, utilities): u(S) = v(F_S) − v(F_prev); the empty coalition is 0."""
PlayerByUtility = NDArray[np.float64]
"""(players, utilities)"""
LogitTensor = NDArray[np.float32]
"""(coalitions, validation rows, classes)"""
EpochVector = NDArray[np.float64]
"""(T + 1,)"""
EpochByClient = NDArray[np.float64]
"""(T + 1, clients)"""
EpochByClientMask = NDArray[np.bool_]
"""(T + 1, clients)"""

EpochByClientByUtility = NDArray[np.float64]
"""(T + 1, clients, utilities)"""
EpochByUtility = NDArray[np.float64]
"""(T + 1, utilities)"""
StateArray = NDArray[np.int8]
"""``CellState`` of every cell: (T + 1, clients, utilities), or (T + 1, clients) for one utility"""

OnProgress = Callable[[int, int, str], None]
"""on_progress(done, total, label)"""


class Phase(StrEnum):
    """What an assessment tells of itself while it is at work on something else than its epochs' values."""

    MEASURING = "measuring the model's movement"
    READING = "reading the history"


def no_progress(done: int, total: int, label: str) -> None:
    """The listener of a caller that does not want to be told."""


class CellState(IntEnum):
    """What is known of one client in one epoch."""

    ABSENT = 0
    """The client did not take part: its share is exactly 0."""
    COMPUTED = 1
    """The client took part and its value is known. A value of zero is computed too."""
    NOT_COMPUTED = 2
    """The client took part; its value is unknown (skipped by the budget, or left empty in a table)."""
    PENDING = 3
    """The client took part; a job at work has not come to this epoch yet."""


class WeightMode(StrEnum):
    """How a sub-model weighs its members' updates."""

    ADAPTIVE = "adaptive"
    """|D_i| / Σ_{j∈S} |D_j| – eq. (fl_sub_model), the method's default."""
    FIXED = "fixed"
    """|D_i| / Σ_{j∈I(t)} |D_j|, over the epoch's participants: the model of everybody is the epoch's own."""
    FIXED_ALL = "fixed-all"
    """|D_i| / Σ_{j∈I} |D_j|, over all clients of the federation, as Lin et al. 2023 write it."""


class Orientation(StrEnum):
    """Which way a contribution is shown; stored values always keep the paper's."""

    HELP_UP = "help-up"
    """Loss reduction and accuracy gain are credited: up is help, whatever the utility."""
    PAPER = "paper"
    """The share of the utility itself: a rising share of the loss is harm, of the accuracy help."""


class FillPolicy(StrEnum):
    """What a total takes for an epoch that the budget skipped. Detectors never see filled values."""

    EQUAL = "equal"
    ZERO = "zero"
    LEAVE_ONE_OUT = "leave-one-out"


@runtime_checkable
class CoalitionGame(Protocol):
    """Any cooperative game with one or several utilities: what every estimator sees.

    ``evaluate`` takes a matrix of coalitions and returns all utilities of each; u(∅) = 0 always.
    """

    @property
    def players(self) -> int:
        """n."""
        ...

    @property
    def utilities(self) -> tuple[str, ...]:
        """Names of the columns that ``evaluate`` gives."""
        ...

    def evaluate(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        """(coalitions, utilities) relative to the empty coalition."""
        ...


@runtime_checkable
class LogitGame(CoalitionGame, Protocol):
    """A coalition game whose utilities are functions of validation logits (what the surrogate needs)."""

    @property
    def validation_rows(self) -> int:
        """V, the rows that utilities are measured on."""
        ...

    @property
    def multiply_adds(self) -> float:
        """Multiply-adds of one evaluation (reconstruction + forward): the fixed cost model of ``auto``."""
        ...

    def evaluate_with_logits(self, coalitions: CoalitionMatrix) -> tuple[UtilityMatrix, LogitTensor]:
        """Utilities relative to the empty coalition, and the logits behind them."""
        ...

    def weights(self, coalitions: CoalitionMatrix) -> CoalitionWeights:
        """(coalitions, players) the aggregation weights of each coalition."""
        ...

    def gram(self) -> FloatArray:
        """ΔΔᵀ in float64, (players, players)."""
        ...

    def utilities_of_logits(self, logits: LogitTensor) -> UtilityMatrix:
        """The same utilities (incremental) for logits that were predicted instead of evaluated."""
        ...


@runtime_checkable
class GradientGame(LogitGame, Protocol):
    """A game of sub-models whose loss has a gradient."""

    @property
    def weight_mode(self) -> WeightMode: ...

    def loss_slopes(self, weights: FloatArray) -> FloatArray:
        """(players,) Δ_i·∇loss at the model whose updates have these ``weights`` (players,)."""
        ...


LOWER_IS_BETTER = frozenset({"loss", "demographic-parity-gap"})
"""Utilities whose smaller value is the better model; all others are higher-is-better."""
HELP_IS_UP = "(help is up)"
HARM_IS_UP = "(harm is up)"
"""Stands in the header of every column whose sign means something."""
