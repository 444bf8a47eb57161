"""An evaluator around a function of the caller's own: any framework, any metric.

The function gets a sub-model's parameters by name and gives numbers back; what it does in between is its own affair.
Nothing but those numbers is seen, so values come from exact enumeration or from the surrogate of utilities.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.games.evaluator import Evaluator
from flcontrib_core.games.mixtures import Mixture, as_tensor
from flcontrib_core.games.task_reader import FirstAnswers, one_number
from flcontrib_core.runs.run_log import ParameterSpec
from flcontrib_core.vocabulary import Float32Array, FloatArray, LogitTensor, UtilityMatrix

Evaluate = Callable[[dict[str, Float32Array]], Mapping[str, float]]
"""A sub-model's parameters by name -> its metrics."""
_DIRECTIONS = {"higher": False, "lower": True}


class FunctionEvaluator(Evaluator):
    """Utilities of sub-models as ``evaluate(state_dict)`` tells them: pass it as ``evaluator=``.

    ``state_dict`` maps the log's parameter names to float32 arrays of their shapes; the answer maps metric names to
    numbers. ``metrics`` names the metrics and says which way each is better, the first one being the loss's
    counterpart in detection: ``FunctionEvaluator(evaluate, {"dice": "higher", "hd95": "lower"})``.

    Nothing it evaluates is kept for another day: the same parameters can mean something else tomorrow.
    """

    cacheable = False
    threads = False
    has_logits = False
    classifies = False
    _losses = None
    models_at_once = 1

    def __init__(self, evaluate: Evaluate, metrics: Mapping[str, str], *, validation_rows: int = 0) -> None:
        wrong = {name: way for name, way in metrics.items() if way not in _DIRECTIONS}
        if not metrics or wrong:
            raise SettingsError(
                f"metrics {wrong or dict(metrics)!r}: name at least one and say which way is better, e.g. "
                '{"dice": "higher", "hd95": "lower"}'
            )
        self._evaluate = evaluate
        self._directions = {name: _DIRECTIONS[way] for name, way in metrics.items()}
        self._rows = validation_rows
        self._first = FirstAnswers(tuple(metrics))
        self._device = "cpu"

    def for_parameters(self, parameters: Sequence[ParameterSpec]) -> FunctionEvaluator:
        """The same function for a log whose flat vector is laid out like this."""
        bound = copy.copy(self)
        bound.parameters = tuple(parameters)
        bound.parameter_count = sum(spec.count for spec in parameters)
        return bound

    @property
    def utilities(self) -> tuple[str, ...]:
        return tuple(self._directions)

    @property
    def lower_is_better(self) -> frozenset[str]:
        return frozenset(name for name, lower in self._directions.items() if lower)

    @property
    def validation_rows(self) -> int:
        return self._rows

    def evaluate(self, parameters: Float32Array) -> tuple[UtilityMatrix, LogitTensor]:
        values = [self._values_of(np.array(vector, dtype=np.float32)) for vector in parameters]
        return np.array(values).reshape(len(parameters), len(self.utilities)), _no_logits(len(parameters))

    def loss_gradient(self, vector: Float32Array) -> FloatArray:
        """Refused: nothing is known of the function but its answers."""
        raise MissingPart("a function's gradient cannot be taken; use another estimator than gradient, e.g. auto")

    @property
    def smooth_utility(self) -> str:
        """None that anything is known of."""
        return ""

    def mixture(self, base: Float32Array, updates: Float32Array) -> Mixture:
        return Mixture(as_tensor(np.asarray(base, np.float32)), as_tensor(np.asarray(updates, np.float32)))

    def evaluate_mixture(
        self, mixture: Mixture, weights: FloatArray, keep_logits: bool = False
    ) -> tuple[UtilityMatrix, LogitTensor | None]:
        values = np.empty((len(weights), len(self.utilities)))
        for row, of_one in enumerate(np.asarray(weights, dtype=np.float32)):
            vector = mixture.base.numpy().copy()
            for weight, update in zip(of_one, mixture.updates.numpy(), strict=True):
                if weight:
                    vector += weight * update
            values[row] = self._values_of(vector)
        return values, None

    def values_of_logits(self, logits: LogitTensor) -> UtilityMatrix:
        raise LookupError("an own function gives numbers, not outputs")

    def multiply_adds(self, players: int) -> None:  # type: ignore[override]
        """Nobody knows what the function costs."""
        return None

    def recipe(self) -> dict[str, Any]:
        return {"executor": "own function", "function": getattr(self._evaluate, "__qualname__", "callable")}

    def _values_of(self, vector: Float32Array) -> list[float]:
        state: dict[str, Float32Array] = {}
        position = 0
        for spec in self.parameters or ():
            state[spec.name] = vector[position : position + spec.count].reshape(spec.shape)
            position += spec.count
        answer = self._evaluate(state)
        if not isinstance(answer, Mapping):
            raise SettingsError(f"the function gave {answer!r:.80}; give the metrics by name, as in {{'dice': 0.91}}")
        missing = [name for name in self.utilities if name not in answer]
        if missing:
            raise SettingsError(f"the function gave {sorted(answer)}, but not {', '.join(missing)}")
        values = [one_number(name, answer[name]) for name in self.utilities]
        self._first.look_at(values)
        # A model without a finite metric has none at all, as one without finite logits.
        return values if all(math.isfinite(value) for value in values) else [math.nan] * len(values)


def _no_logits(models: int) -> LogitTensor:
    return np.empty((models, 0, 0), dtype=np.float32)
