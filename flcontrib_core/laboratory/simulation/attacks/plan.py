"""One attack of a run as a setting: which kind, by how many, when, how strong."""

from __future__ import annotations

from dataclasses import dataclass

from flcontrib_core.laboratory.simulation.attacks.catalogue import ATTACKS
from flcontrib_core.laboratory.simulation.kinds import AttackKind, named
from flcontrib_core.laboratory.simulation.windows import Window, inside, window_position


@dataclass(frozen=True)
class Attack:
    """One kind of dishonesty, carried out by ``dishonest`` clients chosen by the seed, or by ``clients`` by position.

    No windows means the whole run. ``collude``: the group agrees on one plan (one label map, one noise). ``ramp``: the
    strength rises evenly over each window and is full in its last epoch. The kind's class says what the strength is.
    """

    kind: AttackKind
    dishonest: int = 1
    clients: tuple[int, ...] | None = None
    windows: tuple[Window, ...] = ()
    strength: float | None = None
    collude: bool = False
    ramp: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", named(AttackKind, self.kind, "attack"))
        object.__setattr__(self, "strength", ATTACKS[self.kind].checked_strength(self.strength, self.kind))
        if self.clients is not None:
            object.__setattr__(self, "dishonest", len(self.clients))

    def active(self, epoch: int) -> bool:
        """Is this epoch one of the attack's?"""
        return inside(self.windows, epoch)

    def window_of(self, epoch: int) -> int:
        """The position of the window this epoch lies in; 0 where the attack has none."""
        return window_position(self.windows, epoch)

    def strength_in(self, epoch: int, epochs: int) -> float:
        """The strength in this epoch of a run of ``epochs``: with a ramp, the share of its window that has passed."""
        full = self.strength or 0.0
        if not self.ramp:
            return full
        first, last = self.windows[self.window_of(epoch)] if self.windows else (1, epochs)
        return full * (epoch - first + 1) / (last - first + 1)
