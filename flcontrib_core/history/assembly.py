"""Assembles answers of single epochs, or tables from elsewhere, into one history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from flcontrib_core.games.raw_channels import RawChannels
from flcontrib_core.history.contribution_history import (
    ContributionHistory,
    by_utility,
    cell_states,
)
from flcontrib_core.history.epoch_stream import Growth
from flcontrib_core.history.epoch_work import EpochAnswer
from flcontrib_core.history.remarks import (
    EpochRemark,
    HistoryRemark,
    NoValues,
    ScheduleEmpty,
    ValuesMissing,
    WithoutValues,
    grouped,
    remarks_of_log,
)
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.runs.run_log import ContributionTable, RunLog, UtilityTable
from flcontrib_core.scheduling.schedule import Schedule
from flcontrib_core.shapley.estimate import ShapleyEstimate
from flcontrib_core.vocabulary import (
    CellState,
    EpochByClientByUtility,
    EpochByUtility,
    Float32Array,
    FloatArray,
    IntArray,
    StateArray,
    UtilityMatrix,
)

if TYPE_CHECKING:
    from flcontrib_core.games.observations import EpochObservation


class ModelValues(Protocol):
    """What an assembly asks about whole models: an evaluator, or answers that came from elsewhere."""

    @property
    def utilities(self) -> tuple[str, ...]: ...

    @property
    def lower_is_better(self) -> frozenset[str]: ...

    def evaluate(self, parameters: Float32Array, /) -> tuple[UtilityMatrix, object]:
        """(models, utilities), and whatever else the evaluation gave."""
        ...


def assemble_history(
    run: RunLog,
    settings: AssessSettings,
    evaluator: ModelValues,
    answers: dict[int, EpochAnswer],
    plan: Schedule | None,
    initial: FloatArray | None = None,
    growth: Growth | None = None,
) -> ContributionHistory:
    """Answers of single epochs -> one history (rows 0..T); an epoch without an answer is pending.

    ``initial``: (U,) v(F⁰) where the caller knows it. ``growth``: of a log that is read on, what need not be found
    again; it takes what was found now.
    """
    names = evaluator.utilities
    cells = _Cells.empty(run.epoch_count + 1, len(run.clients), len(names))
    if not settings.values:
        cells.leave_out(NoValues.NOT_ASKED)
    if initial is None and growth is not None:
        initial = growth.initial.get(run.base_digest)
    if initial is None:
        initial = evaluator.evaluate(run.initial()[None, :])[0][0]
    channels = _channels(run, answers, settings, growth)
    if growth is not None:
        growth.initial = {run.base_digest: initial}
    previous_end = cells.start(initial)
    for record in run.epochs:
        if record.participants:
            answer = answers.get(record.epoch)
            if answer is None:
                cells.await_epoch(record.epoch, list(record.participants))
            else:
                cells.take(answer, list(record.participants))
                previous_end = answer.start + np.nan_to_num(answer.increment) + answer.server_share
        elif record.has_global:  # no client share: what a stored global model moved is the server's
            model = run.epoch_data(record.epoch).global_model
            if model is not None:
                end = evaluator.evaluate(model[None, :])[0][0]
                cells.server_share[record.epoch], previous_end = end - previous_end, end
    return ContributionHistory(
        **cells.columns(),
        run_digest=run.digest,
        run_name=run.name,
        client_ids=run.client_ids,
        data_sizes=run.data_sizes,
        utilities=names,
        lower_is_better=evaluator.lower_is_better,
        unreliable=np.array([[u in marks for u in names] for marks in cells.unreliable]),
        remarks=(*_on_schedule(plan), *grouped(cells.remarks), *remarks_of_log(run)),
        channels=channels,
        settings=settings.record(),
        schedule=plan,
    )


@dataclass
class _Cells:
    """The arrays of a history while its epochs are filled in, one after the other."""

    values: EpochByClientByUtility
    standard_errors: EpochByClientByUtility
    leave_one_out: EpochByClientByUtility
    state: StateArray
    increments: EpochByUtility
    server_share: EpochByUtility
    evaluations: IntArray
    estimator: list[str]
    best_subset: list[tuple[int, ...] | None]
    unreliable: list[tuple[str, ...]]
    remarks: dict[HistoryRemark, list[int]]
    no_estimate: str = "not computed"
    """What stands in place of an estimator's name where none was at work"""

    @classmethod
    def empty(cls, rows: int, clients: int, utilities: int) -> _Cells:
        """Everybody absent from every epoch, nothing moved."""
        shape = (rows, clients, utilities)
        return cls(
            np.zeros(shape),
            np.zeros(shape),
            np.full(shape, np.nan),
            np.full(shape, CellState.ABSENT, dtype=np.int8),
            np.zeros((rows, utilities)),
            np.zeros((rows, utilities)),
            np.zeros(rows, dtype=np.int64),
            ["initial"] + ["no participants"] * (rows - 1),
            [None] * rows,
            [()] * rows,
            {},
        )

    def columns(self) -> dict[str, Any]:
        """What a history takes over from here under the same names."""
        arrays = ("values", "standard_errors", "leave_one_out", "state", "increments", "server_share", "evaluations")
        return {
            **{name: getattr(self, name) for name in arrays},
            "estimator": tuple(self.estimator),
            "best_subset": tuple(self.best_subset),
        }

    def start(self, initial: FloatArray) -> FloatArray:
        """Row 0: everybody's equal share of the initial model, φ_i(0) = v(F⁰)/m."""
        self.values[0] = initial / self.values.shape[1]
        self.state[0] = CellState.COMPUTED
        self.increments[0] = initial
        return initial

    def leave_out(self, reason: NoValues) -> None:
        """The run has no values, for this reason."""
        self.remarks[WithoutValues(reason)] = []
        self.no_estimate = "not asked for" if reason is NoValues.NOT_ASKED else "not measurable"

    def await_epoch(self, t: int, members: list[int]) -> None:
        """A job that is still running: nothing is known about this epoch yet."""
        self.estimator[t] = "pending"
        self.state[t, members] = CellState.PENDING
        self.values[t, members] = self.standard_errors[t, members] = np.nan
        self.increments[t] = np.nan

    def take(self, answer: EpochAnswer, members: list[int]) -> None:
        """The answer of one epoch, whose values the budget may have skipped."""
        t, estimate = answer.epoch, answer.estimate
        if estimate is None:
            self.estimator[t] = "diverged" if answer.diverged else self.no_estimate
            self.state[t, members] = CellState.NOT_COMPUTED
            self.values[t, members] = self.standard_errors[t, members] = np.nan
        else:
            self.evaluations[t], self.estimator[t] = estimate.evaluations, estimate.method
            for remark in estimate.remarks:
                self.remarks.setdefault(remark, []).append(t)
            # A method without per-epoch values, or one that failed for a player, leaves NaN: that value is not known.
            known = np.isfinite(estimate.values)
            self.state[t, members] = np.where(known, CellState.COMPUTED, CellState.NOT_COMPUTED)
            self.values[t, members], self.standard_errors[t, members] = estimate.values, estimate.standard_errors
            self.unreliable[t] = tuple(estimate.unreliable)
        if answer.diverged is not None:
            self.remarks.setdefault(answer.diverged, []).append(t)
        if answer.best_subset is not None:
            self.best_subset[t] = tuple(members[i] for i in answer.best_subset)
        self.leave_one_out[t, members] = answer.leave_one_out
        self.increments[t], self.server_share[t] = answer.increment, answer.server_share


def history_from_table(table: ContributionTable) -> ContributionHistory:
    """A contribution table as a history: nothing is computed, the detection channels are not available."""
    rows, names = table.epoch_count + 1, table.utilities
    values = by_utility(table.values, names)
    state = cell_states(table.participated, ~np.isnan(values), len(names))  # RUNLOG: an empty cell is not computed
    history = ContributionHistory(
        run_digest=table.digest,
        run_name=table.name,
        client_ids=table.client_ids,
        data_sizes=(),
        utilities=names,
        values=values,
        standard_errors=np.where(table.participated[:, :, None], np.full(values.shape, np.nan), 0.0),
        state=state,
        increments=np.nansum(values, axis=1),
        server_share=np.zeros((rows, len(names))),
        evaluations=np.zeros(rows, dtype=np.int64),
        estimator=("initial",) + ("from the table",) * table.epoch_count,
        lower_is_better=table.lower_is_better,
        settings={"source": "contribution table"},
    )
    missing = (state == CellState.NOT_COMPUTED).any(axis=2) & history.computed[:, None]
    epochs = tuple(np.flatnonzero(missing.any(axis=1)).tolist())
    remarks = (EpochRemark(epochs, ValuesMissing(int(missing.sum()))),) if epochs else ()
    estimator = ("initial", *("from the table" if c else "not computed" for c in history.computed[1:]))
    return replace(history, estimator=estimator, remarks=remarks)


def history_from_utilities(
    table: UtilityTable, settings: AssessSettings, schedule: Schedule | None
) -> ContributionHistory:
    """Exact values from a table of coalition utilities.

    The model an epoch starts from is its empty coalition; where that differs from the end of the epoch before, the
    difference is the server's share.
    """
    names = table.utilities
    weighing = settings.weight_utility if settings.weight_utility in names else names[0]
    cells = _Cells.empty(table.epoch_count + 1, len(table.client_ids), len(names))
    cells.start(table.values[0][0] if table.epoch_count else np.zeros(len(names)))
    for t, (members, v) in enumerate(zip(table.participants, table.values, strict=True), start=1):
        chosen = schedule is None or t in schedule.chosen
        ranking = v[:, names.index(weighing)]
        best = int(np.argmin(ranking) if weighing in table.lower_is_better else np.argmax(ranking))
        cells.take(_table_answer(t, v, len(members), chosen, best), list(members))
        if t < table.epoch_count:
            cells.server_share[t] = table.values[t][0] - v[-1]
    return ContributionHistory(
        **cells.columns(),
        run_digest=table.digest,
        run_name=table.name,
        client_ids=table.client_ids,
        data_sizes=table.data_sizes or (),
        utilities=names,
        lower_is_better=table.lower_is_better,
        remarks=_on_schedule(schedule),
        settings=settings.record(),
        schedule=schedule,
    )


def _on_schedule(plan: Schedule | None) -> tuple[EpochRemark, ...]:
    """An empty schedule always says so."""
    if plan is None or plan.chosen:
        return ()
    return (EpochRemark((), ScheduleEmpty(plan.fairness.value, plan.k)),)


def _table_answer(t: int, utilities: UtilityMatrix, players: int, chosen: bool, best: int) -> EpochAnswer:
    """The answer of an epoch whose coalitions are all in a table, in the order of their bit masks."""
    from flcontrib_core.shapley.exact_values import shapley_from_table

    everyone = len(utilities) - 1
    estimate = None
    if chosen:
        phi = shapley_from_table(utilities - utilities[0])
        estimate = ShapleyEstimate(phi, np.zeros_like(phi), everyone, True, "exact")
    without = utilities[[everyone ^ (1 << i) for i in range(players)]] - utilities[everyone]
    return EpochAnswer(
        epoch=t,
        estimate=estimate,
        start=utilities[0],
        increment=utilities[everyone] - utilities[0],
        server_share=np.zeros(utilities.shape[1]),
        leave_one_out=without,
        best_subset=tuple(i for i in range(players) if best >> i & 1),
        observation=None,
        fresh={},
        recalled=0,
        seconds=0.0,
    )


def _channels(
    run: RunLog, answers: dict[int, EpochAnswer], settings: AssessSettings, growth: Growth | None
) -> RawChannels | None:
    """The cheap observations of all epochs; None where nobody asked for them."""
    if not settings.observe:
        return None
    return channels_of(run, {t: a.observation for t, a in answers.items() if a.observation is not None}, growth)


def channels_of(run: RunLog, seen: Mapping[int, EpochObservation], growth: Growth | None) -> RawChannels:
    """Observations side by side, with the ones that compare epochs (own direction, repeats)."""
    from flcontrib_core.games.assembled_channels import ShorterRun, assemble_channels

    if growth is None:
        return assemble_channels(run, seen)
    digests = run.epoch_digests()
    if growth.channels is None or growth.channels[0] not in digests:  # d_t tells of all epochs up to t
        growth.channels = digests[-1], ShorterRun()
    found = assemble_channels(run, seen, before=growth.channels[1])
    growth.channels = digests[-1], growth.channels[1]
    return found
