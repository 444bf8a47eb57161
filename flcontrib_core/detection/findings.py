"""What can be read out of a history, in words and numbers that can be checked?"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from flcontrib_core.vocabulary import FloatArray


class VerdictKind(StrEnum):
    POISONING_WINDOW = "poisoning-window"
    EXACT_FINDING = "exact-finding"
    CLASS_MIX_CHANGED = "class-mix-changed"
    PERSISTENTLY_HARMFUL = "persistently-harmful"
    PERSISTENTLY_OPPOSED = "persistently-opposed"
    NOTHING_FOUND = "nothing-found"
    NO_VERDICT = "no-verdict"


ALERT_KINDS = (
    VerdictKind.POISONING_WINDOW,
    VerdictKind.EXACT_FINDING,
    VerdictKind.CLASS_MIX_CHANGED,
    VerdictKind.PERSISTENTLY_HARMFUL,
)
"""The kinds that stand in the alert list; the others are shown with the client only."""


@dataclass(frozen=True)
class ChannelScore:
    """How strongly one named channel speaks for this window (log Bayes factor), and whether it was available."""

    name: str
    score: float | None
    """None = the channel is unavailable for this run."""


@dataclass(frozen=True)
class Alert:
    """One observed deviation: what, who, when, how sure, and what speaks against it."""

    client: str
    verdict: VerdictKind
    window: tuple[int, int] | None
    probability: float | None
    """Calibrated; None for an exact finding."""
    score: float
    """u, in units of the threshold's scale; > 0 alerts in the default preset, > 2 in strict."""
    expert: str
    channels: tuple[ChannelScore, ...]
    why: str
    counter_evidence: tuple[str, ...]
    computed_in_window: int = 0
    participated_in_window: int = 0
    mean_inside: float | None = None
    """Mean harm share of the loss value per computed epoch inside the window (paper's sign)."""
    mean_outside: float | None = None
    sensitivity_holds: int | None = None
    sensitivity_settings: int | None = None
    finding: str = ""
    """For exact findings: zero, repeat, copy."""


@dataclass(frozen=True)
class ClientVerdict:
    """The strongest verdict of one client, also where nothing was found."""

    client: str
    verdict: VerdictKind
    probability: float | None
    window: tuple[int, int] | None
    score: float | None
    why: str


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
    note: str = ""


@dataclass(frozen=True)
class Detection:
    """Everything read from one history."""

    alerts: tuple[Alert, ...]
    """Strongest first."""
    clients: tuple[ClientVerdict, ...]
    change_points: ChangePoints
    separation: Separation | None
    preset: str
    false_alarm_rate: float | None
    """Share of honest runs that alert at this preset, from the shipped calibration."""
    false_alarm_source: str
    smallest_visible_shift: float | None
    """Harm per epoch over five epochs that would be visible with these settings."""
    notes: tuple[str, ...] = ()
    channels_unavailable: dict[str, str] = field(default_factory=dict)
    """channel -> why this run cannot have it"""
    value_coverage: float | None = None
    """Share of the read participations whose value was computed: the detection power the schedule left."""
