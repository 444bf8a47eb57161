"""The scale of the inputs that the clients trained on, beside the validation inputs: the first layer tells it.

A weight of the first layer moves with the error times its input, a bias with the error alone. So the length of the
weights' step beside that of the biases' measures the inputs, whatever the learning rate; the slope of the validation
loss at the same model measures the validation inputs in the same way.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.history.trajectory import WalkStep
from flcontrib_core.runs.model_nodes import parse_spec
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import Float32Array, FloatArray

PROPORTIONATE = 4.0
"""Within this factor, up and down, nothing is said: right logs were measured from .54 to 2.4 (docs/threat-model.md)."""
ALIKE = 0.38
"""1 / (P Σ u⁴) of a step, from which its numbers are so alike that the optimiser made them so: Adam's are above .44,
plain gradient steps below .32. Such steps do not tell how large the inputs were."""
_SAME_VALUES = ("flatten", "reshape", "dropout", "permute")
_WEIGHING = ("linear", "conv1d", "conv2d", "conv3d")


def scale_of_inputs(run: RunLog, step: WalkStep, gradient: FloatArray) -> float | None:
    """Validation inputs over training inputs, about; None where the log does not tell.

    ``step``: the first epoch. ``gradient``: the validation loss's at the model it starts from.
    """
    layer = _first_layer(run)
    if layer is None:
        return None
    weights, biases = layer
    own = _proportion(gradient, weights, biases)
    updates = step.data.updates
    theirs = [
        proportion
        for update in updates
        if _spread(update[weights]) < ALIKE and (proportion := _proportion(update, weights, biases)) is not None
    ]
    if own is None or 2 * len(theirs) <= len(updates):
        return None
    return own / float(np.median(theirs))


def normalises_batches(run: RunLog) -> bool:
    """Is the slope of the loss in training another than in evaluation, because batches are normalised there?"""
    return any(node.op == "batch_norm" for node in parse_spec(run.model)[0])


def _first_layer(run: RunLog) -> tuple[slice, slice] | None:
    """Where weights and biases of the first layer lie in a model's vector, where it takes the inputs as they are."""
    nodes, faults = parse_spec(run.model)
    taking = next((node for node in nodes if node.op not in _SAME_VALUES), None)
    if faults or taking is None or taking.op not in _WEIGHING:
        return None
    if any("norm" in node.op for node in nodes if taking.name in node.inputs):
        return None  # it takes the mean away, and with it what a bias adds: the bias moves by rounding errors alone
    places: dict[str, slice] = {}
    end = 0
    for parameter in run.parameters:
        begin, end = end, end + int(np.prod(parameter.shape))
        places[parameter.name] = slice(begin, end)
    weights, biases = (places.get(str(taking.fields.get(name))) for name in ("weight", "bias"))
    return None if weights is None or biases is None else (weights, biases)


def _proportion(step: Float32Array | FloatArray, weights: slice, biases: slice) -> float | None:
    both = [float(np.linalg.norm(step[part].astype(np.float64))) for part in (weights, biases)]
    return both[0] / both[1] if all(0.0 < length < np.inf for length in both) else None


def _spread(step: Float32Array) -> float:
    """1 where all numbers that moved did so alike."""
    moved = step[step != 0].astype(np.float64)
    if not len(moved):
        return 1.0
    squared = np.square(moved / np.linalg.norm(moved))
    return float(1.0 / (len(moved) * (squared @ squared)))
