"""Attacks on contribution scores: the model is hardly harmed, the credit goes to somebody else.

Contribution measures reward updates near the weighted mean and punish what opposes it; both can be staged by a client
that knows the others' updates (a curious server's helper, or sites that share their updates).
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.laboratory.simulation.attacks.attack import AttackBehaviour, Scene, one_by_one
from flcontrib_core.laboratory.simulation.kinds import AttackKind
from flcontrib_core.vocabulary import FloatArray


class Inflate(AttackBehaviour):
    """Moves its update a share [s] of the way to the others' mean and makes it as long as their longest."""

    kind = AttackKind.INFLATE
    default, most = 0.8, 1.0

    def forge(self, own: FloatArray, scene: Scene) -> FloatArray | None:
        if not len(scene.others):
            return None
        moved = (1 - scene.strength) * own + scene.strength * scene.others.mean(axis=0)
        longest = float(np.linalg.norm(scene.others, axis=1).max())
        return np.asarray(moved * longest / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-12))


class Deflate(AttackBehaviour):
    """Takes away what one victim contributes beyond the others: sends Δ − [s]·(Δ_victim − their mean).

    The victim is the participant whose update is most its own: farthest from the others' mean.
    """

    kind = AttackKind.DEFLATE
    default = 1.0

    def forge(self, own: FloatArray, scene: Scene) -> FloatArray | None:
        if len(scene.others) < 2:
            return None
        special = scene.others - scene.others.mean(axis=0)
        victim = int(np.linalg.norm(special, axis=1).argmax())
        return one_by_one([update - scene.strength * special[victim] for update in own])


SCORE_ATTACKS: tuple[AttackBehaviour, ...] = (Inflate(), Deflate())
