"""Facts that speak against a verdict, and those that only say what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from flcontrib_core.detection.reasons import Points, Window
from flcontrib_core.history.remarks import NoValues
from flcontrib_core.tagged import Others, Tagged


@dataclass(frozen=True)
class NotComputedInside(Tagged):
    """Epochs of the window in which the client took part and its value is not known."""

    tag: ClassVar[str] = "not-computed-inside"
    epochs: tuple[int, ...]
    computed: int
    participated: int


@dataclass(frozen=True)
class FewComputed(Tagged):
    """Hardly any value inside the window is known."""

    tag: ClassVar[str] = "few-computed"
    computed: int


@dataclass(frozen=True)
class ValuesUnknown(Tagged):
    """The run has no Shapley values: whether harm was done is judged by less, or not at all."""

    tag: ClassVar[str] = "values-unknown"
    reason: NoValues


@dataclass(frozen=True)
class OthersMovedToo(Tagged):
    """Other clients come near the threshold in the same epochs."""

    tag: ClassVar[str] = "others-moved-too"
    clients: Others


@dataclass(frozen=True)
class NotHarmfulOnAverage(Tagged):
    """The mean harm inside the window is zero or less."""

    tag: ClassVar[str] = "not-harmful-on-average"
    utility: str
    lower_is_better: bool
    mean_inside: float
    half_width: float | None


@dataclass(frozen=True)
class IntervalCoversZero(Tagged):
    """The 95 % interval of the mean harm inside the window covers zero."""

    tag: ClassVar[str] = "interval-covers-zero"
    utility: str
    lower_is_better: bool
    mean_inside: float
    half_width: float


@dataclass(frozen=True)
class OtherUtilityHelped(Tagged):
    """By another utility the client helped in most epochs of the window."""

    tag: ClassVar[str] = "other-utility-helped"
    utility: str
    helped: int
    of: int


@dataclass(frozen=True)
class RareParticipation(Tagged):
    """The client took part in few epochs of the run."""

    tag: ClassVar[str] = "rare-participation"
    participations: int
    epochs: int


@dataclass(frozen=True)
class TouchesEnd(Tagged):
    """The window reaches the last epoch: a slow honest change that goes on looks the same."""

    tag: ClassVar[str] = "touches-end"
    epoch: int


@dataclass(frozen=True)
class TouchesStart(Tagged):
    """The window begins where the reading begins: early training moves every client."""

    tag: ClassVar[str] = "touches-start"
    epoch: int


@dataclass(frozen=True)
class FewPeers(Tagged):
    """Median number of other participants in the window's epochs."""

    tag: ClassVar[str] = "few-peers"
    peers: float


@dataclass(frozen=True)
class SmallValidation(Tagged):
    """The validation set is small: values are coarse."""

    tag: ClassVar[str] = "small-validation"
    rows: int


@dataclass(frozen=True)
class UnreliableValues(Tagged):
    """The estimator marked the intervals of these epochs as not to be trusted."""

    tag: ClassVar[str] = "unreliable-values"
    epochs: tuple[int, ...]


@dataclass(frozen=True)
class NotBetterWithout(Tagged):
    """Leaving the client out for one step would not have improved the model (mean harm saved ≤ 0)."""

    tag: ClassVar[str] = "not-better-without"
    utility: str
    saved: float


@dataclass(frozen=True)
class WeighsTooLittle(Tagged):
    """Harm was measured, but everything measured of the window, weighed together, stays below what accuses."""

    tag: ClassVar[str] = "weighs-too-little"
    log_odds: float
    accuses_at: float
    most: tuple[Points, ...]
    """the largest points, of either sign, largest first"""


@dataclass(frozen=True)
class LooksLikeLowQuality(Tagged):
    """Data of low quality looks like harm over the whole run."""

    tag: ClassVar[str] = "looks-like-low-quality"


@dataclass(frozen=True)
class AskFirst(Tagged):
    """An honest change of the client's data looks like this."""

    tag: ClassVar[str] = "ask-first"


@dataclass(frozen=True)
class OtherCausesLookTheSame(Tagged):
    """New data, a new label scheme or a broken pipeline look like a harmful window."""

    tag: ClassVar[str] = "other-causes-look-the-same"


class OrdinaryCause(StrEnum):
    """Why honest sites change how they train."""

    LOCAL_STEPS = "local-steps"
    OPTIMISER = "optimiser"
    PRIVACY_FILTER = "privacy-filter"
    COMPRESSION = "compression"
    NEW_DATA = "new-data"


@dataclass(frozen=True)
class OrdinaryCauses(Tagged):
    """Ordinary causes of such a change, by the channels that moved."""

    tag: ClassVar[str] = "ordinary-causes"
    causes: tuple[OrdinaryCause, ...]


@dataclass(frozen=True)
class BrokenClientLooksTheSame(Tagged):
    """A broken or restarted client sends old or empty results too."""

    tag: ClassVar[str] = "broken-client-looks-the-same"


@dataclass(frozen=True)
class SharedWorkLooksTheSame(Tagged):
    """Sites that share their rows, their machine or their software's seed send updates that are alike."""

    tag: ClassVar[str] = "shared-work-looks-the-same"


@dataclass(frozen=True)
class SourceUnknown(Tagged):
    """One of the clients may have been copied without knowing; the log cannot tell which."""

    tag: ClassVar[str] = "source-unknown"


@dataclass(frozen=True)
class HappenedOnce(Tagged):
    """An exact finding of a single epoch."""

    tag: ClassVar[str] = "happened-once"
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


@dataclass(frozen=True)
class VanishesUnder(Tagged):
    """Settings under which no overlapping window of the client alerts."""

    tag: ClassVar[str] = "vanishes-under"
    alternatives: tuple[Alternative, ...]
    settings: int
    """how many were tried"""


@dataclass(frozen=True)
class StillGrowing(Tagged):
    """The run was still being recorded when this was read."""

    tag: ClassVar[str] = "still-growing"
    epochs: int


@dataclass(frozen=True)
class HoldsUnder(Tagged):
    """In how many alternative settings the window holds: neither for nor against, unless it vanishes somewhere."""

    tag: ClassVar[str] = "holds-under"
    holds: int
    settings: int


@dataclass(frozen=True)
class FalseAlarmRate(Tagged):
    """How many honest simulated runs alert at this threshold, and which runs those are."""

    tag: ClassVar[str] = "false-alarm-rate"
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
)
Context = HoldsUnder | FalseAlarmRate
