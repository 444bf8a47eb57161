"""Mixtures: the parameters of a chunk of sub-models, from the updates and their weights.

Eq. (fl_sub_model): F_S = F_prev + Σ_{i∈S} λ(i, S) Δ_i. For a chunk of coalitions that is one matrix product
``base + Λ · updates``; it is formed slice by slice, when a layer needs its parameters, so that the matrix of all
coalitions times all parameters never exists.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flcontrib_core.runs.mapped import in_blocks

_COLUMNS = 1 << 14
"""Parameters mixed per product: the base is written first and added to, and should still be in cache then."""

_BOUNDARY = 64
"""Bytes: where torch lets its tensors begin."""


class ParameterChunk(Protocol):
    """The parameters of one full chunk of models."""

    def form(self, span: slice, out: Tensor) -> None:
        """Writes the parameters of all models in this span of the flat vector: (models, length)."""
        ...

    def has_first_layer(self, node: str, block: int) -> bool:
        """Was this first layer's output prepared for this block of rows?"""
        ...

    def form_first_layer(self, node: str, block: int, out: Tensor) -> None:
        """Writes the prepared layer's output for all models: (models, out·rows)."""
        ...


@dataclass(frozen=True)
class GivenChunk:
    """Models whose parameters were given as a matrix (models, P)."""

    matrix: Tensor

    def form(self, span: slice, out: Tensor) -> None:
        out.copy_(self.matrix[:, span])

    def has_first_layer(self, node: str, block: int) -> bool:
        return False

    def form_first_layer(self, node: str, block: int, out: Tensor) -> None:
        raise LookupError(f"nothing is prepared for given parameters (node {node!r})")


@dataclass(frozen=True)
class Mixture:
    """One epoch's models as an executor sees them: the model it starts from and the clients' updates.

    ``products`` may hold, per node and block of validation rows, what a first linear layer makes of the shared
    input for the base model and for each update: (out·rows,) and (players, out·rows). By linearity they give
    the layer's output for any Λ without touching its weights.
    """

    base: Tensor
    """(P,)"""
    updates: Tensor
    """(players, P)"""
    products: dict[tuple[str, int], tuple[Tensor, Tensor]] = field(default_factory=dict)
    sources: tuple[NDArray[Any], ...] = ()
    """The arrays that base and updates are views of: large ones are let go of as they are read."""

    @property
    def players(self) -> int:
        """n, the number of updates that are mixed."""
        return len(self.updates)


@dataclass(frozen=True)
class MixedChunk:
    """The sub-models of a chunk of coalitions: base + Λ · updates."""

    mixture: Mixture
    weights: Tensor
    """(models, players) float32"""

    def form(self, span: slice, out: Tensor) -> None:
        base, updates = self.mixture.base[span], self.mixture.updates[:, span]
        for part in in_blocks(len(base), _COLUMNS, *self.mixture.sources):
            # addmm broadcasts the base over the models: eq. (fl_sub_model) for the whole chunk.
            torch.addmm(base[part], self.weights, updates[:, part], out=out[:, part])

    def has_first_layer(self, node: str, block: int) -> bool:
        return (node, block) in self.mixture.products

    def form_first_layer(self, node: str, block: int, out: Tensor) -> None:
        of_base, of_updates = self.mixture.products[node, block]
        torch.addmm(of_base, self.weights, of_updates, out=out)


class ParameterBuffers:
    """The parameters of the chunk at hand, each span formed once, in memory that is kept from chunk to chunk.

    Fresh memory costs more than the arithmetic: every new page is a trip into the kernel.
    """

    def __init__(self, models: int, device: torch.device) -> None:
        self._models = models
        self._device = device
        self._buffers: dict[tuple[int, int], Tensor] = {}
        self._formed: set[tuple[int, int]] = set()

    def take(self, chunk: ParameterChunk) -> None:
        """From now on, ``of`` answers for this chunk."""
        self._chunk = chunk
        self._formed.clear()

    def of(self, span: slice) -> Tensor:
        """(models, length)"""
        key = (span.start, span.stop)
        if key not in self._buffers:
            self._buffers[key] = torch.empty(self._models, span.stop - span.start, device=self._device)
        if key not in self._formed:
            self._chunk.form(span, self._buffers[key])
            self._formed.add(key)
        return self._buffers[key]


def on_boundary(weight: Tensor) -> Tensor:
    """A matrix of one row where torch's own allocator would put it.

    From another place in memory such a row is multiplied with other instructions, and other last bits.
    """
    row = weight.ndim == 2 and len(weight) == 1
    return weight.clone() if row and weight.data_ptr() % _BOUNDARY else weight


def as_tensor(array: NDArray[Any], device: str = "cpu") -> Tensor:
    """The array as a tensor, without a copy on the CPU. Read-only arrays (memory maps) stay what they are."""
    if not array.flags.aligned or not array.flags.c_contiguous:
        array = np.array(array, order="C")
    with warnings.catch_warnings():
        # torch warns that writing to such a tensor is undefined; nothing in this package writes to one.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array).to(device)
