"""What the model would have been worth under another aggregation, replayed on the recorded updates.

Three rules: *recorded* (the server's weights), *best subset* (greedy aggregation by S*, renormalised), *by value*
(weights in proportion to what each participant's value helps; nobody who harmed). Two readings of each: **one step**
from the model the federation really had – exact, for the updates were computed from it – and **chained**, where every
step is added to the replayed model although its updates were computed from the recorded one: a first guess of where
training would have gone, and said to be one.

Choosing by the rows that also measure flatters the chooser. ``replay_held_out`` therefore values the clients on one
random half of the validation rows and measures on the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.games.evaluator import Evaluator
from flcontrib_core.games.submodels import aggregate
from flcontrib_core.history.assess import Computing, assess_contributions
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.trajectory import WalkStep, evaluator_for, walk
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import CellState, EpochByUtility, FloatArray


class AggregationRule(StrEnum):
    """How an epoch's updates are joined."""

    RECORDED = "recorded"
    BEST_SUBSET = "best subset"
    BY_VALUE = "by value"


@dataclass(frozen=True)
class Replayed:
    """One rule's models, measured."""

    rule: AggregationRule
    one_step: EpochByUtility
    """(T + 1, utilities) of the recorded model of the epoch before plus this rule's step; row 0 the initial model"""
    chained: EpochByUtility
    """(T + 1, utilities) of the rule's own model, the recorded updates added as if they had been computed from it"""
    applied: int
    """Epochs in which the rule had what it needs; in the others the recorded weights stand"""


@dataclass(frozen=True)
class Replay:
    """A run under three rules."""

    utilities: tuple[str, ...]
    rules: tuple[Replayed, ...]
    measured_rows: int
    """Validation rows the models were measured on"""
    held_out: bool
    """True: on rows that chose nothing"""


def replay(run: RunLog, history: ContributionHistory, evaluator: Evaluator, held_out: bool = False) -> Replay:
    """The three rules on a run whose values are known; ``evaluator`` measures, ``history`` chooses.

    Say ``held_out`` where the history was computed on other rows than the evaluator's.
    """
    if history.run_digest != run.digest:
        raise SettingsError(f"these contributions belong to another run than {run.name}; assess this one")
    rules = {rule: _Track(rule) for rule in AggregationRule}
    utility = _choosing_utility(history)
    values = -history.harm_sign(utility) * history.of(utility).values
    known = history.of(utility).state == CellState.COMPUTED
    start = evaluator.evaluate(run.initial()[None])[0][0]
    for track in rules.values():
        track.begin(run.initial(), start)
    for step in walk(run):
        epoch, members = step.record.epoch, list(step.record.participants)
        help_up = values[epoch, members] if members and known[epoch, members].all() else None
        best = history.best_subset[epoch] if history.best_subset else None
        chosen: dict[AggregationRule, FloatArray | None] = {
            AggregationRule.RECORDED: None,
            AggregationRule.BEST_SUBSET: None if best is None else _subset_weights(step, best),
            AggregationRule.BY_VALUE: None if help_up is None else _value_weights(help_up),
        }
        for rule, track in rules.items():
            track.add(step, chosen[rule], evaluator)
    done = tuple(track.done() for track in rules.values())
    return Replay(evaluator.utilities, done, evaluator.validation_rows, held_out)


def replay_held_out(
    run: RunLog, settings: AssessSettings | None = None, *, share: float = 0.5, computing: Computing | None = None
) -> Replay:
    """Values on one random part of the validation rows, measures the rules on the other (``share``).

    The settings' seed draws the parts; each class keeps its proportion.
    """
    settings = replace(settings or AssessSettings(), observe=False)
    if not 0.1 <= share <= 0.9:
        raise SettingsError(f"the share of rows to measure on is {share:g}; give one from 0.1 to 0.9")
    validation = run.validation()
    if validation is None:
        raise MissingPart(f"{run.name}: the log has no validation set, so there is nothing to measure a replay on")
    measuring = _stratified(validation.y, share, settings.seed)
    if not 2 <= measuring.sum() <= len(measuring) - 2:
        raise MissingPart(f"{run.name}: {len(measuring)} validation rows are too few to hold some back")
    choosing = evaluator_for(run, settings.utilities, np.flatnonzero(~measuring))
    history = assess_contributions(run, settings, evaluator=choosing, **without_memory(computing))
    return replay(run, history, evaluator_for(run, settings.utilities, np.flatnonzero(measuring)), held_out=True)


def without_memory(computing: Computing | None) -> Computing:
    """The same way of computing, nothing remembered: what a memory keeps belongs to the log's own rows."""
    return {**(computing or {}), "checkpoints": None, "memory": None}


class _Track:
    """One rule on its way through the run."""

    def __init__(self, rule: AggregationRule) -> None:
        self.rule = rule
        self._one: list[FloatArray] = []
        self._chain: list[FloatArray] = []
        self._applied = 0

    def begin(self, model: np.ndarray, value: FloatArray) -> None:
        self._model = model
        self._one.append(value)
        self._chain.append(value)

    def add(self, step: WalkStep, weights: FloatArray | None, evaluator: Evaluator) -> None:
        """``weights`` sum to one, or to zero for no step; None: what the server did."""
        if not step.record.participants or weights is None:
            moved, ahead = step.end - step.start, step.end
        else:
            ahead = aggregate(step.start, step.data.updates, weights) if weights.any() else step.start
            moved = ahead - step.start
        served = weights is not None or self.rule is AggregationRule.RECORDED
        self._applied += bool(step.record.participants) and served
        self._model = self._model + moved
        values = evaluator.evaluate(np.stack([ahead, self._model]))[0]
        self._one.append(values[0])
        self._chain.append(values[1])

    def done(self) -> Replayed:
        return Replayed(self.rule, np.stack(self._one), np.stack(self._chain), self._applied)


def _choosing_utility(history: ContributionHistory) -> str:
    """The utility that also orders coalitions for S*."""
    name = str(history.settings.get("weight_utility", "loss"))
    return name if name in history.utilities else history.utilities[0]


def _subset_weights(step: WalkStep, best: tuple[int, ...]) -> FloatArray:
    inside = np.isin(step.record.participants, best)
    held = np.where(inside, np.asarray(step.record.weights, dtype=np.float64), 0.0)
    return held / held.sum() if held.any() else held


def _value_weights(help_up: FloatArray) -> FloatArray:
    held = np.maximum(help_up, 0.0)
    return np.asarray(held / held.sum() if held.any() else held)


def _stratified(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    """A random mask of this share of the rows of every class."""
    rng = np.random.default_rng([seed, 1])
    mask = np.zeros(len(labels), dtype=bool)
    order = rng.permutation(len(labels))
    for label in np.unique(labels):
        rows = order[labels[order] == label]
        mask[rows[: round(share * len(rows))]] = True
    return mask
