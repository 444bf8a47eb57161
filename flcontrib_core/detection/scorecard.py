"""A scorecard: each measurement gives points by the step of a ladder it stands on, and points add up to log odds.

Fitted to labelled windows by the laboratory; what is measured of a window is ``detection.weighing``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isnan


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

    def mixed(self, other: Scorecard, share: float) -> Scorecard:
        """``share`` of this card's points and the rest of another's; limit and scale are this one's.

        >>> ladders = [{"size": Ladder((edge,), (0.0, 2.0), 0.0)} for edge in (3.0, 5.0)]
        >>> Scorecard(1.0, 0.0, 1.0, ladders[0]).mixed(Scorecard(1.0, 0.0, 1.0, ladders[1]), 0.75).ladders["size"]
        Ladder(edges=(3.0, 5.0), points=(0.0, 1.5, 2.0), missing=0.0)
        """
        names = dict.fromkeys((*self.ladders, *other.ladders))
        nothing = Ladder((), (0.0,), 0.0)
        ladders = {
            name: _mixed(self.ladders.get(name, nothing), other.ladders.get(name, nothing), share) for name in names
        }
        base = round(share * self.base + (1 - share) * other.base, 4)
        return Scorecard(base, self.limit, self.scale, ladders)


def _mixed(one: Ladder, other: Ladder, share: float) -> Ladder:
    edges = tuple(sorted({*one.edges, *other.edges}))
    steps = (-inf, *edges)  # a ladder's step begins at its edge
    points = tuple(round(share * one.at(step) + (1 - share) * other.at(step), 4) for step in steps)
    return Ladder(edges, points, round(share * one.missing + (1 - share) * other.missing, 4))
