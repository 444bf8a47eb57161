"""The closed list of facts: reasons, objections, context, why a client has no alert, and remarks on the reading.

Every fact is a small frozen record of numbers and codes. ``words`` has one sentence for each; nothing in this room
makes or reads a sentence.
"""

from __future__ import annotations

import typing
from enum import StrEnum
from typing import cast

from flcontrib_core.detection.objections import Context, Objection
from flcontrib_core.detection.reasons import Reason, Window
from flcontrib_core.tagged import Others, Tagged, by_tag, from_json


class BelowThreshold(Tagged, tag="below-threshold"):
    """The client's strongest window stays under the threshold, by this many scales of its tail."""

    scales: float


class ReflectionOfAnother(Tagged, tag="reflection-of-another"):
    """The client's strongest window is the reflection of a stronger change by another client."""


class OpposedUpdates(Tagged, tag="opposed-updates"):
    """Share of the client's epochs in which its update points away from the other participants'."""

    share: float


class NeverTookPart(Tagged, tag="never-took-part"):
    """The client has no update in the log."""


class TooFewParticipations(Tagged, tag="too-few-participations"):
    """Too few epochs to compare a window with the rest."""

    participations: int


class AlwaysAlone(Tagged, tag="always-alone"):
    """The client was the only participant of every epoch it took part in."""


class TooFewComparable(Tagged, tag="too-few-comparable"):
    """Too few of the client's epochs have an observation that can be compared with others."""


class Unavailable(StrEnum):
    """Why a run cannot have a channel."""

    NO_VALUES = "no-values"
    NO_UPDATES = "no-updates"
    NO_MODEL = "no-model"
    NO_GROUPS = "no-groups"
    """what is measured knows neither classes nor groups of rows"""
    NOT_RECORDED = "not-recorded"
    CONSTANT = "constant"
    """the same for everybody all the time, as where updates have one form by construction"""
    NO_PEERS = "no-peers"
    LEFT_OUT = "left-out"
    """on purpose, to test a finding"""


class ChannelUnavailable(Tagged, tag="channel-unavailable"):
    """One channel that this run cannot have."""

    channel: str
    reason: Unavailable


class ValuesPartlyComputed(Tagged, tag="values-partly-computed"):
    """Share of the participations read whose value was computed."""

    share: float
    values_alone: bool
    """Is there nothing but values, so that what was not computed was not seen at all?"""


class StandsOutByReflection(Tagged, tag="stands-out-by-reflection"):
    """A window above the threshold that is only the reflection of another client's: no alert."""

    client: Others
    window: Window


class ErrorsUnknown(Tagged, tag="errors-unknown"):
    """Some values come without a standard error."""


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
