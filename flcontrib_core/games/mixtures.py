"""Where do the parameters of a chunk of sub-models come from?

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


class ParameterChunk(Protocol):
    """The parameters of one full chunk of models."""

    def slice_of(self, span: slice) -> Tensor:
        """(models, length of the span), contiguous."""
        ...

    def mix_products(self, node: str, block: int, out: Tensor) -> bool:
        """Writes a prepared first layer's output (models, out·rows); False where none was prepared."""
        ...


@dataclass(frozen=True)
class GivenChunk:
    """Models whose parameters were given as a matrix (models, P)."""

    matrix: Tensor

    def slice_of(self, span: slice) -> Tensor:
        return self.matrix[:, span].contiguous()

    def mix_products(self, node: str, block: int, out: Tensor) -> bool:
        return False


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

    @property
    def players(self) -> int:
        return len(self.updates)


@dataclass(frozen=True)
class MixedChunk:
    """The sub-models of a chunk of coalitions: base + Λ · updates."""

    mixture: Mixture
    weights: Tensor
    """(models, players) float32"""

    def slice_of(self, span: slice) -> Tensor:
        # addmm broadcasts the base over the models: eq. (fl_sub_model) for the whole chunk.
        return torch.addmm(self.mixture.base[span], self.weights, self.mixture.updates[:, span])

    def mix_products(self, node: str, block: int, out: Tensor) -> bool:
        prepared = self.mixture.products.get((node, block))
        if prepared is None:
            return False
        torch.addmm(prepared[0], self.weights, prepared[1], out=out)
        return True


@dataclass(frozen=True)
class RememberedChunk:
    """A chunk whose slices are formed once although several blocks of rows ask for them."""

    chunk: ParameterChunk
    slices: dict[int, Tensor] = field(default_factory=dict)

    def slice_of(self, span: slice) -> Tensor:
        if span.start not in self.slices:
            self.slices[span.start] = self.chunk.slice_of(span)
        return self.slices[span.start]

    def mix_products(self, node: str, block: int, out: Tensor) -> bool:
        return self.chunk.mix_products(node, block, out)


def as_tensor(array: NDArray[Any], device: str = "cpu") -> Tensor:
    """The array as a tensor, without a copy on the CPU. Read-only arrays (memory maps) stay what they are."""
    if not array.flags.aligned or not array.flags.c_contiguous:
        array = np.array(array, order="C")
    with warnings.catch_warnings():
        # torch warns that writing to such a tensor is undefined; nothing in this package writes to one.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array).to(device)
