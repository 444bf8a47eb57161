"""The executor of models that cannot be batched over coalitions.

One model after the other, each over small batches of rows that stay in cache; images channels last, which the
convolution kernels of CPUs prefer (measured: 2–3 times faster than one large batch).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flcontrib_core.games.devices import free_bytes
from flcontrib_core.games.mixtures import Mixture, ParameterBuffers, ParameterChunk
from flcontrib_core.games.task_reader import Reduce
from flcontrib_core.games.utilities import padded_rows

IMAGE_ROWS = 50
OTHER_ROWS = 256
BATCH_NUMBERS = 1 << 26
"""Numbers of all rows of a batch that are held at a time (256 MB)."""
CHUNK_PARAMETER_BYTES = 256 << 20
"""Parameters are mixed for eight models at once unless that would exceed this; then for one."""

Bind = Callable[..., Callable[[Tensor], Tensor]]


def rows_at_once(images: bool, numbers: int = 1) -> int:
    """How many validation rows go through a model at a time on a CPU, where each holds this many numbers at once?"""
    return min(IMAGE_ROWS if images else OTHER_ROWS, max(1, BATCH_NUMBERS // numbers))


class OneByOneExecutor:
    """Runs models in a loop; ``bind(vector[, memory_format])`` gives a model as a function of a batch."""

    def __init__(
        self,
        bind: Bind,
        x: Tensor,
        classes: int,
        parameter_count: int,
        forward_multiply_adds: float,
        rows: int,
        channels_last: bool,
        reduce: Reduce | None = None,
    ) -> None:
        """``reduce``: what is kept of a batch's outputs, ``classes`` numbers per row; None: all of them."""
        self._bind = bind
        self._classes = classes
        self._parameters = slice(0, parameter_count)
        self._forward_multiply_adds = forward_multiply_adds
        self._format = torch.channels_last if channels_last else None
        self._rows_at_once = rows
        self._reduce = reduce
        largest = max(parameter_count, classes * padded_rows(len(x)))
        free = free_bytes(x.device)
        self.chunk = 8 if 8 * 4 * largest <= (CHUNK_PARAMETER_BYTES if free is None else free // 4) else 1
        self._buffers = ParameterBuffers(self.chunk, x.device)
        batches = [x[start : start + rows] for start in range(0, len(x), rows)]
        self._batches = [b.contiguous(memory_format=torch.channels_last) for b in batches] if channels_last else batches
        self._rows = len(x)

    def logits(self, models: ParameterChunk, count: int) -> Tensor:
        self._buffers.take(models)
        vectors = self._buffers.of(self._parameters)  # (models, P)
        out = torch.zeros(count, self._classes, padded_rows(self._rows), device=vectors.device)
        for number in range(count):
            model = self._bind(vectors[number], self._format)
            start = 0
            for batch in self._batches:
                outputs = model(batch) if self._reduce is None else self._reduce(model(batch), start)
                out[number, :, start : start + len(batch)] = outputs.reshape(len(batch), -1).T
                start += len(batch)
        return out

    def bound_to(self, bind: Bind, parameter_count: int) -> OneByOneExecutor:
        """The same for other parameters of the model."""
        bound = self.twin()
        bound._bind, bound._parameters = bind, slice(0, parameter_count)
        return bound

    def twin(self) -> OneByOneExecutor:
        twin = copy.copy(self)
        twin._buffers = ParameterBuffers(self.chunk, self._batches[0].device)
        return twin

    def prepare(self, mixture: Mixture) -> None:
        """Nothing is shared between models here."""

    def multiply_adds(self, players: int) -> float:
        return self._forward_multiply_adds + float(players) * self._parameters.stop

    def recipe(self) -> dict[str, Any]:
        form = "channels-last" if self._format is torch.channels_last else "contiguous"
        return {"executor": "one-by-one", "chunk": self.chunk, "block_rows": self._rows_at_once, "layout": form}
