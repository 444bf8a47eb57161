"""An evaluator around a live module whose targets are not one class per row: regression, labels, pixels, tokens."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flcontrib_core.errors import SettingsError
from flcontrib_core.games.evaluator import one_thread
from flcontrib_core.games.function_evaluator import FunctionEvaluator
from flcontrib_core.games.mixtures import Mixture
from flcontrib_core.games.module_evaluator import Binding, on_device
from flcontrib_core.games.task_metrics import TASKS, Metric
from flcontrib_core.runs.run_log import ParameterSpec
from flcontrib_core.runs.trace import parameters_of
from flcontrib_core.vocabulary import Float32Array, FloatArray


class TaskEvaluator(FunctionEvaluator):
    """Metrics of the sub-models of ``module`` on ``data``, for a task that is not classification.

    ``task``: 'regression', 'multi-label', 'segmentation' or 'language'. ``data`` is a loader of ``(x, y)`` batches or a
    pair of arrays; integer inputs stay integers. ``metrics`` adds own ones: name -> (function of all outputs and all
    targets as tensors, 'higher' or 'lower'). The first metric is the loss's counterpart in detection.
    """

    def __init__(
        self,
        module: nn.Module,
        data: tuple[Any, Any] | Iterable[Sequence[Any]],
        task: str,
        metrics: Mapping[str, tuple[Metric, str]] | None = None,
        *,
        device: str = "cpu",
    ) -> None:
        if task not in TASKS:
            raise SettingsError(f"task {task!r} is unknown; use one of {', '.join(TASKS)}, or an own function")
        self.task = TASKS[task]
        self._metrics = {**self.task.metrics, **(metrics or {})}
        self._batches = [(_tensor(x, device), _tensor(y, "cpu")) for x, y in _batches(data)]
        self._targets = torch.cat([y for _, y in self._batches])
        super().__init__(
            _never_called, {n: way for n, (_, way) in self._metrics.items()}, validation_rows=len(self._targets)
        )
        model = on_device(copy.deepcopy(module), device).eval()
        self.parameters = tuple(parameters_of(model))
        self.parameter_count = sum(spec.count for spec in self.parameters)
        self._binding = Binding(model, self.parameters)
        self._named = (type(module).__name__, task, device)

    def for_parameters(self, parameters: Sequence[ParameterSpec]) -> TaskEvaluator:
        """Itself: the module says how the vector is laid out, and a log that does not fit is refused."""
        return self

    def recipe(self) -> dict[str, Any]:
        """What the numbers depend on besides the module and its data."""
        name, task, device = self._named
        return {"executor": "live module", "module": name, "task": task, "device": device, "torch": torch.__version__}

    def solo_changes(self, mixture: Mixture) -> tuple[FloatArray, FloatArray]:
        """(n,) mean rise of a row's loss by each update alone, and (n,) the largest rise of a group's loss or NaN."""
        before = self._outputs(mixture.base.numpy())
        rows, groups = self.task.row_losses(before, self._targets), self._groups(before)
        rises, worst = np.empty(mixture.players), np.full(mixture.players, np.nan)
        for player, update in enumerate(mixture.updates):
            outputs = self._outputs((mixture.base + update).numpy())
            rises[player] = float((self.task.row_losses(outputs, self._targets) - rows).mean())
            if groups is not None:
                worst[player] = np.nanmax((self._groups(outputs) - groups).numpy())  # type: ignore[operator]
        return rises, worst

    def _groups(self, outputs: Tensor) -> Tensor | None:
        return None if self.task.group_losses is None else self.task.group_losses(outputs, self._targets)

    def _outputs(self, vector: Float32Array) -> Tensor:
        with one_thread(), torch.inference_mode():
            model = self._binding(torch.from_numpy(vector).to(self._named[2]))
            return torch.cat([model(x).cpu() for x, _ in self._batches])

    def _values_of(self, vector: Float32Array) -> list[float]:
        outputs = self._outputs(vector)
        if not bool(torch.isfinite(outputs).all()):
            return [float("nan")] * len(self._metrics)
        return [float(metric(outputs, self._targets)) for metric, _ in self._metrics.values()]


def _never_called(state: dict[str, Float32Array]) -> dict[str, float]:
    raise LookupError("a task evaluator runs its module")


def _batches(data: tuple[Any, Any] | Iterable[Sequence[Any]]) -> list[tuple[Any, Any]]:
    pair = isinstance(data, tuple) and len(data) == 2 and all(hasattr(part, "__array__") for part in data)
    batches: list[Any] = [data] if pair else list(data)
    if not batches or any(len(batch) < 2 for batch in batches):
        raise SettingsError("the validation data has no (x, y) batches; give a loader of them or a pair of arrays")
    return [(batch[0], batch[1]) for batch in batches]


def _tensor(part: Any, device: str) -> Tensor:
    tensor = part if isinstance(part, Tensor) else torch.from_numpy(np.asarray(part))
    return (tensor.float() if tensor.is_floating_point() else tensor).detach().to(device)
