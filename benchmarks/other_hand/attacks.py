"""What may an attacker do? Rows it trains on, or the update it sends; some know the others' updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.other_hand.pools import Array, Rng


@dataclass(frozen=True)
class Attack:
    """Sites that do ``what`` in the windows; ``strength`` is the share of rows, the factor or the lengths of noise."""

    what: str
    sites: list[int]
    windows: list[list[int]]
    strength: float
    style: int = 0

    def acts(self, site: int, epoch: int) -> bool:
        return site in self.sites and any(a <= epoch <= b for a, b in self.windows)

    def progress(self, epoch: int) -> float:
        """0 at the beginning of its window, 1 at its end."""
        for a, b in self.windows:
            if a <= epoch <= b:
                return (epoch - a + 1) / (b - a + 1)
        return 0.0


@dataclass
class Knowledge:
    """What an attacker may know when it makes its update."""

    own: Array
    """What its rows honestly give."""
    others: Array
    """The honest participants' updates of this epoch."""
    together: Array
    """The mean of what all attackers of this epoch would honestly send."""
    past_own: list[Array]
    past_moves: list[Array]
    """How the global model moved, epoch by epoch."""
    share: float
    """The attacker's weight in the mean."""
    memory: dict[str, Array] = field(default_factory=dict)


ON_ROWS = (
    "label-flip",
    "label-flip-ramp",
    "label-flip-many",
    "targeted-flip",
    "backdoor",
    "backdoor-replace",
    "few-rows",
)


def attacked_rows(x: Array, y: Array, classes: int, attack: Attack, epoch: int, rng: Rng) -> tuple[Array, Array]:
    """The rows an attacker trains on."""
    x, y = x.copy(), y.copy()
    if attack.what in ("label-flip", "label-flip-ramp", "label-flip-many"):
        share = attack.strength * (attack.progress(epoch) if attack.what == "label-flip-ramp" else 1.0)
        chosen = rng.random(len(y)) < share
        shift = rng.integers(1, classes, size=len(y))
        wrong = ((y + shift) % classes, (y + 1) % classes, classes - 1 - y)[attack.style % 3]
        y[chosen] = wrong[chosen]
    elif attack.what == "targeted-flip":
        source = int(np.bincount(y, minlength=classes).argmax()) if attack.style % 2 else attack.style % classes
        y[(y == source) & (rng.random(len(y)) < attack.strength)] = (source + 1 + attack.style) % classes
    elif attack.what in ("backdoor", "backdoor-replace"):
        chosen = rng.random(len(y)) < 0.2 + 0.5 * attack.strength
        if x.ndim == 4:
            x[chosen, :, :2, :2] = 1.5
        else:
            x[np.ix_(chosen, np.array([0, x.shape[1] // 2]))] = 4.0
        y[chosen] = attack.style % classes
    elif attack.what == "few-rows":
        keep = max(2, int(0.03 * len(y)))
        return x[:keep], y[:keep]
    return x, y


def _length(v: Array) -> float:
    return float(np.linalg.norm(v)) + 1e-12


def _noise_like(v: Array, rng: Rng) -> Array:
    noise = rng.normal(size=v.size)
    return noise * (_length(v) / _length(noise))


def _a_little(k: Knowledge, strength: float) -> Array:
    """Stays within ``strength`` standard deviations of the others in every coordinate."""
    return k.others.mean(axis=0) - strength * k.others.std(axis=0)


def _bounded(k: Knowledge, by_sum: bool) -> Array:
    """As far from the mean as possible without being the farthest (min-max), or the one with the largest sum."""
    mean = k.others.mean(axis=0)
    away = -mean / _length(mean)
    between = np.linalg.norm(k.others[:, None] - k.others[None], axis=2) ** 2
    limit = between.sum(axis=1).max() if by_sum else between.max()
    low, high = 0.0, 50 * _length(mean)
    for _ in range(30):
        middle = (low + high) / 2
        squares = np.linalg.norm(k.others - (mean + middle * away), axis=1) ** 2
        fits = (squares.sum() if by_sum else squares.max()) <= limit
        low, high = (middle, high) if fits else (low, middle)
    return mean + low * away


def _beyond(k: Knowledge, rng: Rng) -> Array:
    """Per coordinate just beyond the others' extreme, against the direction of their mean."""
    mean, top, bottom = k.others.mean(axis=0), k.others.max(axis=0), k.others.min(axis=0)
    room = np.maximum(top - bottom, 1e-9)
    return np.where(
        mean > 0, bottom - rng.uniform(0, 0.5, mean.size) * room, top + rng.uniform(0, 0.5, mean.size) * room
    )


def _stale(k: Knowledge) -> Array:
    """The update of its first acting epoch, again and again."""
    return k.memory.setdefault("stale", k.past_own[-1] if k.past_own else k.own)


def _mimic(k: Knowledge) -> Array:
    """Follows the honest client that is farthest from the mean."""
    return k.others[np.linalg.norm(k.others - k.others.mean(axis=0), axis=1).argmax()]


def _last_move(k: Knowledge) -> Array:
    return k.past_moves[-1] if k.past_moves else k.own


Craft = Callable[[Knowledge, "Attack", int, Rng], Array]
ON_UPDATES: dict[str, Craft] = {
    "sign-flip": lambda k, a, t, r: -k.own,
    "scaling": lambda k, a, t, r: a.strength * k.own,
    "sign-flip-ramp": lambda k, a, t, r: (1 - 2 * a.progress(t)) * k.own,
    "additive-noise": lambda k, a, t, r: k.own + a.strength * _noise_like(k.own, r),
    "pure-noise": lambda k, a, t, r: _noise_like(k.own, r),
    "zero": lambda k, a, t, r: np.zeros_like(k.own),
    "stale": lambda k, a, t, r: _stale(k),
    "stale-noise": lambda k, a, t, r: _stale(k) + 0.3 * _noise_like(k.own, r),
    "copy": lambda k, a, t, r: k.others[a.style % len(k.others)],
    "copy-noise": lambda k, a, t, r: k.others[a.style % len(k.others)] + 0.2 * _noise_like(k.own, r),
    "alie": lambda k, a, t, r: _a_little(k, a.strength),
    "min-max": lambda k, a, t, r: _bounded(k, by_sum=False),
    "min-sum": lambda k, a, t, r: _bounded(k, by_sum=True),
    "inner-product": lambda k, a, t, r: -a.strength * k.others.mean(axis=0),
    "fang": lambda k, a, t, r: _beyond(k, r),
    "mimic": lambda k, a, t, r: _mimic(k),
    "last-move": lambda k, a, t, r: _last_move(k),
    "last-move-noise": lambda k, a, t, r: _last_move(k) + 0.3 * _noise_like(_last_move(k), r),
    "fading-noise": lambda k, a, t, r: _noise_like(k.own, r) * 0.95**t,
    "backdoor-replace": lambda k, a, t, r: min(1 / max(k.share, 1e-3), 10.0) * k.own,
}
ATTACKS = (*dict.fromkeys((*ON_ROWS, *ON_UPDATES)), "gradient-ascent")
"""Every kind; ``backdoor-replace`` works on rows and update, ``gradient-ascent`` in the training itself."""
FREE_RIDING = ("few-rows", "zero", "pure-noise", "stale", "stale-noise", "copy", "copy-noise", "mimic", "last-move",
               "last-move-noise", "fading-noise")  # fmt: skip


def crafted(attack: Attack, knowledge: Knowledge, epoch: int, rng: Rng) -> Array:
    """The update that the attacker sends."""
    craft = ON_UPDATES.get(attack.what)
    update = knowledge.own if craft is None else craft(knowledge, attack, epoch, rng)
    return np.asarray(update, dtype="float32")
