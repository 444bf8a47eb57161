"""Readers of utilities for tasks that are not classification, and for metrics of somebody's own.

A reader turns what an executor gives for many models, (models, numbers per row, rows), into utilities.
``UtilityReader`` does so for classes; these do for everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flcontrib_core.errors import SettingsError
from flcontrib_core.games.task_metrics import TASKS, Metric, Task
from flcontrib_core.games.utilities import lower_of, mixing, padded_rows, parse_utility
from flcontrib_core.runs.tasks import TARGETS
from flcontrib_core.vocabulary import FloatArray, IntArray, LogitTensor, UtilityMatrix

OwnMetrics = Mapping[str, tuple[Metric, str]]
"""name -> (function of all outputs and all targets, 'higher' or 'lower')"""
Reduce = Callable[[Tensor, int], Tensor]
"""(rows, …) outputs of some rows, and the first one's place -> (rows, R)"""
FIRST_ANSWERS = 8
"""Models after which a metric that was finite for none of them is refused."""
DIRECTIONS = {"higher": False, "lower": True}
_CELLS_AT_ONCE = 1 << 20


class Reader(Protocol):
    """What an evaluator asks of a reader."""

    utilities: tuple[str, ...]
    rows: int

    @property
    def lower_is_better(self) -> frozenset[str]:
        """The utilities whose smaller value is the better model."""
        ...

    def read(self, logits: Tensor) -> UtilityMatrix:
        """(models, numbers per row, padded rows) -> (models, utilities) float64."""
        ...

    def read_rows(self, logits: LogitTensor) -> UtilityMatrix:
        """The same for outputs as they are kept elsewhere."""
        ...


class TaskReader:
    """Utilities of a task from the statistics of rows, or from whole outputs where these are kept."""

    def __init__(
        self,
        task: str,
        utilities: Sequence[str],
        y: NDArray[np.generic],
        output_shape: Sequence[int],
        group: IntArray | None = None,
        device: str = "cpu",
        whole: bool = False,
    ) -> None:
        """``whole``: the executor gives whole outputs although the task needs less of them."""
        self._name, self.rows = task, len(y)
        self.utilities = tuple(utilities)
        names = tuple(TARGETS[task].metrics)
        self._parts, self._mix = mixing([parse_utility(name, names) for name in self.utilities])
        self._targets = torch.from_numpy(np.array(y)).to(device)
        self._shape = tuple(output_shape)
        self._whole = whole
        self._groups = (
            None if group is None else [torch.from_numpy(np.flatnonzero(group == g)) for g in np.unique(group)]
        )

    @property
    def lower_is_better(self) -> frozenset[str]:
        """The utilities whose smaller value is the better model."""
        return lower_of(self._name, self.utilities)

    @property
    def task(self) -> Task:
        """Looked up each time: a reader goes to other processes, and a task's functions do not."""
        return TASKS[self._name]

    @property
    def reduce(self) -> Reduce | None:
        """What an executor keeps of a batch of outputs; None: all of it."""
        return self._reduce if self.task.reduces and not self._whole else None

    @property
    def numbers_per_row(self) -> int:
        """R, where outputs are reduced."""
        outputs = torch.zeros(1, *self._shape, device=self._targets.device)
        return self.task.statistics(outputs, self._targets[:1]).shape[1]

    def _reduce(self, outputs: Tensor, first: int) -> Tensor:
        return self.task.statistics(outputs, self._targets[first : first + len(outputs)]).float()

    def read(self, logits: Tensor) -> UtilityMatrix:
        """(models, numbers per row, padded rows) -> (models, utilities)."""
        values = np.empty((len(logits), len(self.utilities)))
        with torch.inference_mode():
            # One by one: how a sum over rows is split, and so its last bit, may depend on how many stand side by side.
            for row in range(len(logits)):
                values[row] = self._values(self.statistics(logits[row : row + 1]))[0]
        return values

    def read_rows(self, logits: LogitTensor) -> UtilityMatrix:
        """(models, rows · numbers, 1) as kept and predicted elsewhere -> (models, utilities)."""
        given = logits.reshape(len(logits), self.rows, -1)
        values = np.empty((len(given), len(self.utilities)))
        step = max(1, _CELLS_AT_ONCE // max(1, given[0].size)) if len(given) else 1
        with torch.inference_mode():
            for start in range(0, len(given), step):
                some = np.ascontiguousarray(given[start : start + step], dtype=np.float64)
                values[start : start + step] = self._values(torch.from_numpy(some).to(self._targets.device))
        return values

    def statistics(self, logits: Tensor) -> Tensor:
        """(models, rows, R) double."""
        given = logits[:, :, : self.rows].transpose(1, 2)
        if not self.task.reduces or not self._whole:
            return given.double()
        each = [self.task.statistics(model.reshape(self.rows, *self._shape), self._targets) for model in given]
        return torch.stack(each).double()

    def loss(self, outputs: Tensor, first: int) -> Tensor:
        """The sum of the losses of some rows, each by what it counts, for a gradient."""
        targets = self._targets[first : first + len(outputs)]
        statistics = self.task.statistics(outputs.reshape(len(outputs), *self._shape), targets)
        losses = self.task.row_losses(statistics[None].double(), targets)
        if self.task.counts is None:
            return losses.sum()
        return (
            (losses * self.task.counts(targets)).sum() * self.rows / self.task.counts(self._targets).sum().clamp(min=1)
        )

    def losses(self, statistics: Tensor) -> tuple[FloatArray, FloatArray | None]:
        """(models, rows) the loss of each row, and (models, groups) of each group where there are any."""
        with torch.inference_mode():
            rows = self.task.row_losses(statistics, self._targets)
            groups = [] if self.task.group_losses is None else [self.task.group_losses(statistics, self._targets)]
            if self._groups is not None:
                groups.append(torch.stack([rows[:, members].mean(1) for members in self._groups], dim=1))
        return rows.cpu().numpy(), torch.cat(groups, dim=1).cpu().numpy() if groups else None

    def _values(self, statistics: Tensor) -> UtilityMatrix:
        metrics = self.task.metrics(statistics, self._targets)
        table = torch.stack([metrics[name] for name in self._parts], dim=1)
        table[~torch.isfinite(statistics).all(2).all(1)] = torch.nan
        return np.asarray(table.cpu().numpy() @ self._mix)


def _has_direction(given: object) -> bool:
    return isinstance(given, tuple | list) and len(given) == 2 and callable(given[0]) and given[1] in tuple(DIRECTIONS)


def one_number(name: str, value: object) -> float:
    """A metric's answer as a float; refused in words where it is none."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise SettingsError(f"metric {name!r} gave {value!r:.80}; one number is needed") from None


class FirstAnswers:
    """Refuses metrics that are not finite for any of the first models: some model may have none, not every one."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names, self._left = tuple(names), FIRST_ANSWERS

    def look_at(self, values: Sequence[float]) -> None:
        """One model's answer."""
        if np.isfinite(values).all():
            self._left = 0
        elif self._left:
            self._left -= 1
            if not self._left:
                odd = [name for name, value in zip(self._names, values, strict=True) if not np.isfinite(value)]
                raise SettingsError(f"{', '.join(odd)} is no finite number for any of the first {FIRST_ANSWERS} models")


class WithOwnMetrics:
    """A reader and metrics of somebody's own behind it, each a function of one model's outputs and the targets."""

    def __init__(
        self, reader: Reader | None, own: OwnMetrics, y: NDArray[np.generic], output_shape: Sequence[int]
    ) -> None:
        wrong = [name for name, given in own.items() if not _has_direction(given)]
        if wrong:
            raise SettingsError(f"metrics {wrong}: say which way is better, as in {{'hd95': (hd95, 'lower')}}")
        self._reader, self._own = reader, own
        self._first = FirstAnswers(tuple(own))
        self._targets, self._shape = torch.from_numpy(np.array(y)), tuple(output_shape)
        self.rows = len(y)
        self.utilities = (*(reader.utilities if reader else ()), *own)

    @property
    def lower_is_better(self) -> frozenset[str]:
        """Those of the reader, and what was said of the own ones."""
        lower = {name for name, (_, way) in self._own.items() if DIRECTIONS[way]}
        return frozenset(lower) | (self._reader.lower_is_better if self._reader else frozenset())

    def read(self, logits: Tensor) -> UtilityMatrix:
        """(models, numbers per row, padded rows) -> (models, utilities)."""
        own = np.full((len(logits), len(self._own)), np.nan)
        for row, model in enumerate(logits[:, :, : self.rows].transpose(1, 2).cpu()):
            if bool(torch.isfinite(model).all()):
                outputs = model.reshape(self.rows, *self._shape)
                own[row] = [one_number(name, metric(outputs, self._targets)) for name, (metric, _) in self._own.items()]
                self._first.look_at(own[row].tolist())
        values = own if self._reader is None else np.hstack([self._reader.read(logits), own])
        values[~np.isfinite(values).all(axis=1)] = np.nan
        return values

    def read_rows(self, logits: LogitTensor) -> UtilityMatrix:
        """(models, rows, numbers) or (models, rows · numbers, 1) -> (models, utilities)."""
        whole = logits.reshape(len(logits), self.rows, -1).transpose(0, 2, 1)
        padded = np.zeros((*whole.shape[:2], padded_rows(self.rows)), dtype=np.float32)
        padded[:, :, : self.rows] = whole
        return self.read(torch.from_numpy(padded))
