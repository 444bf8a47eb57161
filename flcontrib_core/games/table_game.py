"""A game whose values are all known: it needs no model, and no torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.vocabulary import CoalitionMatrix, FloatArray, UtilityMatrix


class TableGame:
    """A game whose values are all known: ``values`` (2^n, utilities) absolute, row = bitmask (bit 0 is player 0)."""

    def __init__(self, values: FloatArray, utilities: Sequence[str]) -> None:
        self.players = max(len(values), 1).bit_length() - 1
        if values.ndim != 2 or len(values) != 1 << self.players or values.shape[1] != len(utilities):
            raise SettingsError(
                f"a table of shape {values.shape} for {len(utilities)} utilities; expected (2^players, utilities)"
            )
        self.utilities = tuple(utilities)
        self._values = np.asarray(values, dtype=np.float64)

    @property
    def empty_values(self) -> FloatArray:
        """v(∅), (utilities,)."""
        return np.asarray(self._values[0])

    def absolute(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        """v(S)."""
        rows = coalitions.astype(np.int64) @ (1 << np.arange(self.players, dtype=np.int64))
        return np.asarray(self._values[rows])

    def evaluate(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        return self.absolute(coalitions) - self.empty_values
