"""The scale on which logits vary smoothly enough to be predicted, and the way back.

Class scores matter only up to a constant per row, and an attacked sub-model's may be a thousand times the usual ones.
So rows are centred over their classes and squeezed by asinh, which is linear near zero, where decisions are made, and
logarithmic far out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.blas import side_by_side, slices
from flcontrib_core.vocabulary import Float32Array, FloatArray, LogitTensor

_STEEPEST = 40.0
"""sinh(40) is 1e17: beyond it nothing is predicted."""
_AT_ONCE = 16
"""Coalitions that are put on the scale at a time"""


def _centred(logits: LogitTensor) -> Float32Array:
    """(coalitions, rows, columns): scores without their row mean; two classes need one column, one logit is itself."""
    classes = logits.shape[2]
    if classes == 1:
        return logits
    if classes == 2:
        return np.asarray(0.5 * (logits[:, :, 1:] - logits[:, :, :1]))
    return np.asarray(logits - logits.mean(axis=2, keepdims=True))


@dataclass(frozen=True)
class LogitLink:
    """y = asinh(z̄ / scale), z̄ = z − mean over classes; and back."""

    scale: float
    rows: int
    classes: int

    @classmethod
    def from_singletons(cls, logits: LogitTensor) -> LogitLink:
        """The scale is twice the median over singletons of their mean |z̄|; 1 where that is 0 or not finite."""
        finite = logits[np.isfinite(logits).all(axis=(1, 2))]
        scale = 2.0 * float(np.median(np.abs(_centred(finite)).mean(axis=(1, 2)))) if len(finite) else 0.0
        usable = np.isfinite(scale) and scale > 0
        return cls(scale if usable else 1.0, logits.shape[1], logits.shape[2])

    def outputs(self, logits: LogitTensor) -> FloatArray:
        """(coalitions, rows, classes) -> (coalitions, columns), float64; class by class, as logits are read."""
        outputs = np.empty((len(logits), self.classes if self.classes != 2 else 1, logits.shape[1]))

        def fill(some: slice) -> None:
            outputs[some] = _centred(logits[some]).transpose(0, 2, 1)
            outputs[some] /= self.scale
            np.arcsinh(outputs[some], out=outputs[some])

        side_by_side(fill, slices(len(logits), _AT_ONCE))
        return outputs.reshape(len(logits), -1)

    def logits(self, outputs: Float32Array | FloatArray) -> LogitTensor:
        """(coalitions, columns) -> centred logits (coalitions, rows, classes), float32."""
        # numpy's float32 exp is vectorised where its sinh is not; the cancellation near 0 costs 1e-7 of the scale.
        grown = np.clip(outputs, -_STEEPEST, _STEEPEST).astype(np.float32, copy=False)
        np.exp(grown, out=grown)
        z = np.reciprocal(grown)
        np.subtract(grown, z, out=z)
        z *= np.float32(0.5 * self.scale)
        z = z.reshape(len(outputs), -1, self.rows).transpose(0, 2, 1)
        return np.concatenate([-z, z], axis=2) if self.classes == 2 else z
