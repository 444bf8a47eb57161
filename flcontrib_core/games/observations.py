"""Observations: what can be seen of every participant in every epoch without computing Shapley values.

``observe_epoch`` takes one epoch's cheap observations: what each client's update alone does to the model (one
evaluation per participant) and what the update looks like. ``assemble_channels`` puts the epochs of a run side by side
and adds what only shows across epochs: a client's own direction, and updates that it sent before.

Updates are kept as seeded sketches, so that a long run needs neither all updates in memory nor a second reading of
it; exact distances are read again only for pairs that the sketches cannot tell apart.

Sums go through ``einsum``, which adds in one fixed order: the bits of an observation must not depend on how many
threads a matrix library happens to have in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flcontrib_core.blas import side_by_side
from flcontrib_core.games.raw_channels import RawChannels
from flcontrib_core.games.sketches import (
    UpdateDistance,
    blocks_of,
    copied_updates,
    fingerprints_of,
    largest_cosine_to_earlier,
    mean_cosine_to_the_others,
    repeated_updates,
    sketch_updates,
    unit_rows,
    update_distance,
)
from flcontrib_core.games.solo_changes import group_changes, solo_changes
from flcontrib_core.games.submodels import OpaqueEpochGame, gram_matrix
from flcontrib_core.runs.mapped import columns_at_once, in_blocks
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import BoolArray, Float32Array, FloatArray, IntArray, LogitTensor

_SKETCHES_IN_MEMORY = 256 << 20
_PER_CLIENT = (
    "solo_margin",
    "solo_worst_class",
    "solo_loss",
    "norm",
    "spread",
    "peer_cosine",
    "last_step_cosine",
    "twin_cosine",
)


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


def assemble_channels(
    run: RunLog,
    observations: Mapping[int, EpochObservation],
    distance: UpdateDistance | None = None,
    before: RawChannels | None = None,
) -> RawChannels:
    """All epochs side by side, with each client's own direction, repeats and copies.

    ``observations`` by epoch; it may load them when asked (each is asked for once, plus once per group of clients
    whose sketches fit in memory together). Missing epochs stay NaN. ``before``: of the same run when it was shorter.
    """
    shape = (run.epoch_count + 1, len(run.clients))
    per_client = {name: np.full(shape, np.nan) for name in _PER_CLIENT}
    class_margin: FloatArray | None = None
    copy_of, twin_of = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    fingerprints: dict[tuple[int, int], bytes] = {}
    rows, dimensions = 0, 0
    for epoch in sorted(observations):
        seen = observations[epoch]
        members = list(run.epochs[epoch - 1].participants)
        for name, cells in per_client.items():
            cells[epoch, members] = getattr(seen, name)
        if class_margin is None:
            class_margin = np.full((*shape, seen.solo_class_margin.shape[1]), np.nan)
        class_margin[epoch, members] = seen.solo_class_margin
        rows, dimensions = seen.validation_rows, seen.sketch.shape[1]
        prints = [row.tobytes() for row in seen.fingerprint]
        copy_of[epoch, members] = copied_updates(members, prints, seen.norm, seen.sketch)
        twin_of[epoch, members] = [0 if row < 0 else 1 + members[row] for row in seen.twin]
        fingerprints |= {(epoch, client): print_ for client, print_ in zip(members, prints, strict=True)}
    own, closest, repeats = _across_epochs(
        run, observations, per_client["norm"], fingerprints, distance or update_distance(run), before
    )
    bit_equal = np.zeros(shape, dtype=bool)
    for epoch, client in np.argwhere(repeats > 0).tolist():
        bit_equal[epoch, client] = fingerprints[epoch, client] == fingerprints[int(repeats[epoch, client]), client]
    return RawChannels(
        solo_margin=per_client["solo_margin"],
        solo_class_margin=np.full((*shape, 0), np.nan) if class_margin is None else class_margin,
        solo_worst_class=per_client["solo_worst_class"],
        solo_loss=per_client["solo_loss"],
        own_cosine=own,
        norm=per_client["norm"],
        spread=per_client["spread"],
        peer_cosine=per_client["peer_cosine"],
        last_step_cosine=per_client["last_step_cosine"],
        repeat_of=repeats,
        copy_of=copy_of,
        validation_rows=rows,
        sketch_dimensions=dimensions,
        repeat_bit_equal=bit_equal,
        closest_own_cosine=closest,
        twin_cosine=per_client["twin_cosine"],
        twin_of=twin_of,
    )


def _across_epochs(
    run: RunLog,
    observations: Mapping[int, EpochObservation],
    norm: FloatArray,
    fingerprints: Mapping[tuple[int, int], bytes],
    distance: UpdateDistance,
    before: RawChannels | None,
) -> tuple[FloatArray, FloatArray, IntArray]:
    """(T + 1, clients) own cosine, closest earlier one and repeated epoch; a bounded group of sketches is in memory."""
    own, closest = np.full(norm.shape, np.nan), np.full(norm.shape, np.nan)
    repeats = np.zeros(norm.shape, dtype=np.int64)
    moved: BoolArray = norm > 0  # NaN (absent, not observed) is not
    for group in _groups_of_clients(moved.sum(axis=0), observations):
        wanted = set(group)
        sketches: dict[int, list[np.ndarray]] = {client: [] for client in group}
        for epoch in sorted(observations):
            members = run.epochs[epoch - 1].participants
            if wanted.intersection(members):
                seen = observations[epoch].sketch
                for row, client in enumerate(members):
                    if client in wanted and moved[epoch, client]:
                        sketches[client].append(seen[row])
        for client in group:
            epochs = np.flatnonzero(moved[:, client])
            if len(epochs) < 2:
                continue
            directions = np.array(sketches.pop(client), dtype=np.float32)  # (k, dimensions)
            rows = unit_rows(directions)
            own[epochs, client] = mean_cosine_to_the_others(rows)
            known = _known(before, norm, client)  # of what looks back at earlier epochs alone
            first = int(np.searchsorted(epochs, known))
            closest[epochs, client] = largest_cosine_to_earlier(rows, first)
            if known and before is not None and before.closest_own_cosine is not None:
                closest[:known, client] = before.closest_own_cosine[:, client]
                repeats[:known, client] = before.repeat_of[:, client]
            sizes = norm[epochs, client]
            for earlier, later in repeated_updates(client, epochs, sizes, directions, fingerprints, distance, first):
                repeats[later, client] = earlier
    return own, closest, repeats


def _known(before: RawChannels | None, norm: FloatArray, client: int) -> int:
    """Rows that an earlier reading of the same growing run has of this client."""
    if before is None or before.closest_own_cosine is None:
        return 0
    return int(np.array_equal(before.norm[:, client], norm[: len(before.norm), client], True)) * len(before.norm)


def _groups_of_clients(updates: IntArray, observations: Mapping[int, EpochObservation]) -> Iterator[list[int]]:
    """Clients in groups whose sketches stay within the memory bound."""
    if not len(observations):
        return
    first = observations[min(observations)].sketch
    group, taken = list[int](), 0
    for client, count in enumerate(updates.tolist()):
        size = count * first.shape[1] * first.itemsize
        if group and taken + size > _SKETCHES_IN_MEMORY:
            yield group
            group, taken = [], 0
        group.append(client)
        taken += size
    yield group
