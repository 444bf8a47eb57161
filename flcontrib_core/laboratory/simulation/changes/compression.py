"""Compression between a client and the server: fewer bits, fewer numbers, fewer of both."""

from __future__ import annotations

import numpy as np

from flcontrib_core.laboratory.simulation.behaviour import Moment
from flcontrib_core.laboratory.simulation.changes.change import ChangeBehaviour, Sent
from flcontrib_core.laboratory.simulation.kinds import ChangeKind
from flcontrib_core.laboratory.simulation.precision import to_bfloat16, to_float16
from flcontrib_core.vocabulary import Float32Array


class Quantisation(ChangeBehaviour):
    """Sends each layer's numbers with [b] bits on an even grid up to the layer's largest, rounded at random.

    QSGD (Alistarh et al., NeurIPS 2017): the rounding is right on average.
    """

    kind = ChangeKind.QUANTISATION
    default, least, most = 8.0, 2.0, 16.0

    def update(self, sent: Sent, moment: Moment) -> Float32Array:
        levels, rng = 2 ** (round(moment.strength) - 1) - 1, moment.fresh()
        sent_as = np.empty_like(sent.update)
        for layer in moment.world.layers:
            place = moment.world.places(layer)
            own = sent.update[place].astype(np.float64)
            grid = max(float(np.abs(own).max(initial=0.0)), 1e-30) / levels
            sent_as[place] = np.floor(own / grid + rng.random(len(own))) * grid
        return sent_as


class TopK(ChangeBehaviour):
    """Sends its largest numbers only, a share [s] of them.

    Aji and Heafield, "Sparse communication for distributed gradient descent", EMNLP 2017.
    """

    kind = ChangeKind.TOP_K
    default, least, most = 0.1, 1e-4, 1.0

    def update(self, sent: Sent, moment: Moment) -> Float32Array:
        return largest(sent.update, moment.strength)


class TopKFeedback(ChangeBehaviour):
    """Sends its largest numbers, a share [s], and adds next time what it left out.

    Stich, Cordonnier and Jaggi, "Sparsified SGD with memory", NeurIPS 2018.
    """

    kind = ChangeKind.TOP_K_FEEDBACK
    default, least, most = 0.1, 1e-4, 1.0

    def update(self, sent: Sent, moment: Moment) -> Float32Array:
        owed = _with_residual(sent.update, moment)
        return _leaving_residual(owed, largest(owed, moment.strength), moment)


class RandomK(ChangeBehaviour):
    """Sends a random share [s] of its numbers, enlarged so that the update is right on average.

    Konečný et al., "Federated learning: strategies for improving communication efficiency", arXiv 1610.05492.
    """

    kind = ChangeKind.RANDOM_K
    default, least, most = 0.25, 0.01, 1.0

    def update(self, sent: Sent, moment: Moment) -> Float32Array:
        count = max(1, round(moment.strength * len(sent.update)))
        positions = moment.fresh().choice(len(sent.update), size=count, replace=False)
        shared = np.zeros_like(sent.update)
        shared[positions] = sent.update[positions] * np.float32(len(sent.update) / count)
        return shared


class SignCompression(ChangeBehaviour):
    """Sends only signs, and one number: the mean size.

    Scaled signSGD (Karimireddy et al., "Error feedback fixes SignSGD", ICML 2019), without the feedback.
    """

    kind = ChangeKind.SIGN_COMPRESSION

    def update(self, sent: Sent, moment: Moment) -> Float32Array:
        return signs(sent.update)


class SignFeedback(ChangeBehaviour):
    """Sends signs and the mean size, and adds next time what was lost (EF-signSGD, Karimireddy et al., ICML 2019)."""

    kind = ChangeKind.SIGN_FEEDBACK

    def update(self, sent: Sent, moment: Moment) -> Float32Array:
        owed = _with_residual(sent.update, moment)
        return _leaving_residual(owed, signs(owed), moment)


class Float16(ChangeBehaviour):
    """Sends its model in half precision; the update is the way there from the global model."""

    kind = ChangeKind.FLOAT16

    def update(self, sent: Sent, moment: Moment) -> Float32Array:
        return to_float16(sent.model + sent.update) - sent.model


class Bfloat16(ChangeBehaviour):
    """Sends its model in bfloat16; the update is the way there from the global model."""

    kind = ChangeKind.BFLOAT16

    def update(self, sent: Sent, moment: Moment) -> Float32Array:
        return to_bfloat16(sent.model + sent.update) - sent.model


def largest(update: Float32Array, share: float) -> Float32Array:
    """The update with only its largest numbers, a share of them; the others are zero."""
    count = max(1, round(share * len(update)))
    positions = np.argsort(-np.abs(update), kind="stable")[:count]
    shared = np.zeros_like(update)
    shared[positions] = update[positions]
    return shared


def signs(update: Float32Array) -> Float32Array:
    """The update's signs times its mean size."""
    return np.asarray(np.sign(update) * np.abs(update).mean(dtype=np.float32))


def _with_residual(update: Float32Array, moment: Moment) -> Float32Array:
    left = moment.memory.notes.get(moment.note("residual"))
    return update if left is None else update + left


def _leaving_residual(owed: Float32Array, shared: Float32Array, moment: Moment) -> Float32Array:
    moment.memory.notes[moment.note("residual")] = owed - shared
    return shared


COMPRESSION_CHANGES: tuple[ChangeBehaviour, ...] = (
    Quantisation(),
    TopK(),
    TopKFeedback(),
    RandomK(),
    SignCompression(),
    SignFeedback(),
    Float16(),
    Bfloat16(),
)
