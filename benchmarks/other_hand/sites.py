"""How does a site train? Its habits may be any an honest site has, and they may change from one epoch to another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.other_hand.nets import Net
from benchmarks.other_hand.pools import Array, Rng


@dataclass(frozen=True)
class Habits:
    """What a site does with the model that it is sent. Zero means: not done."""

    passes: int = 1
    rate: float = 0.1
    optimiser: str = "sgd"
    momentum: float = 0.0
    decay: float = 0.0
    batch: int = 16
    most_steps: int = 12
    clip_gradient: float = 0.0
    proximal: float = 0.0
    frozen: float = 0.0
    """Share of the parameters, from the input on, that the site leaves as they are."""
    augment: float = 0.0
    rebalance: bool = False
    clip_update: float = 0.0
    noise: float = 0.0
    """Gaussian noise on the update, in lengths of the (clipped) update."""
    bits: int = 0
    keep: float = 0.0
    """Share of the entries that a top-k compression keeps."""
    sign_only: bool = False
    half: bool = False
    ascend: bool = False


def _augmented(x: Array, strength: float, rng: Rng) -> Array:
    x = x + strength * 0.3 * np.asarray(rng.normal(size=x.shape), dtype="float32")
    return np.roll(x, int(rng.integers(-1, 2)), axis=-1) if x.ndim == 4 else x


def _order(y: Array, rebalance: bool, rng: Rng) -> Array:
    if not rebalance:
        return rng.permutation(len(y))
    weight = 1.0 / np.bincount(y)[y]
    return rng.choice(len(y), size=len(y), p=weight / weight.sum())


class _Optimiser:
    def __init__(self, habits: Habits, size: int) -> None:
        self.habits, self.first, self.second, self.step = (
            habits,
            np.zeros(size, "float32"),
            np.zeros(size, "float32"),
            0,
        )

    def move(self, slope: Array) -> Array:
        h = self.habits
        self.step += 1
        if h.optimiser == "adam":
            self.first = 0.9 * self.first + 0.1 * slope
            self.second = 0.999 * self.second + 0.001 * slope * slope
            lifted = self.second / (1 - 0.999**self.step)
            return -0.05 * h.rate * (self.first / (1 - 0.9**self.step)) / (np.sqrt(lifted) + 1e-7)
        self.first = h.momentum * self.first + slope
        return -h.rate * (1 - 0.7 * h.momentum) * self.first


def train(net: Net, start: Array, x: Array, y: Array, habits: Habits, rng: Rng) -> Array:
    """The update that one visit of the site sends back."""
    w, optimiser = start.copy(), _Optimiser(habits, start.size)
    moving = net.trainable.copy()
    moving[: int(habits.frozen * moving.size)] = False
    steps = 0
    for _ in range(habits.passes):
        order = _order(y, habits.rebalance, rng)
        last = max(1, len(order) // habits.batch) * habits.batch
        for at in range(0, last, habits.batch):
            rows = order[at : at + habits.batch]
            if steps >= habits.most_steps or len(rows) < 2:
                break
            steps += 1
            seen = _augmented(x[rows], habits.augment, rng) if habits.augment else x[rows]
            slope = net.gradient(w, seen, y[rows])
            slope = slope + habits.decay * w + habits.proximal * (w - start)
            slope[~moving] = 0
            length = float(np.linalg.norm(slope))
            if habits.clip_gradient and length > habits.clip_gradient:
                slope *= habits.clip_gradient / length
            w += (-1 if habits.ascend else 1) * optimiser.move(slope.astype("float32"))
    update = w - start
    update[net.trainable] = compressed(update[net.trainable], habits, rng)
    return update


def compressed(update: Array, habits: Habits, rng: Rng) -> Array:
    """What clipping, noise and compression leave of an update before it is sent."""
    length = float(np.linalg.norm(update))
    if habits.clip_update and length > habits.clip_update:
        update = update * (habits.clip_update / length)
    if habits.noise:
        scale = habits.noise * float(np.linalg.norm(update)) / np.sqrt(update.size)
        update = update + scale * rng.normal(size=update.size)
    if habits.keep:
        floor = np.quantile(np.abs(update), 1 - habits.keep)
        update = np.where(np.abs(update) >= floor, update, 0)
    if habits.sign_only:
        update = np.sign(update) * np.abs(update).mean()
    if habits.bits:
        grain = max(float(np.abs(update).max()), 1e-12) / (2 ** (habits.bits - 1) - 1)
        update = np.floor(update / grain + rng.random(update.size)) * grain
    if habits.half:
        update = update.astype("float16")
    return update.astype("float32")
