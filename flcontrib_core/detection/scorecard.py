"""A scorecard: each measurement gives points by the step of a ladder it stands on, and points add up to log odds.

Fitted to labelled windows by the laboratory; what is measured of a window is ``detection.weighing``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan


@dataclass(frozen=True)
class Ladder:
    """Points of one measurement: ``points[k]`` up to ``edges[k]``, the last beyond all; ``missing`` where unknown."""

    edges: tuple[float, ...]
    points: tuple[float, ...]
    missing: float

    def at(self, value: float) -> float:
        """The points of a value.

        >>> Ladder((1.0, 2.0), (-1.0, 0.0, 3.0), 0.5).at(1.5)
        0.0
        """
        return self.missing if isnan(value) else self.points[bisect_right(self.edges, value)]


@dataclass(frozen=True)
class Scorecard:
    """Ladders of measurements; the sum of their points and ``base`` is the log odds."""

    base: float
    limit: float
    """log odds that accuse at the default preset"""
    scale: float
    """log odds by which a preset one unit higher asks for more"""
    ladders: Mapping[str, Ladder]

    def points(self, measurements: Mapping[str, float]) -> dict[str, float]:
        """measurement -> its points"""
        return {name: ladder.at(measurements[name]) for name, ladder in self.ladders.items()}

    def accuses_at(self, preset: float) -> float:
        """The log odds that accuse at a preset."""
        return self.limit + preset * self.scale

    def excess(self, log_odds: float) -> float:
        """u of these log odds: above a preset, they accuse."""
        return (log_odds - self.limit) / self.scale
