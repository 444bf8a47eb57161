"""What may an honest site change? Each change holds for one site from one epoch to another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.other_hand.pools import Array, Pool, Rng
from benchmarks.other_hand.sites import Habits


@dataclass(frozen=True)
class Change:
    """Site ``site`` does ``what`` in epochs first … last; ``amount`` in (0, 1) says how much of it."""

    site: int
    what: str
    first: int
    last: int
    amount: float

    def holds(self, epoch: int) -> bool:
        return self.first <= epoch <= self.last


HABITS = (
    "local-epochs", "learning-rate", "optimiser", "momentum", "weight-decay", "batch", "clipping", "dp-noise",
    "quantisation", "top-k", "sign-compression", "half-precision", "straggler", "frozen-layers", "augmentation",
    "re-balancing", "proximal",
)  # fmt: skip
ROWS = ("fresh-rows", "other-mix", "growing", "shrinking", "new-scanner", "label-scheme")
PRESENCE = ("late-joining", "leave-and-return")
CHANGES = (*HABITS, *ROWS, *PRESENCE, "server-rate")


def changed_habits(habits: Habits, change: Change, rng: Rng) -> Habits:
    """The habits while the change holds."""
    a, base = change.amount, habits
    new: dict[str, dict[str, Any]] = {
        "local-epochs": {"passes": 1 + int(5 * a), "most_steps": int(base.most_steps * (0.4 + 3 * a))},
        "learning-rate": {"rate": base.rate * 10 ** (1.5 * a - 1)},
        "optimiser": {"optimiser": "sgd" if base.optimiser == "adam" else "adam"},
        "momentum": {"momentum": 0.0 if base.momentum else 0.5 + 0.45 * a},
        "weight-decay": {"decay": 10 ** (-3 + 2 * a)},
        "batch": {"batch": max(4, int(base.batch * 4 ** (2 * a - 1)))},
        "clipping": {"clip_gradient": 10 ** (-1 + 1.2 * a)},
        "dp-noise": {"clip_update": 0.3 + 2 * a, "noise": 0.2 + 1.3 * a},
        "quantisation": {"bits": 3 + int(6 * a)},
        "top-k": {"keep": 0.02 + 0.4 * a},
        "sign-compression": {"sign_only": True},
        "half-precision": {"half": True},
        "straggler": {"most_steps": max(1, int(base.most_steps * rng.uniform(0.1, 0.2 + 0.6 * a)))},
        "frozen-layers": {"frozen": 0.2 + 0.7 * a},
        "augmentation": {"augment": 0.3 + 1.2 * a},
        "re-balancing": {"rebalance": True},
        "proximal": {"proximal": 10 ** (-2 + 2 * a)},
    }
    return replace(habits, **new.get(change.what, {}))


def present(site: int, changes: list[Change], epoch: int) -> bool:
    """Is the site there in this epoch?"""
    return not any(c.site == site and c.what in PRESENCE and c.holds(epoch) for c in changes)


def _rows_like(pool: Pool, spare: Array, wanted: Array, count: int, rng: Rng) -> Array:
    weight = wanted[pool.y[spare]] + 1e-9
    return rng.choice(spare, size=min(count, len(spare)), replace=False, p=weight / weight.sum())


def _scanner(x: Array, amount: float, rng: Rng) -> Array:
    """Another device: contrast and brightness of pictures, gain and offset per column of tables."""
    if x.ndim == 4:
        softer = x if amount < 0.5 else 0.5 * x + 0.25 * (np.roll(x, 1, axis=-1) + np.roll(x, -1, axis=-1))
        return (softer * rng.uniform(1 - 0.6 * amount, 1 + 0.6 * amount) + rng.uniform(-0.3, 0.3) * amount).astype(
            "float32"
        )
    gain = rng.uniform(1 - 0.5 * amount, 1 + 0.5 * amount, size=x.shape[1])
    return (x * gain + 0.6 * amount * rng.normal(size=x.shape[1])).astype("float32")


def changed_rows(pool: Pool, own: Array, spare: Array, change: Change, epoch: int, rng: Rng) -> tuple[Array, Array]:
    """Rows and labels of the site while the change holds; ``rng`` is the change's own, the same in every epoch."""
    a = change.amount
    if change.what in ("fresh-rows", "other-mix"):
        held = np.bincount(pool.y[own], minlength=pool.classes) / len(own)
        wanted = held if change.what == "fresh-rows" else rng.dirichlet(np.full(pool.classes, 0.5))
        kept = own[: int(len(own) * (0 if change.what == "fresh-rows" else 0.6 * a))]
        own = np.concatenate([kept, _rows_like(pool, spare, wanted, max(8, len(own) - len(kept)), rng)])
    elif change.what in ("growing", "shrinking"):
        progress = (epoch - change.first) / max(1, change.last - change.first)
        share = 0.25 + 0.75 * (progress if change.what == "growing" else 1 - progress)
        own = own[: max(8, int(share * len(own)))]
    x, y = pool.x[own], pool.y[own].copy()
    if change.what == "new-scanner":
        x = _scanner(x, a, rng)
    elif change.what == "label-scheme":
        coded, as_other = rng.choice(pool.classes, size=2, replace=False)
        y[(y == coded) & (rng.random(len(y)) < 0.15 + 0.35 * a)] = as_other
    return x, y
