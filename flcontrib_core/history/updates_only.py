"""Histories of logs that hold updates and no model or validation set: what the updates look like, and no value."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from flcontrib_core.blas import spare_threads
from flcontrib_core.history.assembly import channels_of
from flcontrib_core.history.contribution_history import ContributionHistory, cell_states
from flcontrib_core.history.epoch_stream import Growth, Observed
from flcontrib_core.history.remarks import EpochRemark, NoValues, WithoutValues, remarks_of_log
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.trajectory import Passed, walk
from flcontrib_core.runs.run_log import Run, RunLog
from flcontrib_core.runs.tasks import TARGETS
from flcontrib_core.vocabulary import CellState, OnProgress, no_progress

if TYPE_CHECKING:
    from flcontrib_core.games.observations import EpochObservation


def lacking_part(run: Run) -> NoValues | None:
    """What a log lacks for any sub-model to be evaluated; None for a table and for a log that has both parts."""
    if not isinstance(run, RunLog):
        return None
    if run.model is None:
        return NoValues.NO_MODEL
    if not run.has_validation:
        return NoValues.NO_VALIDATION
    if run.task not in TARGETS:
        return NoValues.NO_METRIC
    absent = run.frozen is not None and run.frozen.parameters and run.frozen.given is None
    return NoValues.NO_FROZEN if absent else None


def history_of_updates(
    run: RunLog,
    settings: AssessSettings,
    lacking: NoValues,
    on_progress: OnProgress = no_progress,
    *,
    threads: int = 1,
    growth: Growth | None = None,
) -> ContributionHistory:
    """The channels of the updates alone; every value, also the initial model's, is not computed.

    Costs one walk through the log and evaluates nothing. One epoch's updates are in memory at a time. ``threads`` share
    what is looked at in each; ``growth``: what the last look at a growing log left, so that this one reads what is new.
    """
    from flcontrib_core.games.observations import observe_updates

    began = time.perf_counter()
    before = None if growth is None else growth.observed
    if before is not None and not before.holds(run, settings.seed):
        before = None
    observations = dict(before.observations) if before else {}
    step = None
    with spare_threads(threads):
        for step in walk(run, before.passed if before else None):
            t = step.record.epoch
            if step.record.participants:
                updates = np.ascontiguousarray(step.data.updates)
                observations[t] = observe_updates(updates, t, step.last_step, settings.seed)
            on_progress(t, run.epoch_count, f"epoch {t}")
    if growth is not None and step is not None:
        passed = Passed.after(step)
        growth.observed = Observed(run.epoch_digests()[passed.epoch], settings.seed, passed, observations)
    history = history_of_observations(run, settings, lacking, observations, growth)
    return replace(history, seconds=time.perf_counter() - began)


def history_of_observations(
    run: RunLog,
    settings: AssessSettings,
    lacking: NoValues,
    observations: Mapping[int, EpochObservation],
    growth: Growth | None = None,
) -> ContributionHistory:
    """The same from what was observed of each epoch before."""
    from flcontrib_core.games.utilities import lower_of, utilities_of

    names, rows = utilities_of(run.task, settings.utilities), run.epoch_count + 1
    state = cell_states(run.participated(), np.zeros((1, 1, 1), dtype=bool), len(names))
    state[0] = CellState.NOT_COMPUTED
    values = np.where(state == CellState.NOT_COMPUTED, np.nan, 0.0)
    empty = "no participants"
    return ContributionHistory(
        run_digest=run.digest,
        run_name=run.name,
        client_ids=run.client_ids,
        data_sizes=run.data_sizes,
        utilities=names,
        values=values,
        standard_errors=values.copy(),
        state=state,
        increments=np.full((rows, len(names)), np.nan),
        server_share=np.zeros((rows, len(names))),
        evaluations=np.zeros(rows, dtype=np.int64),
        estimator=("initial", *("not measurable" if e.participants else empty for e in run.epochs)),
        lower_is_better=lower_of(run.task, names),
        remarks=(EpochRemark((), WithoutValues(lacking)), *remarks_of_log(run)),
        channels=channels_of(run, observations, growth),
        settings=settings.record(),
    )
