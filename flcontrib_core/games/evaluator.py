"""Evaluators: utilities (and logits) of many models of one architecture on one validation set.

``Evaluator`` runs architectures that a log declares, ``ModuleEvaluator`` a live ``nn.Module`` that a trusted caller
passes in. Both answer two questions: about parameters given as a matrix (``evaluate``), and about the sub-models of
one epoch (``mixture`` + ``evaluate_mixture``), for which the parameters of all coalitions are never formed at once.

A model's result has the same bits wherever it stands in a request and however many stand beside it: models run
in full chunks whose size depends on shapes only (``recipe``), a short chunk is filled up.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flcontrib_core.blas import lent_threads, side_by_side
from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.games.architecture import Architecture
from flcontrib_core.games.devices import resolve_device
from flcontrib_core.games.executors import Executor, choose_executor
from flcontrib_core.games.mixtures import GivenChunk, MixedChunk, Mixture, ParameterChunk, as_tensor
from flcontrib_core.games.one_by_one import Bind
from flcontrib_core.games.task_metrics import TASKS
from flcontrib_core.games.task_reader import OwnMetrics, Reader, Reduce, TaskReader, WithOwnMetrics
from flcontrib_core.games.utilities import UtilityReader, utilities_of
from flcontrib_core.runs.run_log import ParameterSpec, Validation
from flcontrib_core.runs.tasks import CLASSIFICATION, TARGETS, targets_of
from flcontrib_core.vocabulary import Float32Array, FloatArray, IntArray, LogitTensor, UtilityMatrix

_ROWS_OF_GRADIENT = 512
"""Validation rows of one backward pass."""
MOST_OUTPUTS = 1 << 17
"""Numbers of a model's rows up to which another task's utilities are regressed through them."""
_NUMBERS_OF_GRADIENT = 1 << 28
"""Numbers that one backward pass may keep on its way (1 GB)."""
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
    """Whether utilities follow from kept outputs of the validation rows, or come alone."""
    classifies = True
    """Whether outputs are one logit per class."""
    threads = True
    """Whether lent threads may run its models side by side: nothing in them is the caller's own code."""
    _frozen: str | None = None
    _gradient_rows = _ROWS_OF_GRADIENT
    row_groups: IntArray | None = None
    """Which validation rows belong together, where somebody says so beside their classes."""
    parameters: tuple[ParameterSpec, ...] | None = None
    """How the flat vector is laid out, where that is not the log's own word."""

    def __init__(
        self,
        architecture: Architecture,
        validation: Validation,
        utilities: Sequence[str],
        device: str = "cpu",
        *,
        task: str = CLASSIFICATION,
        own: OwnMetrics | None = None,
    ) -> None:
        """``own``: metrics of the caller's own, behind the task's."""
        device, self._frozen = resolve_device(device), architecture.frozen_digest
        architecture = architecture.on(device)
        x = validation_input(validation, device)
        if tuple(x.shape[1:]) != architecture.input_shape:
            raise SettingsError(
                f"validation rows have shape {list(x.shape[1:])}, the model takes {list(architecture.input_shape)}; "
                "record the validation set in the model's input shape"
            )
        reduce = self._read_by(task, utilities, architecture.output_shape, validation, own or {}, device)
        with torch.inference_mode():
            self._executor: Executor = choose_executor(architecture, x, reduce, self.classes)
        self._bind: Bind = architecture.bind
        self._gradient_rows = min(_ROWS_OF_GRADIENT, max(1, _NUMBERS_OF_GRADIENT // architecture.numbers_per_row))
        self.parameter_count = architecture.parameter_count

    def _read_by(
        self,
        task: str,
        utilities: Sequence[str],
        output_shape: Sequence[int],
        validation: Validation,
        own: OwnMetrics,
        device: str,
    ) -> Reduce | None:
        """Chooses what reads the outputs; what an executor keeps of them, where that is less than all."""
        self.validation, self._device, self._task = validation, device, task
        # Utilities are read in float64, which Apple's devices do not have.
        device = "cpu" if device.startswith("mps") else device
        self.classes = math.prod(output_shape)
        """Numbers that are kept of each row: its logits, for classes."""
        self._output_shape = tuple(output_shape)
        self._losses: TaskReader | None = None
        self.classifies = task == CLASSIFICATION
        reader: Reader | None = None
        if self.classifies:
            reader = UtilityReader(utilities, validation.y, self.classes, validation.group, device)
        elif task in TASKS:
            meant = utilities_of(task, utilities)
            group = validation.group
            reader = self._losses = TaskReader(task, meant, validation.y, output_shape, group, device, whole=bool(own))
            if self._losses.reduce is not None:
                self.classes = self._losses.numbers_per_row
        elif not own:
            raise SettingsError(
                f"the task {task!r} has no metrics of its own; use one of {', '.join(TARGETS)}, or give metrics, e.g. "
                "metrics={'c-index': (c_index, 'higher')}"
            )
        if own:
            reader = WithOwnMetrics(reader, own, validation.y, output_shape)
        assert reader is not None
        self._reader: Reader = reader
        few = self.classifies or len(validation.y) * self.classes <= MOST_OUTPUTS
        # An own metric may cost anything: it is asked about models that exist, not about thousands of predicted ones.
        self.has_logits = not own and few
        self.cacheable = self.cacheable and not own
        self.threads = self.threads and not own and self._device == "cpu"
        return None if self._losses is None else self._losses.reduce

    def for_parameters(self, parameters: Sequence[ParameterSpec]) -> Evaluator:
        """This evaluator for a log whose flat vector is laid out like this."""
        return self

    @property
    def utilities(self) -> tuple[str, ...]:
        return self._reader.utilities

    @property
    def lower_is_better(self) -> frozenset[str]:
        """The utilities whose smaller value is the better model."""
        return self._reader.lower_is_better

    @property
    def device(self) -> str:
        """Where models run."""
        return self._device

    @property
    def smooth_utility(self) -> str:
        """What ``loss_gradient`` is the gradient of: the loss, or what the task has in its place."""
        return "loss" if self.classifies else next(iter(targets_of(self._task).metrics), "")

    @property
    def validation_rows(self) -> int:
        return self._reader.rows

    @property
    def models_at_once(self) -> int:
        """A request for a multiple of these wastes nothing."""
        return self._executor.chunk

    def evaluate(self, parameters: Float32Array) -> tuple[UtilityMatrix, LogitTensor]:
        """(models, P) -> values (models, U) float64 and logits (models, V, K) float32.

        What another task keeps of its rows comes as (models, V·K, 1): no number of a row stands for another's.
        """
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
        sources = np.asarray(base, dtype=np.float32), np.asarray(updates, dtype=np.float32)
        on_device = [as_tensor(array, self._device) for array in sources]
        mixture = Mixture(on_device[0], on_device[1], sources=sources)
        with one_thread(), torch.inference_mode():
            self._executor.prepare(mixture)
        return mixture

    def evaluate_mixture(
        self, mixture: Mixture, weights: FloatArray, keep_logits: bool = False
    ) -> tuple[UtilityMatrix, LogitTensor | None]:
        """Λ (models, players) -> values (models, U) and, where asked for, logits (models, V, K) of base + Λ·updates."""
        return self._run(len(weights), self._mixed(mixture, weights), keep_logits)

    def _mixed(self, mixture: Mixture, weights: FloatArray) -> Callable[[int, int], ParameterChunk]:
        of_float = torch.from_numpy(np.ascontiguousarray(weights, dtype=np.float32)).to(self._device)

        def chunk_of(start: int, stop: int) -> ParameterChunk:
            return MixedChunk(mixture, self._fill_up(of_float[start:stop]))

        return chunk_of

    def loss_gradient(self, vector: Float32Array) -> FloatArray:
        """(P,) the gradient of the mean validation loss at one model, in float64."""
        from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

        if not self.classifies and self._losses is None:
            raise MissingPart(f"the task {self._task!r} has no loss; use another estimator than gradient, e.g. auto")
        x = validation_input(self.validation, self._device)
        y = torch.from_numpy(np.array(self.validation.y)).to(self._device)
        with one_thread(), torch.enable_grad():
            at = as_tensor(np.array(vector, dtype=np.float32), self._device).requires_grad_(True)
            for start in range(0, len(x), self._gradient_rows):
                rows = slice(start, start + self._gradient_rows)
                logits = self._bind(at)(x[rows])
                if self._losses is not None:
                    loss = self._losses.loss(logits, start)
                elif self.classes == 1:
                    loss = binary_cross_entropy_with_logits(logits[:, 0], y[rows].float(), reduction="sum")
                else:
                    loss = cross_entropy(logits, y[rows], reduction="sum")
                (loss / len(x)).backward()  # type: ignore[no-untyped-call]
        assert at.grad is not None
        return np.asarray(at.grad.cpu().numpy(), dtype=np.float64)

    def solo_changes(self, mixture: Mixture) -> tuple[FloatArray, FloatArray]:
        """(n,) mean rise of a row's loss by each update alone, and (n,) the largest rise of a group's loss or NaN.

        For what is no class; a task without a loss of its own has its first metric, turned so that a rise is harm.
        """
        alone = np.vstack([np.zeros((1, mixture.players)), np.eye(mixture.players)])
        nothing = np.full(mixture.players, np.nan)
        if self._losses is None:
            values = self.evaluate_mixture(mixture, alone)[0][:, 0]
            turned = 1.0 if self.utilities[0] in self.lower_is_better else -1.0
            return (values[1:] - values[0]) * turned, nothing
        rows, groups = [], []
        for _, logits in self._outputs(len(alone), self._mixed(mixture, alone)):
            for model in range(len(logits)):
                of_rows, of_groups = self._losses.losses(self._losses.statistics(logits[model : model + 1]))
                rows.append(of_rows[0])
                groups.append(of_groups)
        rises = np.array([np.mean(own - rows[0]) for own in rows[1:]])
        if groups[0] is None:
            return rises, nothing
        return rises, np.array([np.fmax.reduce((own - groups[0])[0]) for own in groups[1:] if own is not None])

    def values_of_logits(self, logits: LogitTensor) -> UtilityMatrix:
        """(models, V, K) -> (models, U): the same utilities for logits that were predicted instead of evaluated."""
        with one_thread():
            return self._reader.read_rows(logits)

    def multiply_adds(self, players: int) -> float:
        """The fixed cost of one sub-model of ``players`` updates: mixing, forward pass and reading."""
        return self._executor.multiply_adds(players) + float(_COST_OF_READING * self.validation_rows * self.classes)

    def recipe(self) -> dict[str, Any]:
        """What the bits of a result depend on besides model, validation set and updates."""
        other = {} if self.classifies else {"task": self._task}
        if self._frozen is not None:
            other["frozen"] = self._frozen
        return {**self._executor.recipe(), **other, "threads": 1, "device": self._device, "torch": torch.__version__}

    def _fill_up(self, rows: Tensor) -> Tensor:
        """Repeats the last row until the chunk is full, so that its shapes are those of every other chunk."""
        missing = self._executor.chunk - len(rows)
        return rows if missing == 0 else torch.cat([rows, rows[-1:].expand(missing, -1)])

    def _run(
        self, count: int, chunk_of: Callable[[int, int], ParameterChunk], keep_logits: bool
    ) -> tuple[UtilityMatrix, LogitTensor | None]:
        values = np.empty((count, len(self.utilities)))
        kept = np.empty((count, self.validation_rows, self.classes), dtype=np.float32) if keep_logits else None

        def keep(start: int, logits: Tensor) -> None:
            values[start : start + len(logits)] = self._reader.read(logits)
            if kept is not None:
                own = logits[:, :, : self.validation_rows].transpose(1, 2)
                kept[start : start + len(logits)] = own.cpu().numpy()

        if self.threads and lent_threads() > 1:
            self._side_by_side(count, chunk_of, keep)
        else:
            for start, logits in self._outputs(count, chunk_of):
                keep(start, logits)
        if kept is not None and not self.classifies:
            kept = kept.reshape(count, -1, 1)
        return values, kept

    def _side_by_side(
        self, count: int, chunk_of: Callable[[int, int], ParameterChunk], keep: Callable[[int, Tensor], None]
    ) -> None:
        """As ``_outputs``, on the threads that are lent, each with working memory of its own."""
        own = threading.local()

        def run(start: int) -> None:
            if not hasattr(own, "executor"):
                own.executor = self._executor.twin()
            with one_thread(), torch.inference_mode():
                stop = min(count, start + self._executor.chunk)
                keep(start, own.executor.logits(chunk_of(start, stop), stop - start))

        with one_thread():  # around all of them: its number is the process's
            side_by_side(run, range(0, count, self._executor.chunk))

    def _outputs(self, count: int, chunk_of: Callable[[int, int], ParameterChunk]) -> Iterator[tuple[int, Tensor]]:
        """(models, K, padded rows) of each chunk, with the place of its first model."""
        with one_thread(), torch.inference_mode():
            for start in range(0, count, self._executor.chunk):
                stop = min(count, start + self._executor.chunk)
                outputs = self._executor.logits(chunk_of(start, stop), stop - start)
                yield start, outputs.cpu() if self._device.startswith("mps") else outputs


def validation_input(validation: Validation, device: str) -> Tensor:
    """The rows as a tensor; integers (token ids) stay integers."""
    x: NDArray[Any] = validation.x
    kind = np.int64 if np.issubdtype(x.dtype, np.integer) else np.float32
    return as_tensor(np.asarray(x, dtype=kind), device)
