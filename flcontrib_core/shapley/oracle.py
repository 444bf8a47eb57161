"""How does an estimator ask a game for values without ever paying twice?

A ``CoalitionOracle`` stands between an estimator and a game: one memo per epoch, a count of distinct
evaluations, and (optionally) a memory that outlives the process. The cost of a method is ``evaluations``.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flcontrib_core.errors import NonFiniteUtility
from flcontrib_core.vocabulary import CoalitionGame, CoalitionMatrix, LogitGame, LogitTensor, UtilityMatrix


class EvaluationMemory(Protocol):
    """Coalition utilities that survive the process, keyed by packed coalition bits."""

    def recall(self, keys: list[bytes]) -> dict[bytes, np.ndarray]: ...

    def keep(self, values: dict[bytes, np.ndarray]) -> None: ...


def coalition_keys(coalitions: CoalitionMatrix) -> list[bytes]:
    """One hashable key per row: the packed bits, little end first (player 0 is the lowest bit)."""
    return [row.tobytes() for row in np.packbits(coalitions, axis=1, bitorder="little")]


class CoalitionOracle:
    """Answers coalition matrices from a memo and evaluates only what it has never seen.

    ``evaluations`` counts the distinct coalitions this oracle was asked for (∅ is free), whether they came from the
    game or from the memory, so that a result does not depend on what was remembered; ``computed`` counts those
    the game really evaluated.
    """

    def __init__(self, game: CoalitionGame, memory: EvaluationMemory | None = None, keep_logits: bool = False) -> None:
        self.game = game
        self.players = game.players
        self.utilities = game.utilities
        self.memory = memory
        self._values: dict[bytes, np.ndarray] = {}
        self._logits: dict[bytes, np.ndarray] = {}
        self._keep_logits = keep_logits
        self.computed = 0
        empty = coalition_keys(np.zeros((1, self.players), dtype=bool))[0]
        self._values[empty] = np.zeros(len(self.utilities))

    @property
    def evaluations(self) -> int:
        return len(self._values) - 1

    def known(self, coalitions: CoalitionMatrix) -> np.ndarray:
        """(coalitions,) True where the value is already in the memo."""
        return np.array([k in self._values for k in coalition_keys(coalitions)], dtype=bool)

    def evaluate(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        """(coalitions, utilities); repeated rows cost nothing. Raises NonFiniteUtility naming the coalition."""
        keys = coalition_keys(coalitions)
        first: dict[bytes, int] = {}
        for row, key in enumerate(keys):
            if key not in self._values and key not in first:
                first[key] = row
        if first and self.memory is not None:
            for key, value in self.memory.recall(list(first)).items():
                self._values[key] = value
                first.pop(key, None)
        if first:
            rows = np.fromiter(first.values(), dtype=np.int64)
            values = self.game.evaluate(coalitions[rows])
            self._refuse_non_finite(coalitions[rows], values)
            fresh = dict(zip(first, values, strict=True))
            self.computed += len(fresh)
            self._values.update(fresh)
            if self.memory is not None:
                self.memory.keep(fresh)
        return np.array([self._values[k] for k in keys]).reshape(len(keys), len(self.utilities))

    def evaluate_with_logits(self, coalitions: CoalitionMatrix) -> tuple[UtilityMatrix, LogitTensor]:
        """Values and validation logits; needs a LogitGame. Logits are memoised beside the values."""
        game = self.game
        if not isinstance(game, LogitGame):
            raise TypeError("this game has no logits; use an estimator for opaque utilities")
        keys = coalition_keys(coalitions)
        first = {key: row for row, key in reversed(list(enumerate(keys))) if key not in self._logits}
        if first:
            rows = np.fromiter(first.values(), dtype=np.int64)
            values, logits = game.evaluate_with_logits(coalitions[rows])
            self._refuse_non_finite(coalitions[rows], values)
            for key, value, z in zip(first, values, logits, strict=True):
                if key not in self._values:
                    self._values[key] = value
                    self.computed += 1
                    if self.memory is not None:
                        self.memory.keep({key: value})
                self._logits[key] = z
        return (
            np.array([self._values[k] for k in keys]).reshape(len(keys), len(self.utilities)),
            np.stack([self._logits[k] for k in keys]),
        )

    def known_coalitions(self) -> tuple[CoalitionMatrix, UtilityMatrix]:
        """Everything evaluated so far (∅ included), as a matrix and its values."""
        packed = np.frombuffer(b"".join(self._values), dtype=np.uint8).reshape(len(self._values), -1)
        members = np.unpackbits(packed, axis=1, count=self.players, bitorder="little").astype(bool)
        return members, np.array(list(self._values.values())).reshape(len(self._values), -1)

    def _refuse_non_finite(self, coalitions: CoalitionMatrix, values: UtilityMatrix) -> None:
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            members = np.flatnonzero(coalitions[row]).tolist()
            raise NonFiniteUtility(
                f"the sub-model of players {members} has a non-finite utility "
                f"{dict(zip(self.utilities, values[row].tolist(), strict=True))}; the model diverged there. "
                "Assess this run with --nonfinite absent, or leave the epoch out."
            )
