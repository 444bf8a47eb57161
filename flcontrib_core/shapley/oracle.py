"""Coalition oracles: values of a game, asked by estimators and never paid for twice.

A ``CoalitionOracle`` stands between an estimator and a game: one memo per epoch, a count of distinct
evaluations, and (optionally) a memory that outlives the process. The cost of a method is ``evaluations``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from flcontrib_core.errors import MissingPart, NonFiniteUtility
from flcontrib_core.vocabulary import (
    BoolArray,
    CoalitionGame,
    CoalitionMatrix,
    FloatArray,
    IntArray,
    LogitGame,
    LogitTensor,
    UtilityMatrix,
)


class EvaluationMemory(Protocol):
    """Coalition utilities that survive the process, keyed by packed coalition bits."""

    def recall(self, keys: list[bytes]) -> dict[bytes, np.ndarray]:
        """Coalition key → utilities, as far as they are known."""
        ...

    def keep(self, values: dict[bytes, np.ndarray]) -> None:
        """Adds utilities to the memory."""
        ...


@runtime_checkable
class LogitMemory(EvaluationMemory, Protocol):
    """A memory that also holds validation logits (up to its own cap), so that raising the precision re-uses them."""

    def recall_logits(self, keys: list[bytes]) -> dict[bytes, np.ndarray]:
        """Coalition key → logits, as far as they are known."""
        ...

    def keep_logits(self, logits: dict[bytes, np.ndarray]) -> None:
        """Adds logits to the memory."""
        ...


def coalition_keys(coalitions: CoalitionMatrix) -> list[bytes]:
    """One hashable key per row: the packed bits, little end first (player 0 is the lowest bit)."""
    return [row.tobytes() for row in np.packbits(coalitions, axis=1, bitorder="little")]


class _Memo:
    """Rows of a growing table, found by coalition key: small per entry, gathered without a Python loop over values."""

    def __init__(self, utilities: int) -> None:
        self._row: dict[bytes, int] = {}
        self._table: FloatArray = np.empty((64, utilities))

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, key: bytes) -> bool:
        return key in self._row

    def add(self, keys: Sequence[bytes], values: FloatArray) -> None:
        start, stop = len(self._row), len(self._row) + len(keys)
        if stop > len(self._table):
            grown = np.empty((max(stop, 2 * len(self._table)), self._table.shape[1]))
            grown[:start] = self._table[:start]
            self._table = grown
        self._table[start:stop] = values
        self._row.update(zip(keys, range(start, stop), strict=True))

    def gather(self, keys: Sequence[bytes]) -> FloatArray:
        rows = np.fromiter((self._row[key] for key in keys), dtype=np.int64, count=len(keys))
        return self._table[rows]

    def everything(self) -> tuple[list[bytes], FloatArray]:
        return list(self._row), self._table[: len(self._row)].copy()


class CoalitionOracle:
    """Answers coalition matrices from a memo and evaluates only what it has never seen.

    ``evaluations`` counts the distinct coalitions this oracle was asked for (∅ is free), whether they came from the
    game or from the memory, so that a result does not depend on what was remembered; ``computed`` counts those
    the game really evaluated. ``epoch`` says which the game is of; ``player_names`` only make errors say more.
    With ``keep_logits`` every evaluation of a LogitGame keeps its logits too.
    """

    def __init__(
        self,
        game: CoalitionGame,
        memory: EvaluationMemory | None = None,
        keep_logits: bool = False,
        epoch: int | None = None,
        player_names: Sequence[str] | None = None,
    ) -> None:
        self.game = game
        self.players = game.players
        self.utilities = game.utilities
        self.memory = memory
        self.epoch = epoch
        self.player_names = player_names
        self.computed = 0
        self._logits: dict[bytes, NDArray[np.float32]] = {}
        self._keeps_logits = keep_logits and isinstance(game, LogitGame)
        self._values = _Memo(len(self.utilities))
        empty = np.zeros((1, self.players), dtype=bool)
        self._values.add(coalition_keys(empty), np.zeros((1, len(self.utilities))))

    @property
    def evaluations(self) -> int:
        """Distinct coalitions asked for so far, ∅ not counted."""
        return len(self._values) - 1

    @property
    def where(self) -> str:
        """The epoch as messages name it."""
        return "this game" if self.epoch is None else f"epoch {self.epoch}"

    def evaluated(self, coalitions: CoalitionMatrix) -> BoolArray:
        """(coalitions,) True where the value is already in the memo."""
        return np.array([key in self._values for key in self._keys(coalitions)], dtype=bool)

    def evaluate(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        """(coalitions, utilities); repeated rows cost nothing. Raises NonFiniteUtility naming the coalition."""
        if self._keeps_logits:
            return self.evaluate_with_logits(coalitions)[0]
        keys = self._keys(coalitions)
        missing = self._first_rows(keys, self._values)
        self._recall(missing)
        if missing:
            rows = _rows(missing)
            values = self._checked(coalitions[rows], self.game.evaluate(coalitions[rows]))
            self.computed += len(rows)
            self._remember(list(missing), values)
        return self._values.gather(keys)

    def evaluate_with_logits(self, coalitions: CoalitionMatrix) -> tuple[UtilityMatrix, LogitTensor]:
        """Values and validation logits; raises MissingPart for a game without logits. Both are memoised.

        A coalition whose value is known but whose logits are not is evaluated again by the game (``computed``
        rises) and keeps the value it had; ``evaluations`` counts it once.
        """
        game = self.game
        if not isinstance(game, LogitGame):
            raise MissingPart("this game has no logits; use an estimator for opaque utilities (surrogate-blackbox)")
        keys = self._keys(coalitions)
        self._recall(self._first_rows(keys, self._values))
        missing = self._first_rows(keys, self._logits)
        if missing and isinstance(self.memory, LogitMemory):
            for key, logits in self.memory.recall_logits(list(missing)).items():
                if key in self._values:
                    self._logits[key] = logits
                    del missing[key]
        if missing:
            rows = _rows(missing)
            values, fresh_logits = game.evaluate_with_logits(coalitions[rows])
            values = self._checked(coalitions[rows], values)
            self.computed += len(rows)
            self._logits.update(zip(missing, fresh_logits, strict=True))
            new = [(key, row) for row, key in enumerate(missing) if key not in self._values]
            if new:
                self._remember([key for key, _ in new], values[[row for _, row in new]])
            if isinstance(self.memory, LogitMemory):
                self.memory.keep_logits({key: self._logits[key] for key in missing})
        return self._values.gather(keys), np.stack([self._logits[key] for key in keys])

    def known_logits(self, coalitions: CoalitionMatrix) -> LogitTensor | None:
        """Their validation logits where all of them are in the memo."""
        keys = self._keys(coalitions)
        return np.stack([self._logits[key] for key in keys]) if all(key in self._logits for key in keys) else None

    def evaluated_coalitions(self) -> tuple[CoalitionMatrix, UtilityMatrix]:
        """Everything evaluated so far (∅ first), as a matrix and its values."""
        keys, values = self._values.everything()
        packed = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), -1)
        return np.unpackbits(packed, axis=1, count=self.players, bitorder="little").astype(bool), values

    def _keys(self, coalitions: CoalitionMatrix) -> list[bytes]:
        if coalitions.ndim != 2 or coalitions.shape[1] != self.players or coalitions.dtype != np.bool_:
            raise ValueError(
                f"a coalition matrix of this game is boolean with {self.players} columns, one per player; "
                f"found {coalitions.dtype} of shape {coalitions.shape}"
            )
        return coalition_keys(coalitions)

    @staticmethod
    def _first_rows(keys: list[bytes], have: _Memo | dict[bytes, NDArray[np.float32]]) -> dict[bytes, int]:
        """The first row of every key that is not in ``have``, in order of appearance."""
        first: dict[bytes, int] = {}
        for row, key in enumerate(keys):
            if key not in have:
                first.setdefault(key, row)
        return first

    def _recall(self, missing: dict[bytes, int]) -> None:
        """Takes what the memory knows out of ``missing`` and into the memo."""
        if not missing or self.memory is None:
            return
        recalled = self.memory.recall(list(missing))
        if recalled:
            keys = [key for key in missing if key in recalled]  # in the order asked, whatever the memory's order
            self._values.add(keys, np.array([recalled[key] for key in keys]).reshape(len(keys), -1))
            for key in keys:
                del missing[key]

    def _remember(self, keys: list[bytes], values: UtilityMatrix) -> None:
        self._values.add(keys, values)
        if self.memory is not None:
            self.memory.keep(dict(zip(keys, values, strict=True)))

    def _checked(self, coalitions: CoalitionMatrix, values: UtilityMatrix) -> UtilityMatrix:
        """The game's answer, refused where its shape is wrong or a utility is not finite."""
        values = np.asarray(values, dtype=np.float64)
        if values.shape != (len(coalitions), len(self.utilities)):
            raise ValueError(
                f"the game returned values of shape {values.shape} for {len(coalitions)} coalitions "
                f"and {len(self.utilities)} utilities"
            )
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            members = np.flatnonzero(coalitions[row]).tolist()
            names = self.player_names
            who = members if names is None else [names[player] for player in members]
            raise NonFiniteUtility(
                f"{self.where}: the sub-model of players {who} has a non-finite utility "
                f"{dict(zip(self.utilities, values[row].tolist(), strict=True))}; the model diverged there.",
                tuple(members),
            )
        return values


def _rows(first: dict[bytes, int]) -> IntArray:
    return np.fromiter(first.values(), dtype=np.int64, count=len(first))
