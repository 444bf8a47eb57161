"""Checks of one epoch against itself: are updates models, do they go down the loss, do they give the server's model?"""

from __future__ import annotations

import numpy as np

from flcontrib_core.history.trajectory import WalkStep
from flcontrib_core.vocabulary import Float32Array, FloatArray

SAME = 1e-3
"""Relative distance below which a rule explains the server's step."""
MOST_SOLVED = 64
"""Participants up to which weights are solved for, and who are compared with each other."""
UNEXPLAINED = "no rule that is tried here"
INITIAL_MODEL = "the stored server model follows from another initial model than the log's"


def likeness(updates: Float32Array, start: Float32Array) -> tuple[float, float]:
    """Median over clients: length beside the model's, cosine to the model."""
    model = float(np.linalg.norm(start))
    lengths = np.linalg.norm(updates, axis=1)
    if model == 0.0 or not np.isfinite(lengths).all():
        return 0.0, 0.0
    cosines = updates @ start / np.maximum(lengths * model, 1e-30)
    return float(np.median(lengths)) / model, float(np.median(cosines))


def slope(step: WalkStep, down: FloatArray) -> tuple[float, float]:
    """Largest of two cosines to the way down (of the mean update, a client's in the median), and among clients."""
    updates = step.data.updates[:MOST_SOLVED].astype(np.float64)
    lengths = np.linalg.norm(updates, axis=1)
    steep = float(np.linalg.norm(down))
    if not np.isfinite(steep) or steep == 0.0 or not np.isfinite(lengths).all() or lengths.min() == 0.0:
        return 1.0, 0.0
    each = updates / lengths[:, None]
    among = (each @ each.T)[np.triu_indices(len(each), 1)]
    sizes = np.asarray(step.record.weights, dtype=np.float64)
    mean = (sizes / sizes.sum()) @ step.data.updates.astype(np.float64)
    along = float(mean @ down) / max(float(np.linalg.norm(mean)) * steep, 1e-30)
    return max(along, float(np.median(each @ down)) / steep), float(np.median(among))


def rule(step: WalkStep, mean: FloatArray, updates: Float32Array) -> str | None:
    """Which rule leads from the updates to the stored server model, where the weighted mean does not? None where it
    does, ``UNEXPLAINED`` where none of those tried here does."""
    assert step.data.global_model is not None
    server = step.data.global_model.astype(np.float64)
    moved = server - step.start
    size = float(np.linalg.norm(moved))

    def fits(guess: FloatArray, target: FloatArray) -> bool:
        return float(np.linalg.norm(guess - target)) <= SAME * max(float(np.linalg.norm(target)), 1e-12)

    if size == 0.0 or fits(mean, moved):
        return None
    if fits(-mean, moved):
        return "the updates have the wrong sign: taken away from the model, they give the stored one"
    if fits(mean, server):
        return "the updates are models: their mean is the stored server model"
    if fits(updates.mean(axis=0, dtype=np.float64), moved):
        return "the clients count equally, whatever their data sizes"
    length = float(np.linalg.norm(mean))
    along = float(mean @ moved) / max(length * size, 1e-30)
    if along > 1 - SAME:
        return f"the server goes {size / length:.3g} times the weighted mean (a learning rate of the server)"
    if len(updates) <= MOST_SOLVED and len(updates) < updates.shape[1]:
        wide = updates.astype(np.float64)
        weights = np.linalg.lstsq(wide @ wide.T, wide @ moved, rcond=None)[0]
        if fits(weights @ wide, moved) and weights.min() > -SAME:
            return "other weights than the data sizes: the stored server model is another weighted sum of the updates"
    return UNEXPLAINED
