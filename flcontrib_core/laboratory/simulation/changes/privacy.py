"""Privacy filters between a client and the server."""

from __future__ import annotations

import numpy as np

from flcontrib_core.laboratory.simulation.behaviour import Moment
from flcontrib_core.laboratory.simulation.changes.change import ChangeBehaviour, Sent
from flcontrib_core.laboratory.simulation.kinds import ChangeKind
from flcontrib_core.vocabulary import Float32Array

PERCENTILE_CLIP = 0.01
"""Largest change of a parameter per local step that NVFlare's percentile filter lets through."""
SVT_SELECTION, SVT_RELEASE = 16.0, 4.0
"""Privacy budgets of the sparse vector technique, for choosing parameters and for sending them."""


class PrivacyNoise(ChangeBehaviour):
    """Clips its updates to the length of the first one and adds Gaussian noise [σ] times that long.

    The client's side of local differential privacy (Geyer, Klein and Nabi, arXiv 1712.07557). [σ] = 1: the noise is as
    long as the update; in the usual terms the multiplier is σ/√P.
    """

    kind = ChangeKind.PRIVACY_NOISE
    default = 1.0

    def update(self, sent: Sent, moment: Moment) -> Float32Array:
        clip = _first_length(sent, moment)
        spread = moment.strength * clip / len(sent.update) ** 0.5
        added = moment.fresh().normal(0.0, spread, size=len(sent.update))
        return (_shortened(sent.update, clip) + added).astype(np.float32)


class UpdateClip(ChangeBehaviour):
    """Clips its updates to [factor] times the length of the first one, without noise."""

    kind = ChangeKind.UPDATE_CLIP
    default, least = 0.5, 1e-6

    def update(self, sent: Sent, moment: Moment) -> Float32Array:
        return _shortened(sent.update, moment.strength * _first_length(sent, moment))


class PercentileFilter(ChangeBehaviour):
    """Sends no change below the [p]-th percentile of sizes, and cuts every other at 0.01 per local step.

    "Largest percentile to share" (Shokri and Shmatikov, CCS 2015) with the defaults of NVFlare's PercentilePrivacy.
    """

    kind = ChangeKind.PERCENTILE_FILTER
    default, most = 10.0, 99.0

    def update(self, sent: Sent, moment: Moment) -> Float32Array:
        per_step = sent.update / np.float32(max(1, sent.steps))
        size = np.abs(per_step)
        cut = np.clip(per_step, -PERCENTILE_CLIP, PERCENTILE_CLIP)
        shared = np.where(size < np.percentile(size, moment.strength), 0, cut)
        return (shared * max(1, sent.steps)).astype(np.float32)


class SvtFilter(ChangeBehaviour):
    """Sends a share [s] of its parameters, chosen and blurred by Laplace noise; the rest is zero.

    The sparse vector technique as in NVFlare's SVTPrivacy (Li et al., MICCAI-MLMI 2019).

    Departure: the clip is the 90th percentile of sizes in the first filtered epoch, and the budgets are larger; with
    the stock ones models as small as these send noise alone.
    """

    kind = ChangeKind.SVT_FILTER
    default, least, most = 0.3, 0.001, 1.0

    def update(self, sent: Sent, moment: Moment) -> Float32Array:
        rng, count = moment.fresh(), max(1, int(np.ceil(moment.strength * len(sent.update))))
        key = moment.note("svt clip")
        if key not in moment.memory.notes:
            moment.memory.notes[key] = np.quantile(np.abs(sent.update), 0.9, keepdims=True).astype(np.float32)
        clip = max(float(moment.memory.notes[key][0]), 1e-12)
        clipped = np.clip(sent.update, -clip, clip)
        selection = 4 * clip * count / (SVT_SELECTION * (2 * count) ** (2 / 3))
        noisy = np.abs(clipped) + rng.laplace(scale=selection, size=len(clipped))
        positions = np.argsort(-noisy, kind="stable")[:count]
        blurred = clipped[positions] + rng.laplace(scale=2 * clip / SVT_RELEASE, size=count)
        shared = np.zeros_like(sent.update)
        shared[positions] = np.clip(blurred, -clip, clip)
        return shared


class ExcludeLayers(ChangeBehaviour):
    """Keeps its last [k] layers to itself and sends zeros for them; at least the first layer is sent.

    NVFlare's ExcludeVars; a personal head, as in FedPer (Arivazhagan et al., arXiv 1912.00818).
    """

    kind = ChangeKind.EXCLUDE_LAYERS
    default, least = 1.0, 1.0

    def update(self, sent: Sent, moment: Moment) -> Float32Array:
        layers = moment.world.layers
        kept_back = layers[max(1, len(layers) - round(moment.strength)) :]
        return np.where(moment.world.places(tuple(n for layer in kept_back for n in layer)), np.float32(0), sent.update)


def _first_length(sent: Sent, moment: Moment) -> float:
    """The length of the first update this client filtered."""
    key = moment.note("first length")
    if key not in moment.memory.notes:
        moment.memory.notes[key] = np.array([np.linalg.norm(sent.update)], dtype=np.float32)
    return float(moment.memory.notes[key][0])


def _shortened(update: Float32Array, clip: float) -> Float32Array:
    return update * np.float32(min(1.0, clip / max(float(np.linalg.norm(update)), 1e-12)))


PRIVACY_CHANGES: tuple[ChangeBehaviour, ...] = (
    PrivacyNoise(),
    UpdateClip(),
    PercentileFilter(),
    SvtFilter(),
    ExcludeLayers(),
)
