"""Evaluators: utilities (and logits) of many models of one architecture on one validation set.

``Evaluator`` runs architectures that a log declares, ``ModuleEvaluator`` a live ``nn.Module`` that a trusted caller
passes in. Both answer two questions: about parameters given as a matrix (``evaluate``), and about the sub-models of
one epoch (``mixture`` + ``evaluate_mixture``), for which the parameters of all coalitions are never formed at once.

A model's result has the same bits wherever it stands in a request and however many stand beside it: models run
in full chunks whose size depends on shapes only (``recipe``), a short chunk is filled up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flcontrib_core.errors import SettingsError
from flcontrib_core.games.architecture import Architecture
from flcontrib_core.games.executors import Executor, choose_executor
from flcontrib_core.games.mixtures import GivenChunk, MixedChunk, Mixture, ParameterChunk, as_tensor
from flcontrib_core.games.one_by_one import Bind
from flcontrib_core.games.utilities import UtilityReader, lower_is_better
from flcontrib_core.runs.run_log import ParameterSpec, Validation
from flcontrib_core.vocabulary import Float32Array, FloatArray, LogitTensor, UtilityMatrix

_ROWS_OF_GRADIENT = 512
"""Validation rows of one backward pass."""
_COST_OF_READING = 16
"""Multiply-adds that reading the utilities of one logit is worth in the cost model."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Runs torch on one intra-op thread inside: processes are the faster way to use cores, and bits stay put."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Evaluator:
    """Utilities and logits of models given as flat parameter vectors.

    Not for use by two threads at once; every process makes its own.
    """

    cacheable = True
    """Whether log, recipe and utilities say all that a value depends on, so that it may be kept for another day."""
    has_logits = True
    """Whether it gives the outputs of every validation row, or utilities alone."""
    parameters: tuple[ParameterSpec, ...] | None = None
    """How the flat vector is laid out, where that is not the log's own word."""

    def __init__(
        self, architecture: Architecture, validation: Validation, utilities: Sequence[str], device: str = "cpu"
    ) -> None:
        x = validation_input(validation, device)
        if tuple(x.shape[1:]) != architecture.input_shape:
            raise SettingsError(
                f"validation rows have shape {list(x.shape[1:])}, the model takes {list(architecture.input_shape)}; "
                "record the validation set in the model's input shape"
            )
        with torch.inference_mode():
            executor = choose_executor(architecture, x)
        self._bind: Bind = architecture.bind
        self._set_up(executor, architecture.parameter_count, architecture.classes, validation, utilities, device)

    def _set_up(
        self,
        executor: Executor,
        parameter_count: int,
        classes: int,
        validation: Validation,
        utilities: Sequence[str],
        device: str,
    ) -> None:
        self.validation = validation
        self.parameter_count = parameter_count
        self.classes = classes
        self._executor = executor
        self._reader = UtilityReader(utilities, validation.y, classes, validation.group, device)
        self._device = device

    def for_parameters(self, parameters: Sequence[ParameterSpec]) -> Evaluator:
        """This evaluator for a log whose flat vector is laid out like this."""
        return self

    @property
    def utilities(self) -> tuple[str, ...]:
        return self._reader.utilities

    @property
    def lower_is_better(self) -> frozenset[str]:
        """The utilities whose smaller value is the better model."""
        return frozenset(name for name in self.utilities if lower_is_better(name))

    @property
    def validation_rows(self) -> int:
        return self._reader.rows

    def evaluate(self, parameters: Float32Array) -> tuple[UtilityMatrix, LogitTensor]:
        """(models, P) -> values (models, U) float64 and logits (models, V, K) float32."""
        if parameters.ndim != 2 or parameters.shape[1] != self.parameter_count:
            raise SettingsError(
                f"parameters of shape {parameters.shape}; expected (models, {self.parameter_count}) for this model"
            )

        def chunk_of(start: int, stop: int) -> ParameterChunk:
            some = as_tensor(np.asarray(parameters[start:stop], dtype=np.float32), self._device)
            return GivenChunk(self._fill_up(some))

        values, logits = self._run(len(parameters), chunk_of, keep_logits=True)
        assert logits is not None
        return values, logits

    def mixture(self, base: Float32Array, updates: Float32Array) -> Mixture:
        """Makes one epoch's sub-models ready: base (P,), updates (players, P)."""
        if base.shape != (self.parameter_count,) or updates.ndim != 2 or updates.shape[1] != self.parameter_count:
            raise SettingsError(
                f"base of shape {base.shape} and updates of shape {updates.shape}; the model has "
                f"{self.parameter_count} parameters; record the run with one model"
            )
        mixture = Mixture(
            as_tensor(np.asarray(base, dtype=np.float32), self._device),
            as_tensor(np.asarray(updates, dtype=np.float32), self._device),
        )
        with one_thread(), torch.inference_mode():
            self._executor.prepare(mixture)
        return mixture

    def evaluate_mixture(
        self, mixture: Mixture, weights: FloatArray, keep_logits: bool = False
    ) -> tuple[UtilityMatrix, LogitTensor | None]:
        """Λ (models, players) -> values (models, U) and, where asked for, logits (models, V, K) of base + Λ·updates."""
        of_float = torch.from_numpy(np.ascontiguousarray(weights, dtype=np.float32)).to(self._device)

        def chunk_of(start: int, stop: int) -> ParameterChunk:
            return MixedChunk(mixture, self._fill_up(of_float[start:stop]))

        return self._run(len(weights), chunk_of, keep_logits)

    def loss_gradient(self, vector: Float32Array) -> FloatArray:
        """(P,) the gradient of the mean validation loss at one model, in float64."""
        from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

        x = validation_input(self.validation, self._device)
        y = torch.from_numpy(np.asarray(self.validation.y, dtype=np.int64)).to(self._device)
        with one_thread(), torch.enable_grad():
            at = as_tensor(np.array(vector, dtype=np.float32), self._device).requires_grad_(True)
            for start in range(0, len(x), _ROWS_OF_GRADIENT):
                rows = slice(start, start + _ROWS_OF_GRADIENT)
                logits = self._bind(at)(x[rows])
                if self.classes == 1:
                    loss = binary_cross_entropy_with_logits(logits[:, 0], y[rows].float(), reduction="sum")
                else:
                    loss = cross_entropy(logits, y[rows], reduction="sum")
                (loss / len(x)).backward()  # type: ignore[no-untyped-call]
        assert at.grad is not None
        return np.asarray(at.grad.cpu().numpy(), dtype=np.float64)

    def values_of_logits(self, logits: LogitTensor) -> UtilityMatrix:
        """(models, V, K) -> (models, U): the same utilities for logits that were predicted instead of evaluated."""
        with one_thread():
            return self._reader.read_rows(logits)

    def multiply_adds(self, players: int) -> float:
        """The fixed cost of one sub-model of ``players`` updates: mixing, forward pass and reading."""
        return self._executor.multiply_adds(players) + float(_COST_OF_READING * self.validation_rows * self.classes)

    def recipe(self) -> dict[str, Any]:
        """What the bits of a result depend on besides model, validation set and updates."""
        return {**self._executor.recipe(), "threads": 1, "device": self._device, "torch": torch.__version__}

    def _fill_up(self, rows: Tensor) -> Tensor:
        """Repeats the last row until the chunk is full, so that its shapes are those of every other chunk."""
        missing = self._executor.chunk - len(rows)
        return rows if missing == 0 else torch.cat([rows, rows[-1:].expand(missing, -1)])

    def _run(
        self, count: int, chunk_of: Callable[[int, int], ParameterChunk], keep_logits: bool
    ) -> tuple[UtilityMatrix, LogitTensor | None]:
        values = np.empty((count, len(self.utilities)))
        kept = np.empty((count, self.validation_rows, self.classes), dtype=np.float32) if keep_logits else None
        with one_thread(), torch.inference_mode():
            for start in range(0, count, self._executor.chunk):
                stop = min(count, start + self._executor.chunk)
                logits = self._executor.logits(chunk_of(start, stop), stop - start)  # (models, K, columns)
                values[start:stop] = self._reader.read(logits)
                if kept is not None:
                    kept[start:stop] = logits[:, :, : self.validation_rows].transpose(1, 2).cpu().numpy()
        return values, kept


def validation_input(validation: Validation, device: str) -> Tensor:
    """The rows as a tensor; integers (token ids) stay integers."""
    x: NDArray[Any] = validation.x
    kind = np.int64 if np.issubdtype(x.dtype, np.integer) else np.float32
    return as_tensor(np.asarray(x, dtype=kind), device)
