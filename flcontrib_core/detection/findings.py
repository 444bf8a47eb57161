"""Findings: alerts, verdicts, change points and groups read from a history, as numbers and typed facts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from flcontrib_core.detection.facts import Quiet, Remark, Unavailable
from flcontrib_core.detection.objections import Context, FalseAlarmRate, HoldsUnder, Objection, SourceUnknown
from flcontrib_core.detection.reasons import ChannelScore, ExactFact, Reason, ValueInWindow, Window
from flcontrib_core.tagged import Tagged
from flcontrib_core.vocabulary import FloatArray

_Fact = TypeVar("_Fact", bound=Tagged)


class VerdictKind(StrEnum):
    """What can be said of a client, or of one of its windows."""

    POISONING_WINDOW = "poisoning-window"
    """A change with measured harm."""
    EXACT_FINDING = "exact-finding"
    """A fact about the file."""
    CONTRIBUTES_NOTHING = "contributes-nothing"
    ACTS_TOGETHER = "acts-together"
    PERSISTENTLY_HARMFUL = "persistently-harmful"
    """Harm during the whole run: a question, for data of low quality does the same and nothing tells the two apart."""
    BEHAVIOUR_CHANGED = "behaviour-changed"
    """A change without measured harm: a question, not an accusation."""
    CLASS_MIX_CHANGED = "class-mix-changed"
    """A question, not an accusation."""
    PERSISTENTLY_OPPOSED = "persistently-opposed"
    NOTHING_FOUND = "nothing-found"
    NO_VERDICT = "no-verdict"

    @property
    def accuses(self) -> bool:
        """Does this verdict say that something harmful or false was sent? Only such alerts count in a headline."""
        return self in ACCUSING_KINDS


ACCUSING_KINDS = (
    VerdictKind.POISONING_WINDOW,
    VerdictKind.EXACT_FINDING,
    VerdictKind.CONTRIBUTES_NOTHING,
    VerdictKind.ACTS_TOGETHER,
)
ALERT_KINDS = (
    *ACCUSING_KINDS,
    VerdictKind.PERSISTENTLY_HARMFUL,
    VerdictKind.BEHAVIOUR_CHANGED,
    VerdictKind.CLASS_MIX_CHANGED,
)
"""The kinds that stand in the alert list; the others are shown with the client only."""


@dataclass(frozen=True)
class Alert:
    """One observed deviation: what, who, when, how sure, what speaks for it, what against, what it rests on."""

    client: str
    verdict: VerdictKind
    window: Window | None
    probability: float | None
    """Calibrated; None for an exact finding."""
    score: float
    """u, in units of the threshold's scale; > 0 alerts in the default preset, > 2 in strict."""
    expert: str
    channels: tuple[ChannelScore, ...]
    evidence_for: tuple[Reason, ...]
    evidence_against: tuple[Objection, ...]
    context: tuple[Context, ...] = ()
    """Neither for nor against: how robust the finding is, how often honest runs alert."""
    computed_in_window: int = 0
    participated_in_window: int = 0

    @property
    def accuses(self) -> bool:
        """See ``VerdictKind.accuses``; where one of several may have been copied unknowingly, nobody is accused."""
        return self.verdict.accuses and not any(isinstance(fact, SourceUnknown) for fact in self.evidence_against)

    @property
    def finding(self) -> str:
        """For exact findings: diverging, zero, repeat, copy-of-last-step or copy-of-client; otherwise empty."""
        return next((fact.tag for fact in self.evidence_for if isinstance(fact, ExactFact)), "")

    @property
    def mean_inside(self) -> float | None:
        """Mean harm per computed epoch inside the window; None where no value is known."""
        value = self.reason(ValueInWindow)
        return None if value is None else value.mean_inside

    @property
    def mean_outside(self) -> float | None:
        """The same over the epochs that no window of the client holds."""
        value = self.reason(ValueInWindow)
        return None if value is None else value.mean_outside

    @property
    def sensitivity(self) -> HoldsUnder | None:
        """In how many alternative settings the window holds; None where that was not tried."""
        return next((fact for fact in self.context if isinstance(fact, HoldsUnder)), None)

    def reason(self, kind: type[_Fact]) -> _Fact | None:
        """The first reason of this kind."""
        return next((fact for fact in self.evidence_for if isinstance(fact, kind)), None)

    def without_others(self) -> Alert:
        """The same alert with every other client counted instead of named."""
        return replace(
            self,
            evidence_for=tuple(fact.without_others() for fact in self.evidence_for),
            evidence_against=tuple(fact.without_others() for fact in self.evidence_against),
            context=tuple(fact.without_others() for fact in self.context),
        )

    def to_json(self) -> dict[str, Any]:
        """Everything the alert states, without a sentence."""
        held = self.sensitivity
        return {
            "client": self.client,
            "verdict": self.verdict.value,
            "accuses": self.accuses,
            "window": None if self.window is None else list(self.window),
            "probability": self.probability,
            "score": self.score,
            "expert": self.expert,
            "channels": [{"name": c.name, "score": c.score} for c in self.channels],
            "evidence": {
                "for": [fact.to_json() for fact in self.evidence_for],
                "against": [fact.to_json() for fact in self.evidence_against],
                "context": [fact.to_json() for fact in self.context],
            },
            "computed_in_window": self.computed_in_window,
            "participated_in_window": self.participated_in_window,
            "mean_inside": self.mean_inside,
            "mean_outside": self.mean_outside,
            "sensitivity": None if held is None else {"holds": held.holds, "settings": held.settings},
            "finding": self.finding or None,
        }


@dataclass(frozen=True)
class ClientVerdict:
    """The strongest verdict of one client, also where nothing was found."""

    client: str
    verdict: VerdictKind
    probability: float | None
    window: Window | None
    score: float | None
    facts: tuple[Reason | Quiet, ...]
    """Why: the reasons of its strongest alert, or why there is none."""

    def without_others(self) -> ClientVerdict:
        """The same verdict with every other client counted instead of named."""
        return replace(self, facts=tuple(fact.without_others() for fact in self.facts))


@dataclass(frozen=True)
class ChangePoints:
    """Fearnhead's posterior on each client's series."""

    client_ids: tuple[str, ...]
    utility: str
    series: str
    """Which numbers were read: a ``ChangeSeries`` by name"""
    probability: FloatArray
    """(T + 1, clients): probability that a new segment starts at epoch t; row 0 is 0; NaN where missing."""
    inside: FloatArray
    """(T + 1, clients): probability that epoch t lies in a deviating segment; NaN where missing, and everywhere for a
    series in which no level is usual"""
    segments: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """MAP segmentation, inclusive epochs"""
    changes: dict[str, tuple[tuple[int, int, float], ...]] = field(default_factory=dict)
    """(first, last, probability of at least one change among them): each change with its credible interval"""
    second_opinion: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """epochs at which ruptures starts a segment in the same series"""


@dataclass(frozen=True)
class JaccardScore:
    """How well a grouping keeps honest clients apart, beside its two yardsticks."""

    raw: float
    single_cluster: float
    adjusted: float | None


@dataclass(frozen=True)
class Separation:
    """K-means on cumulative series: a view, never an alert."""

    k: int
    labels: dict[str, int]
    centres: FloatArray
    """(k, T + 1)"""
    silhouette: dict[int, float]
    """score of each number of clusters tried"""
    stability: float | None
    jaccard: JaccardScore | None
    metric: str
    chance_silhouette: float | None = None
    """what the best grouping of this run's ungrouped twins reaches in 19 of 20 cases; None where it was not asked"""
    asked: bool = False
    """Did the reader name the number of groups?"""
    epochs_left_out: int = 0
    """epochs without any value, which the series skip"""
    cells_held: int = 0
    """participations without a value in epochs that have others: the client's running total is held there"""


@dataclass(frozen=True)
class Detection:
    """Everything read from one history."""

    alerts: tuple[Alert, ...]
    """Strongest first."""
    clients: tuple[ClientVerdict, ...]
    change_points: ChangePoints
    separation: Separation | None
    preset: str
    false_alarms: FalseAlarmRate
    """Share of honest runs that alert at this preset, from the shipped calibration."""
    smallest_visible_shift: float | None
    """Harm per epoch over five epochs that would be visible with these settings."""
    remarks: tuple[Remark, ...] = ()
    channels_unavailable: dict[str, Unavailable] = field(default_factory=dict)
    """channel -> why this run cannot have it"""
    value_coverage: float | None = None
    """Share of the read participations whose value was computed: the detection power the schedule left."""

    @property
    def false_alarm_rate(self) -> float | None:
        """See ``FalseAlarmRate.share``."""
        return self.false_alarms.share
