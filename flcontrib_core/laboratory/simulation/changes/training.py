"""Honest changes of how a client trains: passes, rate, batches, optimiser, regularisation, hardware."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np

from flcontrib_core.laboratory.simulation.batches import LocalBatches
from flcontrib_core.laboratory.simulation.behaviour import Moment
from flcontrib_core.laboratory.simulation.changes.change import ChangeBehaviour, Sent
from flcontrib_core.laboratory.simulation.kinds import ChangeKind, Optimizer
from flcontrib_core.laboratory.simulation.local_training import LocalTraining, RowPrivacy, Trainable
from flcontrib_core.laboratory.simulation.precision import to_bfloat16
from flcontrib_core.vocabulary import Float32Array, IntArray


class LocalEpochs(ChangeBehaviour):
    """Passes over its rows [factor] times as often; below one pass it takes that share of the steps."""

    kind = ChangeKind.LOCAL_EPOCHS
    default, least = 3.0, 0.01

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        passes = training.local_epochs * moment.strength
        whole = max(1, math.ceil(passes - 1e-9))
        return replace(training, local_epochs=whole, step_share=training.step_share * min(1.0, passes / whole))


class LearningRate(ChangeBehaviour):
    """Trains with [factor] times the learning rate."""

    kind = ChangeKind.LEARNING_RATE
    default, least = 1 / 3, 1e-6

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        return replace(training, lr=training.lr * moment.strength)


class BatchSize(ChangeBehaviour):
    """Trains with batches of [factor] times the size."""

    kind = ChangeKind.BATCH_SIZE
    default, least = 4.0, 1e-3

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        return replace(training, batch=max(1, round(training.batch * moment.strength)))


class _OtherOptimizer(ChangeBehaviour):
    """Trains with another optimiser at learning rate [lr]."""

    least = 1e-6
    optimizer: ClassVar[Optimizer]

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        return replace(training, optimizer=self.optimizer, lr=moment.strength)


class OptimizerSgd(_OtherOptimizer):
    """Trains with plain SGD at learning rate [lr]."""

    kind, optimizer, default = ChangeKind.OPTIMIZER_SGD, Optimizer.SGD, 0.1


class OptimizerMomentum(_OtherOptimizer):
    """Trains with SGD and momentum at learning rate [lr]."""

    kind, optimizer, default = ChangeKind.OPTIMIZER_MOMENTUM, Optimizer.MOMENTUM, 0.03


class OptimizerAdam(_OtherOptimizer):
    """Trains with Adam at learning rate [lr]."""

    kind, optimizer, default = ChangeKind.OPTIMIZER_ADAM, Optimizer.ADAM, 0.005


class OptimizerAdamW(_OtherOptimizer):
    """Trains with AdamW at learning rate [lr] and its customary weight decay of 0.01."""

    kind, optimizer, default = ChangeKind.OPTIMIZER_ADAMW, Optimizer.ADAMW, 0.005

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        return replace(super().training(training, moment), weight_decay=max(training.weight_decay, 0.01))


class WeightDecay(ChangeBehaviour):
    """Adds weight decay [λ]."""

    kind = ChangeKind.WEIGHT_DECAY
    default = 0.01

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        return replace(training, weight_decay=moment.strength)


class GradientClip(ChangeBehaviour):
    """Clips the gradient of every step to length [c]."""

    kind = ChangeKind.GRADIENT_CLIP
    default, least = 0.5, 1e-6

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        return replace(training, gradient_clip=moment.strength)


class Proximal(ChangeBehaviour):
    """Stays close to the global model with FedProx's term of weight [μ] (Li et al., MLSys 2020)."""

    kind = ChangeKind.PROXIMAL
    default = 0.5

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        return replace(training, proximal=moment.strength)


class CosineSchedule(ChangeBehaviour):
    """Lets its learning rate fall along a cosine over the window, down to a share [s] of it.

    Loshchilov and Hutter, "SGDR", ICLR 2017.
    """

    kind = ChangeKind.COSINE_SCHEDULE
    default, most = 0.1, 1.0

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        first, last = moment.span
        turn = math.pi * (moment.epoch - first) / max(1, last - first)
        factor = moment.strength + (1 - moment.strength) * 0.5 * (1 + math.cos(turn))
        return replace(training, lr=training.lr * factor)


class StepSchedule(ChangeBehaviour):
    """Multiplies its learning rate by [factor] after each third of the window."""

    kind = ChangeKind.STEP_SCHEDULE
    default, least = 0.3, 1e-3

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        first, last = moment.span
        thirds = 3 * (moment.epoch - first) // (last - first + 1)
        return replace(training, lr=training.lr * moment.strength**thirds)


class Straggler(ChangeBehaviour):
    """Runs out of time: each epoch it takes only a share of its steps, drawn between [s] and 1."""

    kind = ChangeKind.STRAGGLER
    default, most = 0.3, 1.0

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        return replace(training, step_share=training.step_share * moment.fresh().uniform(moment.strength, 1.0))


class DroppedBatches(ChangeBehaviour):
    """Loses each batch with probability [p], as a failing data loader does; one is always left."""

    kind = ChangeKind.DROPPED_BATCHES
    default, most = 0.3, 1.0

    def batches(self, batches: LocalBatches, moment: Moment) -> LocalBatches:
        left = np.flatnonzero(moment.fresh().random(batches.steps) >= moment.strength)
        return batches.only([int(step) for step in left] or [0])


class NoShuffle(ChangeBehaviour):
    """Walks through its rows in the order they are stored in, class by class."""

    kind = ChangeKind.NO_SHUFFLE

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        return replace(training, shuffle=False)

    def data(self, rows: IntArray, labels: IntArray, moment: Moment) -> tuple[IntArray, IntArray]:
        order = np.argsort(labels, kind="stable")
        return rows[order], labels[order]


class FrozenLayers(ChangeBehaviour):
    """Fine-tunes: its first [k] layers are not trained; at least the last one is."""

    kind = ChangeKind.FROZEN_LAYERS
    default, least = 1.0, 1.0

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        layers = moment.world.layers
        trained = layers[min(round(moment.strength), len(layers) - 1) :]
        return replace(training, trainable=Trainable(moment.world.places(tuple(n for layer in trained for n in layer))))


class MixedPrecision(ChangeBehaviour):
    """Trains on a new accelerator with bfloat16 gradients and full-precision weights."""

    kind = ChangeKind.MIXED_PRECISION

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        return replace(training, half_gradients=True)


class StaleStart(ChangeBehaviour):
    """Is slow: its update comes from the global model of [k] epochs before.

    Asynchronous training, as in FedBuff (Nguyen et al., AISTATS 2022).
    """

    kind = ChangeKind.STALE_START
    default, least, most = 2.0, 1.0, 10.0

    def start(self, model: Float32Array, moment: Moment) -> Float32Array:
        models = moment.memory.models
        back = min(round(moment.strength), len(models))
        return models[-back] if back else model


class VersionUpgrade(ChangeBehaviour):
    """Runs a new release with other defaults: momentum, twice the batch, weights sent as bfloat16."""

    kind = ChangeKind.VERSION_UPGRADE

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        if training.optimizer is not Optimizer.SGD:
            return replace(training, batch=2 * training.batch)
        return replace(training, optimizer=Optimizer.MOMENTUM, lr=training.lr / 3, batch=2 * training.batch)

    def update(self, sent: Sent, moment: Moment) -> Float32Array:
        return to_bfloat16(sent.model + sent.update) - sent.model


class DpSgd(ChangeBehaviour):
    """Trains with DP-SGD: rows' gradients clipped to 1, noise multiplier [σ] (Abadi et al., CCS 2016)."""

    kind = ChangeKind.DP_SGD
    default = 0.5

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        return replace(training, row_privacy=RowPrivacy(1.0, moment.strength))


TRAINING_CHANGES: tuple[ChangeBehaviour, ...] = (
    LocalEpochs(),
    LearningRate(),
    BatchSize(),
    OptimizerSgd(),
    OptimizerMomentum(),
    OptimizerAdam(),
    OptimizerAdamW(),
    WeightDecay(),
    GradientClip(),
    Proximal(),
    CosineSchedule(),
    StepSchedule(),
    Straggler(),
    DroppedBatches(),
    NoShuffle(),
    FrozenLayers(),
    MixedPrecision(),
    StaleStart(),
    VersionUpgrade(),
    DpSgd(),
)
