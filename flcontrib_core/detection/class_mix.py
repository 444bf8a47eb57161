"""Did a client's classes change places inside a window, as honest drift does, or did all of them suffer?

Honest drift moves per-class margins both ways: what the client now sees more of improves, the rest is forgotten,
and the updates keep their size. Flipped labels push the classes down. Such a window is a question, not an accusation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.contribution_history import ContributionHistory
from flcontrib_core.detection.channels import Channels, others_quantile
from flcontrib_core.vocabulary import BoolArray, FloatArray

LEAST_SHARE_UP = 0.36
"""Share of the per-class movement that must point up."""
LARGEST_SIZE_RATIO = 2.0


@dataclass(frozen=True)
class ClassMoves:
    """How the solo sub-model's per-class margins moved inside a window, against peers and the client's own rest."""

    moves: FloatArray
    """(classes,) mean inside − mean outside of the margin relative to the peers' median"""
    share_up: float
    """Σ of upward moves / Σ of all moves in absolute value"""
    size_ratio: float
    """update size inside / outside, relative to the peers"""

    @property
    def mix_changed(self) -> bool:
        return self.share_up >= LEAST_SHARE_UP and 1 / LARGEST_SIZE_RATIO <= self.size_ratio <= LARGEST_SIZE_RATIO


def class_moves(history: ContributionHistory, channels: Channels, client: int, inside: BoolArray) -> ClassMoves | None:
    """Movement of client ``client`` in the rows ``inside`` (E,); None where the run has no per-class margins."""
    raw = history.channels
    if raw is None or inside.all():
        return None
    outside = ~inside
    outside[:2] = False
    margins = raw.solo_class_margin[channels.epochs]
    moves = []
    for c in range(margins.shape[2]):
        relative = (margins[:, :, c] - others_quantile(margins[:, :, c], 0.5))[:, client]
        within, beyond = relative[inside & np.isfinite(relative)], relative[outside & np.isfinite(relative)]
        if len(within) and len(beyond):
            moves.append(within.mean() - beyond.mean())
    if not moves:
        return None
    moved = np.array(moves)
    total = float(np.abs(moved).sum())
    share_up = float(moved[moved > 0].sum()) / total if total > 0 else 0.0
    return ClassMoves(moved, share_up, _size_ratio(raw.norm[channels.epochs], client, inside, outside))


def _size_ratio(norm: FloatArray, client: int, inside: BoolArray, outside: BoolArray) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.log(norm)
    size = np.where(np.isfinite(size), size, np.nan)
    relative = (size - others_quantile(size, 0.5))[:, client]
    within, beyond = relative[inside & np.isfinite(relative)], relative[outside & np.isfinite(relative)]
    return float(np.exp(within.mean() - beyond.mean())) if len(within) and len(beyond) else 1.0
