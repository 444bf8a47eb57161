"""What a log's numbers mean: the rebuilt global model epoch by epoch, and warnings where they mean something else.

A log may be sound to the byte and still lie by mistake: models in place of updates, a wrong sign, shifted labels,
inputs of another scale. The rebuilt model shows it, because it does not learn; and what would mend it is tried out: a
warning names the reading under which the same log has a better model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flcontrib_core.codec import decode, encode
from flcontrib_core.errors import Problem
from flcontrib_core.execution.apart import CeilingReached, call_apart
from flcontrib_core.execution.limits import ProcessLimits
from flcontrib_core.history.input_scale import PROPORTIONATE, normalises_batches, scale_of_inputs
from flcontrib_core.history.step_checks import INITIAL_MODEL, UNEXPLAINED, likeness, rule, slope
from flcontrib_core.history.trajectory import WalkStep, evaluator_for, walk
from flcontrib_core.history.updates_only import lacking_part
from flcontrib_core.runs.bundle import is_table, read_run_log
from flcontrib_core.runs.bundle_reader import NonFinite
from flcontrib_core.runs.mapped import LARGE
from flcontrib_core.runs.problems import epochs_named, problem
from flcontrib_core.runs.run_log import RunLog, Validation
from flcontrib_core.runs.tasks import CLASSIFICATION, TARGETS
from flcontrib_core.vocabulary import Float32Array, FloatArray, IntArray

if TYPE_CHECKING:
    from flcontrib_core.games.evaluator import Evaluator

UTILITIES = ("loss", "accuracy")
METRICS = ("server/accuracy", "accuracy", "evaluate/accuracy")
"""Recorded under these names, a metric is compared with the rebuilt model's."""
MOST_EPOCHS = 60
"""Epochs that are evaluated; of longer runs evenly spaced ones, the first and the last among them."""
LEARNS_BELOW = 0.98
"""A model has learned when its loss fell below this share of the initial one."""
CLEARLY_BETTER = 0.15
"""Accuracy that another reading of the log must gain before it is worth a word."""
CHILD_MEMORY = 2 << 30
CHILD_SECONDS = 20
MOST_WORK = 1.5e10
"""Multiply-adds that a check spends on somebody else's model; a number written counts as ten of them."""
FEWEST_ROWS = 32
"""Validation rows below which nothing can be told, and more epochs are left out instead."""
OTHER_READINGS = 8
"""Evaluations beside those on the way, about."""
AGREEING, DOWNHILL = 0.2, 0.12
"""Cosine among clients from which they agree, and to the way down from which they go it; noise does neither."""
OVERCONFIDENT = 0.5
"""Of its loss, which must be above that of a guess, another scale of the inputs must leave, to be worth a word."""


@dataclass(frozen=True)
class ModelCurve:
    """The global model's quality along the run, rebuilt or as stored, on the log's own validation rows."""

    epochs: tuple[int, ...]
    """Ascending; 0 is the initial model."""
    loss: tuple[float | None, ...]
    accuracy: tuple[float | None, ...]
    """None where the model has no finite value."""
    names: tuple[str, str] = UTILITIES
    """What the two are: another task has its first metric in place of the loss, and its last one beside it."""

    def to_json(self) -> dict[str, Any]:
        """The curve as plain lists."""
        return {"epochs": list(self.epochs), self.names[0]: list(self.loss), self.names[1]: list(self.accuracy)}


@dataclass(frozen=True)
class LogMeaning:
    """The curve, where the log has a model and validation rows, and what speaks against reading the log as it is."""

    curve: ModelCurve | None
    warnings: tuple[Problem, ...]

    def to_json(self) -> dict[str, Any]:
        """The ``model`` part of ``flcontrib check --json``."""
        curve = ModelCurve((), (), ()) if self.curve is None else self.curve
        return curve.to_json() | {"warnings": [problem.to_json() for problem in self.warnings]}


def read_meaning(run: RunLog, evaluator: Evaluator | None = None, most_work: float | None = None) -> LogMeaning:
    """Rebuilds the global model through the run and looks for a reading that fits better.

    ``most_work``: multiply-adds to spend at most; rows and epochs are left out evenly for it, which is a warning.
    """
    usable = lacking_part(run) is None and (run.classes is not None or run.task != CLASSIFICATION)
    names = UTILITIES
    if run.task in TARGETS and run.task != CLASSIFICATION:
        first, *_, last = TARGETS[run.task].metrics
        names = (first, last)
    problems: list[Problem] = []
    most_epochs = MOST_EPOCHS
    if usable and evaluator is None:
        rows, most_epochs, problems = _affordable(run, most_work)
        evaluator = evaluator_for(run, names, rows) if most_epochs else None
    walked = _Walked(run, evaluator, names, most_epochs)
    curve = walked.curve()
    problems += [*walked.length_warnings(), *walked.rule_warnings()]
    if curve is not None and evaluator is not None:
        problems += _learning_warnings(curve)
        if run.task == CLASSIFICATION and not walked.large:
            problems += [*walked.slope_warnings(), *walked.scale_warnings()]
            problems += _other_readings(walked, evaluator, {p.code for p in problems})
            problems += _metric_warnings(run, curve)
    return LogMeaning(curve, tuple(problems))


def _affordable(run: RunLog, most_work: float | None) -> tuple[IntArray | None, int, list[Problem]]:
    """Which validation rows (None: all) and how many epochs are evaluated, and a word where they are not all."""
    if most_work is None:
        return None, MOST_EPOCHS, []
    from flcontrib_core.games.architecture import Architecture

    validation = run.validation()
    assert run.model is not None
    assert validation is not None
    whole, count = len(validation.y), min(run.epoch_count, MOST_EPOCHS)
    classes = run.classes if run.task == CLASSIFICATION else None
    model = Architecture.from_spec(run.model, run.parameters, classes, run.frozen)
    each = model.multiply_adds_per_row + 10.0 * model.numbers_per_row
    for epochs in (count, min(count, 12), min(count, 2)):
        rows = int(min(whole, most_work / (each * (epochs + OTHER_READINGS))))
        if rows >= min(FEWEST_ROWS, whole):
            break
    else:
        found = f"{each:.2g} multiply-adds for a validation row: the global model was not evaluated"
        return None, 0, [problem("W_MODEL_COST", "model.json", found)]
    if rows == whole and epochs == count:
        return None, MOST_EPOCHS, []
    dear = f"{each:.2g} multiply-adds for each of {whole} validation rows"
    found = f"{dear}: the curve rests on {rows} rows and {epochs} epochs"
    picked = np.linspace(0, whole - 1, rows).round().astype(np.int64)
    return picked, epochs, [problem("W_MODEL_COST", "model.json", found)]


def read_meaning_apart(path: Path, nonfinite: NonFinite = "refuse") -> LogMeaning | None:
    """The same for a log at a path, in a child with ceilings: its model is somebody else's.

    None for a table, which has no model to rebuild: reading it a second time would cost as much as the first.
    """
    if is_table(path):
        return None
    if find_spec("torch") is None:  # the child would only say that it ended
        raise ModuleNotFoundError("a model is rebuilt with torch", name="torch")
    limits = ProcessLimits(memory_bytes=CHILD_MEMORY, cpu_seconds=CHILD_SECONDS, niceness=0)
    try:
        answer = call_apart(f"{__name__}:_apart", {"path": str(path), "nonfinite": nonfinite}, limits)
    except CeilingReached as reached:
        found = f"more {reached.what} than a check may take: the global model was not evaluated"
        return LogMeaning(None, (problem("W_MODEL_COST", "model.json", found),))
    return decode(LogMeaning, answer)


def _apart(argument: dict[str, Any], say: Callable[[Any], None]) -> Any:
    """The child's side of ``read_meaning_apart``."""
    run = read_run_log(Path(argument["path"]), nonfinite=argument["nonfinite"])
    assert isinstance(run, RunLog)
    return encode(LogMeaning, read_meaning(run, most_work=MOST_WORK))[0]


class _Walked:
    """One pass through the run: values on the way, and the end under other readings of the updates."""

    def __init__(
        self,
        run: RunLog,
        evaluator: Evaluator | None,
        names: tuple[str, str] = UTILITIES,
        most_epochs: int = MOST_EPOCHS,
    ) -> None:
        self.run, self._names = run, names
        count = run.epoch_count
        self._epochs = sorted({*np.linspace(0, count, min(count, most_epochs) + 1).round().astype(int).tolist()})
        self._values: list[FloatArray] = []
        self._alike: tuple[float, float] | None = None
        self._slope: tuple[float, float] | None = None
        self._scale: float | None = None
        self._rules: dict[int, str] = {}
        self._with_global = 0
        initial = run.initial()
        self.end = initial
        self.large = initial.nbytes >= LARGE
        """Other readings of such a log would take several models more of memory: only the curve is read."""
        self.negated = np.zeros(0) if self.large else initial.astype(np.float64)
        self.as_models: Float32Array | None = None
        if evaluator is not None:
            self._values.append(evaluator.evaluate(initial[None])[0][0])
        with np.errstate(over="ignore", invalid="ignore"):
            for step in walk(run):
                first = self._alike is None and len(step.record.participants) > 1 and not self.large
                if first and evaluator is not None and evaluator.classifies:
                    gradient = evaluator.loss_gradient(step.start)
                    self._slope = slope(step, -gradient)
                    self._scale = scale_of_inputs(run, step, gradient)
                self._take(step)
                if evaluator is not None and step.record.epoch in self._epochs:
                    self._values.append(evaluator.evaluate(step.end[None])[0][0])

    def _take(self, step: WalkStep) -> None:
        self.end = step.end
        if not step.record.participants or self.large:
            return
        updates = step.data.updates
        sizes = np.asarray(step.record.weights, dtype=np.float64)
        mean = (sizes / sizes.sum()) @ updates.astype(np.float64)
        self.negated -= mean
        self.as_models = mean.astype(np.float32)
        if self._alike is None:
            self._alike = likeness(updates, step.start)
        if step.data.global_model is not None:
            self._with_global += 1
            found = rule(step, mean, updates)
            if found is not None:
                self._rules[step.record.epoch] = found

    def curve(self) -> ModelCurve | None:
        """The values on the way."""
        if not self._values:
            return None
        values = [[float(v) if np.isfinite(v) else None for v in series] for series in np.stack(self._values, axis=1)]
        return ModelCurve(tuple(self._epochs), tuple(values[0]), tuple(values[1]), self._names)

    def length_warnings(self) -> list[Problem]:
        """Updates as long as the model and along it are models."""
        if self._alike is None:
            return []
        ratio, cosine = self._alike
        if not (0.5 <= ratio <= 2.0 and cosine >= 0.5):
            return []
        found = f"updates {ratio:.2g} times as long as the model they start from, with a cosine of {cosine:.2f} to it"
        return [problem("W_UPDATE_MODEL", "first epoch", found)]

    def slope_warnings(self) -> list[Problem]:
        """Clients who agree about the way down, where the validation rows see none, trained on something else."""
        if self._slope is None or normalises_batches(self.run):
            return []
        down, agree = self._slope
        if agree < AGREEING or down >= DOWNHILL:
            return []
        found = f"a cosine of {down:.2f} between the first epoch's updates and the slope of the validation loss at the"
        found += f" initial model, while the clients' own cosine is {agree:.2f}"
        return [problem("W_SLOPE", "first epoch", found)]

    def scale_warnings(self) -> list[Problem]:
        """Validation inputs of another scale than those that the first updates come from."""
        if self._scale is None or 1 / PROPORTIONATE <= self._scale <= PROPORTIONATE:
            return []
        found = f"validation inputs about {self._scale:.2g} times as large as those that the first layer was moved by"
        return [problem("W_INPUT_SCALE", "first epoch", found)]

    def rule_warnings(self) -> list[Problem]:
        """What would make the updates add up to the stored server models."""
        rules = {epoch: rule for epoch, rule in self._rules.items() if rule is not UNEXPLAINED}
        if list(self._rules.items()) == [(1, UNEXPLAINED)] and self._with_global > 1:
            rules = {1: INITIAL_MODEL}  # what follows the first stored model adds up: it alone has another start
        problems = []
        for named, _ in Counter(rules.values()).most_common(3):
            epochs = [epoch for epoch, own in rules.items() if own == named]
            problems.append(problem("W_AGGREGATE_RULE", epochs_named(epochs), named))
        return problems


def _learning_warnings(curve: ModelCurve) -> list[Problem]:
    first, late = curve.loss[0], [v for v in curve.loss[-max(1, len(curve.loss) // 4) :] if v is not None]
    if first is None or len(curve.epochs) < 3:
        return []
    if late and min(late) < LEARNS_BELOW * first:
        return []
    ended = f"{late[-1]:.3g}" if late else "no finite value"
    found = f"a validation {curve.names[0]} of {first:.3g} at the start and {ended} at the end"
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
        if code in known:
            continue
        tried.append((code, words, *_with_rows(walked.run, validation).evaluate(walked.end[None])[0][0]))
    known_loss = as_is[0] if np.isfinite(as_is[0]) else np.inf
    better = [t for t in tried if t[3] >= as_is[1] + CLEARLY_BETTER and t[2] < known_loss]
    if known_loss > np.log(max(evaluator.classes, 2)):
        better += [
            t for t in tried if t[0] == "W_INPUT_SCALE" and t[3] >= as_is[1] and t[2] < OVERCONFIDENT * known_loss
        ]
    if not better:
        return []
    code, words, loss, accuracy = max(better, key=lambda t: t[3])
    found = f"an accuracy of {as_is[1]:.2f} (loss {as_is[0]:.2g}) as the log is, of {accuracy:.2f} ({loss:.2g}) {words}"
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
    from flcontrib_core.games.evaluator import Evaluator

    assert run.model is not None
    assert run.classes is not None
    return Evaluator(Architecture.from_spec(run.model, run.parameters, run.classes, run.frozen), validation, UTILITIES)


def _metric_warnings(run: RunLog, curve: ModelCurve) -> list[Problem]:
    """Accuracies that the framework measured and the rebuilt model has not."""
    at = dict(zip(curve.epochs, curve.accuracy, strict=True))
    for name in METRICS:
        pairs = [(e.epoch, e.metrics[name], at.get(e.epoch)) for e in run.epochs if name in e.metrics]
        far = [(e, its, own) for e, its, own in pairs if own is not None and abs(its - own) > CLEARLY_BETTER]
        if len(pairs) >= 3 and 2 * len(far) > len(pairs):
            epoch, its, own = far[-1]
            found = f"{name} {its:.2f} in epoch {epoch}, where the rebuilt model has {own:.2f} (in {len(far)} epochs)"
            return [problem("W_METRICS", f"metric {name}", found)]
    return []
