"""Draws a whole federation from its seed: data, split, net, schedule, and who behaves how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from benchmarks.third_hand import nets, sources
from benchmarks.third_hand.attacks import draw_attacks
from benchmarks.third_hand.behaviour import Behaviour, Scene
from benchmarks.third_hand.chance import Generator, between, pick, stream
from benchmarks.third_hand.changes import draw_change
from benchmarks.third_hand.sources import Array, Data
from benchmarks.third_hand.splits import Rows, relabelled, split
from benchmarks.third_hand.training import LocalPlan


class MissingData(Exception):
    """The drawn source lies in the data folder, which is not named."""


SEEDS = {"development": "third-dev", "sealed": "third-sealed"}
Seed = tuple[str, int]
WORK = {"dense": 900_000, "cnn": 160_000}
"""Rows trained on in a whole run: keeps a run at a second or two."""
LOGGED = 1_500_000
LOGGED_IF_LARGE = 6_000_000
"""Numbers in a log: keeps it at six megabytes, or at 24 for a net of more than 8000 parameters."""


@dataclass(frozen=True)
class Federation:
    """Everything that is settled before the first epoch."""

    seed: Seed
    kind: str
    setup: dict[str, Any]
    ids: list[str]
    data: Data
    net: nn.Sequential
    scene: Scene
    changes: list[Behaviour]
    attacks: list[Behaviour]

    @property
    def sites(self) -> list[Rows]:
        """Every client's own rows."""
        return self.scene.sites


def _names(rng: Generator, clients: int) -> list[str]:
    style = pick(rng, ["client-{:02d}", "site_{}", "hospital {}", "{:d}", "hex"])
    if style == "hex":
        return [f"{int(rng.integers(2**31)):08x}{i:02x}" for i in range(clients)]
    return [style.format(i + 1) for i in range(clients)]


def _local(rng: Generator, convolutional: bool) -> tuple[str, LocalPlan]:
    name = pick(rng, ["sgd", "momentum", "adam", "adamw", "fedprox"], [4, 2, 3, 1, 1])
    rate = {
        "sgd": between(rng, 0.05, 0.4),
        "fedprox": between(rng, 0.05, 0.4),
        "momentum": between(rng, 0.01, 0.08),
        "adam": between(rng, 1e-3, 8e-3),
        "adamw": between(rng, 1e-3, 8e-3),
    }[name] * pick(rng, [1.0, 0.2], [9, 1])
    if convolutional and not name.startswith("adam"):
        rate *= 1.5  # small filters begin with small gradients
    plan = LocalPlan(
        optimiser="sgd" if name == "fedprox" else name,
        rate=rate,
        passes=pick(rng, [1, 2, 3, 5, 10], [3, 3, 3, 3, 0 if convolutional else 1]),
        batch=pick(rng, [8, 16, 32, 64], [1, 3, 4, 2]),
        decay=pick(rng, [0.0, 1e-4, 1e-2 if name == "adamw" else 1e-3], [3, 1, 1]),
        prox=pick(rng, [0.01, 0.1, 1.0]) if name == "fedprox" else 0.0,
        clip=pick(rng, [10.0, 1.0], [4, 1]),
        drop_last=bool(rng.random() < 0.5),
    )
    return name, plan


def _attendance(rng: Generator, clients: int) -> dict[str, Any]:
    share = pick(rng, [1.0, float(rng.uniform(0.5, 0.95)), float(rng.uniform(0.2, 0.5))], [5, 3, 2])
    if share * clients < 2.5:
        share = 1.0
    how = (
        "everybody" if share == 1.0 else pick(rng, ["sampled", "by-chance", "irregular", "by-the-clock"], [4, 1, 2, 1])
    )
    return {
        "participation": round(share, 3),
        "availability": how,
        "dropout": pick(rng, [0.0, 0.02, 0.1], [6, 2, 1]),
    }


def _server(rng: Generator) -> dict[str, Any]:
    server = pick(rng, ["fedavg", "fedavgm", "fedadam", "fedyogi"], [8, 1, 1, 0.6])
    momentum = pick(rng, [0.5, 0.7, 0.9])
    plain = {"fedavg": 1.0, "fedavgm": (1 - momentum) * pick(rng, [1.0, 1.5, 2.0])}
    return {
        "server": server,
        "server_rate": plain.get(server, between(rng, 0.005, 0.03)),
        "server_momentum": momentum if server == "fedavgm" else 0.9,
        "schedule": pick(rng, ["constant", "exponential", "steps", "cosine"], [5, 2, 1, 1]),
    }


def _fitted(rng: Generator, clients: int, plan: LocalPlan, share: float, size: int, cnn: bool) -> tuple[int, int]:
    """Epochs and rows within the limits on work and on the log's size, rather shorter than smaller."""
    epochs = round(between(rng, 12, 100))
    rows = round(between(rng, 600, 5000))
    logged = LOGGED_IF_LARGE if size > 8000 else LOGGED
    epochs = max(8, min(epochs, int(logged / (clients * share * size))))
    work = WORK["cnn" if cnn else "dense"] / (plan.passes * share)
    rows = int(max(min(rows, work / epochs), 300, 25 * clients))
    return max(8, min(epochs, int(work / rows))), rows


def draw(half: str, number: int, attempt: int = 0) -> Federation:
    """The federation of this number; another attempt is another draw, for those that end in no number at all.

    A number means the same federation with and without the data folder: what needs it raises ``MissingData``.
    """
    seed = (SEEDS[half], number) if not attempt else (f"{SEEDS[half]} again {attempt}", number)
    rng = stream(seed, "setup")
    source, clients = pick(rng, list(sources.MADE | sources.READ)), round(between(rng, 4, 40.5))
    if sources.missing(source):
        raise MissingData(source)
    if source == "breast-cancer":
        clients = min(clients, 15)
    probe = sources.load(source, stream(seed, "data"), 1200, 300)
    net_name, net = nets.build(stream(seed, "net"), probe.x.shape[1:], probe.classes, int(rng.integers(2**31)))
    size, convolutional = len(nets.flat(net)), "cnn" in net_name
    while clients > 6 and size * clients * 12 > LOGGED_IF_LARGE:
        clients -= 1
    optimiser, plan = _local(rng, convolutional)
    attendance = _attendance(rng, clients)
    epochs, rows = _fitted(rng, clients, plan, attendance["participation"], size, convolutional)
    data = sources.load(source, stream(seed, "data"), rows, int(rng.integers(150, 601)))
    if data.classes != probe.classes or data.x.shape[1:] != probe.x.shape[1:]:
        return draw(half, number, attempt + 1)  # a rare class was missed: the net would not fit
    split_name, sites = split(stream(seed, "split"), data, clients)
    noise = pick(rng, [0.0, 0.02, 0.05, 0.15], [5, 2, 2, 1])
    sites = [(x, relabelled(stream(seed, "labels", c), y, noise, data.classes)) for c, (x, y) in enumerate(sites)]
    scene = Scene(clients, epochs, data.classes, data.x.shape[1:], sites, plan, size)
    kind = pick(rng, ["honest", "changing", "attacked"], [30, 35, 35])
    changes, attacks = _behaviours(stream(seed, "behaviour"), scene, kind)
    setup = {"clients": clients, "epochs": epochs, **attendance, "net": net_name, "data": source, "split": split_name}
    setup |= {"optimiser": optimiser, "rate": plan.rate, "local_epochs": plan.passes, "batch": plan.batch}
    setup |= {**_server(rng), "label_noise": noise, "parameters": size, "classes": data.classes, "rows": len(data.y)}
    return Federation(seed, kind, setup, _names(rng, clients), data, net, scene, changes, attacks)


def _behaviours(rng: Generator, scene: Scene, kind: str) -> tuple[list[Behaviour], list[Behaviour]]:
    attacks = draw_attacks(rng, scene) if kind == "attacked" else []
    dishonest = {c for attack in attacks for c in attack.clients}
    candidates = [c for c in range(scene.clients) if c not in dishonest]
    many = {"honest": 0, "changing": pick(rng, [1, 2, 3], [5, 3, 1]), "attacked": pick(rng, [0, 1, 2], [13, 5, 2])}[
        kind
    ]
    return [b for _ in range(many) for b in draw_change(rng, scene, candidates)], attacks


def attendance(federation: Federation, epoch: int) -> tuple[list[int], list[int]]:
    """Who answers in this epoch, and who was asked and does not."""
    setup, rng = federation.setup, stream(federation.seed, "attendance", epoch)
    m, share, how = setup["clients"], setup["participation"], setup["availability"]
    if how == "everybody":
        asked = np.arange(m)
    elif how == "sampled":
        asked = rng.permutation(m)[: max(2, round(share * m))]
    else:
        asked = np.flatnonzero(rng.random(m) < _odds(federation, epoch))
    away = {c for b in federation.changes if b.absent for c in b.clients if epoch in b.epochs}
    here = [int(c) for c in np.sort(asked) if c not in away]
    answering = [c for c in here if rng.random() >= setup["dropout"]]
    if len(answering) < 2:  # a server waits for two
        others = [int(c) for c in rng.permutation(m) if c not in away] or list(range(m))
        answering = sorted({*answering, *others[:2]})
    return answering, [c for c in here if c not in answering]


def _odds(federation: Federation, epoch: int) -> Array:
    """How likely each client is there: alike, each its own, or by the hour where it lives."""
    setup, rng = federation.setup, stream(federation.seed, "odds")
    m, share = setup["clients"], setup["participation"]
    if setup["availability"] == "by-chance":
        return np.full(m, share)
    if setup["availability"] == "irregular":
        return rng.beta(2 * share, 2 * (1 - share), m)
    return np.clip(share * (1 + np.sin(2 * np.pi * (epoch / 12 + rng.random(m)))), 0.02, 1)
