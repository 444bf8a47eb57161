"""Executors: many models of one architecture on the same validation rows, as fast as the machine allows.

Two ways, chosen by the architecture alone: networks of flat features run a whole chunk of models at once
(``feature_major``), everything else one model after the other (``one_by_one``).

Bits: matrix products round differently for different shapes, so every shape in an executor is a function of the
architecture, the number of rows and the number of players – never of how many models were asked for. A chunk
that is not full is filled up by the evaluator.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

from torch import Tensor

from flcontrib_core.games.architecture import Architecture
from flcontrib_core.games.devices import rows_that_fit
from flcontrib_core.games.feature_major import FeatureMajorExecutor, is_flat
from flcontrib_core.games.mixtures import Mixture, ParameterChunk
from flcontrib_core.games.one_by_one import OneByOneExecutor, rows_at_once
from flcontrib_core.games.task_reader import Reduce


class Executor(Protocol):
    """Runs one full chunk of models over all validation rows."""

    @property
    def chunk(self) -> int:
        """Models per chunk: always exactly this many."""
        ...

    def logits(self, models: ParameterChunk, count: int) -> Tensor:
        """(count, classes, padded rows) float32 of the first ``count`` models of the chunk."""
        ...

    def twin(self) -> Executor:
        """Another of the same kind, with working memory of its own, for another thread."""
        ...

    def prepare(self, mixture: Mixture) -> None:
        """Stores in the mixture what all its coalitions share, where that pays."""
        ...

    def multiply_adds(self, players: int) -> float:
        """Multiply-adds of one sub-model of ``players`` updates: mixing its parameters and the forward pass."""
        ...

    def recipe(self) -> dict[str, Any]:
        """What the bits of a result depend on besides the inputs."""
        ...


def choose_executor(
    architecture: Architecture, x: Tensor, reduce: Reduce | None = None, kept: int | None = None
) -> Executor:
    """The fastest executor for this architecture and validation input.

    ``reduce``: what is kept of a batch's outputs, ``kept`` numbers per row; None: all of them.
    """
    if reduce is None and not architecture.frozen and is_flat(architecture):
        return FeatureMajorExecutor(architecture, x)
    images = len(architecture.input_shape) == 3
    widest = max(math.prod(shape) * architecture.folds.get(name, 1) for name, shape in architecture.shapes.items())
    return OneByOneExecutor(
        bind=architecture.bind,
        x=x,
        classes=architecture.classes if kept is None else kept,
        parameter_count=architecture.parameter_count,
        forward_multiply_adds=architecture.multiply_adds(len(x)),
        rows=rows_that_fit(widest, len(x), rows_at_once(images, architecture.numbers_at_once), x.device),
        channels_last=images,
        reduce=reduce,
    )
