"""Remarks on the epochs of a history: what the estimators said, grouped, and what could not be computed."""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.shapley.remarks import EstimatorRemark
from flcontrib_core.tagged import Others, Tagged, by_tag, from_json


class Diverged(Tagged, tag="diverged"):
    """The model of these clients together has no finite utility: the epoch was not computed."""

    clients: Others


class StartDiverged(Tagged, tag="start-diverged"):
    """The model that these epochs start from has no finite utility: they were not computed."""


class ValuesMissing(Tagged, tag="values-missing"):
    """Some participants of otherwise known epochs have no value; totals leave those cells out."""

    cells: int


class NoValues(StrEnum):
    """Why a whole history has no Shapley value."""

    NOT_ASKED = "not-asked"
    NO_MODEL = "no-model"
    NO_VALIDATION = "no-validation"
    NO_FROZEN = "no-frozen"
    NO_METRIC = "no-metric"

    @property
    def measurable(self) -> bool:
        """Could the log's own model and validation set say whether an update did harm?"""
        return self is NoValues.NOT_ASKED


class WithoutValues(Tagged, tag="without-values"):
    """No epoch of the run has a Shapley value: there are no totals, and nothing is filled in."""

    reason: NoValues


class ScheduleEmpty(Tagged, tag="schedule-empty"):
    """The schedule holds no epoch: every one takes away more than it adds to the objective."""

    fairness: str
    budget: int
    """epochs that could have been computed"""


class OwnWeights(Tagged, tag="own-weights"):
    """The log gives the server's aggregation weights; data sizes do not decide."""


class StartedEarlier(Tagged, tag="started-earlier"):
    """The updates of these clients began from an older model than the epoch did."""

    clients: Others


class SentSeveral(Tagged, tag="sent-several"):
    """These clients sent several updates in one round, which count as one with their joint weight."""

    clients: Others


class NotedInLog(Tagged, tag="noted-in-log"):
    """Somebody wrote a note about this client into the log."""

    client: Others
    text: str
    by: str
    when: str


class FromVotes(Tagged, tag="from-votes"):
    """The answers are the clients' own, each on its own rows, weighted by their number."""

    voters: int
    rows: int
    trim: float
    own_left_out: bool


class VotersApart(Tagged, tag="voters-apart"):
    """The answers of these voters disagree with all others' and were left out."""

    clients: Others


VoteRemark = FromVotes | VotersApart
DivergedRemark = Diverged | StartDiverged
LogRemark = OwnWeights | StartedEarlier | SentSeveral | NotedInLog
HistoryRemark = (
    EstimatorRemark | DivergedRemark | LogRemark | VoteRemark | ValuesMissing | WithoutValues | ScheduleEmpty
)
REMARKS = by_tag(typing.get_args(HistoryRemark))
"""tag -> class, of every remark there is"""


@dataclass(frozen=True)
class EpochRemark:
    """One remark and the epochs it is about, ascending; none = the run as a whole."""

    epochs: tuple[int, ...]
    remark: HistoryRemark

    def to_json(self) -> dict[str, Any]:
        """``{"epochs": [...], "fact": tag, …}``"""
        return {"epochs": list(self.epochs), **self.remark.to_json()}


def grouped(remarks: Mapping[HistoryRemark, Sequence[int]]) -> tuple[EpochRemark, ...]:
    """Equal remarks of several epochs as one."""
    return tuple(EpochRemark(tuple(sorted(epochs)), remark) for remark, epochs in remarks.items())


def remarks_of_log(run: RunLog) -> tuple[EpochRemark, ...]:
    """What a log of version 2 says about its own epochs."""
    found: dict[HistoryRemark, list[int]] = {}
    for record in run.epochs:
        if record.rows is None:
            continue
        if record.rows.weighed:
            found.setdefault(OwnWeights(), []).append(record.epoch)
        if late := record.started_late():
            named = Others.named(run.clients[client].id for client in sorted(late))
            found.setdefault(StartedEarlier(named), []).append(record.epoch)
        counted = Counter(record.rows.clients)
        if several := [run.clients[client].id for client in sorted(counted) if counted[client] > 1]:
            found.setdefault(SentSeveral(Others.named(several)), []).append(record.epoch)
    for note in run.notes:
        epochs = range(note.epochs[0], min(note.epochs[1], run.epoch_count) + 1)
        found[NotedInLog(Others.named([note.client]), note.text, note.by, note.when)] = list(epochs)
    return grouped(found)


def remark_from_json(value: object) -> EpochRemark:
    """What ``EpochRemark.to_json`` wrote; raises ValueError for anything else."""
    epochs = value.get("epochs") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(epochs, list) or not all(type(t) is int for t in epochs):
        raise ValueError(f"{str(value)[:80]!r} is no remark on epochs")
    inner = {key: part for key, part in value.items() if key != "epochs"}
    return EpochRemark(tuple(epochs), cast(HistoryRemark, from_json(inner, REMARKS)))
