"""Remarks of the estimators: what was done and what a reader of the values should know, as numbers and codes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from flcontrib_core.tagged import Others, Tagged


@dataclass(frozen=True)
class ExactIsCheap(Tagged):
    """All coalitions were evaluated because that costs little."""

    tag: ClassVar[str] = "exact-is-cheap"
    players: int


@dataclass(frozen=True)
class ExactIsNotCheap(Tagged):
    """All coalitions would cost too much: an estimate was made."""

    tag: ClassVar[str] = "exact-is-not-cheap"
    players: int


@dataclass(frozen=True)
class EvaluationsPayForAll(Tagged):
    """The evaluations allowed pay for all coalitions, or not."""

    tag: ClassVar[str] = "evaluations-pay-for-all"
    evaluations: int
    pay: bool


class Handling(StrEnum):
    """What was done about updates that stand out."""

    EXACT = "exact"
    FITTED_APART = "fitted-apart"
    ESTIMATED = "estimated"


@dataclass(frozen=True)
class LongUpdates(Tagged):
    """Participants whose update is more than ``ratio`` times the median length."""

    tag: ClassVar[str] = "long-updates"
    clients: Others
    ratio: float
    handling: Handling


@dataclass(frozen=True)
class SurrogateFellShort(Tagged):
    """The surrogate's precision was not reached, or it cannot be trusted for some utilities."""

    tag: ClassVar[str] = "surrogate-fell-short"
    untrusted: tuple[str, ...]
    """utilities; empty where only the precision was missed"""
    evaluations: int
    precision: float
    exact_instead: bool
    """False: exact is out of reach, and the interval stays as wide as it is"""


@dataclass(frozen=True)
class SubmodelsNotFinite(Tagged):
    """Sub-models whose logits are not finite were kept out of the fit."""

    tag: ClassVar[str] = "submodels-not-finite"
    count: int
    first: Others
    """the clients of the first one"""


@dataclass(frozen=True)
class NoDifference(Tagged):
    """Utilities in which the clients do not differ."""

    tag: ClassVar[str] = "no-difference"
    utilities: tuple[str, ...]


@dataclass(frozen=True)
class IntervalWide(Tagged):
    """Utilities whose interval is wider than ``precision`` standard deviations of the values."""

    tag: ClassVar[str] = "interval-wide"
    utilities: tuple[str, ...]
    evaluations: int
    precision: float


@dataclass(frozen=True)
class BordersDrawn(Tagged):
    """Too few evaluations for the exact borders of the strata: all sizes were drawn."""

    tag: ClassVar[str] = "borders-drawn"
    evaluations: int
    needed: int


@dataclass(frozen=True)
class EmptyCells(Tagged):
    """(player, size) cells without a draw, which take the mean of their size: the values are biased."""

    tag: ClassVar[str] = "empty-cells"
    empty: int
    cells: int


@dataclass(frozen=True)
class Pilot(Tagged):
    """Pairs of the pilot and pairs shared by the spread it saw; none where it saw no spread."""

    tag: ClassVar[str] = "pilot"
    pairs: int
    shared: int | None


@dataclass(frozen=True)
class IncrementSmall(Tagged):
    """Utilities that were skipped because the epoch moved them by less than the threshold."""

    tag: ClassVar[str] = "increment-small"
    utilities: tuple[str, ...]


class Stop(StrEnum):
    """Why a sweep of orders ended."""

    CONVERGED = "converged"
    MOST_ORDERS = "most-orders"
    EVALUATIONS = "evaluations"


@dataclass(frozen=True)
class SweepEnded(Tagged):
    """Why and after how many orders the sweeps ended."""

    tag: ClassVar[str] = "sweep-ended"
    stop: Stop
    orders: int


@dataclass(frozen=True)
class Decayed(Tagged):
    """Values multiplied by decay^epoch."""

    tag: ClassVar[str] = "decayed"
    decay: float
    epoch: int


@dataclass(frozen=True)
class Orders(Tagged):
    """Random orders that were walked."""

    tag: ClassVar[str] = "orders"
    count: int


@dataclass(frozen=True)
class OrdersCut(Tagged):
    """Orders were cut within this share of u(N): a bias that the standard error does not show."""

    tag: ClassVar[str] = "orders-cut"
    share: float


@dataclass(frozen=True)
class GroupTests(Tagged):
    """Group tests that were evaluated; with none, u(N) is shared equally."""

    tag: ClassVar[str] = "group-tests"
    count: int


@dataclass(frozen=True)
class NeverObserved(Tagged):
    """Share of the coalitions on the walked orders that never took part together."""

    tag: ClassVar[str] = "never-observed"
    orders: int
    share: float


@dataclass(frozen=True)
class LibraryMessage(Tagged):
    """What another library said, quoted: the one remark that is text."""

    tag: ClassVar[str] = "library-message"
    library: str
    text: str


@dataclass(frozen=True)
class FromGradients(Tagged):
    """Values were read from gradients of the loss; other utilities have none."""

    tag: ClassVar[str] = "from-gradients"
    gradients: int
    without: tuple[str, ...]


EstimatorRemark = (
    ExactIsCheap
    | ExactIsNotCheap
    | EvaluationsPayForAll
    | LongUpdates
    | SurrogateFellShort
    | SubmodelsNotFinite
    | NoDifference
    | IntervalWide
    | BordersDrawn
    | EmptyCells
    | Pilot
    | IncrementSmall
    | SweepEnded
    | Decayed
    | Orders
    | OrdersCut
    | GroupTests
    | NeverObserved
    | LibraryMessage
    | FromGradients
)
