"""The grid all figures share: instances of the paper's federations, run once, kept one by one, spread over processes.

Departure: the paper speaks of 132 instances over three data sets, clients {4, 8, 16, 32, 64}, epochs {12, 25, 37, 50}
and three seeds, which would be 180. We take Adult and COMPAS whole (2 × 60) and CIFAR-10 with 4 clients (12): 132, and
the counts fit. Exact and ComFedSV reach 16 clients and all of CIFAR-10, 2 × 36 + 12 = 84, ComFedSV's number; exact then
also solves 32 clients with 12 and 25 epochs, 12 more: its 96.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from flcontrib_core import __version__
from flcontrib_core.execution.engine import Execution, run_tasks
from flcontrib_core.files import write_atomic
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.epoch_work import EpochAnswer
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.trajectory import evaluator_for
from flcontrib_core.laboratory.reproduction.figure import Row
from flcontrib_core.laboratory.simulation import (
    SimulationSettings,
    paper_settings,
    simulate_in_memory,
    training_rows,
)
from flcontrib_core.runs.run_log import RunLog, Validation
from flcontrib_core.shapley.auto import Auto
from flcontrib_core.shapley.surrogate import Surrogate
from flcontrib_core.vocabulary import CellState, FillPolicy, OnProgress, no_progress

CUT_OFF_SECONDS = 12_000.0
LAYOUT = 6
"""Of the kept rows: raised whenever an instance's work gives other rows than before."""
TABLES = ("adult", "compas")
CLIENTS = (4, 8, 16, 32, 64)
EPOCHS = (12, 25, 37, 50)


@dataclass(frozen=True)
class Instance:
    """One federation of a figure; what is None is not varied there."""

    dataset: str
    clients: int
    epochs: int
    seed: int
    participation: float = 0.5
    flip: float | None = None
    dishonest: int = 0
    window: tuple[int, int] | None = None
    aggregation: str = "fedavg"

    @property
    def participants(self) -> int:
        """Of an epoch."""
        return max(1, round(self.clients * self.participation))

    def label(self) -> str:
        """As progress names it."""
        return f"{self.dataset}, {self.clients} clients, {self.epochs} epochs, seed {self.seed}"


@dataclass(frozen=True)
class Stage:
    """On what the figures are made: ``full`` is the paper's grid, small the same experiments on fewer, smaller runs."""

    data_dir: Path | None = None
    full: bool = False
    base: SimulationSettings | None = None
    """Another training set-up, for tests; None: the paper's"""
    seeds: int | None = None
    clients: tuple[int, ...] | None = None
    """Another choice of client numbers, for tests"""
    datasets: tuple[str, ...] = (*TABLES, "cifar10")

    @property
    def scale(self) -> str:
        """As figures name it."""
        return "full" if self.full else "small"

    @property
    def repeats(self) -> range:
        """Seeds of every setting."""
        return range(self.seeds if self.seeds is not None else 3 if self.full else 2)

    def sizes(self, *usual: int) -> tuple[int, ...]:
        """The client numbers of a figure."""
        return self.clients or usual

    @property
    def tables(self) -> tuple[str, ...]:
        """The data sets of the MLP."""
        return tuple(name for name in self.datasets if name != "cifar10")

    def settings(self, instance: Instance, **changes: Any) -> SimulationSettings:
        """The appendix's training set-up for the instance; small: fewer rows, 2 local epochs, a narrower CNN."""
        own: dict[str, Any] = {
            "clients": instance.clients,
            "epochs": instance.epochs,
            "seed": instance.seed,
            "participation": instance.participation,
            "aggregation": instance.aggregation,
        }
        if instance.flip is not None:
            own |= {"split": "iid", "attack": "label-flip", "strength": instance.flip}
            own |= {"dishonest": instance.dishonest, "windows": (instance.window,)}
        if self.base is not None:
            return replace(self.base, **own, **changes)
        if not self.full:
            own |= {"train_rows": 3000, "validation_rows": 300, "local_epochs": 2}
            if instance.dataset == "cifar10":
                own |= {"train_rows": 800, "validation_rows": 200, "width": 16}
        return paper_settings(instance.dataset, data_dir=self.data_dir, **{**own, **changes})

    @property
    def applied(self) -> AssessSettings:
        """How the applications' histories are computed: as auto does, at the small scale with the surrogate alone."""
        return AssessSettings(utilities=("loss",), estimator=Auto() if self.full else Surrogate())

    def train(self, instance: Instance, **changes: Any) -> RunLog:
        """The recorded run of an instance."""
        return simulate_in_memory(self.settings(instance, **changes))

    def training_rows(self, instance: Instance) -> Validation:
        """All that its clients learn from."""
        return training_rows(self.settings(instance))

    def describe(self) -> str:
        """What differs from the paper's set-up, for a figure's note."""
        if self.full:
            return "The paper's training set-up."
        return (
            "Small scale: 3000 training and 300 validation rows, 2 local epochs (CIFAR-10: 800 and 200 images, CNN of "
            f"width 16), seeds per setting: {len(self.repeats)}; models, splits, batches and rates are the paper's."
        )


class CutOffReached(Exception):
    """An assessment took longer than an instance may."""


@dataclass(frozen=True)
class Assessed:
    """A history with the CPU seconds of each epoch."""

    history: ContributionHistory
    seconds: float
    of_epoch: np.ndarray
    """(T + 1,)"""


class KeptEpochs:
    """Finished epochs of one run under one method, with their CPU seconds: a longer run of it begins with them."""

    def __init__(self) -> None:
        self.arrays: dict[str, dict[str, np.ndarray]] = {}
        self.seconds: dict[tuple[int, bool], float] = {}
        """Of an epoch, valued or only walked over."""

    def recall(self, key: str) -> dict[str, np.ndarray] | None:
        """The answer kept under a key."""
        return self.arrays.get(key)

    def keep(self, key: str, arrays: dict[str, np.ndarray]) -> None:
        """Keeps an answer; logits are not: whoever needs them pays for them."""
        if "logits" not in arrays:
            self.arrays[key] = arrays


def assess_within(
    run: RunLog, settings: AssessSettings, cut_off: float = CUT_OFF_SECONDS, kept: KeptEpochs | None = None
) -> Assessed:
    """The history in this process, by its CPU time. Raises CutOffReached after the first epoch beyond ``cut_off``.

    ``kept``: epochs that a shorter part of the same run has computed count the seconds they took there.
    """
    kept = KeptEpochs() if kept is None else kept
    began = last = time.process_time()
    earlier = 0.0
    spent = np.zeros(run.epoch_count + 1)

    def count(answer: EpochAnswer) -> None:
        nonlocal last, earlier
        now = time.process_time()
        key = answer.epoch, answer.estimate is not None
        if key in kept.seconds:
            earlier += kept.seconds[key]
        else:
            kept.seconds[key] = now - last
        spent[answer.epoch] = kept.seconds[key]
        last = now
        if now - began + earlier > cut_off:
            raise CutOffReached(f"more than {cut_off:g} s after epoch {answer.epoch}")

    history = assess_contributions(run, replace(settings, observe=False), on_epoch=count, checkpoints=kept)
    return Assessed(history, time.process_time() - began + earlier, spent)


def first_epochs(run: RunLog, epochs: int) -> RunLog:
    """The run as it stood after so many epochs: training never looks ahead."""
    return replace(run, epochs=run.epochs[:epochs])


def squared_errors(
    estimate: ContributionHistory, truth: ContributionHistory, fill: FillPolicy = FillPolicy.EQUAL
) -> Row:
    """Mean squared error of the totals, per utility."""
    return {f"mse_{u}": float(np.mean((estimate.totals(u, fill) - truth.totals(u)) ** 2)) for u in truth.utilities}


def limited_to(history: ContributionHistory, epochs: Sequence[int]) -> ContributionHistory:
    """The history that computing these epochs alone gives: a value does not depend on which others were computed."""
    state = history.state.copy()
    skipped = np.ones(len(state), dtype=bool)
    skipped[[0, *epochs]] = False
    state[skipped] = np.where(state[skipped] == CellState.COMPUTED, CellState.NOT_COMPUTED, state[skipped])
    return replace(history, state=state)


@dataclass(frozen=True)
class Outcome:
    """The rows of instances, the CPU seconds that making them took, and how many there are."""

    rows: list[Row]
    seconds: float
    instances: int = 1


def run_instances(
    name: str,
    work: Callable[[Stage, Instance], list[Row]],
    stage: Stage,
    instances: Sequence[Instance],
    folder: Path | None,
    where: Execution,
    on_progress: OnProgress = no_progress,
    *,
    only_kept: bool = False,
    price: Callable[[Stage, Instance], float] = lambda _, instance: float(instance.epochs),
) -> Outcome:
    """The rows of all instances in their order; those kept in ``folder`` are not run again, with ``only_kept`` none.

    The dearest by ``price`` begin, so that no worker is left alone with one at the end.
    """
    outcomes = {n: outcome for n, i in enumerate(instances) if (outcome := _kept(folder, name, stage, i)) is not None}
    on_progress(len(outcomes), len(instances), name)
    todo = [] if only_kept else [(n, i) for n, i in enumerate(instances) if n not in outcomes]
    todo.sort(key=lambda task: -price(stage, task[1]))
    for n, outcome in run_tasks(_numbered, (work, stage), iter(todo), where):
        outcomes[n] = outcome
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            write_atomic(_place(folder, name, stage, instances[n]), json.dumps(asdict(outcome), indent=1))
        on_progress(len(outcomes), len(instances), f"{name}: {instances[n].label()}")
    rows = [row for n in sorted(outcomes) for row in outcomes[n].rows]
    return Outcome(rows, sum(outcome.seconds for outcome in outcomes.values()), len(outcomes))


def _numbered(
    shared: tuple[Callable[[Stage, Instance], list[Row]], Stage], task: tuple[int, Instance]
) -> tuple[int, Outcome]:
    (work, stage), (n, instance) = shared, task
    about = {f.name: getattr(instance, f.name) for f in fields(Instance)}
    began = time.process_time()
    rows = [{**about, **row} for row in work(stage, instance)]
    return n, Outcome(rows, time.process_time() - began)


def _place(folder: Path, name: str, stage: Stage, instance: Instance) -> Path:
    """Where an instance's rows are kept: by everything they depend on, which more seeds or fewer data sets are not."""
    base = None if stage.base is None else asdict(stage.base)
    what = json.dumps([LAYOUT, __version__, name, stage.full, base, asdict(instance)], default=str, sort_keys=True)
    return folder / f"{name}-{hashlib.sha256(what.encode()).hexdigest()[:20]}.json"


def _kept(folder: Path | None, name: str, stage: Stage, instance: Instance) -> Outcome | None:
    if folder is None:
        return None
    place = _place(folder, name, stage, instance)
    return Outcome(**json.loads(place.read_text())) if place.exists() else None


def evaluations_per_second(stage: Stage, dataset: str, models: int = 16, **changes: Any) -> float:
    """Measured on a one-epoch federation of two clients: a prediction, never part of a result."""
    run = stage.train(Instance(dataset, 2, 1, 0, participation=1.0), train_rows=300, **changes)
    evaluator = evaluator_for(run, ("loss", "accuracy"))
    some = np.repeat(run.initial()[None, :], models, axis=0)
    evaluator.evaluate(some[: -(-models // 2)])
    began = time.process_time()
    evaluator.evaluate(some)
    return models / max(time.process_time() - began, 1e-6)


def full_evaluation_seconds(stage: Stage, dataset: str) -> float:
    """Of one evaluation at the paper's scale."""
    full, models = replace(stage, full=True), 2 if dataset == "cifar10" else 8
    return 1 / evaluations_per_second(full, dataset, models, local_epochs=1)


def paper_grid() -> Iterator[Instance]:
    """The 132 instances of the comparison."""
    for dataset, clients in (*((d, CLIENTS) for d in TABLES), ("cifar10", (4,))):
        for many in clients:
            for epochs in EPOCHS:
                for seed in range(3):
                    yield Instance(dataset, many, epochs, seed)
