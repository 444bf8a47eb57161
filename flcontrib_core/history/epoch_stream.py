"""The epochs of an assessment on their way to an engine's workers and back, by way of what is remembered.

A task says where an epoch's numbers lie: workers read the log themselves. Only a model that no log stores is rebuilt
here, step by step, and placed where they reach it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from flcontrib_core import __version__
from flcontrib_core.blas import spare_threads
from flcontrib_core.execution.engine import Engine
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
from flcontrib_core.history.epoch_places import Anchor, EpochPlaces, epoch_places, task_of
from flcontrib_core.history.epoch_work import (
    EpochAnswer,
    EpochTask,
    FetchedEpoch,
    OutOfReach,
    Workbench,
    assess_epoch,
    assess_fetched,
)
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.shared_epoch import EPOCH_MULTIPLY_ADDS, SharedEpoch, with_its_numbers, worth_sharing
from flcontrib_core.runs.run_log import EpochRecord, RunLog
from flcontrib_core.shapley.costs import cost_of
from flcontrib_core.vocabulary import FillPolicy, FloatArray, WeightMode

if TYPE_CHECKING:
    from flcontrib_core.games.assembled_channels import ShorterRun
    from flcontrib_core.games.evaluator import Evaluator
    from flcontrib_core.games.observations import EpochObservation
    from flcontrib_core.history.trajectory import Passed


@dataclass
class Growth:
    """What the reader of a growing log keeps between two assessments of it, so that each costs what is new."""

    answers: dict[str, EpochAnswer] = field(default_factory=dict)
    """By the keys of ``EpochKeys.answer``"""
    anchor: Anchor | None = None
    """At the last epoch that was computed"""
    evaluator: tuple[tuple[object, ...], Evaluator] | None = None
    """The log's own, with what it was made for"""
    initial: dict[str, FloatArray] = field(default_factory=dict)
    """What the initial model is worth, by the run's base digest"""
    channels: tuple[str, ShorterRun] | None = None
    """The observations side by side, with the digest of the run they are of"""
    observed: Observed | None = None
    """Of a log that is read by its updates alone"""


@dataclass(frozen=True)
class Observed:
    """What was seen of a log's updates until an epoch, and where the walk through it stands."""

    digest: str
    """Of the run until then"""
    seed: int
    """Of the sketches"""
    passed: Passed
    observations: Mapping[int, EpochObservation]

    def holds(self, run: RunLog, seed: int) -> bool:
        """Is this the beginning of the same run, seen the same way?"""
        digests = run.epoch_digests()
        return self.seed == seed and self.passed.epoch < len(digests) and digests[self.passed.epoch] == self.digest


class EpochStream:
    """Feeds epochs to workers and takes answers back, by way of checkpoints and the utility memory."""

    def __init__(
        self,
        run: RunLog,
        settings: AssessSettings,
        bench: Workbench,
        epochs: set[int],
        checkpoints: EpochCheckpoints | None,
        memory: UtilityMemory | None,
        growth: Growth | None = None,
    ) -> None:
        self.run, self.settings, self.bench, self.epochs = run, settings, bench, epochs
        self.checkpoints, self.memory = checkpoints, memory
        self.growth = growth or Growth()
        self._last: EpochPlaces | None = None
        self._grows = growth is not None
        self.keys = EpochKeys(run, settings, bench.evaluator)
        self.recalled = 0
        self._parts: dict[int, int] = {}
        self._finished: list[EpochAnswer] = []
        self._bring_numbers = False

    def answers(self, engine: Engine) -> Iterator[EpochAnswer]:
        """Every epoch with participants: what is kept first, then what was computed, as it becomes ready."""
        todo: list[EpochRecord] = []
        for record in self.run.epochs:
            finished = self._recall(record.epoch)
            if finished is not None:
                self.recalled += finished.estimate.evaluations if finished.estimate else 0
                yield finished
            elif record.participants:
                todo.append(record)
        yield from self._computed(engine, self._tasks(engine, todo))
        if self._grows and self._last is not None:
            self.growth.anchor = Anchor.of(self._last, self.keys.digests)

    def _recall(self, epoch: int) -> EpochAnswer | None:
        if not self.growth.answers and self.checkpoints is None:
            return None
        key = self._answer_key(epoch)
        if key in self.growth.answers:
            return self.growth.answers[key]
        kept = self.checkpoints.recall(key) if self.checkpoints is not None else None
        if kept is None:
            return None
        finished = unpack_answer(kept)
        if self._grows:
            self.growth.answers[key] = finished
        return finished

    def _computed(self, engine: Engine, tasks: Iterator[EpochTask]) -> Iterator[EpochAnswer]:
        for answer in engine.run(assess_epoch, tasks):
            if isinstance(answer, OutOfReach):
                self._bring_numbers = True
                yield from self._computed(engine, iter([with_its_numbers(self.run, answer.task, engine)]))
                continue
            self._keep(answer)
            yield from self._drain()
            yield answer
        yield from self._drain()

    def _drain(self) -> Iterator[EpochAnswer]:
        while self._finished:
            answer = self._finished.pop(0)
            self._keep(answer)
            yield answer

    def _tasks(self, engine: Engine, todo: Sequence[EpochRecord]) -> Iterator[EpochTask]:
        """The tasks of whole epochs. Those that all workers share are done on the way, while the others go on."""
        shared = self._shared(todo, engine)
        # With weights over all clients the model of everybody is not the one the epoch ended in.
        over_all = self.settings.weights is WeightMode.FIXED_ALL
        epochs, anchor = {record.epoch for record in todo}, self.growth.anchor
        since = anchor if anchor is not None and anchor.holds(self.keys.digests, epochs) else None
        for places in epoch_places(self.run, engine, epochs, ends=over_all, since=since):
            record, self._last = places.record, places
            task = replace(
                task_of(self.run, places),
                end=places.end if over_all or record.has_global else None,
                estimate=record.epoch in self.epochs,
                observe=self.settings.observe,
                leave_one_out=self.settings.fill is FillPolicy.LEAVE_ONE_OUT and record.epoch not in self.epochs,
                remembered=self.memory.recall_epoch(self.keys.memory(record.epoch)) if self.memory else {},
                remembered_logits=self._logits(record.epoch),
            )
            if record.epoch in shared:
                self._finished.append(self._assessed_together(engine, task))
            else:
                yield with_its_numbers(self.run, task, engine) if self._bring_numbers else task

    def _assessed_together(self, engine: Engine, task: EpochTask) -> EpochAnswer:
        """One epoch by all of them: by threads of this process where its models allow, else in parts by the workers."""
        from flcontrib_core.games.evaluator import one_thread

        epoch = None if self._by_threads(engine) else SharedEpoch(engine, self.bench, task)
        with spare_threads(max(engine.threads, engine.workers)), one_thread():  # its number is the process's
            fetched = FetchedEpoch.of(self.bench, task, epoch)
            return assess_fetched(self.bench, task, fetched, epoch)

    def _by_threads(self, engine: Engine) -> bool:
        return engine.threads > 1 and self.bench.evaluator.threads

    def _shared(self, todo: Sequence[EpochRecord], engine: Engine) -> set[int]:
        """The last epochs, where there are not enough of them to keep every worker busy; all that are worth it, where
        there are threads in place of workers."""
        dear = [
            record.epoch for record in todo if record.epoch in self.epochs and self._is_dear(len(record.participants))
        ]
        if engine.workers == 1:
            return set(dear) if self._by_threads(engine) else set()
        count = worth_sharing(len(dear), engine.workers)
        return set(dear[len(dear) - count :])

    def _is_dear(self, players: int) -> bool:
        price = epoch_price(self.bench.evaluator, self.settings, players)
        return price is None or price >= EPOCH_MULTIPLY_ADDS

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
        if self._grows:
            self.growth.answers[self._answer_key(answer.epoch)] = replace(answer, fresh={}, fresh_logits={})
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


def epoch_price(evaluator: Evaluator, settings: AssessSettings, players: int) -> float | None:
    """Multiply-adds of estimating an epoch of so many players; None where the evaluator does not know."""
    each = evaluator.multiply_adds(players)
    return None if each is None else cost_of(settings.estimator, players, each, weights=settings.weights).likely * each


KEPT_SINCE = "each worker computes in memory of its own"
"""Part of every key: what was kept before may be wrong, for workers wrote over each other's sub-models."""


ANSWERED_SINCE = "players whose gain never differed have an error"
"""Part of the keys of answers: what was estimated before has other values or errors than a fresh computation."""


class EpochKeys:
    """Under which names are an epoch's answer and its coalition utilities kept?

    Both build on the epoch digest d_t, so that a further epoch or a label invalidates nothing.
    """

    def __init__(self, run: RunLog, settings: AssessSettings, evaluator: Evaluator) -> None:
        self.settings = settings
        self.digests = run.epoch_digests()
        over_all = settings.weights is WeightMode.FIXED_ALL
        sizes = [sum(run.data_sizes)] if over_all else []
        self.recipe = digest_of(KEPT_SINCE, evaluator.recipe(), evaluator.utilities, *sizes)

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
        version = (__version__, ANSWERED_SINCE, answer_layout())
        return digest_of("answer", version, self.digests[epoch], self.recipe, what, estimated, filled)
