"""Facts that speak against a verdict, and those that only say what it rests on."""

from __future__ import annotations

from enum import StrEnum

from flcontrib_core.detection.reasons import Points, Window
from flcontrib_core.history.remarks import NoValues
from flcontrib_core.tagged import Others, Tagged


class NotComputedInside(Tagged, tag="not-computed-inside"):
    """Epochs of the window in which the client took part and its value is not known."""

    epochs: tuple[int, ...]
    computed: int
    participated: int


class FewComputed(Tagged, tag="few-computed"):
    """Hardly any value inside the window is known."""

    computed: int


class ValuesUnknown(Tagged, tag="values-unknown"):
    """The run has no Shapley values: whether harm was done is judged by less, or not at all."""

    reason: NoValues


class OthersMovedToo(Tagged, tag="others-moved-too"):
    """Other clients come near the threshold in the same epochs."""

    clients: Others


class NotHarmfulOnAverage(Tagged, tag="not-harmful-on-average"):
    """The mean harm inside the window is zero or less."""

    utility: str
    lower_is_better: bool
    mean_inside: float
    half_width: float | None


class IntervalCoversZero(Tagged, tag="interval-covers-zero"):
    """The 95 % interval of the mean harm inside the window covers zero."""

    utility: str
    lower_is_better: bool
    mean_inside: float
    half_width: float


class OtherUtilityHelped(Tagged, tag="other-utility-helped"):
    """By another utility the client helped in most epochs of the window."""

    utility: str
    helped: int
    of: int


class RareParticipation(Tagged, tag="rare-participation"):
    """The client took part in few epochs of the run."""

    participations: int
    epochs: int


class TouchesEnd(Tagged, tag="touches-end"):
    """The window reaches the last epoch: a slow honest change that goes on looks the same."""

    epoch: int


class TouchesStart(Tagged, tag="touches-start"):
    """The window begins where the reading begins: early training moves every client."""

    epoch: int


class FewPeers(Tagged, tag="few-peers"):
    """Median number of other participants in the window's epochs."""

    peers: float


class SmallValidation(Tagged, tag="small-validation"):
    """The validation set is small: values are coarse."""

    rows: int


class UnreliableValues(Tagged, tag="unreliable-values"):
    """The estimator marked the intervals of these epochs as not to be trusted."""

    epochs: tuple[int, ...]


class NotBetterWithout(Tagged, tag="not-better-without"):
    """Leaving the client out for one step would not have improved the model (mean harm saved ≤ 0)."""

    utility: str
    saved: float


class WeighsTooLittle(Tagged, tag="weighs-too-little"):
    """Harm was measured, but everything measured of the window, weighed together, stays below what accuses."""

    log_odds: float
    accuses_at: float
    most: tuple[Points, ...]
    """the largest points, of either sign, largest first"""


class FaintChange(Tagged, tag="faint-change"):
    """The change by itself stays below what alerts; the harm measured in it is what accuses."""

    below: float
    """scales of the expert's tail by which it stays below the threshold"""


class LooksLikeLowQuality(Tagged, tag="looks-like-low-quality"):
    """Data of low quality looks like harm over the whole run."""


class AskFirst(Tagged, tag="ask-first"):
    """An honest change of the client's data looks like this."""


class OtherCausesLookTheSame(Tagged, tag="other-causes-look-the-same"):
    """New data, a new label scheme or a broken pipeline look like a harmful window."""


class OrdinaryCause(StrEnum):
    """Why honest sites change how they train."""

    LOCAL_STEPS = "local-steps"
    OPTIMISER = "optimiser"
    PRIVACY_FILTER = "privacy-filter"
    COMPRESSION = "compression"
    NEW_DATA = "new-data"


class OrdinaryCauses(Tagged, tag="ordinary-causes"):
    """Ordinary causes of such a change, by the channels that moved."""

    causes: tuple[OrdinaryCause, ...]


class BrokenClientLooksTheSame(Tagged, tag="broken-client-looks-the-same"):
    """A broken or restarted client sends old or empty results too."""


class SharedWorkLooksTheSame(Tagged, tag="shared-work-looks-the-same"):
    """Sites that share their rows, their machine or their software's seed send updates that are alike."""


class SourceUnknown(Tagged, tag="source-unknown"):
    """One of the clients may have been copied without knowing; the log cannot tell which."""


class HappenedOnce(Tagged, tag="happened-once"):
    """An exact finding of a single epoch."""

    epoch: int


class Alternative(StrEnum):
    """Another way to build the reader, to test whether a finding survives it."""

    OTHER_UTILITY = "other-utility"
    WITHOUT_VALUES = "without-values"
    WITHOUT_MARGIN = "without-margin"
    WITHOUT_DIRECTIONS = "without-directions"
    SMALLER_SHIFT = "smaller-shift"
    LARGER_SHIFT = "larger-shift"
    WIDER_NOISE = "wider-noise"
    SHORTER_WINDOWS = "shorter-windows"
    WITHOUT_THIRD_1 = "without-third-1"
    WITHOUT_THIRD_2 = "without-third-2"
    WITHOUT_THIRD_3 = "without-third-3"


class VanishesUnder(Tagged, tag="vanishes-under"):
    """Settings under which no overlapping window of the client alerts."""

    alternatives: tuple[Alternative, ...]
    settings: int
    """how many were tried"""


class StillGrowing(Tagged, tag="still-growing"):
    """The run was still being recorded when this was read."""

    epochs: int


class HoldsUnder(Tagged, tag="holds-under"):
    """In how many alternative settings the window holds: neither for nor against, unless it vanishes somewhere."""

    holds: int
    settings: int


class FalseAlarmRate(Tagged, tag="false-alarm-rate"):
    """How many honest simulated runs alert at this threshold, and which runs those are."""

    alerting: int
    runs: int
    """0 = the calibration holds no honest test runs"""
    upper: float | None
    """upper end of the 95 % interval of the rate (Clopper–Pearson); None without runs"""
    clients: Window | None
    """fewest and most clients of the comparable runs, with similar participation; None = all regimes together"""
    every_epoch: bool
    """Were the runs read again after every epoch, as a growing one is?"""

    @property
    def share(self) -> float | None:
        """Alerting runs / runs; None without runs."""
        return self.alerting / self.runs if self.runs else None


Objection = (
    NotComputedInside
    | FewComputed
    | ValuesUnknown
    | OthersMovedToo
    | NotHarmfulOnAverage
    | IntervalCoversZero
    | OtherUtilityHelped
    | RareParticipation
    | TouchesEnd
    | TouchesStart
    | FewPeers
    | SmallValidation
    | UnreliableValues
    | NotBetterWithout
    | WeighsTooLittle
    | LooksLikeLowQuality
    | AskFirst
    | OtherCausesLookTheSame
    | OrdinaryCauses
    | BrokenClientLooksTheSame
    | SharedWorkLooksTheSame
    | SourceUnknown
    | HappenedOnce
    | VanishesUnder
    | StillGrowing
    | FaintChange
)
Context = HoldsUnder | FalseAlarmRate
