"""Attacks on labels: the client trains properly, on answers that are wrong."""

from __future__ import annotations

import numpy as np

from flcontrib_core.laboratory.simulation.attacks.attack import AttackBehaviour, Scene, poisoned
from flcontrib_core.laboratory.simulation.behaviour import Moment
from flcontrib_core.laboratory.simulation.kinds import AttackKind
from flcontrib_core.vocabulary import FloatArray, IntArray


class LabelFlip(AttackBehaviour):
    """Trains on labels changed into any other with probability [p]; colluders all shift by the same amount.

    Biggio, Nelson and Laskov, "Poisoning attacks against support vector machines", ICML 2012; in federated learning
    Tolpegin et al., "Data poisoning attacks against federated learning systems", ESORICS 2020.
    """

    kind = AttackKind.LABEL_FLIP
    default, most = 0.7, 1.0

    def data(self, rows: IntArray, labels: IntArray, moment: Moment) -> tuple[IntArray, IntArray]:
        agreed, classes = moment.plan(moment.window), moment.world.data.classes
        flipped = poisoned(len(labels), moment)
        shift = int(agreed.integers(1, classes)) if moment.collude else agreed.integers(1, classes, len(labels))
        return rows, np.where(flipped, (labels + shift) % classes, labels)


class HiddenFlip(LabelFlip):
    """A label flip of probability [p] that hides: half of what is sent is the mean of the other participants' updates,
    which it is assumed to know, and the length is their median length."""

    kind = AttackKind.HIDDEN_FLIP

    def forge(self, own: FloatArray, scene: Scene) -> FloatArray | None:
        if not len(scene.others):
            return None
        blended = 0.5 * own + 0.5 * scene.others.mean(axis=0)
        length = np.linalg.norm(blended, axis=1, keepdims=True)
        usual = float(np.median(np.linalg.norm(scene.others, axis=1)))
        return np.asarray(blended * usual / np.maximum(length, 1e-12))


class TargetedFlip(AttackBehaviour):
    """Trains on labels of one class changed into one other with probability [p].

    Tolpegin et al., ESORICS 2020 (source class → target class).
    """

    kind = AttackKind.TARGETED_FLIP
    default, most = 1.0, 1.0

    def data(self, rows: IntArray, labels: IntArray, moment: Moment) -> tuple[IntArray, IntArray]:
        origin, target = moment.plan(moment.window).permutation(moment.world.data.classes)[:2]
        return rows, np.where(poisoned(len(labels), moment) & (labels == origin), target, labels)


class InverseFlip(AttackBehaviour):
    """Trains on labels K − 1 − y in place of y with probability [p]: the flip that needs no agreement.

    Fang et al., "Local model poisoning attacks to Byzantine-robust federated learning", USENIX Security 2020. With an
    odd number of classes the middle one keeps its label.
    """

    kind = AttackKind.INVERSE_FLIP
    default, most = 1.0, 1.0

    def data(self, rows: IntArray, labels: IntArray, moment: Moment) -> tuple[IntArray, IntArray]:
        return rows, np.where(poisoned(len(labels), moment), moment.world.data.classes - 1 - labels, labels)


class OneClassFlip(AttackBehaviour):
    """Calls every row one and the same class, with probability [p]: the attacker wants one answer everywhere."""

    kind = AttackKind.ONE_CLASS_FLIP
    default, most = 1.0, 1.0

    def data(self, rows: IntArray, labels: IntArray, moment: Moment) -> tuple[IntArray, IntArray]:
        target = int(moment.plan(moment.window).integers(moment.world.data.classes))
        return rows, np.where(poisoned(len(labels), moment), target, labels)


LABEL_ATTACKS: tuple[AttackBehaviour, ...] = (
    LabelFlip(),
    HiddenFlip(),
    TargetedFlip(),
    InverseFlip(),
    OneClassFlip(),
)
