"""The assessment of one epoch, in whichever process it happens.

An ``EpochTask`` carries all numbers of one epoch; ``assess_epoch`` turns it into an ``EpochAnswer`` that depends on
nothing but the task and the workbench: not on the process, the order, or what was remembered from earlier runs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from flcontrib_core.errors import NonFiniteUtility
from flcontrib_core.history.remarks import Diverged, DivergedRemark, StartDiverged
from flcontrib_core.shapley.estimate import EpochEstimator, ShapleyEstimate
from flcontrib_core.shapley.exact_values import best_coalition
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.tagged import Others
from flcontrib_core.vocabulary import Float32Array, FloatArray, PlayerByUtility, WeightMode

if TYPE_CHECKING:
    from flcontrib_core.games.evaluator import Evaluator
    from flcontrib_core.games.observations import EpochObservation
    from flcontrib_core.games.submodels import OpaqueEpochGame


@dataclass(frozen=True)
class Workbench:
    """What all epochs of one assessment share."""

    evaluator: Evaluator
    estimator: EpochEstimator
    weights: WeightMode
    federation_size: float
    """Data of all clients, whether they took part or not"""
    seed: int
    weight_utility: int
    """Position of the utility that orders coalitions for ``best_subset``."""


@dataclass(frozen=True)
class EpochTask:
    """One epoch's numbers. ``estimate`` False: only the cheap observations and the increment are wanted."""

    epoch: int
    client_ids: tuple[str, ...]
    base: Float32Array
    updates: Float32Array
    weights: tuple[float, ...]
    """What the server weighed each update with"""
    global_model: Float32Array | None
    last_step: Float32Array | None
    estimate: bool
    observe: bool
    leave_one_out: bool
    remembered: dict[bytes, np.ndarray]
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
    seconds: float
    diverged: DivergedRemark | None = None
    """Whose model has no finite utility; None where the epoch was computed, or not asked for"""
    fresh_logits: dict[bytes, np.ndarray] = field(default_factory=dict)


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


def assess_epoch(bench: Workbench, task: EpochTask) -> EpochAnswer:
    """Shapley values, increment, server's share and cheap observations of one epoch.

    The random generator is made from (seed, epoch), so a value never depends on which other epochs were computed.
    A sub-model that diverges leaves its own epoch without values, with a remark that names whose it was: one client
    that sends 1e20 must not keep the operator from auditing the rest of the run.
    """
    from flcontrib_core.games.observations import observe_epoch
    from flcontrib_core.games.submodels import epoch_game

    began = time.perf_counter()
    game = epoch_game(
        task.base,
        task.updates,
        task.weights,
        bench.evaluator,
        weights=bench.weights,
        federation_size=bench.federation_size,
    )
    memory = _TaskMemory(task.remembered, task.remembered_logits)
    oracle = CoalitionOracle(game, memory, epoch=task.epoch, player_names=task.client_ids)
    players = len(task.weights)
    everyone = np.ones((1, players), dtype=bool)
    start = game.empty_values
    estimate: ShapleyEstimate | None = None
    diverged: DivergedRemark | None = None
    try:
        if task.estimate:
            estimate = bench.estimator.estimate(oracle, np.random.default_rng([bench.seed, task.epoch]))
        increment = oracle.evaluate(everyone)[0]
    except NonFiniteUtility as fault:
        estimate, diverged = None, _whose_model_diverged(game, task.client_ids, fault.players)
        increment = game.evaluate(everyone)[0]
    server = np.zeros_like(increment)
    if task.global_model is not None:
        end = bench.evaluator.evaluate(task.global_model[None, :])[0][0]
        server = end - start - np.where(np.isfinite(increment), increment, 0.0)
    return EpochAnswer(
        epoch=task.epoch,
        estimate=estimate,
        start=start,
        increment=increment,
        server_share=server,
        leave_one_out=_leave_one_out(oracle, increment, task.leave_one_out and diverged is None),
        best_subset=_best_subset(oracle, bench),
        observation=observe_epoch(game, task.epoch, task.last_step, bench.seed) if task.observe else None,
        fresh=memory.fresh,
        recalled=memory.recalled,
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
