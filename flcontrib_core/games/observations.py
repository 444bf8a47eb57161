"""Observations: what can be seen of every participant in every epoch without computing Shapley values.

``observe_epoch`` takes one epoch's cheap observations: what each client's update alone does to the model (one
evaluation per participant) and what the update looks like. ``assembled_channels`` puts the epochs of a run side by
side.

Sums go through ``einsum``, which adds in one fixed order: the bits of an observation must not depend on how many
threads a matrix library happens to have in this process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flcontrib_core.blas import side_by_side
from flcontrib_core.games.sketches import blocks_of, fingerprints_of, sketch_updates
from flcontrib_core.games.solo_changes import group_changes, solo_changes
from flcontrib_core.games.submodels import OpaqueEpochGame, gram_matrix
from flcontrib_core.runs.mapped import columns_at_once, in_blocks
from flcontrib_core.vocabulary import Float32Array, FloatArray, IntArray, LogitTensor


@dataclass(frozen=True)
class LastStep:
    """F(t−1) − F(t−2), in slices: the difference of two large models is no third one."""

    now: Float32Array
    before: Float32Array

    def __getitem__(self, block: slice) -> Float32Array:
        return np.asarray(self.now[block] - self.before[block])


@dataclass(frozen=True)
class EpochObservation:
    """The cheap observations of one epoch; rows are its participants in the game's order."""

    epoch: int
    validation_rows: int
    solo_margin: FloatArray
    """(n,) mean change of the true-class logit (centred over classes) of F + Δ_i"""
    solo_class_margin: FloatArray
    """(n, classes) the same over the rows of each class; NaN without rows"""
    solo_worst_class: FloatArray
    """(n,) largest rise of a class's loss"""
    solo_loss: FloatArray
    """(n,) change of the loss"""
    norm: FloatArray
    spread: FloatArray
    """(n,) participation ratio 1 / (P Σ u⁴) of the unit update u"""
    peer_cosine: FloatArray
    """(n,) mean cosine to the other participants' updates"""
    last_step_cosine: FloatArray
    """(n,) cosine to the previous global step; NaN where there is none"""
    twin_cosine: FloatArray
    """(n,) largest cosine to another participant's update; NaN for a zero update and without another"""
    twin: IntArray
    """(n,) that participant's row; −1 = none"""
    sketch: np.ndarray
    """(n, dimensions) float16, unit length; zero for a zero update"""
    fingerprint: np.ndarray
    """(n, 32) uint8: sha256 of the update's bytes"""


def observe_epoch(
    game: OpaqueEpochGame,
    epoch: int,
    last_step: Float32Array | LastStep | None,
    seed: int,
    *,
    solo_logits: LogitTensor | None = None,
) -> EpochObservation:
    """What do this epoch's participants look like?

    ``last_step`` (P,) is F(t−1) − F(t−2). ``seed`` chooses the sketch and must be the same for all epochs of a run.
    ``solo_logits`` (n, V, K) of F_prev + Δ_i are taken where the caller has them (adaptive singletons are exactly
    these), else they are evaluated.
    """
    evaluator, players = game.evaluator, game.players
    if not evaluator.classifies:
        return _observe_utility(game, observe_updates(game.updates, epoch, last_step, seed, game.gram()))
    alone = np.zeros((1, players)) if solo_logits is not None else np.vstack([np.zeros((1, players)), np.eye(players)])
    logits = evaluator.evaluate_mixture(game.mixture, alone, keep_logits=True)[1]
    assert logits is not None
    base_logits, solo_logits = logits[0], logits[1:] if solo_logits is None else solo_logits
    y, groups = evaluator.validation.y, evaluator.row_groups
    margin, class_margin, class_loss, loss = solo_changes(base_logits, solo_logits, y)
    if groups is not None:
        class_loss = np.hstack([class_loss, group_changes(base_logits, solo_logits, y, groups)])
    return replace(
        observe_updates(game.updates, epoch, last_step, seed, game.gram()),
        validation_rows=evaluator.validation_rows,
        solo_margin=margin,
        solo_class_margin=class_margin,
        solo_worst_class=np.fmax.reduce(class_loss, axis=1),
        solo_loss=loss,
    )


def _observe_utility(game: OpaqueEpochGame, seen: EpochObservation) -> EpochObservation:
    """What each update alone does to the rows' losses, or to the first metric, turned so that a rise is harm.

    It stands for the loss and, with the opposite sign, for the margin. The worst class is the worst group of rows
    where the task has groups, and unknown where it has none.
    """
    harm, worst = game.evaluator.solo_changes(game.mixture)
    rows = game.evaluator.validation_rows
    return replace(seen, validation_rows=rows, solo_margin=-harm, solo_loss=harm, solo_worst_class=worst)


def observe_updates(
    updates: Float32Array,
    epoch: int,
    last_step: Float32Array | LastStep | None,
    seed: int,
    gram: FloatArray | None = None,
) -> EpochObservation:
    """What the updates (n, P) alone look like; what they do to the model stays NaN, with no class and no row.

    ``gram``: ΔΔᵀ where the caller has it.
    """
    gram = gram_matrix(updates) if gram is None else gram
    norm = np.sqrt(np.diag(gram))
    twin_cosine, twin = _twins(gram, norm)
    unknown = np.full(len(updates), np.nan)
    seen: dict[str, Any] = {}
    passes: dict[str, Callable[[], object]] = {
        "spread": lambda: _spread(updates, norm),
        "fingerprint": lambda: fingerprints_of(updates),
        "sketch": lambda: sketch_updates(updates, seed),
        "last_step_cosine": lambda: _cosine_to(last_step, updates, norm),
    }
    side_by_side(lambda name: seen.update({name: passes[name]()}), passes)
    return EpochObservation(
        epoch=epoch,
        validation_rows=0,
        solo_margin=unknown,
        solo_class_margin=np.empty((len(updates), 0)),
        solo_worst_class=unknown,
        solo_loss=unknown,
        norm=norm,
        peer_cosine=_peer_cosine(gram, norm),
        twin_cosine=twin_cosine,
        twin=twin,
        **seen,
    )


def _spread(updates: Float32Array, norm: FloatArray) -> FloatArray:
    """1 / (P Σ u⁴): 1 where all parameters move alike, 1/3 for isotropic noise, far less for real updates."""
    fourth = np.zeros(len(updates))
    scale = np.where(norm > 0, norm, np.nan)[:, None]
    for block in in_blocks(updates.shape[1], columns_at_once(updates), updates):
        squared = np.square(updates[:, block] / scale)
        fourth += np.einsum("ij,ij->i", squared, squared)
    return np.asarray(1.0 / (updates.shape[1] * fourth))


def _peer_cosine(gram: FloatArray, norm: FloatArray) -> FloatArray:
    """Mean cosine to the other participants that moved at all; NaN without one."""
    moved = norm > 0
    unit = np.where(moved, norm, np.nan)
    cosine = gram / np.outer(unit, unit)
    np.fill_diagonal(cosine, np.nan)
    others = np.isfinite(cosine).sum(axis=1)
    return np.where(others > 0, np.nansum(cosine, axis=1) / np.maximum(others, 1), np.nan)


def _twins(gram: FloatArray, norm: FloatArray) -> tuple[FloatArray, IntArray]:
    """The closest other participant of each, by direction: (n,) its cosine, (n,) its row."""
    unit = np.where(norm > 0, norm, np.nan)
    cosine = gram / np.outer(unit, unit)
    np.fill_diagonal(cosine, np.nan)
    finite = np.isfinite(cosine)
    ranked = np.where(finite, cosine, -np.inf)
    closest = ranked.argmax(axis=1)
    best = ranked[np.arange(len(norm)), closest]
    return np.where(finite.any(axis=1), best, np.nan), np.where(finite.any(axis=1), closest, -1)


def _cosine_to(direction: Float32Array | LastStep | None, updates: Float32Array, norm: FloatArray) -> FloatArray:
    if direction is None:
        return np.full(len(updates), np.nan)
    dot, squared = np.zeros(len(updates)), 0.0
    read = (direction.now, direction.before) if isinstance(direction, LastStep) else (direction,)
    for block in blocks_of(updates.shape[1], updates, *read):
        step = direction[block].astype(np.float64)
        dot += np.einsum("ij,j->i", updates[:, block], step)
        squared += float(np.einsum("j,j", step, step))
    length = np.sqrt(squared) * norm
    return np.asarray(np.divide(dot, length, out=np.full(len(updates), np.nan), where=length > 0))
