"""What each update alone does to the validation rows of a classifier: margins and losses, by class and by group."""

from __future__ import annotations

import numpy as np

from flcontrib_core.vocabulary import Float32Array, FloatArray, IntArray, LogitTensor


def solo_changes(
    base: LogitTensor, solo: LogitTensor, y: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """(n,) margin, (n, classes) margin and loss change per class, (n,) loss change."""
    if base.shape[1] == 1:  # a single logit is a pair of logits, one of which is 0
        base, solo = (np.concatenate([np.zeros_like(z), z], axis=-1) for z in (base, solo))
    classes = base.shape[1]
    before_margin, before_loss = _margins_and_losses(base, y)
    of_class = np.zeros((len(y), classes))
    of_class[np.arange(len(y)), y] = 1.0
    rows = np.where(of_class.any(axis=0), of_class.sum(axis=0), np.nan)
    margins, losses = np.empty((len(solo), classes)), np.empty((len(solo), classes))
    total = np.empty((len(solo), 2))
    for player, logits in enumerate(solo):
        margin, loss = _margins_and_losses(logits, y)
        margins[player] = np.einsum("v,vk->k", margin - before_margin, of_class) / rows
        losses[player] = np.einsum("v,vk->k", loss - before_loss, of_class) / rows
        total[player] = np.mean(margin - before_margin), np.mean(loss - before_loss)
    return total[:, 0], margins, losses, total[:, 1]


def group_changes(base: LogitTensor, solo: LogitTensor, y: IntArray, groups: IntArray) -> FloatArray:
    """(n, groups) change of the loss over the rows of each group that somebody named."""
    pairs = [np.concatenate([np.zeros_like(z), z], axis=-1) if z.shape[1] == 1 else z for z in (base, *solo)]
    losses = np.stack([_margins_and_losses(logits, y)[1] for logits in pairs])
    change = losses[1:] - losses[0]
    return np.stack([change[:, groups == group].mean(axis=1) for group in np.unique(groups)], axis=1)


def _margins_and_losses(logits: Float32Array, y: IntArray) -> tuple[FloatArray, FloatArray]:
    """(V, K) -> (V,) true-class logit centred over classes, (V,) cross-entropy; NaN for a diverged model."""
    z = logits.astype(np.float64)
    if not np.isfinite(z).all():
        return np.full(len(y), np.nan), np.full(len(y), np.nan)
    of_truth = z[np.arange(len(y)), y]
    highest = z.max(axis=1)
    return of_truth - z.mean(axis=1), np.log(np.exp(z - highest[:, None]).sum(axis=1)) - (of_truth - highest)
