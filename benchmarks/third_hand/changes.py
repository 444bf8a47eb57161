"""What decent sites do in the course of a federation: other settings, other data, private or compressed sending."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.third_hand.behaviour import Behaviour, Scene, View, some_clients, window
from benchmarks.third_hand.chance import Generator, pick
from benchmarks.third_hand.sources import Array
from benchmarks.third_hand.splits import Rows, relabelled, shifted
from benchmarks.third_hand.training import LocalPlan

Plan = Callable[[LocalPlan, int], LocalPlan]
Alter = Callable[[Rows, float, Generator, int], Rows]
Send = Callable[[View, float], Array]


def _other_passes(rng: Generator, scene: Scene, start: int) -> Plan:
    factor = pick(rng, [0.5, 2, 3, 5])
    return lambda p, t: replace(p, passes=int(np.clip(round(p.passes * factor), 1, 12)))


def _other_rate(rng: Generator, scene: Scene, start: int) -> Plan:
    factor = pick(rng, [0.1, 0.3, 0.5, 2.0, 3.0])
    return lambda p, t: replace(p, rate=p.rate * factor)


def _other_batch(rng: Generator, scene: Scene, start: int) -> Plan:
    size = pick(rng, [b for b in (4, 8, 16, 32, 64, 128) if b != scene.plan.batch])
    return lambda p, t: replace(p, batch=size)


def _other_optimiser(rng: Generator, scene: Scene, start: int) -> Plan:
    """A site that moves to the other family takes that family's usual rate."""
    if scene.plan.optimiser.startswith("adam"):
        return lambda p, t: replace(p, optimiser="momentum", rate=min(0.05, p.rate * 10))
    rate = pick(rng, [1e-3, 3e-3])
    return lambda p, t: replace(p, optimiser="adam", rate=rate)


def _weight_decay(rng: Generator, scene: Scene, start: int) -> Plan:
    decay = pick(rng, [1e-3, 5e-3, 2e-2])
    return lambda p, t: replace(p, decay=decay)


def _gradient_clipping(rng: Generator, scene: Scene, start: int) -> Plan:
    clip = pick(rng, [0.1, 0.5, 1.0])
    return lambda p, t: replace(p, clip=clip)


def _warm_restart(rng: Generator, scene: Scene, start: int) -> Plan:
    period = int(rng.integers(3, 9))
    return lambda p, t: replace(
        p, rate=p.rate * (0.2 + 1.5 * (1 + np.cos(np.pi * ((t - start) % period) / period)) / 2)
    )


def _proximal(rng: Generator, scene: Scene, start: int) -> Plan:
    mu = pick(rng, [0.01, 0.1, 1.0])
    return lambda p, t: replace(p, prox=mu)


PLANS: dict[str, Callable[[Generator, Scene, int], Plan]] = {
    "local-epochs": _other_passes,
    "rate": _other_rate,
    "batch-size": _other_batch,
    "optimiser": _other_optimiser,
    "weight-decay": _weight_decay,
    "gradient-clipping": _gradient_clipping,
    "warm-restart": _warm_restart,
    "proximal-term": _proximal,
}


def _first_rows(rows: Rows, share: float) -> Rows:
    count = max(6, round(len(rows[1]) * min(1.0, share)))
    return rows[0][:count], rows[1][:count]


def _growing(rng: Generator, scene: Scene, epochs: list[int]) -> Alter:
    low = rng.uniform(0.15, 0.5)
    return lambda rows, s, r, t: _first_rows(rows, low + (1 - low) * (t - epochs[0] + 1) / len(epochs))


def _shrinking(rng: Generator, scene: Scene, epochs: list[int]) -> Alter:
    low, sudden = rng.uniform(0.1, 0.5), rng.random() < 0.5
    return lambda rows, s, r, t: _first_rows(rows, low if sudden else 1 - (1 - low) * (t - epochs[0]) / len(epochs))


def _new_sensor(rng: Generator, scene: Scene, epochs: list[int]) -> Alter:
    size, seed = pick(rng, [0.2, 0.5, 0.9]), int(rng.integers(2**31))
    return lambda rows, s, r, t: (shifted(np.random.default_rng(seed), rows[0], size), rows[1])


def _dead_inputs(rng: Generator, scene: Scene, epochs: list[int]) -> Alter:
    alive = (rng.random(scene.shape) > pick(rng, [0.1, 0.25])).astype(np.float32)
    return lambda rows, s, r, t: (rows[0] * alive, rows[1])


def _class_drift(rng: Generator, scene: Scene, epochs: list[int]) -> Alter:
    """The site comes to see other classes more often; the mix moves slowly or at once."""
    taste, slow = rng.dirichlet(np.full(scene.classes, 0.4)) + 0.01, rng.random() < 0.5

    def alter(rows: Rows, s: float, r: Generator, t: int) -> Rows:
        moved = (t - epochs[0] + 1) / len(epochs) if slow else 1.0
        weight = (1 - moved) + moved * taste[rows[1]] * scene.classes
        chosen = r.choice(len(rows[1]), len(rows[1]), p=weight / weight.sum())
        return rows[0][chosen], rows[1][chosen]

    return alter


def _wrong_labels(rng: Generator, scene: Scene, epochs: list[int]) -> Alter:
    share, seed = rng.uniform(0.1, 0.3), int(rng.integers(2**31))
    return lambda rows, s, r, t: (rows[0], relabelled(np.random.default_rng(seed), rows[1], share, scene.classes))


def _poor(rng: Generator, scene: Scene, epochs: list[int]) -> Alter:
    labels, grain, seed = _wrong_labels(rng, scene, epochs), rng.uniform(0.3, 1.0), int(rng.integers(2**31))

    def alter(rows: Rows, s: float, r: Generator, t: int) -> Rows:
        noise = np.random.default_rng(seed).normal(size=rows[0].shape) * grain * rows[0].std()
        return labels(((rows[0] + noise).astype(np.float32), rows[1]), s, r, t)

    return alter


def _augmented(rng: Generator, scene: Scene, epochs: list[int]) -> Alter:
    """Small fresh noise on every pass, as augmentation does."""
    grain = pick(rng, [0.05, 0.15, 0.3])
    return lambda rows, s, r, t: ((rows[0] + r.normal(size=rows[0].shape) * grain).astype(np.float32), rows[1])


ROWS: dict[str, Callable[[Generator, Scene, list[int]], Alter]] = {
    "growing-data": _growing,
    "shrinking-data": _shrinking,
    "new-sensor": _new_sensor,
    "dead-inputs": _dead_inputs,
    "class-mix-drift": _class_drift,
    "label-noise": _wrong_labels,
    "poor-data": _poor,
    "augmentation": _augmented,
}


def _private(rng: Generator, scene: Scene) -> Send:
    """Clipping and noise per entry; the noise is up to about as long as the update, beyond which nobody learns."""
    share, ratio = pick(rng, [0.5, 1.0]), pick(rng, [0.1, 0.3, 0.6, 1.0])

    def send(view: View, s: float) -> Array:
        bound = view.memory.setdefault(-1, np.asarray(share * np.linalg.norm(view.own)))
        clipped = view.own * min(1.0, float(bound) / (float(np.linalg.norm(view.own)) + 1e-12))
        return clipped + view.rng.normal(size=clipped.shape) * ratio * float(bound) / np.sqrt(scene.size)

    return send


def _quantised(rng: Generator, scene: Scene) -> Send:
    levels = 2 ** pick(rng, [2, 4, 8]) - 1

    def send(view: View, s: float) -> Array:
        top = float(np.abs(view.own).max()) + 1e-12
        scaled = (view.own / top + 1) / 2 * levels
        return (np.floor(scaled + view.rng.random(scaled.shape)) / levels * 2 - 1) * top

    return send


def _top_k(rng: Generator, scene: Scene) -> Send:
    share, feedback = pick(rng, [0.01, 0.05, 0.1, 0.3]), rng.random() < 0.6

    def send(view: View, s: float) -> Array:
        whole = view.own + (view.memory.get(-2, 0.0) if feedback else 0.0)
        cut = np.partition(np.abs(whole), -max(1, int(share * scene.size)))[-max(1, int(share * scene.size))]
        sent = np.where(np.abs(whole) >= cut, whole, 0)
        view.memory[-2] = whole - sent
        return sent

    return send


SENDS: dict[str, Callable[[Generator, Scene], Send]] = {
    "dp-noise": _private,
    "quantisation": _quantised,
    "top-k": _top_k,
    "sign-compression": lambda rng, scene: lambda view, s: np.sign(view.own) * np.abs(view.own).mean(),
    "mixed-precision": lambda rng, scene: (
        lambda view, s: (view.models[-1] + view.own).astype(np.float16).astype(np.float32) - view.models[-1]
    ),
}
OTHERS = ["stale-model", "late-joiner", "leaves", "away-for-a-while", "labels-cleaned", "duplicated-data", "rare-class"]


def draw_change(rng: Generator, scene: Scene, candidates: list[int]) -> list[Behaviour]:
    """One honest change at one site, several or all of the candidates."""
    family = pick(rng, ["plan", "rows", "send", "other"], [4, 4, 3, 4])
    clients = some_clients(rng, candidates)
    _, epochs = window(rng, scene.epochs, (1, 2, 1, 4, 2))
    if family == "plan":
        name = pick(rng, list(PLANS))
        return [Behaviour(name, clients, frozenset(epochs), plan=PLANS[name](rng, scene, epochs[0]))]
    if family == "rows":
        name = pick(rng, list(ROWS))
        return [Behaviour(name, clients, frozenset(epochs), data=ROWS[name](rng, scene, epochs))]
    if family == "send":
        name = pick(rng, list(SENDS))
        return [Behaviour(name, clients, frozenset(epochs), send=SENDS[name](rng, scene))]
    return _presence_or_place(rng, scene, clients, epochs, candidates)


def _presence_or_place(
    rng: Generator, scene: Scene, clients: tuple[int, ...], epochs: list[int], candidates: list[int]
) -> list[Behaviour]:
    """Changes of who is there, what it starts from, and what it holds."""
    name, last = pick(rng, OTHERS), scene.epochs
    few = clients[: max(1, scene.clients // 3)]
    if name == "stale-model":
        return [Behaviour(name, clients, frozenset(epochs), lag=int(rng.integers(1, 6)))]
    if name in {"late-joiner", "leaves", "away-for-a-while"}:
        at = int(rng.integers(2, max(3, last // 2 + 1)))
        away = {"late-joiner": range(1, at), "leaves": range(last - at + 1, last + 1)}.get(name, epochs[: last // 2])
        return [Behaviour(name, few, frozenset(away), absent=True)]
    if name == "labels-cleaned":
        at = int(rng.integers(2, max(3, last * 2 // 3)))
        dirty, clean = range(1, at), range(at, last + 1)
        data = _wrong_labels(rng, scene, list(dirty))
        return [Behaviour("label-noise", few, frozenset(dirty), data=data), Behaviour(name, few, frozenset(clean))]
    if name == "duplicated-data":
        twin = scene.sites[(clients[0] + int(rng.integers(1, scene.clients))) % scene.clients]
        return [Behaviour(name, clients[:1], frozenset(range(1, last + 1)), data=lambda rows, s, r, t: twin)]
    rare = int(np.argmin(np.bincount(np.concatenate([y for _, y in scene.sites]), minlength=scene.classes)))
    x, y = (np.concatenate([site[i] for site in scene.sites]) for i in (0, 1))
    own = rng.permutation(np.flatnonzero(y == rare))[: max(12, len(y) // scene.clients)]
    other = rng.integers(0, len(y), 6)
    held = np.concatenate([own, other])
    holder = clients[:1]
    rest = tuple(c for c in candidates if c not in holder)
    everywhere = frozenset(range(1, last + 1))

    def without(rows: Rows, s: float, r: Generator, t: int) -> Rows:
        left = rows[1] != rare
        return (rows[0][left], rows[1][left]) if left.sum() >= 6 else rows

    return [
        Behaviour("rare-class-holder", holder, everywhere, data=lambda rows, s, r, t: (x[held], y[held])),
        Behaviour("rare-class-elsewhere", rest, everywhere, data=without),
    ]
