"""The closed list of facts: reasons, objections, context, why a client has no alert, and remarks on the reading.

Every fact is a small frozen record of numbers and codes. ``words`` has one sentence for each; nothing in this room
makes or reads a sentence.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, cast

from flcontrib_core.detection.objections import Context, Objection
from flcontrib_core.detection.reasons import Reason, Window
from flcontrib_core.tagged import Others, Tagged, by_tag, from_json


@dataclass(frozen=True)
class BelowThreshold(Tagged):
    """The client's strongest window stays under the threshold, by this many scales of its tail."""

    tag: ClassVar[str] = "below-threshold"
    scales: float


@dataclass(frozen=True)
class ReflectionOfAnother(Tagged):
    """The client's strongest window is the reflection of a stronger change by another client."""

    tag: ClassVar[str] = "reflection-of-another"


@dataclass(frozen=True)
class OpposedUpdates(Tagged):
    """Share of the client's epochs in which its update points away from the other participants'."""

    tag: ClassVar[str] = "opposed-updates"
    share: float


@dataclass(frozen=True)
class NeverTookPart(Tagged):
    """The client has no update in the log."""

    tag: ClassVar[str] = "never-took-part"


@dataclass(frozen=True)
class TooFewParticipations(Tagged):
    """Too few epochs to compare a window with the rest."""

    tag: ClassVar[str] = "too-few-participations"
    participations: int


@dataclass(frozen=True)
class AlwaysAlone(Tagged):
    """The client was the only participant of every epoch it took part in."""

    tag: ClassVar[str] = "always-alone"


@dataclass(frozen=True)
class TooFewComparable(Tagged):
    """Too few of the client's epochs have an observation that can be compared with others."""

    tag: ClassVar[str] = "too-few-comparable"


class Unavailable(StrEnum):
    """Why a run cannot have a channel."""

    NO_VALUES = "no-values"
    NO_UPDATES = "no-updates"
    NO_MODEL = "no-model"
    NOT_RECORDED = "not-recorded"
    NO_PEERS = "no-peers"
    LEFT_OUT = "left-out"
    """on purpose, to test a finding"""


@dataclass(frozen=True)
class ChannelUnavailable(Tagged):
    """One channel that this run cannot have."""

    tag: ClassVar[str] = "channel-unavailable"
    channel: str
    reason: Unavailable


@dataclass(frozen=True)
class ValuesPartlyComputed(Tagged):
    """Share of the participations read whose value was computed."""

    tag: ClassVar[str] = "values-partly-computed"
    share: float
    values_alone: bool
    """Is there nothing but values, so that what was not computed was not seen at all?"""


@dataclass(frozen=True)
class StandsOutByReflection(Tagged):
    """A window above the threshold that is only the reflection of another client's: no alert."""

    tag: ClassVar[str] = "stands-out-by-reflection"
    client: Others
    window: Window


@dataclass(frozen=True)
class ErrorsUnknown(Tagged):
    """Some values come without a standard error."""

    tag: ClassVar[str] = "errors-unknown"


Quiet = (
    BelowThreshold
    | ReflectionOfAnother
    | OpposedUpdates
    | NeverTookPart
    | TooFewParticipations
    | AlwaysAlone
    | TooFewComparable
)
Remark = ChannelUnavailable | ValuesPartlyComputed | StandsOutByReflection | ErrorsUnknown
Fact = Reason | Objection | Context | Quiet | Remark

FACTS = by_tag(typing.get_args(Fact))
"""tag -> class, of every fact there is"""


def fact_from_json(value: object) -> Fact:
    """The fact that ``to_json`` wrote; raises ValueError for anything else."""
    return cast(Fact, from_json(value, FACTS))
