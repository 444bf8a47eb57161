"""What people say about a run: who was dishonest, in labelled runs, and what they noted about clients."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DishonestTruth:
    """A label: who was dishonest, when and how. For labelled runs only."""

    client: str
    windows: tuple[tuple[int, int], ...]
    """Inclusive, 1-based."""
    attack: str
    strength: float | None


@dataclass(frozen=True)
class Truth:
    """What a labelled run says about itself. Nothing that decides an alert may read it."""

    dishonest: tuple[DishonestTruth, ...]


@dataclass(frozen=True)
class LogNote:
    """A fact that somebody declared about a client and wrote into the log: 'new scanner'."""

    client: str
    epochs: tuple[int, int]
    """Inclusive, 1-based."""
    text: str
    by: str
    when: str
