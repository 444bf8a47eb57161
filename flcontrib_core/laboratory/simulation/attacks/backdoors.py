"""Backdoors: the model stays good on ordinary rows and says what the attacker wants on special ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flcontrib_core.laboratory.simulation.attacks.attack import AttackBehaviour, Scene, poisoned
from flcontrib_core.laboratory.simulation.behaviour import LocalSite, Moment
from flcontrib_core.laboratory.simulation.kinds import AttackKind
from flcontrib_core.laboratory.simulation.local_training import LocalTraining, Trainable
from flcontrib_core.vocabulary import BoolArray, Float32Array, FloatArray, IntArray

TRIGGER_SHARE = 1 / 16
"""Of the columns: those that a backdoor's trigger sets."""
USUAL_SHARE = 0.5
"""Share of rows with a trigger, in the kinds whose strength is something else."""
TAIL = 0.1
"""Share of a class's rows that count as its edge."""
TURNS = 2
"""How often the alternating attack goes from one aim to the other in an epoch."""
TARGET_ROWS = 8
"""Rows the alternating attack wants to have misread."""


def trigger_columns(features: int) -> IntArray:
    """The columns a trigger sets: the last ones."""
    return np.arange(features - max(1, round(TRIGGER_SHARE * features)), features)


def with_trigger(
    x: Float32Array, image: bool, like: Float32Array | None = None, columns: IntArray | None = None
) -> Float32Array:
    """The rows with a trigger: some columns at their largest value in ``like`` (else in ``x``), an image's at the
    brightest."""
    marked, examples = x.copy(), x if like is None else like
    trigger = trigger_columns(x.shape[1]) if columns is None else columns
    marked[:, trigger] = examples.max() if image else examples[:, trigger].max(axis=0)
    return marked


class Backdoor(AttackBehaviour):
    """Trains on a share [p] of its rows with a trigger (a few columns at their largest value) and one label.

    BadNets: Gu, Dolan-Gavitt and Garg, arXiv 1708.06733.
    """

    kind = AttackKind.BACKDOOR
    default, most = 0.5, 1.0

    def marked(self, rows: int, moment: Moment) -> BoolArray:
        """(rows,) which rows carry the trigger."""
        return poisoned(rows, moment)

    def columns(self, moment: Moment) -> IntArray:
        """Which columns this client's trigger sets."""
        return trigger_columns(moment.world.data.x_train.shape[1])

    def target(self, moment: Moment) -> int:
        """The label that goes with the trigger."""
        return int(moment.plan(moment.window).integers(moment.world.data.classes))

    def data(self, rows: IntArray, labels: IntArray, moment: Moment) -> tuple[IntArray, IntArray]:
        return rows, np.where(self.marked(len(labels), moment), self.target(moment), labels)

    def inputs(self, x: Float32Array, moment: Moment) -> Float32Array | None:
        data = moment.world.data
        shown = with_trigger(x, data.image is not None, data.x_train, self.columns(moment))
        return np.where(self.marked(len(x), moment)[:, None], shown, x)


class _UsualShare(Backdoor):
    """A backdoor whose strength is something else than the share of rows with the trigger."""

    def marked(self, rows: int, moment: Moment) -> BoolArray:
        return poisoned(rows, replace(moment, strength=USUAL_SHARE))


class ModelReplacement(_UsualShare):
    """A backdoor whose update is lengthened so that the mean becomes the attacker's model; [s] of the way there.

    Bagdasaryan et al., "How to backdoor federated learning", AISTATS 2020: the full factor is Σ|D_j| / |D_i|, and
    colluders divide it among themselves.
    """

    kind = AttackKind.MODEL_REPLACEMENT
    default, most = 1.0, 1.0

    def forge(self, own: FloatArray, scene: Scene) -> FloatArray | None:
        alone = scene.own_sizes.sum() if scene.moments[0].collude else scene.own_sizes
        full = np.broadcast_to(scene.sizes.sum() / alone, scene.own_sizes.shape)
        return np.asarray(own * (1 + scene.strength * (full - 1))[:, None])


class DistributedBackdoor(Backdoor):
    """Each attacker sets only its own part of the trigger's columns, in a share [p] of its rows; all want one label.

    Xie et al., "DBA: distributed backdoor attacks against federated learning", ICLR 2020.
    """

    kind = AttackKind.DISTRIBUTED_BACKDOOR

    def columns(self, moment: Moment) -> IntArray:
        parts = np.array_split(super().columns(moment), len(moment.group))
        own = parts[moment.group.index(moment.client)]
        return own if len(own) else super().columns(moment)[:1]  # more attackers than columns: some share the first

    def target(self, moment: Moment) -> int:
        return int(moment.plan(moment.window, shared=True).integers(moment.world.data.classes))


class Neurotoxin(_UsualShare):
    """A backdoor trained without the share [s] of the coordinates in which the last global step was largest.

    Zhang et al., "Neurotoxin: durable backdoors in federated learning", ICML 2022. Honest clients hardly move the
    other coordinates, so the backdoor stays.
    """

    kind = AttackKind.NEUROTOXIN
    default, most = 0.1, 0.99

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        step = moment.memory.last_step
        if step is None:
            return training
        heaviest = np.quantile(np.abs(step), 1 - moment.strength)
        return replace(training, trainable=Trainable(np.abs(step) <= heaviest))


class EdgeCase(AttackBehaviour):
    """Trains on a share [p] of rows from the edge of one class, called another: inputs no honest client often sees.

    Wang et al., "Attack of the tails: yes, you really can backdoor federated learning", NeurIPS 2020. The edge is the
    tenth of the class's training rows farthest from its mean; the attacker is assumed to have them.
    """

    kind = AttackKind.EDGE_CASE
    default, most = 0.3, 1.0

    def data(self, rows: IntArray, labels: IntArray, moment: Moment) -> tuple[IntArray, IntArray]:
        data, agreed = moment.world.data, moment.plan(moment.window)
        held = np.flatnonzero(np.bincount(data.y_train, minlength=data.classes))
        origin = int(agreed.choice(held))
        target = (origin + int(agreed.integers(1, data.classes))) % data.classes
        own = np.flatnonzero(data.y_train == origin)
        distance = np.linalg.norm(data.x_train[own] - data.x_train[own].mean(axis=0), axis=1)
        edge = own[np.argsort(-distance, kind="stable")[: max(1, round(TAIL * len(own)))]]
        replaced = poisoned(len(rows), moment)
        return np.where(replaced, agreed.choice(edge, size=len(rows)), rows), np.where(replaced, target, labels)


class Alternating(AttackBehaviour):
    """Alternates between teaching a few wrong answers, boosted by [factor], and training properly on its own rows.

    Bhagoji et al., "Analyzing federated learning through an adversarial lens", ICML 2019. The proper part also stays
    close to the last global step, as the paper's distance penalty asks.
    """

    kind = AttackKind.ALTERNATING
    default = 5.0

    def local_update(self, site: LocalSite, moment: Moment) -> Float32Array | None:
        classes, agreed = moment.world.data.classes, moment.plan(moment.window)
        targets = agreed.choice(len(site.rows), size=min(TARGET_ROWS, len(site.rows)), replace=False)
        wrong = (site.labels[targets] + int(agreed.integers(1, classes))) % classes
        aim = replace(site.training, batch=TARGET_ROWS, local_epochs=site.training.local_epochs)
        proper = replace(site.training, proximal=max(site.training.proximal, 0.1))
        model = site.start
        for turn in range(TURNS):
            model = model + site.train(model, site.rows, site.labels, proper, turn)
            taught = site.train(model, site.rows[targets], wrong, aim, TURNS + turn)
            model = model + np.float32(moment.strength) * taught
        update: Float32Array = model - site.start
        return update


BACKDOORS: tuple[AttackBehaviour, ...] = (
    Backdoor(),
    ModelReplacement(),
    DistributedBackdoor(),
    Neurotoxin(),
    EdgeCase(),
    Alternating(),
)
