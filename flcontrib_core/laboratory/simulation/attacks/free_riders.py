"""Free riders: clients that send something that looks like work.

Lin, Du and Liu, "Free-riders in federated learning: attacks and defenses", arXiv 1911.12560 (random and delta
weights); Fraboni, Vidal and Lorenzi, "Free-rider attacks on model aggregation in federated learning", AISTATS 2021
(disguised by noise). Where there is nothing yet to repeat or to go by, the client is honest in that epoch.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.laboratory.simulation.attacks.attack import AttackBehaviour, Scene, noise, one_by_one
from flcontrib_core.laboratory.simulation.behaviour import Moment
from flcontrib_core.laboratory.simulation.kinds import AttackKind
from flcontrib_core.vocabulary import FloatArray


class FreeRider(AttackBehaviour):
    """Sends a substitute for its update."""

    def substitute(self, moment: Moment, scene: Scene) -> FloatArray | None:
        """What is sent instead (P,); None where there is nothing to go by."""
        raise NotImplementedError

    def forge(self, own: FloatArray, scene: Scene) -> FloatArray | None:
        sent = []
        for update, moment in zip(own, scene.moments, strict=True):
            instead = self.substitute(moment, scene)
            sent.append(update if instead is None else instead)
        return one_by_one(sent)


class Zero(FreeRider):
    """Sends nothing but zeros."""

    kind = AttackKind.ZERO

    def substitute(self, moment: Moment, scene: Scene) -> FloatArray | None:
        return np.zeros(len(scene.model))


class NearZero(FreeRider):
    """Sends Gaussian noise of only [factor] times the length of the last global step."""

    kind = AttackKind.NEAR_ZERO
    default = 0.01

    def substitute(self, moment: Moment, scene: Scene) -> FloatArray | None:
        step = moment.memory.last_step
        return None if step is None else noise(step.astype(np.float64), moment.strength, moment.plan(moment.epoch))


class RandomStep(NearZero):
    """Sends Gaussian noise of a plausible length: [factor] times the last global step's."""

    kind = AttackKind.RANDOM_STEP
    default = 1.5


class Repeat(FreeRider):
    """Sends its own last update again, with relative noise [level]."""

    kind = AttackKind.REPEAT
    default = 0.0

    def substitute(self, moment: Moment, scene: Scene) -> FloatArray | None:
        return _blurred(moment.memory.last_sent.get(moment.client), moment)


class Copy(FreeRider):
    """Sends the last step of the global model as its own, with relative noise [level]."""

    kind = AttackKind.COPY
    default = 0.0

    def substitute(self, moment: Moment, scene: Scene) -> FloatArray | None:
        return _blurred(moment.memory.last_step, moment)


class ScaledCopy(FreeRider):
    """Sends [factor] times the last step of the global model, with a tenth of its length in noise."""

    kind = AttackKind.SCALED_COPY
    default = 0.5
    blur = 0.1

    def substitute(self, moment: Moment, scene: Scene) -> FloatArray | None:
        step = moment.memory.last_step
        if step is None:
            return None
        scaled = moment.strength * step.astype(np.float64)
        return scaled + noise(scaled, self.blur, moment.plan(moment.epoch))


class StaleModel(FreeRider):
    """Sends the model it had after its last honest training, again and again, with relative noise [level].

    The update is the way back from the global model to that old one.
    """

    kind = AttackKind.STALE_MODEL
    default = 0.0

    def substitute(self, moment: Moment, scene: Scene) -> FloatArray | None:
        old = moment.memory.last_local.get(moment.client)
        return None if old is None else _blurred(old - scene.model, moment)


def _blurred(stale: np.ndarray | None, moment: Moment) -> FloatArray | None:
    if stale is None:
        return None
    old = stale.astype(np.float64)
    return old + noise(old, moment.strength, moment.plan(moment.epoch)) if moment.strength else old


FREE_RIDERS: tuple[AttackBehaviour, ...] = (
    Zero(),
    NearZero(),
    RandomStep(),
    Repeat(),
    Copy(),
    ScaledCopy(),
    StaleModel(),
)
