"""The states of cells as charts draw them."""

from __future__ import annotations

import numpy as np

from flcontrib_core.vocabulary import CellState, IntArray, StateArray
from flcontrib_core.words import wording

STATE_WORDS = {
    int(CellState.ABSENT): wording.ABSENT,
    int(CellState.COMPUTED): "computed",
    int(CellState.NOT_COMPUTED): wording.NOT_COMPUTED,
}
"""Of drawn states, in tables and beside a mark."""


def drawn_states(state: StateArray) -> IntArray:
    """Absent, computed or hatched: a pending cell is hatched too, the words beside the chart say that it is to come."""
    return np.minimum(state, CellState.NOT_COMPUTED).astype(np.int64)
