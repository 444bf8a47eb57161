"""Where each published rule, and two simple ones of the values, would place a client in a window: rows to compare with.

A place is a rank among the clients seen in the same epochs, 1 = most suspicious; no rule here has a threshold, and no
verdict rests on any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from flcontrib_core.detection.peers import EpochUpdates, peer_scores
from flcontrib_core.detection.reasons import Window
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.trajectory import walk
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import FloatArray

LEAVE_ONE_OUT, TOTAL = "leave one out", "total value"


@dataclass(frozen=True)
class PeerOpinion:
    """One rule on one client in one window."""

    rule: str
    suspicion: float
    """Mean over the window's epochs in the rule's own unit, up = suspicious"""
    place: int
    of: int
    """Clients that the rule could place"""


def scores_of_run(run: RunLog) -> Mapping[str, FloatArray]:
    """rule -> (T + 1, clients) suspicion of every participation, from one walk through the log."""

    def epochs() -> Iterator[EpochUpdates]:
        for step in walk(run):
            members = np.array(step.record.participants, dtype=np.int64)
            if len(members):
                last = None if step.last_step is None else step.last_step.astype(np.float64)
                updates = np.asarray(step.data.updates, dtype=np.float64)
                yield EpochUpdates(step.record.epoch, members, updates, last)

    return peer_scores(epochs(), len(run.clients), run.epoch_count)


def peer_opinions(
    scores: Mapping[str, FloatArray], history: ContributionHistory, client: str, window: Window | None
) -> tuple[PeerOpinion, ...]:
    """What each rule says of the client in the window (None: the whole run); rules that cannot say are left out."""
    first, last = window or (1, history.epoch_count)
    position = history.client_ids.index(client)
    levels = {rule: _mean(cells[first : last + 1]) for rule, cells in scores.items()}
    levels |= _of_values(history, first, last)
    opinions = []
    for rule, level in levels.items():
        known = np.isfinite(level)
        if known[position] and known.sum() > 1:
            place = 1 + int((level[known] > level[position]).sum())
            opinions.append(PeerOpinion(rule, float(level[position]), place, int(known.sum())))
    return tuple(opinions)


def _of_values(history: ContributionHistory, first: int, last: int) -> dict[str, FloatArray]:
    """(clients,) harm saved by leaving each out of these epochs, and the harm each did in total; up = suspicious."""
    if history.without_values is not None:
        return {}
    utility = "loss" if "loss" in history.utilities else history.utilities[0]
    series, sign = history.of(utility), history.harm_sign(utility)
    took_part = history.participated.any(axis=0)
    total = np.where(took_part, sign * (history.totals(utility) - series.values[0]), np.nan)
    return {LEAVE_ONE_OUT: _mean(-sign * series.leave_one_out[first : last + 1]), TOTAL: total}


def _mean(cells: FloatArray) -> FloatArray:
    """(clients,) mean over the known cells of each column; NaN for an empty one (np.nanmean would warn)."""
    known = np.isfinite(cells)
    count = known.sum(axis=0)
    return np.where(count > 0, np.where(known, cells, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)
