"""Attacks on the update itself: turned, exaggerated, drowned in noise, or trained uphill."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flcontrib_core.laboratory.simulation.attacks.attack import AttackBehaviour, Scene, noise, one_by_one
from flcontrib_core.laboratory.simulation.behaviour import Moment
from flcontrib_core.laboratory.simulation.kinds import AttackKind
from flcontrib_core.laboratory.simulation.local_training import LocalTraining
from flcontrib_core.vocabulary import FloatArray


class SignFlip(AttackBehaviour):
    """Sends −[factor]·Δ; colluders send their mean turned round.

    Damaskinos et al., "Asynchronous Byzantine machine learning (the case of SGD)", ICML 2018.
    """

    kind = AttackKind.SIGN_FLIP
    default = 1.0

    def forge(self, own: FloatArray, scene: Scene) -> FloatArray | None:
        return -scene.strength * _agreed(own, scene)


class Scale(AttackBehaviour):
    """Sends [factor]·Δ: boosting (Bhagoji et al., ICML 2019), or a client that wants to look important."""

    kind = AttackKind.SCALE
    default = 5.0

    def forge(self, own: FloatArray, scene: Scene) -> FloatArray | None:
        return scene.strength * _agreed(own, scene)


class AdditiveNoise(AttackBehaviour):
    """Adds Gaussian noise of [factor]·‖Δ‖ to Δ."""

    kind = AttackKind.ADDITIVE_NOISE
    default = 1.0

    def forge(self, own: FloatArray, scene: Scene) -> FloatArray | None:
        pairs = zip(own, scene.moments, strict=True)
        return one_by_one([update + noise(update, m.strength, m.plan(m.epoch)) for update, m in pairs])


class PureNoise(AttackBehaviour):
    """Sends Gaussian noise of [factor]·‖Δ‖ instead of Δ.

    Blanchard et al., "Machine learning with adversaries: Byzantine tolerant gradient descent", NeurIPS 2017.
    """

    kind = AttackKind.PURE_NOISE
    default = 1.0

    def forge(self, own: FloatArray, scene: Scene) -> FloatArray | None:
        pairs = zip(own, scene.moments, strict=True)
        return one_by_one([noise(update, m.strength, m.plan(m.epoch)) for update, m in pairs])


class GradientAscent(AttackBehaviour):
    """Trains uphill on its own rows, gradients no longer than [clip].

    Shejwalkar et al., "Back to the drawing board: a critical evaluation of poisoning attacks on production federated
    learning", S&P 2022 (stochastic gradient ascent).
    """

    kind = AttackKind.GRADIENT_ASCENT
    default = 1.0

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        return replace(training, ascend=True, gradient_clip=moment.strength)


def _agreed(own: FloatArray, scene: Scene) -> FloatArray:
    """What the attackers trained; a colluding group takes its mean."""
    return np.tile(own.mean(axis=0), (len(own), 1)) if scene.moments[0].collude else own


UPDATE_ATTACKS: tuple[AttackBehaviour, ...] = (
    SignFlip(),
    Scale(),
    AdditiveNoise(),
    PureNoise(),
    GradientAscent(),
)
