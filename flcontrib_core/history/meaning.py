"""What a log's numbers mean: the rebuilt global model epoch by epoch, and warnings where they mean something else.

A log may be sound to the byte and still lie by mistake: models in place of updates, a wrong sign, shifted labels,
inputs of another scale. The rebuilt model shows it, because it does not learn; and what would mend it is tried out: a
warning names the reading under which the same log has a better model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from flcontrib_core.codec import decode, encode
from flcontrib_core.errors import Problem
from flcontrib_core.execution.apart import CeilingReached, call_apart
from flcontrib_core.execution.limits import ProcessLimits
from flcontrib_core.games.evaluator import Evaluator
from flcontrib_core.history.trajectory import WalkStep, evaluator_for, walk
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.bundle_reader import NonFinite
from flcontrib_core.runs.problems import problem, span
from flcontrib_core.runs.run_log import RunLog, Validation
from flcontrib_core.vocabulary import Float32Array, FloatArray

UTILITIES = ("loss", "accuracy")
MOST_EPOCHS = 60
"""Epochs that are evaluated; of longer runs evenly spaced ones, the first and the last among them."""
LEARNS_BELOW = 0.98
"""A model has learned when its loss fell below this share of the initial one."""
CLEARLY_BETTER = 0.15
"""Accuracy that another reading of the log must gain before it is worth a word."""
SAME = 1e-3
"""Relative distance below which a rule explains the server's step."""
CHILD_MEMORY = 2 << 30
CHILD_SECONDS = 60
MOST_SOLVED = 64
"""Participants up to which weights are solved for."""


@dataclass(frozen=True)
class ModelCurve:
    """The global model's quality along the run, rebuilt or as stored, on the log's own validation rows."""

    epochs: tuple[int, ...]
    """Ascending; 0 is the initial model."""
    loss: tuple[float | None, ...]
    accuracy: tuple[float | None, ...]
    """None where the model has no finite value."""

    def to_json(self) -> dict[str, Any]:
        """The curve as plain lists."""
        return {"epochs": list(self.epochs), "loss": list(self.loss), "accuracy": list(self.accuracy)}


@dataclass(frozen=True)
class LogMeaning:
    """The curve, where the log has a model and validation rows, and what speaks against reading the log as it is."""

    curve: ModelCurve | None
    warnings: tuple[Problem, ...]

    def to_json(self) -> dict[str, Any]:
        """The ``model`` part of ``flcontrib check --json``."""
        told = ModelCurve((), (), ()) if self.curve is None else self.curve
        return told.to_json() | {"warnings": [problem.to_json() for problem in self.warnings]}


def read_meaning(run: RunLog, evaluator: Evaluator | None = None) -> LogMeaning:
    """Rebuilds the global model through the run and looks for a reading that fits better."""
    usable = evaluator is not None or (run.model is not None and run.has_validation and run.classes is not None)
    if usable and evaluator is None:
        evaluator = evaluator_for(run, UTILITIES)
    walked = _Walked(run, evaluator)
    curve = walked.curve()
    problems = [*walked.length_warnings(), *walked.rule_warnings()]
    if curve is not None and evaluator is not None:
        problems += _learning_warnings(curve)
        problems += _other_readings(walked, evaluator, {p.code for p in problems})
        problems += _metric_warnings(run, curve)
    return LogMeaning(curve, tuple(problems))


def read_meaning_apart(path: Path, nonfinite: NonFinite = "refuse") -> LogMeaning | None:
    """The same for a log at a path, in a child with ceilings: its model is somebody else's.

    None for what is no log, or would cost more than the ceilings allow.
    """
    limits = ProcessLimits(memory_bytes=CHILD_MEMORY, cpu_seconds=CHILD_SECONDS, niceness=0)
    try:
        told = call_apart(f"{__name__}:_apart", {"path": str(path), "nonfinite": nonfinite}, limits)
    except CeilingReached:
        return None
    return None if told is None else decode(LogMeaning, told)


def _apart(argument: dict[str, Any], say: Callable[[Any], None]) -> Any:
    """The child's side of ``read_meaning_apart``."""
    run = read_run_log(Path(argument["path"]), nonfinite=argument["nonfinite"])
    if not isinstance(run, RunLog):
        return None
    return encode(LogMeaning, read_meaning(run))[0]


class _Walked:
    """One pass through the run: values on the way, and the end under other readings of the updates."""

    def __init__(self, run: RunLog, evaluator: Evaluator | None) -> None:
        self.run = run
        count = run.epoch_count
        self._epochs = sorted({*np.linspace(0, count, min(count, MOST_EPOCHS) + 1).round().astype(int).tolist()})
        self._values: list[FloatArray] = []
        self._alike: tuple[float, float] | None = None
        self._rules: dict[int, str] = {}
        initial = run.initial()
        self.end = initial
        self.negated = initial.astype(np.float64)
        self.as_models: Float32Array | None = None
        if evaluator is not None:
            self._values.append(evaluator.evaluate(initial[None])[0][0])
        with np.errstate(over="ignore", invalid="ignore"):
            for step in walk(run):
                self._take(step)
                if evaluator is not None and step.record.epoch in self._epochs:
                    self._values.append(evaluator.evaluate(step.end[None])[0][0])

    def _take(self, step: WalkStep) -> None:
        self.end = step.end
        if not step.record.participants:
            return
        updates = step.data.updates
        sizes = np.asarray(step.record.weights, dtype=np.float64)
        mean = (sizes / sizes.sum()) @ updates.astype(np.float64)
        self.negated -= mean
        self.as_models = mean.astype(np.float32)
        if self._alike is None:
            self._alike = _likeness(updates, step.start)
        if step.data.global_model is not None:
            rule = _rule(step, mean, updates)
            if rule is not None:
                self._rules[step.record.epoch] = rule

    def curve(self) -> ModelCurve | None:
        """The values on the way."""
        if not self._values:
            return None
        values = [[float(v) if np.isfinite(v) else None for v in series] for series in np.stack(self._values, axis=1)]
        return ModelCurve(tuple(self._epochs), tuple(values[0]), tuple(values[1]))

    def length_warnings(self) -> list[Problem]:
        """Updates as long as the model and along it are models."""
        if self._alike is None:
            return []
        ratio, cosine = self._alike
        if not (0.5 <= ratio <= 2.0 and cosine >= 0.5):
            return []
        found = f"updates {ratio:.2g} times as long as the model they start from, with a cosine of {cosine:.2f} to it"
        return [problem("W_UPDATE_MODEL", "first epoch", found)]

    def rule_warnings(self) -> list[Problem]:
        """What would make the updates add up to the stored server models."""
        counted = Counter(self._rules.values())
        problems = []
        for rule, times in counted.most_common(3):
            epochs = [epoch for epoch, named in self._rules.items() if named == rule]
            if rule == INITIAL_MODEL and times != len(self._rules):
                continue
            problems.append(problem("W_AGGREGATE_RULE", f"epochs {span(epochs)}", rule))
        return problems


INITIAL_MODEL = "the stored server model follows from another initial model than the log's"


def _likeness(updates: Float32Array, start: Float32Array) -> tuple[float, float]:
    """Median over clients: length beside the model's, cosine to the model."""
    model = float(np.linalg.norm(start))
    lengths = np.linalg.norm(updates, axis=1)
    if model == 0.0 or not np.isfinite(lengths).all():
        return 0.0, 0.0
    cosines = updates @ start / np.maximum(lengths * model, 1e-30)
    return float(np.median(lengths)) / model, float(np.median(cosines))


def _rule(step: WalkStep, mean: FloatArray, updates: Float32Array) -> str | None:
    """Which rule leads from the updates to the stored server model, where the weighted mean does not?"""
    assert step.data.global_model is not None
    server = step.data.global_model.astype(np.float64)
    moved = server - step.start
    size = float(np.linalg.norm(moved))

    def fits(guess: FloatArray, target: FloatArray) -> bool:
        return float(np.linalg.norm(guess - target)) <= SAME * max(float(np.linalg.norm(target)), 1e-12)

    if size == 0.0 or fits(mean, moved):
        return None
    if fits(-mean, moved):
        return "the updates have the wrong sign: taken away from the model, they give the stored one"
    if fits(mean, server):
        return "the updates are models: their mean is the stored server model"
    if fits(updates.mean(axis=0, dtype=np.float64), moved):
        return "the clients count equally, whatever their data sizes"
    length = float(np.linalg.norm(mean))
    along = float(mean @ moved) / max(length * size, 1e-30)
    if along > 1 - SAME:
        return f"the server goes {size / length:.3g} times the weighted mean (a learning rate of the server)"
    if len(updates) <= MOST_SOLVED and len(updates) < updates.shape[1]:
        wide = updates.astype(np.float64)
        weights = np.linalg.lstsq(wide @ wide.T, wide @ moved, rcond=None)[0]
        if fits(weights @ wide, moved) and weights.min() > -SAME:
            return "other weights than the data sizes: the stored server model is another weighted sum of the updates"
    return INITIAL_MODEL if step.record.epoch == 1 else None


def _learning_warnings(curve: ModelCurve) -> list[Problem]:
    first, late = curve.loss[0], [v for v in curve.loss[-max(1, len(curve.loss) // 4) :] if v is not None]
    if first is None or len(curve.epochs) < 3:
        return []
    if late and min(late) < LEARNS_BELOW * first:
        return []
    ended = f"{late[-1]:.3g}" if late else "no finite value"
    found = f"a validation loss of {first:.3g} at the start and {ended} at the end"
    return [problem("W_NO_LEARNING", "global model", found)]


def _other_readings(walked: _Walked, evaluator: Evaluator, known: set[str]) -> list[Problem]:
    """The reading of the same log under which its last model is best, where that is clearly better."""
    as_is = evaluator.evaluate(walked.end[None])[0][0]
    tried: list[tuple[str, str, float, float]] = []
    if not walked.run.epochs[-1].has_global:
        for code, model in (("W_UPDATE_SIGN", walked.negated.astype(np.float32)), ("W_UPDATE_MODEL", walked.as_models)):
            if model is not None and code not in known:
                tried.append((code, "when it is read so", *evaluator.evaluate(model[None])[0][0]))
    for code, words, validation in _other_rows(evaluator):
        tried.append((code, words, *_with_rows(walked.run, validation).evaluate(walked.end[None])[0][0]))
    known_loss = as_is[0] if np.isfinite(as_is[0]) else np.inf
    better = [t for t in tried if t[3] >= as_is[1] + CLEARLY_BETTER and t[2] < known_loss]
    if not better:
        return []
    code, words, _, accuracy = max(better, key=lambda t: t[3])
    found = f"an accuracy of {as_is[1]:.2f} as the log is, and of {accuracy:.2f} {words}"
    return [problem(code, "global model, last epoch", found)]


def _other_rows(evaluator: Evaluator) -> list[tuple[str, str, Validation]]:
    """The validation set with shifted labels, and with inputs of another scale."""
    rows, classes = evaluator.validation, max(evaluator.classes, 2)
    variants = [
        ("W_LABEL_SHIFT", f"with labels counted {shift:+d}", replace(rows, y=(rows.y + shift) % classes))
        for shift in (1, -1)
    ]
    largest = float(np.abs(rows.x).max(initial=0.0)) if rows.x.dtype.kind == "f" else 0.0
    if largest > 2.0:
        scaled = replace(rows, x=(rows.x / largest).astype(np.float32))
        variants.append(("W_INPUT_SCALE", f"with inputs divided by {largest:g}", scaled))
    elif 0.0 < largest <= 1.0:
        for factor in (16.0, 255.0):
            words = f"with inputs multiplied by {factor:g}"
            variants.append(("W_INPUT_SCALE", words, replace(rows, x=(rows.x * np.float32(factor)))))
    return variants


def _with_rows(run: RunLog, validation: Validation) -> Evaluator:
    from flcontrib_core.games.architecture import Architecture

    assert run.model is not None
    assert run.classes is not None
    return Evaluator(Architecture.from_spec(run.model, run.parameters, run.classes), validation, UTILITIES)


def _metric_warnings(run: RunLog, curve: ModelCurve) -> list[Problem]:
    """Accuracies that the framework measured and the rebuilt model has not."""
    at = dict(zip(curve.epochs, curve.accuracy, strict=True))
    for name in ("server/accuracy", "accuracy", "evaluate/accuracy"):
        pairs = [(e.epoch, e.metrics[name], at.get(e.epoch)) for e in run.epochs if name in e.metrics]
        far = [(epoch, told, own) for epoch, told, own in pairs if own is not None and abs(told - own) > CLEARLY_BETTER]
        if len(pairs) >= 3 and 2 * len(far) > len(pairs):
            epoch, told, own = far[-1]
            found = f"{name} {told:.2f} in epoch {epoch}, where the rebuilt model has {own:.2f} (in {len(far)} epochs)"
            return [problem("W_METRICS", f"metric {name}", found)]
    return []
