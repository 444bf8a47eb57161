"""Attacks of the literature, at its strengths: on labels, on inputs, on what is sent, alone or together.

Data attacks follow Tolpegin et al. and Bagdasaryan et al.; sent ones ALIE (Baruch), IPM (Xie), min-max and min-sum
(Shejwalkar and Houmansadr), Fang et al.; free riders follow Lin et al. and Fraboni et al.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from benchmarks.third_hand.behaviour import Behaviour, Scene, View, rms, strength_between, window
from benchmarks.third_hand.chance import Generator, pick
from benchmarks.third_hand.sources import Array
from benchmarks.third_hand.splits import Rows, relabelled
from benchmarks.third_hand.training import LocalPlan

Alter = Callable[[Rows, float, Generator, int], Rows]
Send = Callable[[View, float], Array]


@dataclass(frozen=True)
class Recipe:
    """An attack with its strength: what it does to rows, to the plan, and to the update."""

    strength: float
    data: Alter | None = None
    send: Send | None = None
    plan: Callable[[LocalPlan, int], LocalPlan] | None = None
    together: bool = False
    """Is it meant for a group that knows of each other?"""


def _some(rng: Generator, count: int, share: float) -> Array:
    return rng.random(count) < share


def _flip(rng: Generator, scene: Scene, how: str) -> Recipe:
    strength = pick(rng, [0.2, 0.3, 0.5, 0.7, 0.8, 1.0, 1.0])
    target, k = int(rng.integers(scene.classes)), scene.classes
    seed = int(rng.integers(2**31))

    def alter(rows: Rows, s: float, r: Generator, t: int) -> Rows:
        fixed, y = np.random.default_rng(seed), rows[1]
        if how == "random":
            return rows[0], relabelled(fixed, y, s, k)
        wrong = {"pairwise": k - 1 - y if k % 2 == 0 else (y + 1) % k, "all-to-one": np.full_like(y, target)}[how]
        return rows[0], np.where(_some(fixed, len(y), s), wrong, y)

    return Recipe(strength, data=alter)


def _targeted(rng: Generator, scene: Scene) -> Recipe:
    source, target = (int(c) for c in rng.permutation(scene.classes)[:2])

    def alter(rows: Rows, s: float, r: Generator, t: int) -> Rows:
        return rows[0], np.where((rows[1] == source) & _some(r, len(rows[1]), s), target, rows[1])

    return Recipe(pick(rng, [0.5, 0.8, 1.0, 1.0]), data=alter)


def _corrupt(rng: Generator, scene: Scene) -> Recipe:
    how = pick(rng, ["noise", "shuffle", "negative"])

    def alter(rows: Rows, s: float, r: Generator, t: int) -> Rows:
        x, hit = rows[0], _some(r, len(rows[1]), s)
        if how == "noise":
            bad = r.normal(size=x.shape) * 2 * x.std() + x.mean()
        elif how == "shuffle":
            bad = r.permuted(x.reshape(len(x), -1), axis=1).reshape(x.shape)
        else:
            bad = 2 * x.mean() - x
        return np.where(hit.reshape(-1, *[1] * (x.ndim - 1)), bad, x).astype(np.float32), rows[1]

    return Recipe(pick(rng, [0.5, 0.8, 1.0]), data=alter)


def _stamp(rng: Generator, scene: Scene) -> Callable[[Array], Array]:
    """A bright corner in pictures, a few columns at an unusual value in tables."""
    if len(scene.shape) == 3:
        size, ink = pick(rng, [2, 3]), max(2.0, float(max(x.max() for x, _ in scene.sites)))
        mask = np.zeros(scene.shape, bool)
        mask[:, -size:, -size:] = True
    else:
        mask, ink = np.zeros(scene.shape, bool), pick(rng, [3.0, 4.0])
        mask[rng.permutation(scene.shape[0])[: pick(rng, [1, 2, 3])]] = True
    return lambda x: np.where(mask, np.float32(ink), x)


def _backdoor(rng: Generator, scene: Scene, how: str) -> Recipe:
    share, target = pick(rng, [0.2, 0.3, 0.5]), int(rng.integers(scene.classes))
    stamp = _stamp(rng, scene)
    column = int(rng.integers(int(np.prod(scene.shape))))
    everything = np.concatenate([x.reshape(len(x), -1)[:, column] for x, _ in scene.sites])
    cut = float(np.quantile(everything, 0.85))

    def alter(rows: Rows, s: float, r: Generator, t: int) -> Rows:
        x, y = rows
        if how == "semantic":  # rows that are so by nature, given another meaning
            return x, np.where(x.reshape(len(x), -1)[:, column] >= cut, target, y)
        hit = _some(r, len(y), min(share, s))
        return np.where(hit.reshape(-1, *[1] * (x.ndim - 1)), stamp(x), x), np.where(hit, target, y)

    passes = pick(rng, [1, 2, 3])

    def longer(p: LocalPlan, t: int) -> LocalPlan:
        return replace(p, passes=min(12, p.passes * passes))

    boost = pick(rng, ["none", "scaled", "replacement"], [3, 2, 1])
    if boost == "none":
        return Recipe(share, data=alter, plan=longer)
    if boost == "scaled":
        return Recipe(strength_between(rng, 2, 10), alter, lambda v, s: v.own * max(1.0, s), longer)
    return Recipe(1.0, alter, lambda v, s: v.own * min(1 / v.weight, 30.0), longer)


def _sign_flip(rng: Generator, scene: Scene) -> Recipe:
    return Recipe(pick(rng, [1.0, 1.0, 2.0, 3.0, 5.0, 10.0]), send=lambda v, s: np.negative(v.own) * s)


def _scaling(rng: Generator, scene: Scene) -> Recipe:
    return Recipe(strength_between(rng, 1.5, 20), send=lambda v, s: v.own * max(1.0, s))


def _noise_added(rng: Generator, scene: Scene) -> Recipe:
    return Recipe(
        pick(rng, [0.5, 1.0, 2.0, 5.0, 10.0]), send=lambda v, s: v.own + v.rng.normal(size=v.own.shape) * s * rms(v.own)
    )


def _pure_noise(rng: Generator, scene: Scene) -> Recipe:
    def send(view: View, s: float) -> Array:
        return np.asarray(view.rng.normal(size=view.own.shape) * s * rms(view.own))

    return Recipe(pick(rng, [1.0, 2.0, 5.0]), send=send)


def _camouflage(view: View, sent: Array, s: float) -> Array:
    """Noise of about the size that other clients differ by, so that the copy is not plain to see."""
    return sent + view.rng.normal(size=sent.shape) * s * (rms(sent) if sent.any() else 0.01 * rms(view.models[-1]))


def _free_ride(rng: Generator, scene: Scene, how: str) -> Recipe:
    disguise = pick(rng, [0.0, 0.0, 0.1, 0.5])
    victim = int(rng.integers(scene.clients))

    def send(view: View, s: float) -> Array:
        sent = np.zeros_like(view.own)
        if how == "delta" and len(view.models) > 1:
            sent = view.models[-1] - view.models[-2]
        elif how == "stale":
            sent = view.memory.setdefault(view.client, view.own.copy())
        elif how == "copied":
            others = [c for c in view.updates if c not in view.group] or [c for c in view.updates if c != view.client]
            sent = view.updates[victim if victim in others else others[0]] if others else sent
        return _camouflage(view, sent, disguise) if disguise else sent

    return Recipe(disguise, send=send)


def _alie(rng: Generator, scene: Scene) -> Recipe:
    everybody = rng.random() < 0.5
    fixed = pick(rng, [0.0, 1.0, 1.5])

    def send(view: View, s: float) -> Array:
        rows, n, bad = view.benign(everybody), len(view.updates), sum(c in view.group for c in view.updates)
        needed = (n - bad - (n // 2 + 1 - bad)) / max(1, n - bad)
        z = fixed or max(0.3, NormalDist().inv_cdf(min(0.98, max(0.02, needed))))
        return rows.mean(0) - s * z * rows.std(0) if len(rows) > 1 else view.own - s * z * np.abs(view.own)

    return Recipe(1.0, send=send, together=True)


def _ipm(rng: Generator, scene: Scene) -> Recipe:
    everybody = rng.random() < 0.6
    return Recipe(
        pick(rng, [0.1, 0.5, 1.0, 2.0, 5.0, 10.0]), send=lambda v, s: -s * v.benign(everybody).mean(0), together=True
    )


def _distances(rows: Array, others: Array) -> Array:
    a, b = rows.astype(np.float64), others.astype(np.float64)
    return np.maximum(np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T, 0)


def _bounded(rng: Generator, scene: Scene, how: str) -> Recipe:
    """As far along a harmful direction as the honest updates' own distances allow."""
    direction = pick(rng, ["std", "unit", "sign"])

    def send(view: View, s: float) -> Array:
        rows = view.benign(True)
        mean = rows.mean(0)
        away = {"std": rows.std(0), "unit": mean, "sign": np.sign(mean)}[direction]
        away = -away / (float(np.linalg.norm(away)) + 1e-12) * float(np.linalg.norm(mean))
        reduce = np.max if how == "min-max" else (lambda d, axis=None: d.sum(1).max())
        limit, low, high = float(reduce(_distances(rows, rows))), 0.0, 20.0
        for _ in range(12):
            middle = (low + high) / 2
            distance = _distances((mean + middle * away)[None], rows)
            low, high = (middle, high) if float(reduce(distance)) <= limit else (low, middle)
        return mean + s * low * away

    return Recipe(1.0, send=send, together=True)


def _fang(rng: Generator, scene: Scene) -> Recipe:
    """Just beyond the honest extreme, against the direction in which each entry was going."""
    everybody = rng.random() < 0.6

    def send(view: View, s: float) -> Array:
        rows = view.benign(everybody)
        up = rows.mean(0) > 0
        extreme = np.where(up, rows.min(0), rows.max(0))
        width = np.abs(extreme) * view.rng.uniform(0, 1, extreme.shape) * s
        return np.where(up, extreme - width, extreme + width)

    return Recipe(pick(rng, [1.0, 2.0]), send=send, together=True)


def _ascent(rng: Generator, scene: Scene) -> Recipe:
    """Training uphill, cut to a multiple of the usual length so that it stays a number."""

    def send(view: View, s: float) -> Array:
        usual = float(np.median(np.linalg.norm(view.benign(True), axis=1)))
        return view.own * min(1.0, s * usual / (float(np.linalg.norm(view.own)) + 1e-12))

    return Recipe(pick(rng, [1.0, 2.0, 5.0]), send=send, plan=lambda p, t: replace(p, ascent=True))


def _sabotage(rng: Generator, scene: Scene) -> Recipe:
    """Pulls the mean back towards an early model."""
    early = pick(rng, [0, 1, 2])
    return Recipe(
        pick(rng, [0.3, 0.6, 1.0]), send=lambda v, s: s * (v.models[min(early, len(v.models) - 1)] - v.models[-1])
    )


ATTACKS: dict[str, tuple[float, Callable[[Generator, Scene], Recipe]]] = {
    "label-flip-random": (3, lambda g, c: _flip(g, c, "random")),
    "label-flip-pairwise": (3, lambda g, c: _flip(g, c, "pairwise")),
    "label-flip-all-to-one": (2, lambda g, c: _flip(g, c, "all-to-one")),
    "targeted-flip": (2, _targeted),
    "input-corruption": (2, _corrupt),
    "backdoor-trigger": (3, lambda g, c: _backdoor(g, c, "trigger")),
    "backdoor-semantic": (1, lambda g, c: _backdoor(g, c, "semantic")),
    "sign-flip": (3, _sign_flip),
    "scaling": (2, _scaling),
    "noise-added": (2, _noise_added),
    "pure-noise": (2, _pure_noise),
    "free-rider-zero": (1, lambda g, c: _free_ride(g, c, "zero")),
    "free-rider-delta": (1, lambda g, c: _free_ride(g, c, "delta")),
    "free-rider-stale": (1, lambda g, c: _free_ride(g, c, "stale")),
    "free-rider-copied": (1, lambda g, c: _free_ride(g, c, "copied")),
    "alie": (2, _alie),
    "ipm": (2, _ipm),
    "min-max": (1, lambda g, c: _bounded(g, c, "min-max")),
    "min-sum": (1, lambda g, c: _bounded(g, c, "min-sum")),
    "fang": (2, _fang),
    "gradient-ascent": (2, _ascent),
    "late-sabotage": (1, _sabotage),
}


def _levels(rng: Generator, epochs: list[int]) -> dict[int, float]:
    """Steady in most cases; else on and off, or growing slowly."""
    rhythm = pick(rng, ["steady", "on-off", "growing"], [7, 2, 1])
    if rhythm == "on-off" and len(epochs) >= 6:
        period, offset = int(rng.integers(2, 5)), int(rng.integers(2))
        return {t: 1.0 for i, t in enumerate(epochs) if ((i // period) + offset) % 2 == 0}
    if rhythm == "growing":
        return {t: (i + 1) / len(epochs) for i, t in enumerate(epochs)}
    return dict.fromkeys(epochs, 1.0)


def draw_attacks(rng: Generator, scene: Scene) -> list[Behaviour]:
    """One attacker up to just under half of the clients, usually with one attack in common."""
    most = max(1, (scene.clients - 1) // 2)
    name = pick(rng, list(ATTACKS), [weight for weight, _ in ATTACKS.values()])
    recipe = ATTACKS[name][1](rng, scene)
    alone = rng.random() < (0.15 if recipe.together else 0.5)
    count = 1 if alone else int(rng.integers(min(2, most), most + 1))
    crew = [int(c) for c in rng.permutation(scene.clients)[:count]]
    groups = [(name, recipe, crew)]
    if count >= 2 and rng.random() < 0.15:
        second = pick(rng, list(ATTACKS), [weight for weight, _ in ATTACKS.values()])
        cut = int(rng.integers(1, count))
        groups = [(name, recipe, crew[:cut]), (second, ATTACKS[second][1](rng, scene), crew[cut:])]
    drawn = []
    for label, how, members in groups:
        late = (0, 0, 3, 1, 0) if label == "late-sabotage" else (2, 3, 3, 3, 3)
        levels = _levels(rng, window(rng, scene.epochs, late)[1])
        drawn.append(
            Behaviour(
                label, tuple(sorted(members)), frozenset(levels), how.strength, how.plan, how.data, how.send, levels
            )
        )
    return drawn
