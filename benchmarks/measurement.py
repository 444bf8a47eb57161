"""What is one measured figure, its goal, and was the goal reached?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measurement:
    """A figure beside its goal. ``at_least`` says the direction; ``goal`` None = reported only."""

    name: str
    value: float
    goal: float | None = None
    at_least: bool = True
    unit: str = ""
    note: str = ""

    @property
    def reached(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal
