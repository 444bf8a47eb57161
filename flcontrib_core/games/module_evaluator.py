"""An evaluator around a live ``nn.Module``, for logs without a declared model.

The module is trusted code of the caller's and may do whatever torch can.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from flcontrib_core.errors import SettingsError
from flcontrib_core.games.devices import numbers_per_row, resolve_device, rows_that_fit
from flcontrib_core.games.evaluator import Evaluator, validation_input
from flcontrib_core.games.mixtures import on_boundary
from flcontrib_core.games.one_by_one import OneByOneExecutor, rows_at_once
from flcontrib_core.games.task_reader import OwnMetrics
from flcontrib_core.games.utilities import DEFAULT_UTILITIES
from flcontrib_core.runs.run_log import ParameterSpec, Validation
from flcontrib_core.runs.tasks import CLASSIFICATION, TARGETS
from flcontrib_core.runs.trace import parameters_of


class ModuleEvaluator(Evaluator):
    """Utilities of the sub-models of ``module`` on ``data``: pass it as ``evaluator=``.

    ``data`` is a loader of ``(x, y)`` batches, a pair of arrays or tensors, or a log's ``Validation``. Integer inputs
    (token ids) stay integers. The module is copied and put into evaluation mode; parameters are laid out as every
    floating entry of its state dict, BatchNorm's means and variances included. Where a log has only some of them (an
    adapter, a shared part), the others stay as the module has them. ``device`` is torch's, e.g. "cuda".

    ``task``: 'classification', 'regression', 'multi-label', 'segmentation', 'language', or any other word where all
    metrics are your own. ``metrics``: names of the task's, or your own beside all of these, each with its direction:
    ``{"hd95": (hd95, "lower")}``, a function of all outputs and all targets as tensors. ``groups``: (rows,) numbers
    that say which rows belong together; the detector looks at the worst group beside the worst class or label.

    Nothing it evaluates is kept for another day: two modules can have the same parameters and mean something else.
    With several workers the module's class, and functions of your own, must be importable there.
    """

    cacheable = False
    threads = False
    """A module is handed its parameters in place; two threads would hand each other's."""

    def __init__(
        self,
        module: nn.Module,
        data: Validation | tuple[Any, Any] | Iterable[Sequence[Any]],
        metrics: Sequence[str] | OwnMetrics | None = None,
        *,
        task: str = CLASSIFICATION,
        groups: Any | None = None,
        device: str = "cpu",
    ) -> None:
        own = metrics if isinstance(metrics, Mapping) else {}
        names = DEFAULT_UTILITIES if own or metrics is None else tuple(cast(Sequence[str], metrics))
        validation = validation_of(data, task, groups)
        device = resolve_device(device)
        model = copy.deepcopy(module).to(device).eval()
        self.parameters = tuple(parameters_of(model))
        x = validation_input(validation, device)
        with torch.inference_mode():
            logits = model(x[:2])
        if len(logits) != len(x[:2]) or (task == CLASSIFICATION and logits.ndim != 2):
            raise SettingsError(
                f"the module gives an output of shape {list(logits.shape)} for {len(x[:2])} rows; "
                "it should give logits of shape (rows, classes), or name its task"
            )
        reduce = self._read_by(task, names, logits.shape[1:], validation, own, device)
        self.row_groups = validation.group if groups is not None else None
        count = sum(p.count for p in self.parameters)
        images = x.ndim == 4 and x.is_floating_point()
        self._executor = OneByOneExecutor(
            bind=Binding(model, self.parameters),
            x=x,
            classes=self.classes,
            parameter_count=count,
            # Unknown operations: each parameter is taken to be used once per row (once per pixel for images).
            forward_multiply_adds=float(count) * len(x) * (x.shape[2] * x.shape[3] if images else 1),
            rows=rows_that_fit(numbers_per_row(model, x[:1]), len(x), rows_at_once(images), x.device),
            channels_last=images and _takes_channels_last(model, x[:2]),
            reduce=reduce,
        )
        self._module_name = type(module).__name__
        self._bind = Binding(model, self.parameters)
        self.parameter_count = count

    def for_parameters(self, parameters: Sequence[ParameterSpec]) -> ModuleEvaluator:
        """The same module for a log that holds some of its parameters; the others stay as they are."""
        asked = tuple(parameters)
        if self.parameters is None or asked == self.parameters or not set(asked) <= set(self.parameters):
            return self
        narrowed = copy.copy(self)
        narrowed.parameters = asked
        narrowed.parameter_count = sum(p.count for p in asked)
        narrowed._bind = Binding(cast(Binding, self._bind).model, asked)
        narrowed._executor = cast(OneByOneExecutor, self._executor).bound_to(narrowed._bind, narrowed.parameter_count)
        return narrowed

    def recipe(self) -> dict[str, Any]:
        """What the bits of a result depend on, and that the model was not the log's."""
        return {**super().recipe(), "module": self._module_name}


class Binding:
    """A module as a function of a batch, with the parameters of a flat vector."""

    def __init__(self, model: nn.Module, parameters: Sequence[ParameterSpec]) -> None:
        self.model, self.parameters = model, parameters

    def __call__(self, vector: Tensor, memory_format: torch.memory_format | None = None) -> Callable[[Tensor], Tensor]:
        named: dict[str, Tensor] = {}
        position = 0
        for parameter in self.parameters:
            view = vector[position : position + parameter.count].view(parameter.shape)
            if memory_format is not None and view.ndim == 4:
                view = view.contiguous(memory_format=memory_format)
            named[parameter.name] = on_boundary(view)
            position += parameter.count
        # Weights that the module shares stand twice in the vector, with equal numbers: each name gets its own.
        return lambda batch: torch.func.functional_call(self.model, named, (batch,), tie_weights=False)


def validation_of(
    data: Validation | tuple[Any, Any] | Iterable[Sequence[Any]], task: str = CLASSIFICATION, groups: Any | None = None
) -> Validation:
    """Validation rows and targets from a loader of (x, y) batches or a pair of arrays."""
    if isinstance(data, Validation):
        return data if groups is None else replace(data, group=_array(groups).astype(np.int64))
    pair = isinstance(data, tuple) and len(data) == 2 and all(hasattr(part, "__array__") for part in data)
    batches: list[Any] = [data] if pair else list(data)
    if not batches or any(not isinstance(batch, tuple | list) or len(batch) < 2 for batch in batches):
        raise SettingsError("the validation data has no (x, y) batches; give a loader of them or a pair of arrays")
    x, y = (np.concatenate([_array(batch[part]) for batch in batches]) for part in (0, 1))
    if len(x) != len(y) or (task == CLASSIFICATION and y.ndim != 1):
        raise SettingsError(
            f"validation inputs of shape {x.shape} and targets of shape {y.shape}; give one label a row, or name the "
            f"task: {', '.join(TARGETS)}"
        )
    group = None if groups is None else _array(groups).astype(np.int64)
    if group is not None and group.shape != (len(y),):
        raise SettingsError(f"groups of shape {group.shape} for {len(y)} rows; give one number a row")
    whole = task == CLASSIFICATION or y.dtype.kind != "f"
    return Validation(x, y.astype(np.int64 if whole else np.float32), group)


def _array(part: Any) -> np.ndarray:
    return part.detach().cpu().numpy() if isinstance(part, Tensor) else np.asarray(part)


def _takes_channels_last(model: nn.Module, images: Tensor) -> bool:
    """Some modules look at the memory of their values (``view``) and refuse the faster layout."""
    try:
        with torch.inference_mode():
            model(images.contiguous(memory_format=torch.channels_last))
    except RuntimeError:
        return False
    return True
