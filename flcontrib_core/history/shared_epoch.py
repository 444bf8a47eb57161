"""One epoch on many workers: its sub-models are evaluated in parts of one request, sized by what they cost.

The estimator runs where the epoch was given out; what it asks for is cut into parts, and each worker reads the epoch by
itself. A sub-model has the same bits in every part, so the values are those of one process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from flcontrib_core.errors import RunLogError
from flcontrib_core.execution.engine import MULTIPLY_ADDS_PER_SECOND, Engine, Placed
from flcontrib_core.history.epoch_work import (
    EpochTask,
    FetchedEpoch,
    ModelPlace,
    OutOfReach,
    Workbench,
    fetch_model,
    fetch_updates,
)
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import FloatArray, LogitTensor, UtilityMatrix

if TYPE_CHECKING:
    from flcontrib_core.games.mixtures import Mixture
    from flcontrib_core.games.observations import EpochObservation

SERIAL_SHARE = 0.1
"""Of an epoch's time is spent by the estimator itself, and gains nothing from more workers."""
PART_MULTIPLY_ADDS = 0.01 * MULTIPLY_ADDS_PER_SECOND
"""What is cheaper is not worth sending."""
EPOCH_MULTIPLY_ADDS = 0.1 * MULTIPLY_ADDS_PER_SECOND
"""An epoch that costs less is one worker's business."""
PARTS_PER_WORKER = 4


def worth_sharing(epochs: int, workers: int) -> int:
    """How many of so many epochs of one price are better evaluated by all workers together, one after the other.

    Whole epochs fill the workers as often as they can; what is left over is shared where that ends earlier.
    """
    left = epochs % workers
    together = left * (SERIAL_SHARE + (1 - SERIAL_SHARE) / workers)
    return left if together < 1 else 0


@dataclass(frozen=True)
class RequestPart:
    """Some rows of a request; without weights: the epoch's observation."""

    task: EpochTask
    row: int
    weights: FloatArray | None
    keep_logits: bool = False


@dataclass(frozen=True)
class PartAnswer:
    """What a worker found."""

    row: int
    values: UtilityMatrix | None = None
    logits: LogitTensor | None = None
    observation: EpochObservation | None = None


_fetched: list[tuple[Workbench, int, FetchedEpoch]] = []
"""On a worker: the epoch of its last part, whose next part is likely to follow."""


def evaluate_part(bench: Workbench, part: RequestPart) -> PartAnswer | OutOfReach:
    """On a worker: the part's rows of the epoch, which is read once."""
    if not _fetched or _fetched[0][0] is not bench or _fetched[0][1] != part.task.epoch:
        _fetched.clear()
        try:
            _fetched.append((bench, part.task.epoch, FetchedEpoch.of(bench, part.task)))
        except RunLogError:
            return OutOfReach(part.task)
    fetched = _fetched[0][2]
    if part.weights is None:
        return PartAnswer(part.row, observation=fetched.observe(bench, part.task.epoch))
    values, logits = bench.evaluator.evaluate_mixture(fetched.game.mixture, part.weights, part.keep_logits)
    return PartAnswer(part.row, values, logits)


def borders(count: int, chunk: int, workers: int, most: float = math.inf) -> list[int]:
    """Where ``count`` rows are cut into at most ``most`` parts of full chunks, a few for each worker."""
    chunks = -(-count // chunk)
    parts = max(1, int(min(chunks, PARTS_PER_WORKER * workers, most)))
    cuts = np.linspace(0, chunks, parts + 1).round().astype(int) * chunk
    return [*(int(cut) for cut in cuts[:-1]), count]


class SharedEpoch:
    """An epoch whose requests go to all workers of an engine, each in parts."""

    def __init__(self, engine: Engine, bench: Workbench, task: EpochTask) -> None:
        self.observation: EpochObservation | None = None
        """Made by a worker beside the first request."""
        self._engine, self._bench = engine, bench
        self._task = replace(task, remembered={}, remembered_logits={})
        self._observes = task.observe

    def evaluate_mixture(
        self, mixture: Mixture, weights: FloatArray, keep_logits: bool
    ) -> tuple[UtilityMatrix, LogitTensor | None]:
        """As the evaluator's own; a small request is answered here."""
        cuts = self._borders(len(weights), mixture.players)
        if len(cuts) < 3:
            return self._bench.evaluator.evaluate_mixture(mixture, weights, keep_logits)
        evaluator = self._bench.evaluator
        values = np.empty((len(weights), len(evaluator.utilities)))
        logits = None
        parts = [RequestPart(self._task, a, weights[a:b], keep_logits) for a, b in pairwise(cuts)]
        if self._observes:
            self._observes = False
            parts.insert(0, RequestPart(self._task, 0, None))
        for found in self._answers(parts):
            if found.values is None:
                self.observation = found.observation
                continue
            rows = slice(found.row, found.row + len(found.values))
            values[rows] = found.values
            if found.logits is not None:
                if logits is None:
                    logits = np.empty((len(weights), *found.logits.shape[1:]), dtype=found.logits.dtype)
                logits[rows] = found.logits
        return values, logits

    def _borders(self, count: int, players: int) -> list[int]:
        """Where the rows of a request are cut: equal numbers of full chunks, each worth its journey."""
        evaluator = self._bench.evaluator
        cost = evaluator.multiply_adds(players) or math.inf
        if self._engine.workers == 1:
            return [0, count]
        return borders(count, evaluator.models_at_once, self._engine.workers, count * cost / PART_MULTIPLY_ADDS)

    def _answers(self, parts: list[RequestPart]) -> Iterator[PartAnswer]:
        unanswered = {(part.row, part.weights is None): part for part in parts}
        for answer in self._engine.run(evaluate_part, parts):
            if not isinstance(answer, OutOfReach):
                del unanswered[answer.row, answer.values is None]
                yield answer
        if unanswered:
            self._task = with_its_numbers(self._bench.log, self._task, self._engine)
            yield from self._answers([replace(part, task=self._task) for part in unanswered.values()])


def with_its_numbers(log: RunLog | None, task: EpochTask, engine: Engine) -> EpochTask:
    """The task for a worker that does not reach the log: all it refers to is placed where it does.

    Raises RunLogError where the log cannot be read here either.
    """

    def placed(place: ModelPlace) -> Placed:
        return engine.place(fetch_model(log, place)) if isinstance(place, int) else place

    return replace(
        task,
        start=placed(task.start),
        before=None if task.before is None else placed(task.before),
        end=None if task.end is None else placed(task.end),
        updates=task.updates or engine.place(fetch_updates(log, task)),
    )
