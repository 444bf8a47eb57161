"""Tells a client whose classes changed places inside a window, as honest drift does, from one whose classes all suffer.

Honest drift moves per-class margins both ways: what the client now sees more of improves, the rest is forgotten,
and the updates keep their size. Flipped labels push the classes down. Such a window is a question, not an accusation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from flcontrib_core.detection.channels import (
    OWN_DIRECTION,
    SKIPPED_FIRST_EPOCHS,
    SPREAD,
    VALUE,
    Channels,
    others_quantile,
)
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import BoolArray, FloatArray

LEAST_SHARE_UP = 0.25
"""Share of the per-class movement that must point up."""
BALANCED = 0.4
"""… from which, where no value is known, only a changed mix is seen, however far direction and spread moved with it."""
CLEAR_MOVE, CLEAR_IN_BALANCE = 3.0, 2.0
"""Standard errors by which the most helped and the most hurt class must have moved."""
LARGEST_CONCENTRATION = 0.8
"""Share of the downward movement that one class may bear, where there are more than two: else it is a target."""
LARGEST_SIZE_RATIO = 4.0
LARGEST_TURN = 3.0
"""log Bayes factor of the own direction: honest drift keeps a client's direction, an attack turns it."""
LARGEST_NOISE = 5.0
"""log Bayes factor of the spread"""


@dataclass(frozen=True)
class ClassMoves:
    """How the solo sub-model's per-class margins moved inside a window, against peers and the client's own rest."""

    moves: FloatArray
    """(classes,) mean inside − mean outside of the margin relative to the peers' median"""
    clear_up: float
    clear_down: float
    """the strongest upward and downward move, in standard errors (both ≥ 0)"""
    size_ratio: float
    """update size inside (mean of the logs) / outside (their median), relative to the peers"""

    @property
    def share_up(self) -> float:
        """Σ of upward moves / Σ of all moves in absolute value"""
        total = float(np.abs(self.moves).sum())
        return float(self.moves[self.moves > 0].sum()) / total if total > 0 else 0.0

    @property
    def concentration(self) -> float:
        """Share of the downward movement that the most hurt class bears."""
        down = np.maximum(-self.moves, 0.0)
        return float(down.max() / down.sum()) if down.sum() > 0 else 0.0

    def mix_changed(self, evidence: Mapping[str, float | None]) -> bool:
        """Does the window look like a changed class mix? ``evidence`` holds the channels' log Bayes factors.

        Departure: the measured rule (moved both ways, size ratio below 2) also took targeted flips and added noise;
        on tuning runs the turn of the own direction tells them from drift. Only windows that are not called harmful
        are asked: of two classes, or where one label is wanted of all rows, flips move classes both ways too.
        """
        clear = min(self.clear_up, self.clear_down)
        if self.size_ratio >= LARGEST_SIZE_RATIO:
            return False
        if evidence.get(VALUE) is None and self.share_up >= BALANCED and clear > CLEAR_IN_BALANCE:
            return True
        return (
            self.share_up >= LEAST_SHARE_UP
            and clear > CLEAR_MOVE
            and (len(self.moves) == 2 or self.concentration < LARGEST_CONCENTRATION)
            and (evidence.get(OWN_DIRECTION) or 0.0) < LARGEST_TURN
            and (evidence.get(SPREAD) or 0.0) < LARGEST_NOISE
        )


def class_moves(
    history: ContributionHistory, channels: Channels, client: int, inside: BoolArray, explained: BoolArray | None = None
) -> ClassMoves | None:
    """Movement of client ``client`` in the rows ``inside`` (E,); None where the run has no per-class margins.

    ``explained`` (E,): rows that any window of the client holds; they are not "outside" of this one.
    """
    raw = history.channels
    if raw is None:
        return None
    outside = ~inside if explained is None else ~inside & ~explained
    outside[:SKIPPED_FIRST_EPOCHS] = False
    margins = raw.solo_class_margin[channels.epochs]
    moves, clear = [], []
    for c in range(margins.shape[2]):
        within, beyond = _inside_and_outside(margins[:, :, c], client, inside, outside)
        if len(within) >= 1 and len(beyond) >= 2:
            moves.append(within.mean() - beyond.mean())
            error = np.sqrt(beyond.var(ddof=1) * (1 / len(within) + 1 / len(beyond)))
            clear.append(moves[-1] / max(float(error), 1e-12))
    if not moves:
        return None
    with np.errstate(divide="ignore"):
        size = np.log(raw.norm[channels.epochs])
    within, beyond = _inside_and_outside(np.where(np.isfinite(size), size, np.nan), client, inside, outside)
    # the median: who acts on and off is as large in its other windows, which would hide by how much it grew
    ratio = float(np.exp(within.mean() - np.median(beyond))) if len(within) and len(beyond) else 1.0
    return ClassMoves(np.array(moves), max(0.0, *clear), max(0.0, *(-t for t in clear)), ratio)


def _inside_and_outside(
    cells: FloatArray, client: int, inside: BoolArray, outside: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """The client's cells relative to the other participants' median, in the window and beyond it."""
    relative = (cells - others_quantile(cells, 0.5))[:, client]
    seen = np.isfinite(relative)
    return relative[inside & seen], relative[outside & seen]
