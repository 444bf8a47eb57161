"""An evaluator around a live ``nn.Module``, for logs without a declared model.

The module is trusted code of the caller's and may do whatever torch can.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flcontrib_core.errors import SettingsError
from flcontrib_core.games.evaluator import Evaluator, validation_input
from flcontrib_core.games.one_by_one import OneByOneExecutor, rows_at_once
from flcontrib_core.runs.run_log import ParameterSpec, Validation
from flcontrib_core.runs.trace import parameters_of


class ModuleEvaluator(Evaluator):
    """Utilities of the sub-models of ``module`` on ``data``: pass it as ``evaluator=``.

    ``data`` is a loader of ``(x, y)`` batches, a pair of arrays or tensors, or a log's ``Validation``. Integer inputs
    (token ids) stay integers. The module is copied and put into evaluation mode; parameters are laid out as every
    floating entry of its state dict, BatchNorm's means and variances included. ``device`` is torch's, e.g. "cuda".

    Nothing it evaluates is kept for another day: two modules can have the same parameters and mean something else.
    With several workers the module's class must be importable there.
    """

    cacheable = False

    def __init__(
        self,
        module: nn.Module,
        data: Validation | tuple[Any, Any] | Iterable[Sequence[Any]],
        utilities: Sequence[str] = ("loss", "accuracy"),
        *,
        device: str = "cpu",
    ) -> None:
        validation = validation_of(data)
        model = on_device(copy.deepcopy(module), device).eval()
        self.parameters = tuple(parameters_of(model))
        x = validation_input(validation, device)
        with torch.inference_mode():
            logits = model(x[:2])
        if logits.ndim != 2 or len(logits) != len(x[:2]):
            raise SettingsError(
                f"the module gives an output of shape {list(logits.shape)} for {len(x[:2])} rows; "
                "it should give logits of shape (rows, classes)"
            )
        count = sum(p.count for p in self.parameters)
        images = x.ndim == 4 and x.is_floating_point()
        executor = OneByOneExecutor(
            bind=Binding(model, self.parameters),
            x=x,
            classes=logits.shape[1],
            parameter_count=count,
            # Unknown operations: each parameter is taken to be used once per row (once per pixel for images).
            forward_multiply_adds=float(count) * len(x) * (x.shape[2] * x.shape[3] if images else 1),
            rows=rows_at_once(images, len(x)),
            channels_last=images and _takes_channels_last(model, x[:2]),
        )
        self._module_name = type(module).__name__
        self._bind = Binding(model, self.parameters)
        self._set_up(executor, count, logits.shape[1], validation, utilities, device)

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
            named[parameter.name] = view
            position += parameter.count
        # Weights that the module shares stand twice in the vector, with equal numbers: each name gets its own.
        return lambda batch: torch.func.functional_call(self.model, named, (batch,), tie_weights=False)


def validation_of(data: Validation | tuple[Any, Any] | Iterable[Sequence[Any]]) -> Validation:
    """Validation rows and labels from a loader of (x, y) batches or a pair of arrays."""
    if isinstance(data, Validation):
        return data
    pair = isinstance(data, tuple) and len(data) == 2 and all(hasattr(part, "__array__") for part in data)
    batches: list[Any] = [data] if pair else list(data)
    if not batches or any(len(batch) < 2 for batch in batches):
        raise SettingsError("the validation data has no (x, y) batches; give a loader of them or a pair of arrays")
    x, y = (np.concatenate([_array(batch[part]) for batch in batches]) for part in (0, 1))
    if len(x) != len(y) or y.ndim != 1:
        raise SettingsError(f"validation inputs of shape {x.shape} and labels of shape {y.shape}; give one label a row")
    return Validation(x, y.astype(np.int64), None)


def _array(part: Any) -> np.ndarray:
    return part.detach().cpu().numpy() if isinstance(part, Tensor) else np.asarray(part)


def on_device(module: nn.Module, device: str) -> nn.Module:
    """The module on a device; refused where the device is not there."""
    try:
        return module.to(device)
    except (RuntimeError, AssertionError) as fault:  # torch raises either for a device that is not there
        raise SettingsError(f"device {device!r} cannot be used here: {fault}") from fault


def _takes_channels_last(model: nn.Module, images: Tensor) -> bool:
    """Some modules look at the memory of their values (``view``) and refuse the faster layout."""
    try:
        with torch.inference_mode():
            model(images.contiguous(memory_format=torch.channels_last))
    except RuntimeError:
        return False
    return True
