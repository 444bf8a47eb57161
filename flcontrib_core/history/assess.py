"""Algorithm 1 of the paper: per-epoch Shapley values over a run log, a budget and a pool of processes.

Epochs are independent given the models they start from (the Markov property), so they are streamed to workers, kept
as they finish, and never computed twice. The walk holds the epochs that are being worked on and no others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from flcontrib_core import __version__
from flcontrib_core.errors import SettingsError
from flcontrib_core.execution.local import run_tasks
from flcontrib_core.history.assembly import assemble_history, history_from_table, history_from_utilities
from flcontrib_core.history.checkpoints import (
    EpochCheckpoints,
    UtilityMemory,
    answer_layout,
    digest_of,
    pack_answer,
    pack_logits,
    unpack_answer,
    unpack_logits,
)
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.epoch_work import EpochAnswer, EpochTask, Workbench, assess_epoch
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.trajectory import evaluator_for, scheduling_problem, walk
from flcontrib_core.runs.run_log import ContributionTable, Run, RunLog, UtilityTable
from flcontrib_core.scheduling.schedule import Schedule
from flcontrib_core.shapley.costs import cost_of
from flcontrib_core.shapley.estimate import EpochEstimator, RunEstimator
from flcontrib_core.vocabulary import (
    FillPolicy,
    OnProgress,
    WeightMode,
    no_progress,
)

if TYPE_CHECKING:
    from flcontrib_core.games.evaluator import Evaluator


class Computing(TypedDict, total=False):
    """How an assessment is carried out: where, from which memory, and who hears of it. None of it changes a value."""

    workers: int
    engine: str
    address: str | None
    checkpoints: EpochCheckpoints | None
    memory: UtilityMemory | None
    on_epoch: Callable[[EpochAnswer], None] | None


def assess_contributions(
    run: Run,
    settings: AssessSettings | None = None,
    *,
    schedule: Schedule | None = None,
    evaluator: Evaluator | None = None,
    workers: int = 1,
    engine: str = "local",
    address: str | None = None,
    checkpoints: EpochCheckpoints | None = None,
    memory: UtilityMemory | None = None,
    on_progress: OnProgress = no_progress,
    on_epoch: Callable[[EpochAnswer], None] | None = None,
) -> ContributionHistory:
    """Per-epoch Shapley values of every client: Algorithm 1.

    ``schedule``: which epochs to compute (else ``settings.budget`` decides, default all). ``evaluator``: a trusted
    one built from a torch module, for logs without model.json. Raises CostRefusal before an exponential request and
    MissingPart without a model. An epoch in which a sub-model diverges is not computed; a remark names its clients.
    """
    settings = settings or AssessSettings()
    began = time.perf_counter()
    if not settings.values and not isinstance(run, RunLog):
        raise SettingsError(f"{run.name} is a table: it holds values and nothing else that could be read without them")
    if isinstance(run, ContributionTable):
        return history_from_table(run)
    if isinstance(run, UtilityTable):
        plan = schedule or _plan(run, settings, None, on_progress)
        return replace(history_from_utilities(run, settings, plan), seconds=time.perf_counter() - began)
    evaluator = _fitting(evaluator, run, settings)
    plan = schedule or _plan(run, settings, evaluator, on_progress)
    if isinstance(settings.estimator, RunEstimator):
        if plan is not None:
            raise SettingsError(f"{settings.estimator.name} values the run as a whole: no schedule can limit it")
        from flcontrib_core.history.whole_run import assess_whole_run

        return assess_whole_run(run, settings, settings.estimator, evaluator, began, on_progress)
    epochs = set(plan.chosen) if plan else {e.epoch for e in run.epochs if settings.values}
    largest = max((len(e.participants) for e in run.epochs if e.epoch in epochs), default=0)
    if largest:  # an exponential request is refused with its price before anything starts
        cost_of(settings.estimator, largest, evaluator.multiply_adds(largest), weights=settings.weights)
    bench = _workbench(evaluator, settings.estimator, settings, float(sum(run.data_sizes)))
    if not evaluator.cacheable:
        checkpoints = memory = None
    stream = _EpochStream(run, settings, evaluator, epochs, checkpoints, memory)
    spread = _engine(engine, address)
    answers: dict[int, EpochAnswer] = {}
    total = sum(1 for e in run.epochs if e.participants)
    for answer in stream.answers(spread, bench, workers):
        answers[answer.epoch] = answer
        on_progress(len(answers), total, f"epoch {answer.epoch}")
        if on_epoch is not None:
            on_epoch(answer)
    history = assemble_history(run, settings, evaluator, answers, plan)
    return replace(history, seconds=time.perf_counter() - began, recalled=stream.recalled)


def _workbench(
    evaluator: Evaluator, estimator: EpochEstimator, settings: AssessSettings, federation_size: float
) -> Workbench:
    names = evaluator.utilities
    return Workbench(
        evaluator=evaluator,
        estimator=estimator,
        weights=settings.weights,
        federation_size=federation_size,
        seed=settings.seed,
        weight_utility=names.index(settings.weight_utility) if settings.weight_utility in names else 0,
    )


def _fitting(evaluator: Evaluator | None, run: RunLog, settings: AssessSettings) -> Evaluator:
    """The evaluator given, or the log's own; refused where its parameters are not laid out as the log's."""
    if evaluator is None:
        return evaluator_for(run, settings.utilities)
    evaluator = evaluator.for_parameters(run.parameters)
    if evaluator.parameters is not None and tuple(evaluator.parameters) != tuple(run.parameters):
        pairs = zip_longest(evaluator.parameters, run.parameters)
        theirs, ours = next((a, b) for a, b in pairs if a != b)
        raise SettingsError(
            f"the evaluator's parameters are not those of {run.name}: it has {theirs or 'no more'} where the log has "
            f"{ours or 'no more'}. Give the module that was trained."
        )
    return evaluator


def _engine(engine: str, address: str | None) -> Callable[..., Iterator[EpochAnswer]]:
    if engine == "local":
        return run_tasks
    if engine == "ray":
        from functools import partial

        from flcontrib_core.execution.ray_cluster import run_tasks_on_ray

        return partial(run_tasks_on_ray, address=address)
    raise SettingsError(f"engine {engine!r} is unknown; use 'local' or 'ray'")


def _plan(
    run: RunLog | UtilityTable, settings: AssessSettings, evaluator: Evaluator | None, on_progress: OnProgress
) -> Schedule | None:
    """The schedule that the budget settings ask for; None = every epoch, which needs no choice."""
    if settings.budget.budget is None and settings.budget.epochs is None:
        return None
    from flcontrib_core.scheduling.choose import choose_epochs

    return choose_epochs(scheduling_problem(run, settings, evaluator, on_progress), settings.budget)


class _EpochStream:
    """Feeds epochs to workers and takes answers back, by way of checkpoints and the utility memory."""

    def __init__(
        self,
        run: RunLog,
        settings: AssessSettings,
        evaluator: Evaluator,
        epochs: set[int],
        checkpoints: EpochCheckpoints | None,
        memory: UtilityMemory | None,
    ) -> None:
        self.run, self.settings, self.epochs = run, settings, epochs
        self.checkpoints, self.memory = checkpoints, memory
        self.keys = EpochKeys(run, settings, evaluator)
        self.recalled = 0
        self._parts: dict[int, int] = {}
        self._finished: list[EpochAnswer] = []

    def answers(
        self, spread: Callable[..., Iterator[EpochAnswer]], bench: Workbench, workers: int
    ) -> Iterator[EpochAnswer]:
        for answer in spread(assess_epoch, bench, self._tasks(), workers):
            self._keep(answer)
            yield from self._drain()
            yield answer
        yield from self._drain()

    def _drain(self) -> Iterator[EpochAnswer]:
        while self._finished:
            yield self._finished.pop(0)

    def _tasks(self) -> Iterator[EpochTask]:
        for step in walk(self.run):
            record = step.record
            if not record.participants:
                continue
            kept = self.checkpoints.recall(self._answer_key(record.epoch)) if self.checkpoints else None
            if kept is not None:
                finished = unpack_answer(kept)
                self.recalled += finished.estimate.evaluations if finished.estimate else 0
                self._finished.append(finished)
                continue
            known = self.memory.recall_epoch(self.keys.memory(record.epoch)) if self.memory else {}
            yield EpochTask(
                epoch=record.epoch,
                client_ids=tuple(self.run.clients[i].id for i in record.participants),
                base=step.start,
                updates=np.ascontiguousarray(step.data.updates),
                weights=record.weights,
                # With weights over all clients the model of everybody is not the one the epoch ended in.
                global_model=step.end if self.settings.weights is WeightMode.FIXED_ALL else step.data.global_model,
                last_step=step.last_step,
                estimate=record.epoch in self.epochs,
                observe=self.settings.observe,
                leave_one_out=self.settings.fill is FillPolicy.LEAVE_ONE_OUT and record.epoch not in self.epochs,
                remembered=known,
                remembered_logits=self._logits(record.epoch),
            )

    def _logits(self, epoch: int) -> dict[bytes, np.ndarray]:
        """Logits kept by earlier assessments; each kept its own part, since what is kept never changes."""
        known: dict[bytes, np.ndarray] = {}
        self._parts[epoch] = 0
        while self.checkpoints is not None:
            part = self.checkpoints.recall(self.keys.logits(epoch, self._parts[epoch]))
            if part is None:
                break
            known |= unpack_logits(part)
            self._parts[epoch] += 1
        return known

    def _keep(self, answer: EpochAnswer) -> None:
        self.recalled += answer.recalled
        if self.memory is not None:
            self.memory.keep_epoch(self.keys.memory(answer.epoch), answer.fresh)
        if self.checkpoints is None:
            return
        packed = pack_logits(answer.fresh_logits)
        if packed is not None:
            self.checkpoints.keep(self.keys.logits(answer.epoch, self._parts.get(answer.epoch, 0)), packed)
        self.checkpoints.keep(self._answer_key(answer.epoch), pack_answer(answer))

    def _answer_key(self, epoch: int) -> str:
        return self.keys.answer(epoch, epoch in self.epochs)


class EpochKeys:
    """Under which names are an epoch's answer and its coalition utilities kept?

    Both build on the epoch digest d_t, so that a further epoch or a label invalidates nothing.
    """

    def __init__(self, run: RunLog, settings: AssessSettings, evaluator: Evaluator) -> None:
        self.settings = settings
        self.digests = run.epoch_digests()
        over_all = settings.weights is WeightMode.FIXED_ALL
        self.recipe = digest_of(evaluator.recipe(), evaluator.utilities, *([sum(run.data_sizes)] if over_all else []))

    def memory(self, epoch: int) -> str:
        """Where the utilities of an epoch's coalitions are remembered."""
        return digest_of("utilities", self.digests[epoch], self.settings.weights, self.recipe)

    def logits(self, epoch: int, part: int) -> str:
        """Where one part of an epoch's logits is remembered."""
        return digest_of("logits", self.digests[epoch], self.settings.weights, self.recipe, part)

    def answer(self, epoch: int, estimated: bool) -> str:
        """Where an epoch's finished answer is kept: everything that decides it is part of the key."""
        s = self.settings
        what = (s.estimator.record(), s.weights, s.weight_utility, s.seed, s.observe, s.nonfinite)
        filled = s.fill is FillPolicy.LEAVE_ONE_OUT and not estimated
        version = (__version__, answer_layout())
        return digest_of("answer", version, self.digests[epoch], self.recipe, what, estimated, filled)
