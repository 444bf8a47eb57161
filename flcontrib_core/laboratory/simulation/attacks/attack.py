"""What every attack has: the hooks of a behaviour, and what the group sends instead of its updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from flcontrib_core.laboratory.simulation.behaviour import Behaviour, Moment
from flcontrib_core.laboratory.simulation.kinds import AttackKind
from flcontrib_core.vocabulary import BoolArray, Float32Array, FloatArray, IntArray


@dataclass(frozen=True)
class Scene:
    """One epoch as the attacking participants see it, with all that they are assumed to know."""

    model: Float32Array
    """(P,) what the epoch started from."""
    others: FloatArray
    """(others, P) what the participants outside the group send; an attacker that needs it is assumed to know it."""
    sizes: IntArray
    """(participants,) data sizes of all participants."""
    own_sizes: IntArray
    """(attackers,) data sizes of the attacking ones."""
    moments: tuple[Moment, ...]
    """One per attacking participant."""

    @property
    def strength(self) -> float:
        return self.moments[0].strength


class AttackBehaviour(Behaviour):
    """One kind of attack."""

    kind: ClassVar[AttackKind]

    def forge(self, own: FloatArray, scene: Scene) -> FloatArray | None:
        """What the attackers send (attackers, P), given what they trained; None: just that."""
        return None


def poisoned(rows: int, moment: Moment) -> BoolArray:
    """(rows,) which rows are poisoned. The chances are drawn once, when the window opens, and kept until it closes;
    a ramp poisons more and more of the same rows."""
    return np.asarray(moment.steady().random(rows) < moment.strength)


def noise(like: FloatArray, factor: float, rng: np.random.Generator) -> FloatArray:
    """Gaussian noise of expected norm ``factor``·‖like‖."""
    scale = factor * float(np.linalg.norm(like)) / len(like) ** 0.5
    return rng.normal(0.0, scale, size=len(like))


def one_by_one(vectors: list[FloatArray]) -> FloatArray:
    """The attackers' vectors as rows (attackers, P)."""
    return np.stack(vectors)
