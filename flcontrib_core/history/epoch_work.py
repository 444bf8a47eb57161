"""The assessment of one epoch, in whichever process it happens.

An ``EpochTask`` says where the numbers of one epoch lie; ``assess_epoch`` fetches them and gives an ``EpochAnswer``
that depends on nothing but the task and the workbench: not on the process, the order, or what was remembered from
earlier runs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from flcontrib_core.errors import NonFiniteUtility, RunLogError
from flcontrib_core.execution.engine import Placed
from flcontrib_core.history.remarks import Diverged, DivergedRemark, StartDiverged
from flcontrib_core.runs.epoch_source import BundleSource
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.shapley.estimate import EpochEstimator, ShapleyEstimate
from flcontrib_core.shapley.exact_values import best_coalition
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.tagged import Others
from flcontrib_core.vocabulary import Float32Array, FloatArray, PlayerByUtility, WeightMode

if TYPE_CHECKING:
    from flcontrib_core.games.evaluator import Evaluator
    from flcontrib_core.games.observations import EpochObservation, LastStep
    from flcontrib_core.games.submodels import OpaqueEpochGame
    from flcontrib_core.history.shared_epoch import SharedEpoch

ModelPlace: TypeAlias = int | Placed
"""Where a model lies: in the log, 0 being the initial one and t the server's after epoch t, or where it was placed."""


class Fetching(Protocol):
    """What all epochs of one piece of work share: who judges models, and where tasks find what they refer to."""

    @property
    def evaluator(self) -> Evaluator:
        """Judges models."""
        ...

    @property
    def log(self) -> RunLog | None:
        """None where the run lies in no file, and tasks bring it along."""
        ...


@dataclass(frozen=True)
class Workbench:
    """What all epochs of one assessment share."""

    evaluator: Evaluator
    estimator: EpochEstimator | None
    """None where nothing but requests of a whole-run estimator are answered."""
    weights: WeightMode
    federation_size: float
    """Data of all clients, whether they took part or not"""
    seed: int
    weight_utility: int
    """Position of the utility that orders coalitions for ``best_subset``."""
    log: RunLog | None = None
    """Where tasks find what they refer to; None where the run lies in no file, and they bring it along."""

    @property
    def gpu_share(self) -> float:
        """How much of a GPU one task takes on a cluster."""
        return 0.25 if self.evaluator.device.startswith("cuda") else 0.0


@dataclass(frozen=True)
class EpochTask:
    """Where one epoch's numbers lie. ``estimate`` False: only the cheap observations and the increment are wanted."""

    epoch: int
    client_ids: tuple[str, ...]
    start: ModelPlace
    """F(t−1)"""
    before: ModelPlace | None
    """F(t−2); None in the first epoch"""
    updates: Placed | None
    """None: in the log"""
    weights: tuple[float, ...]
    """What the server weighed each update with"""
    end: ModelPlace | None
    """The model the epoch ended in, where that is not the weighted mean"""
    estimate: bool = False
    observe: bool = False
    leave_one_out: bool = False
    remembered: dict[bytes, np.ndarray] = field(default_factory=dict)
    """Utilities of coalitions known from earlier runs."""
    remembered_logits: dict[bytes, np.ndarray] = field(default_factory=dict)
    """Their validation logits, where they were kept: a higher precision starts from them."""


@dataclass(frozen=True)
class EpochAnswer:
    """Everything learned about one epoch."""

    epoch: int
    estimate: ShapleyEstimate | None
    start: FloatArray
    """(U,) v(F(t−1))"""
    increment: FloatArray
    """(U,) v(F_N) − v(F(t−1)); NaN where one of the two models diverged"""
    server_share: FloatArray
    """(U,) v(global) − v(F_N), 0 where the epoch ends in F_N itself; v(global) − v(F(t−1)) where F_N diverged"""
    leave_one_out: PlayerByUtility
    """v(F_{N∖i}) − v(F_N); NaN where it was not evaluated"""
    best_subset: tuple[int, ...] | None
    """Positions among the participants; known only where every coalition was evaluated."""
    observation: EpochObservation | None
    fresh: dict[bytes, np.ndarray]
    """Utilities evaluated now, for the memory"""
    recalled: int
    """Of the estimate's evaluations; the epoch's own models are not counted among those, so not here either"""
    seconds: float
    diverged: DivergedRemark | None = None
    """Whose model has no finite utility; None where the epoch was computed, or not asked for"""
    fresh_logits: dict[bytes, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class OutOfReach:
    """The answer of a worker that does not find the log: it lies on another machine, or is no longer what it was."""

    task: EpochTask


class _TaskMemory:
    """The task's share of the evaluation memory: answers from what was sent along, collects what is new."""

    def __init__(self, remembered: dict[bytes, np.ndarray], logits: dict[bytes, np.ndarray]) -> None:
        self.remembered = remembered
        self.logits = logits
        self.fresh: dict[bytes, np.ndarray] = {}
        self.fresh_logits: dict[bytes, np.ndarray] = {}
        self.recalled = 0

    def recall(self, keys: list[bytes]) -> dict[bytes, np.ndarray]:
        known = {k: self.remembered[k] for k in keys if k in self.remembered}
        self.recalled += len(known)
        return known

    def keep(self, values: dict[bytes, np.ndarray]) -> None:
        self.fresh.update(values)

    def recall_logits(self, keys: list[bytes]) -> dict[bytes, np.ndarray]:
        return {k: self.logits[k] for k in keys if k in self.logits}

    def keep_logits(self, logits: dict[bytes, np.ndarray]) -> None:
        self.fresh_logits.update(logits)


def fetch_model(log: RunLog | None, place: ModelPlace) -> Float32Array:
    """The model that lies there."""
    if not isinstance(place, int):
        return place.fetch()
    assert log is not None
    if place == 0:
        return log.initial()
    assert isinstance(log.source, BundleSource)
    return log.source.global_model(log.epochs[place - 1])


def fetch_updates(log: RunLog | None, task: EpochTask) -> Float32Array:
    """(players, P) the task's updates."""
    if task.updates is not None:
        return task.updates.fetch().reshape(len(task.weights), -1)
    assert log is not None
    return np.ascontiguousarray(log.epoch_data(task.epoch).updates)


@dataclass(frozen=True)
class FetchedEpoch:
    """One epoch's numbers, fetched: its game and the models beside it."""

    game: OpaqueEpochGame
    last_step: Float32Array | LastStep | None
    end: Float32Array | None

    @classmethod
    def of(cls, bench: Workbench, task: EpochTask, shared: SharedEpoch | None = None) -> FetchedEpoch:
        """Reads what the task refers to. Raises RunLogError where that cannot be read here."""
        from flcontrib_core.games.observations import LastStep
        from flcontrib_core.games.submodels import epoch_game

        base = fetch_model(bench.log, task.start)
        game = epoch_game(
            base,
            fetch_updates(bench.log, task),
            task.weights,
            bench.evaluator,
            weights=bench.weights,
            federation_size=bench.federation_size,
            evaluate_mixture=None if shared is None else shared.evaluate_mixture,
        )
        last_step = None if task.before is None else LastStep(base, fetch_model(bench.log, task.before))
        return cls(game, last_step, None if task.end is None else fetch_model(bench.log, task.end))

    def observe(self, bench: Workbench, epoch: int, oracle: CoalitionOracle | None = None) -> EpochObservation:
        """The cheap observations. ``oracle``: what was evaluated of the epoch, each client alone perhaps among it."""
        from flcontrib_core.games.observations import observe_epoch

        alone = None
        if oracle is not None and bench.weights is WeightMode.ADAPTIVE and bench.evaluator.classifies:
            alone = oracle.known_logits(np.eye(oracle.players, dtype=bool))
        return observe_epoch(self.game, epoch, self.last_step, bench.seed, solo_logits=alone)


def assess_epoch(bench: Workbench, task: EpochTask) -> EpochAnswer | OutOfReach:
    """One epoch in the process that calls this."""
    try:
        fetched = FetchedEpoch.of(bench, task)
    except RunLogError:
        return OutOfReach(task)  # whoever gave the task out can read it, or says why nobody can
    return assess_fetched(bench, task, fetched)


def assess_fetched(
    bench: Workbench, task: EpochTask, fetched: FetchedEpoch, shared: SharedEpoch | None = None
) -> EpochAnswer:
    """Shapley values, increment, server's share and cheap observations of one epoch.

    The random generator is made from (seed, epoch), so a value never depends on which other epochs were computed.
    A sub-model that diverges leaves its own epoch without values, with a remark that names whose it was: one client
    that sends 1e20 must not keep the operator from auditing the rest of the run.
    """
    began = time.perf_counter()
    game = fetched.game
    memory = _TaskMemory(task.remembered, task.remembered_logits)
    oracle = CoalitionOracle(game, memory, epoch=task.epoch, player_names=task.client_ids)
    players = len(task.weights)
    everyone = np.ones((1, players), dtype=bool)
    start = game.empty_values
    estimate: ShapleyEstimate | None = None
    diverged: DivergedRemark | None = None
    recalled = 0
    try:
        if task.estimate:
            assert bench.estimator is not None
            estimate = bench.estimator.estimate(oracle, np.random.default_rng([bench.seed, task.epoch]))
            recalled = memory.recalled
        increment = oracle.evaluate(everyone)[0]
    except NonFiniteUtility as fault:
        estimate, diverged = None, _whose_model_diverged(game, task.client_ids, fault.players)
        increment = game.evaluate(everyone)[0]
    server = np.zeros_like(increment)
    if fetched.end is not None:
        end = bench.evaluator.evaluate(fetched.end[None, :])[0][0]
        server = end - start - np.where(np.isfinite(increment), increment, 0.0)
    observation = None
    if task.observe:
        observation = (shared and shared.observation) or fetched.observe(bench, task.epoch, oracle)
    return EpochAnswer(
        epoch=task.epoch,
        estimate=estimate,
        start=start,
        increment=increment,
        server_share=server,
        leave_one_out=_leave_one_out(oracle, increment, task.leave_one_out and diverged is None),
        best_subset=_best_subset(oracle, bench),
        observation=observation,
        fresh=memory.fresh,
        recalled=recalled,
        seconds=time.perf_counter() - began,
        diverged=diverged,
        fresh_logits=memory.fresh_logits,
    )


def _whose_model_diverged(game: OpaqueEpochGame, client_ids: tuple[str, ...], found: tuple[int, ...]) -> DivergedRemark:
    """The clients whose step alone leaves no finite utility, else the coalition that was found to do so."""
    if not np.isfinite(game.empty_values).all():
        return StartDiverged()
    alone = np.flatnonzero(~np.isfinite(game.evaluate(np.eye(game.players, dtype=bool))).all(axis=1))
    return Diverged(Others.named(client_ids[player] for player in (alone if len(alone) else found)))


def _leave_one_out(oracle: CoalitionOracle, increment: FloatArray, evaluate: bool) -> PlayerByUtility:
    """v(F_{N∖i}) − v(F_N) where already known, or everywhere when asked for."""
    without = ~np.eye(oracle.players, dtype=bool)
    if not evaluate and not oracle.evaluated(without).all():
        return np.full((oracle.players, len(oracle.utilities)), np.nan)
    return oracle.evaluate(without) - increment


def _best_subset(oracle: CoalitionOracle, bench: Workbench) -> tuple[int, ...] | None:
    """Greedy aggregation's S*: the coalition with the best utility; comes free where all were evaluated."""
    name = oracle.utilities[bench.weight_utility]
    members, proved = best_coalition(oracle, name, name in bench.evaluator.lower_is_better)
    return members if proved else None
