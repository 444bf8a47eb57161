"""Updates made from what the others send: close enough to pass, far enough to harm.

All of them are assumed to know the other participants' updates of the epoch (the papers' full knowledge). The
attackers send one vector; those that do not collude blur it by a hundredth of its length, each on its own.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.laboratory.simulation.attacks.attack import AttackBehaviour, Scene, noise, one_by_one
from flcontrib_core.laboratory.simulation.kinds import AttackKind
from flcontrib_core.vocabulary import FloatArray

BLUR = 0.01
KRUM_HALVINGS = 40


class CraftedAttack(AttackBehaviour):
    """All attackers send (nearly) the same vector, made from the others' updates."""

    def craft(self, benign: FloatArray, attackers: int, scene: Scene) -> FloatArray:
        """The vector (P,) to send; ``benign`` (clients, P) has at least one row."""
        raise NotImplementedError

    def forge(self, own: FloatArray, scene: Scene) -> FloatArray | None:
        """Where nobody else takes part, the attackers go by what they trained themselves."""
        vector = self.craft(scene.others if len(scene.others) else own, len(own), scene)
        sent = []
        for moment in scene.moments:
            blur = 0.0 if moment.collude else BLUR
            sent.append(vector + noise(vector, blur, moment.plan(moment.epoch)))
        return one_by_one(sent)


class Alie(CraftedAttack):
    """The mean minus [z] standard deviations in every coordinate.

    Baruch, Baruch and Goldberg, "A little is enough: circumventing defenses for distributed learning", NeurIPS 2019.
    Departure: the paper's largest undetected z is 0 or below where fewer than about a quarter attack; z is a setting.
    """

    kind = AttackKind.ALIE
    default = 1.5

    def craft(self, benign: FloatArray, attackers: int, scene: Scene) -> FloatArray:
        return np.asarray(benign.mean(axis=0) - scene.strength * benign.std(axis=0))


class MinMax(CraftedAttack):
    """As far from the mean, against the deviation, as its largest distance to an honest update may be: no larger than
    the largest between two honest ones; [s] of that way.

    Shejwalkar and Houmansadr, "Manipulating the Byzantine", NDSS 2021, perturbation along the inverse deviation. The
    paper searches the factor; here it is the smallest root of one quadratic per honest update.
    """

    kind = AttackKind.MIN_MAX
    default, most = 1.0, 1.0

    def craft(self, benign: FloatArray, attackers: int, scene: Scene) -> FloatArray:
        mean, direction = benign.mean(axis=0), _against_deviation(benign)
        apart = mean - benign
        limit = squared_distances(benign).max()
        # ‖apart_i + γ·direction‖² = limit, for each i; the direction has length 1 (or 0)
        linear, constant = apart @ direction, (apart**2).sum(axis=1) - limit
        factor = float((-linear + np.sqrt(np.maximum(linear**2 - constant, 0.0))).min())
        return np.asarray(mean + scene.strength * max(factor, 0.0) * direction)


class MinSum(CraftedAttack):
    """Like min-max, with sums of squared distances: no larger than the largest of an honest update to all others; [s]
    of that way.

    Shejwalkar and Houmansadr, NDSS 2021.
    """

    kind = AttackKind.MIN_SUM
    default, most = 1.0, 1.0

    def craft(self, benign: FloatArray, attackers: int, scene: Scene) -> FloatArray:
        mean, direction = benign.mean(axis=0), _against_deviation(benign)
        limit = squared_distances(benign).sum(axis=1).max()
        # the deviations from the mean sum to zero, so the sum of squares is spread + n·γ²
        spread = ((benign - mean) ** 2).sum()
        factor = float(np.sqrt(max(limit - spread, 0.0) / len(benign)))
        return np.asarray(mean + scene.strength * factor * direction)


class InnerProduct(CraftedAttack):
    """Minus [ε] times the mean of the others.

    Xie, Koyejo and Gupta, "Fall of empires: breaking Byzantine-tolerant SGD by inner product manipulation", UAI 2020.
    """

    kind = AttackKind.INNER_PRODUCT
    default = 0.5

    def craft(self, benign: FloatArray, attackers: int, scene: Scene) -> FloatArray:
        return np.asarray(-scene.strength * benign.mean(axis=0))


class FangTrim(CraftedAttack):
    """In every coordinate just beyond the honest extreme on the wrong side, up to [b] times as far.

    Fang et al., "Local model poisoning attacks to Byzantine-robust federated learning", USENIX Security 2020, the
    attack on trimmed mean and median.
    """

    kind = AttackKind.FANG_TRIM
    default, least = 2.0, 1.0

    def craft(self, benign: FloatArray, attackers: int, scene: Scene) -> FloatArray:
        rising, reach = benign.mean(axis=0) > 0, scene.strength
        low, high = benign.min(axis=0), benign.max(axis=0)
        beyond_low = np.where(low > 0, low / reach, low * reach)
        beyond_high = np.where(high > 0, high * reach, high / reach)
        share = scene.moments[0].plan(scene.moments[0].epoch, shared=True).random(benign.shape[1])
        return np.asarray(np.where(rising, low + share * (beyond_low - low), high + share * (beyond_high - high)))


class FangKrum(CraftedAttack):
    """The longest step against the signs of the mean that Krum would still choose.

    Fang et al., USENIX Security 2020, the attack on Krum: the length is halved until Krum picks the attackers' vector.
    It begins as long as the longest honest update: among few, Krum picks two equal vectors of any length.
    """

    kind = AttackKind.FANG_KRUM

    def craft(self, benign: FloatArray, attackers: int, scene: Scene) -> FloatArray:
        against = -np.sign(benign.mean(axis=0))
        length = float(np.linalg.norm(benign, axis=1).max()) / max(float(np.linalg.norm(against)), 1e-12)
        for _ in range(KRUM_HALVINGS):
            together = np.concatenate([np.tile(length * against, (attackers, 1)), benign])
            if krum_choice(together, attackers) < attackers:
                break
            length /= 2
        return np.asarray(length * against)


class Mimic(CraftedAttack):
    """Sends what one honest client sends, with relative noise [level]: that client counts several times.

    Karimireddy, He and Jaggi, "Byzantine-robust learning on heterogeneous datasets via bucketing", ICLR 2022: the one
    that lies farthest along the direction in which the honest updates differ most.
    """

    kind = AttackKind.MIMIC
    default = 0.0

    def craft(self, benign: FloatArray, attackers: int, scene: Scene) -> FloatArray:
        apart = benign - benign.mean(axis=0)
        _, _, directions = np.linalg.svd(apart, full_matrices=False)
        victim = int(np.abs(apart @ directions[0]).argmax())
        moment = scene.moments[0]
        return np.asarray(
            benign[victim] + noise(benign[victim], scene.strength, moment.plan(moment.epoch, shared=True))
        )


def squared_distances(updates: FloatArray) -> FloatArray:
    """(n, n) squared distances between the rows."""
    products = updates @ updates.T
    squares = np.diag(products)
    return np.asarray(np.maximum(squares[:, None] + squares[None, :] - 2 * products, 0.0))


def krum_choice(updates: FloatArray, attackers: int) -> int:
    """The row Krum selects: the smallest sum of squared distances to its n − f − 2 nearest (at least one).

    Blanchard et al., "Machine learning with adversaries: Byzantine tolerant gradient descent", NeurIPS 2017.
    """
    distances = squared_distances(updates)
    np.fill_diagonal(distances, np.inf)
    nearest = max(1, len(updates) - attackers - 2)
    return int(np.sort(distances, axis=1)[:, :nearest].sum(axis=1).argmin())


def _against_deviation(benign: FloatArray) -> FloatArray:
    """Minus the deviation over clients, of length 1; zero where all are equal."""
    deviation = benign.std(axis=0)
    return np.asarray(-deviation / max(float(np.linalg.norm(deviation)), 1e-300))


CRAFTED_ATTACKS: tuple[AttackBehaviour, ...] = (
    Alie(),
    MinMax(),
    MinSum(),
    InnerProduct(),
    FangTrim(),
    FangKrum(),
    Mimic(),
)
