"""Difficulties of honest clients that must not be taken for dishonesty.

Wrong labels nobody meant, a class mix that moves, clients that are seldom there, clients that do not answer. Only
honest clients are affected, so that every alert on one of them is a false alarm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.laboratory.simulation.kinds import DifficultyKind
from flcontrib_core.laboratory.simulation.random_streams import Purpose, stream
from flcontrib_core.laboratory.simulation.settings import SimulationSettings
from flcontrib_core.vocabulary import IntArray

DRIFT_STARTS = (0.35, 0.65)
"""The drift of a client begins at an epoch drawn from this part of the run …"""
DRIFT_TAKES = 1 / 6
"""… and takes this share of the run to complete."""
DRIFTED_MIX = 0.3
"""Dirichlet concentration (per class) of the mix a client drifts to."""


@dataclass(frozen=True)
class Difficulties:
    """Which honest clients have which difficulty."""

    kind: DifficultyKind
    strength: float
    seed: int
    epochs: int
    classes: int
    affected: frozenset[int]

    @classmethod
    def choose(cls, settings: SimulationSettings, classes: int, dishonest: frozenset[int]) -> Difficulties:
        honest = [c for c in range(settings.clients) if c not in dishonest]
        given = settings.difficulty_clients
        count = max(1, round(settings.clients / 4)) if given is None else given
        drawn = stream(settings.seed, Purpose.CHOICE_OF_DIFFICULTY).permutation(honest)
        affected = frozenset(int(c) for c in drawn[:count])
        if settings.difficulty is DifficultyKind.NONE:
            affected = frozenset()
        elif settings.difficulty is DifficultyKind.DROP_OUT:
            affected = frozenset(honest)
        return cls(
            settings.difficulty,
            settings.difficulty_strength or 0.0,
            settings.seed,
            settings.epochs,
            classes,
            affected,
        )

    def available(self, epoch: int, chosen: list[int]) -> list[int]:
        """Those of the chosen who can be asked at all; never nobody."""
        if self.kind is not DifficultyKind.RARE:
            return chosen
        there = [c for c in chosen if c not in self.affected or self._chance(c, epoch) < self.strength]
        return there or chosen[:1]

    def answering(self, epoch: int, asked: list[int]) -> list[int]:
        """Those of the asked who answer; never nobody."""
        if self.kind is not DifficultyKind.DROP_OUT:
            return asked
        there = [c for c in asked if c not in self.affected or self._chance(c, epoch) >= self.strength]
        return there or asked[:1]

    def data(self, client: int, epoch: int, rows: IntArray, labels: IntArray) -> tuple[IntArray, IntArray]:
        """The rows and labels this client really trains on in this epoch."""
        if client not in self.affected:
            return rows, labels
        if self.kind is DifficultyKind.LOW_QUALITY:
            rng = stream(self.seed, Purpose.DIFFICULTY, 1 + client)
            wrong = rng.random(len(labels)) < self.strength
            other = (labels + rng.integers(1, self.classes, len(labels))) % self.classes
            return rows, np.where(wrong, other, labels)
        if self.kind is DifficultyKind.DRIFT:
            return self._drifted(client, epoch, rows, labels)
        return rows, labels

    def drift_start(self, client: int) -> int:
        """The first epoch in which the class mix of an affected client has moved."""
        low, high = DRIFT_STARTS
        return max(2, round(stream(self.seed, Purpose.DIFFICULTY, 1 + client).uniform(low, high) * self.epochs))

    def _drifted(self, client: int, epoch: int, rows: IntArray, labels: IntArray) -> tuple[IntArray, IntArray]:
        """Row after row is replaced by another of the client's own rows, drawn by the new class mix."""
        duration = max(1.0, DRIFT_TAKES * self.epochs)
        progress = np.clip((epoch - self.drift_start(client) + 1) / duration, 0.0, 1.0)
        rng = stream(self.seed, Purpose.DIFFICULTY, 1 + client, 1)
        mix = rng.dirichlet(np.full(self.classes, DRIFTED_MIX))
        held = np.bincount(labels, minlength=self.classes)
        weight = np.where(held > 0, mix, 0.0) / np.maximum(held, 1)
        if weight.sum() <= 0:  # the new mix knows only classes this client never had
            return rows, labels
        replacement = rng.choice(len(rows), size=len(rows), p=weight[labels] / weight[labels].sum())
        moved = rng.random(len(rows)) < progress * self.strength
        taken = np.where(moved, replacement, np.arange(len(rows)))
        return rows[taken], labels[taken]

    def _chance(self, client: int, epoch: int) -> float:
        return float(stream(self.seed, Purpose.DIFFICULTY, 1 + client, 1 + epoch).random())
