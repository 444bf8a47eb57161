"""Remarks of the estimators: what was done and what a reader of the values should know, as numbers and codes."""

from __future__ import annotations

from enum import StrEnum

from flcontrib_core.tagged import Others, Tagged


class ExactIsCheap(Tagged, tag="exact-is-cheap"):
    """All coalitions were evaluated because that costs little."""

    players: int


class ExactIsNotCheap(Tagged, tag="exact-is-not-cheap"):
    """All coalitions would cost too much: an estimate was made."""

    players: int


class EvaluationsPayForAll(Tagged, tag="evaluations-pay-for-all"):
    """The evaluations allowed pay for all coalitions, or not."""

    evaluations: int
    pay: bool


class Handling(StrEnum):
    """What was done about updates that stand out."""

    EXACT = "exact"
    FITTED_APART = "fitted-apart"
    ESTIMATED = "estimated"


class LongUpdates(Tagged, tag="long-updates"):
    """Participants whose update is more than ``ratio`` times the median length."""

    clients: Others
    ratio: float
    handling: Handling


class SurrogateFellShort(Tagged, tag="surrogate-fell-short"):
    """The surrogate's precision was not reached, or it cannot be trusted for some utilities."""

    untrusted: tuple[str, ...]
    """utilities; empty where only the precision was missed"""
    evaluations: int
    precision: float
    exact_instead: bool
    """False: exact is out of reach, and the interval stays as wide as it is"""


class SubmodelsNotFinite(Tagged, tag="submodels-not-finite"):
    """Sub-models whose logits are not finite were kept out of the fit."""

    count: int
    first: Others
    """the clients of the first one"""


class NoDifference(Tagged, tag="no-difference"):
    """Utilities in which the clients do not differ."""

    utilities: tuple[str, ...]


class IntervalWide(Tagged, tag="interval-wide"):
    """Utilities whose interval is wider than ``precision`` standard deviations of the values."""

    utilities: tuple[str, ...]
    evaluations: int
    precision: float


class BordersDrawn(Tagged, tag="borders-drawn"):
    """Too few evaluations for the exact borders of the strata: all sizes were drawn."""

    evaluations: int
    needed: int


class EmptyCells(Tagged, tag="empty-cells"):
    """(player, size) cells without a draw, which take the mean of their size: the values are biased."""

    empty: int
    cells: int


class Pilot(Tagged, tag="pilot"):
    """Pairs of the pilot and pairs shared by the spread it saw; none where it saw no spread."""

    pairs: int
    shared: int | None


class IncrementSmall(Tagged, tag="increment-small"):
    """Utilities that were skipped because the epoch moved them by less than the threshold."""

    utilities: tuple[str, ...]


class Stop(StrEnum):
    """Why a sweep of orders ended."""

    CONVERGED = "converged"
    MOST_ORDERS = "most-orders"
    EVALUATIONS = "evaluations"


class SweepEnded(Tagged, tag="sweep-ended"):
    """Why and after how many orders the sweeps ended."""

    stop: Stop
    orders: int


class Decayed(Tagged, tag="decayed"):
    """Values multiplied by decay^epoch."""

    decay: float
    epoch: int


class Orders(Tagged, tag="orders"):
    """Random orders that were walked."""

    count: int


class OrdersCut(Tagged, tag="orders-cut"):
    """Orders were cut within this share of u(N): a bias that the standard error does not show."""

    share: float


class GroupTests(Tagged, tag="group-tests"):
    """Group tests that were evaluated; with none, u(N) is shared equally."""

    count: int


class NeverObserved(Tagged, tag="never-observed"):
    """Share of the coalitions on the walked orders that never took part together."""

    orders: int
    share: float


class LibraryMessage(Tagged, tag="library-message"):
    """What another library said, quoted: the one remark that is text."""

    library: str
    text: str


class FromGradients(Tagged, tag="from-gradients"):
    """Values were read from gradients of the loss; other utilities have none."""

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
