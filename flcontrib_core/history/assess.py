"""Algorithm 1 of the paper: per-epoch Shapley values over a run log, a budget and a pool of processes.

Epochs are independent given the models they start from (the Markov property), so they are given to workers, kept as
they finish, and never computed twice. Who gives them out holds none of their numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, TypedDict

from flcontrib_core.errors import CostRefusal, SettingsError
from flcontrib_core.execution.engine import Engine, Execution, open_engine
from flcontrib_core.history.assembly import assemble_history, history_from_table, history_from_utilities
from flcontrib_core.history.checkpoints import EpochCheckpoints, UtilityMemory
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.epoch_places import lies_in_a_file
from flcontrib_core.history.epoch_stream import EpochStream, Growth, epoch_price
from flcontrib_core.history.epoch_work import EpochAnswer, Workbench
from flcontrib_core.history.memory_need import require_memory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.trajectory import evaluator_for, scheduling_problem
from flcontrib_core.runs.frozen import without_frozen
from flcontrib_core.runs.run_log import ContributionTable, Run, RunLog, UtilityTable
from flcontrib_core.scheduling.schedule import Schedule
from flcontrib_core.shapley.costs import cost_of
from flcontrib_core.shapley.estimate import RunEstimator
from flcontrib_core.vocabulary import (
    OnProgress,
    no_progress,
)

if TYPE_CHECKING:
    from flcontrib_core.games.evaluator import Evaluator


class Computing(TypedDict, total=False):
    """How an assessment is carried out: where, from which memory, and who hears of it.

    None of it changes a value, but for the last bits, which are a device's own: the recipe names it.
    """

    device: str
    workers: int | None
    engine: str
    address: str | None
    gpus: float
    growth: Growth | None
    checkpoints: EpochCheckpoints | None
    memory: UtilityMemory | None
    on_epoch: Callable[[EpochAnswer], None] | None


def assess_contributions(
    run: Run,
    settings: AssessSettings | None = None,
    *,
    schedule: Schedule | None = None,
    evaluator: Evaluator | None = None,
    device: str = "cpu",
    workers: int | None = 1,
    engine: str = "local",
    address: str | None = None,
    gpus: float = 0.0,
    checkpoints: EpochCheckpoints | None = None,
    memory: UtilityMemory | None = None,
    growth: Growth | None = None,
    on_progress: OnProgress = no_progress,
    on_epoch: Callable[[EpochAnswer], None] | None = None,
) -> ContributionHistory:
    """Per-epoch Shapley values of every client: Algorithm 1.

    ``schedule``: which epochs to compute (else ``settings.budget`` decides, default all). ``evaluator``: a trusted
    one built from a torch module, for logs without model.json. ``device``: where the log's own model runs;
    ``workers`` … ``gpus``: as an ``Execution`` has them. ``growth``: what the last assessment of a growing log left.
    Raises CostRefusal or MemoryRefusal before a request beyond reach and MissingPart without a model. An epoch in which
    a sub-model diverges is not computed; a remark names its clients.
    """
    settings = settings or AssessSettings()
    require_memory(run)
    began, where = time.perf_counter(), Execution(workers, engine, address, gpus)
    if not settings.values and not isinstance(run, RunLog):
        raise SettingsError(f"{run.name} is a table: it holds values and nothing else that could be read without them")
    if isinstance(run, ContributionTable):
        return history_from_table(run)
    if isinstance(run, UtilityTable):
        plan = schedule or _plan(run, settings, None, None, on_progress)
        return replace(history_from_utilities(run, settings, plan), seconds=time.perf_counter() - began)
    evaluator = _fitting(evaluator, run, settings, device, growth)
    if isinstance(settings.estimator, RunEstimator):
        if schedule is not None or _limited(settings):
            raise SettingsError(f"{settings.estimator.name} values the run as a whole: no schedule can limit it")
        from flcontrib_core.history.whole_run import assess_whole_run

        return assess_whole_run(run, settings, settings.estimator, evaluator, began, where, on_progress)
    bench = workbench_of(evaluator, settings, run)
    if not evaluator.cacheable:
        checkpoints = memory = growth = None
    asked = schedule.chosen if schedule else [e.epoch for e in run.epochs if settings.values]
    new = [t for t in asked if growth is None or growth.anchor is None or t > growth.anchor.epoch]
    with open_engine(where, bench, _price(run, settings, evaluator, new)) as opened:
        plan = schedule or _plan(run, settings, evaluator, opened, on_progress)
        epochs = set(plan.chosen) if plan else set(asked)
        _refuse_exponential(run, settings, evaluator, epochs)
        stream = EpochStream(run, settings, bench, epochs, checkpoints, memory, growth)
        answers = _answers(stream, opened, on_progress, on_epoch)
    history = assemble_history(run, settings, evaluator, answers, plan, growth=growth)
    return replace(history, seconds=time.perf_counter() - began, recalled=stream.recalled)


def _answers(
    stream: EpochStream, engine: Engine, on_progress: OnProgress, on_epoch: Callable[[EpochAnswer], None] | None
) -> dict[int, EpochAnswer]:
    """Every epoch's answer; whoever watches hears of each, and of work that was lost with its worker."""
    answers: dict[int, EpochAnswer] = {}
    total = sum(1 for e in stream.run.epochs if e.participants)
    if engine.about:
        on_progress(0, total, engine.about)
    for answer in stream.answers(engine):
        answers[answer.epoch] = answer
        retried = f", {engine.retries} given out again" if engine.retries else ""
        on_progress(len(answers), total, f"epoch {answer.epoch}{retried}")
        if on_epoch is not None:
            on_epoch(answer)
    return answers


def _refuse_exponential(run: RunLog, settings: AssessSettings, evaluator: Evaluator, epochs: Collection[int]) -> None:
    """Raises CostRefusal, with the price, before anything is computed."""
    largest = max((len(e.participants) for e in run.epochs if e.epoch in epochs), default=0)
    if largest:
        cost_of(settings.estimator, largest, evaluator.multiply_adds(largest), weights=settings.weights)


def _price(run: RunLog, settings: AssessSettings, evaluator: Evaluator, epochs: Collection[int]) -> float | None:
    """Multiply-adds of assessing these epochs if none is known; None where nobody can tell."""
    computed = set(epochs)
    sizes = [len(e.participants) for e in run.epochs if e.epoch in computed and e.participants]
    with suppress(CostRefusal):  # by an epoch that the budget may leave out; the chosen ones are asked again
        prices = {n: epoch_price(evaluator, settings, n) for n in set(sizes)}
        if None not in prices.values():
            return sum(prices[n] or 0.0 for n in sizes)
    return None


def _limited(settings: AssessSettings) -> bool:
    return settings.budget.budget is not None or settings.budget.epochs is not None


def workbench_of(evaluator: Evaluator, settings: AssessSettings, run: RunLog) -> Workbench:
    """What all epochs of this run's assessment share."""
    names = evaluator.utilities
    return Workbench(
        evaluator=evaluator,
        estimator=None if isinstance(settings.estimator, RunEstimator) else settings.estimator,
        weights=settings.weights,
        federation_size=float(sum(run.data_sizes)),
        seed=settings.seed,
        weight_utility=names.index(settings.weight_utility) if settings.weight_utility in names else 0,
        log=without_frozen(run) if lies_in_a_file(run) else None,
    )


def _fitting(
    evaluator: Evaluator | None, run: RunLog, settings: AssessSettings, device: str, growth: Growth | None
) -> Evaluator:
    """The evaluator given, or the log's own; refused where its parameters are not laid out as the log's."""
    if evaluator is None:
        if growth is None or run.frozen is not None:
            return evaluator_for(run, settings.utilities, device=device)
        asked = run.base_digest, run.manifest, settings.utilities, device  # the digest tells of model and rows
        if growth.evaluator is None or growth.evaluator[0] != asked:
            growth.evaluator = asked, evaluator_for(run, settings.utilities, device=device)
        return growth.evaluator[1]
    evaluator = evaluator.for_parameters(run.parameters)
    if evaluator.parameters is not None and tuple(evaluator.parameters) != tuple(run.parameters):
        pairs = zip_longest(evaluator.parameters, run.parameters)
        theirs, ours = next((a, b) for a, b in pairs if a != b)
        raise SettingsError(
            f"the evaluator's parameters are not those of {run.name}: it has {theirs or 'no more'} where the log has "
            f"{ours or 'no more'}. Give the module that was trained."
        )
    return evaluator


def _plan(
    run: RunLog | UtilityTable,
    settings: AssessSettings,
    evaluator: Evaluator | None,
    engine: Engine | None,
    on_progress: OnProgress,
) -> Schedule | None:
    """The schedule that the budget settings ask for; None = every epoch, which needs no choice."""
    if not _limited(settings):
        return None
    from flcontrib_core.scheduling.choose import choose_epochs

    return choose_epochs(scheduling_problem(run, settings, evaluator, on_progress, engine), settings.budget)
