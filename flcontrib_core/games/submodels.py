"""One epoch, or a whole run, as a cooperative game between its clients.

The players of an epoch are its participants; the value of a coalition S is what its sub-model changes,
u(S) = v(F_S) − v(F_prev), with F_S = F_prev + Σ_{i∈S} λ(i, S) Δ_i (eq. fl_sub_model). Clients that did not take part
do not influence any sub-model (Lemma non_selected_submodel), are null players (Lemma shapley_value_non_selected) and
are therefore no players here: their value is exactly 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
import torch

from flcontrib_core.errors import SettingsError
from flcontrib_core.games.evaluator import Evaluator, one_thread
from flcontrib_core.games.mixtures import Mixture, as_tensor
from flcontrib_core.runs.mapped import columns_at_once, in_blocks, room
from flcontrib_core.vocabulary import (
    CoalitionMatrix,
    CoalitionWeights,
    Float32Array,
    FloatArray,
    LogitTensor,
    UtilityMatrix,
    WeightMode,
)

EvaluateMixture: TypeAlias = Callable[[Mixture, FloatArray, bool], tuple[UtilityMatrix, LogitTensor | None]]
"""(mixture, Λ, whether logits are kept) -> values and logits of base + Λ·updates."""
_BLOCK = 1 << 18
"""Parameters per step where float64 copies of the updates are needed."""
_WHOLE_RUN_BYTES = 256 << 20
"""Sub-models a whole-run game builds at a time, in bytes of parameters."""


def coalition_weights(
    coalitions: CoalitionMatrix,
    data_sizes: Sequence[float] | FloatArray,
    mode: WeightMode = WeightMode.ADAPTIVE,
    federation_size: float | None = None,
) -> CoalitionWeights:
    """λ(i, S) for every row S: (coalitions, players), zero outside S and for the empty coalition.

    Adaptive: |D_i| / Σ_{j∈S} |D_j|; fixed: |D_i| / Σ_j |D_j| over all players; fixed-all (Lin et al. 2023):
    |D_i| / ``federation_size``, the data of all clients whether they took part or not.

    >>> coalition_weights(np.array([[True, False, True]]), [10, 10, 30])
    array([[0.25, 0.  , 0.75]])
    """
    sizes = np.asarray(data_sizes, dtype=np.float64)
    held = np.where(coalitions, sizes, 0.0)
    total = held.sum(axis=1, keepdims=True) if mode is WeightMode.ADAPTIVE else sizes.sum()
    if mode is WeightMode.FIXED_ALL:
        if federation_size is None or federation_size < sizes.sum():
            raise SettingsError(
                f"weights over all clients need the federation's data size, at least {sizes.sum():g} here; "
                f"found {federation_size}"
            )
        total = np.float64(federation_size)
    return np.asarray(np.divide(held, total, out=np.zeros_like(held), where=total > 0))


def aggregate(base: Float32Array, updates: Float32Array, data_sizes: Sequence[float] | FloatArray) -> Float32Array:
    """F(t) by eq. (fl_naive): the data-size-weighted mean of the updates, added in float64, returned as float32."""
    if len(updates) == 0:
        return np.array(base, dtype=np.float32)
    weights = coalition_weights(np.ones((1, len(updates)), dtype=bool), data_sizes)[0]
    result: Float32Array = room(len(base))
    with one_thread():
        for block in in_blocks(len(base), _BLOCK, base, updates, result):
            step = torch.from_numpy(weights) @ torch.from_numpy(updates[:, block].astype(np.float64))
            result[block] = base[block] + step.numpy()
    return result


def gram_matrix(updates: Float32Array) -> FloatArray:
    """ΔΔᵀ in float64, (players, players), in blocks of parameters."""
    gram = torch.zeros(len(updates), len(updates), dtype=torch.float64)
    with one_thread():
        for columns in in_blocks(updates.shape[1], columns_at_once(updates), updates):
            block = torch.from_numpy(updates[:, columns].astype(np.float64))
            gram += block @ block.T
    return gram.numpy()


class OpaqueEpochGame:
    """One epoch's participants as players, where nothing but utilities comes back.

    ``base`` (P,) is F(t−1), ``updates`` (players, P) the Δ_i in the players' order. ``empty_value`` (utilities,) is
    v(F_prev) where it is already known: v(F(t)) of one epoch serves as the empty coalition of the next.
    ``evaluate_mixture`` stands in for the evaluator's own where sub-models are evaluated elsewhere.
    Utilities may have any sign and are never clipped.
    """

    def __init__(
        self,
        base: Float32Array,
        updates: Float32Array,
        data_sizes: Sequence[float],
        evaluator: Evaluator,
        weights: WeightMode = WeightMode.ADAPTIVE,
        empty_value: FloatArray | None = None,
        federation_size: float | None = None,
        evaluate_mixture: EvaluateMixture | None = None,
    ) -> None:
        if len(data_sizes) != len(updates) or any(size <= 0 for size in data_sizes):
            raise SettingsError(
                f"{len(updates)} updates and data sizes {list(data_sizes)}; each participant needs a positive one"
            )
        self.base = base
        self.updates = updates
        self.data_sizes = tuple(data_sizes)
        self.evaluator = evaluator
        self.weight_mode = weights
        self.federation_size = federation_size
        self._empty_value = empty_value
        self.mixture = evaluator.mixture(base, updates)
        self._evaluate_mixture = evaluate_mixture or evaluator.evaluate_mixture

    @property
    def players(self) -> int:
        return len(self.data_sizes)

    @property
    def utilities(self) -> tuple[str, ...]:
        return self.evaluator.utilities

    @cached_property
    def empty_values(self) -> FloatArray:
        """v(F_prev), (utilities,): given, or evaluated once."""
        if self._empty_value is not None:
            return np.asarray(self._empty_value, dtype=np.float64)
        values, _ = self._evaluate_mixture(self.mixture, np.zeros((1, self.players)), False)
        return np.asarray(values[0])

    def weights(self, coalitions: CoalitionMatrix) -> CoalitionWeights:
        return coalition_weights(coalitions, self.data_sizes, self.weight_mode, self.federation_size)

    def absolute(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        """v(F_S), not relative to F_prev."""
        return self._absolute(coalitions, keep_logits=False)[0]

    def evaluate(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        return self.absolute(coalitions) - self.empty_values

    @property
    def smooth_utility(self) -> str:
        """The utility whose gradient can be taken."""
        return self.evaluator.smooth_utility

    def gram(self) -> FloatArray:
        return self._gram

    @cached_property
    def _gram(self) -> FloatArray:
        return gram_matrix(self.updates)

    def loss_slopes(self, weights: FloatArray) -> FloatArray:
        """(players,) Δ_i·∇loss at F_prev + Σ_j ``weights``_j Δ_j, in blocks of parameters."""
        at = np.empty(len(self.base), dtype=np.float32)
        slopes = np.zeros(self.players)
        with one_thread():
            of_weights = torch.from_numpy(np.asarray(weights, dtype=np.float32))
            for start in range(0, len(self.base), _BLOCK):
                block = slice(start, start + _BLOCK)
                at[block] = self.base[block] + (of_weights @ as_tensor(self.updates[:, block])).numpy()
            gradient = self.evaluator.loss_gradient(at)
            for start in range(0, len(self.base), _BLOCK):
                block = slice(start, start + _BLOCK)
                part = torch.from_numpy(gradient[block].astype(np.float32))
                slopes += (as_tensor(self.updates[:, block]) @ part).numpy().astype(np.float64)
        return slopes

    def _absolute(self, coalitions: CoalitionMatrix, keep_logits: bool) -> tuple[UtilityMatrix, LogitTensor | None]:
        values, logits = self._evaluate_mixture(self.mixture, self.weights(coalitions), keep_logits)
        # The empty coalition is F_prev itself, whose value may come from the epoch before: exactly that, so u(∅) = 0.
        values[~coalitions.any(axis=1)] = self.empty_values
        return values, logits


class EpochGame(OpaqueEpochGame):
    """One epoch's participants as players, with the validation outputs of every sub-model (a ``LogitGame``)."""

    @property
    def validation_rows(self) -> int:
        return self.evaluator.validation_rows

    @property
    def multiply_adds(self) -> float:
        return self.evaluator.multiply_adds(self.players)

    def evaluate_with_logits(self, coalitions: CoalitionMatrix) -> tuple[UtilityMatrix, LogitTensor]:
        values, logits = self._absolute(coalitions, keep_logits=True)
        assert logits is not None
        return values - self.empty_values, logits

    def utilities_of_logits(self, logits: LogitTensor) -> UtilityMatrix:
        return self.evaluator.values_of_logits(logits) - self.empty_values


def epoch_game(
    base: Float32Array,
    updates: Float32Array,
    data_sizes: Sequence[float],
    evaluator: Evaluator,
    weights: WeightMode = WeightMode.ADAPTIVE,
    federation_size: float | None = None,
    evaluate_mixture: EvaluateMixture | None = None,
) -> OpaqueEpochGame:
    """One epoch's game: with outputs where the evaluator gives them, else with utilities alone."""
    kind = EpochGame if evaluator.has_logits else OpaqueEpochGame
    return kind(base, updates, data_sizes, evaluator, weights, None, federation_size, evaluate_mixture)


class WholeRunGame:
    """All clients of a run as players; F_S is rebuilt over every epoch and judged once, at the end (one-round).

    F_S = F(0) + Σ_t Σ_{i∈S∩I(t)} λ(i, S∩I(t)) Δ_i(t); an epoch without a member of S changes nothing. ``read_epochs``
    starts a pass over the run's epochs; the updates of one epoch at a time are in memory, and as many
    sub-models as fit in a fixed number of bytes, so a large request reads the run several times.

    Departure: one-round (Song et al. 2019) knows only the clients' updates; a server that is no weighted mean has
    no share here, although the run's own F(T) differs from F_N then.
    """

    def __init__(
        self,
        initial: Float32Array,
        clients: int,
        read_epochs: Callable[[], Iterable[tuple[Sequence[int], Sequence[float], Float32Array]]],
        evaluator: Evaluator,
        weights: WeightMode = WeightMode.ADAPTIVE,
        federation_size: float | None = None,
    ) -> None:
        """``read_epochs()`` yields (client positions, weights, updates) epoch by epoch."""
        self.players = clients
        self.evaluator = evaluator
        self.weight_mode = weights
        self.federation_size = federation_size
        self._initial = np.asarray(initial, dtype=np.float32)
        self._read_epochs = read_epochs

    @property
    def utilities(self) -> tuple[str, ...]:
        return self.evaluator.utilities

    @cached_property
    def empty_values(self) -> FloatArray:
        """v(F(0)), (utilities,)."""
        return np.asarray(self.evaluator.evaluate(self._initial[None])[0][0])

    def sub_models(self, coalitions: CoalitionMatrix) -> Float32Array:
        """(coalitions, P): F_S after the last epoch; one pass over the run."""
        # Always eight sub-models per product: the bits of one must not depend on how many were asked for.
        filled = np.zeros((-(-len(coalitions) // 8) * 8, self.players), dtype=bool)
        filled[: len(coalitions)] = coalitions
        models = torch.from_numpy(np.repeat(self._initial[None], len(filled), axis=0))
        with one_thread():
            for participants, sizes, updates in self._read_epochs():
                members = filled[:, list(participants)]
                mixed = coalition_weights(members, sizes, self.weight_mode, self.federation_size)
                weights, given = torch.from_numpy(mixed.astype(np.float32)), as_tensor(updates)
                for start in range(0, len(filled), 8):
                    models[start : start + 8].addmm_(weights[start : start + 8], given)
        return models.numpy()[: len(coalitions)]

    def absolute(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        """v(F_S)."""
        values = np.empty((len(coalitions), len(self.utilities)))
        step = max(8, _WHOLE_RUN_BYTES // (4 * len(self._initial)) // 8 * 8)
        for start in range(0, len(coalitions), step):
            some = coalitions[start : start + step]
            values[start : start + step] = self.evaluator.evaluate(self.sub_models(some))[0]
        values[~coalitions.any(axis=1)] = self.empty_values
        return values

    def evaluate(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        return self.absolute(coalitions) - self.empty_values
