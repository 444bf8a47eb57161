"""Which federations are there? One seed, one set-up, drawn from wide distributions that no detector was asked about."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.other_hand.attacks import ATTACKS, Attack
from benchmarks.other_hand.changes import CHANGES, PRESENCE, Change
from benchmarks.other_hand.pools import Rng
from benchmarks.other_hand.sites import Habits
from benchmarks.other_hand.splits import SPLITS

IMAGES = ("digits", "shapes", "mnist", "fashion", "cifar")
MOST_VISITS = 1100
MOST_NUMBERS = 5_000_000
STEPS = {
    "softmax": 14000,
    "mlp": 12000,
    "deep-mlp": 9000,
    "mlp-norm": 3500,
    "mlp-layer-norm": 3500,
    "cnn": 1500,
    "cnn-norm": 1300,
}
"""Local steps that fit a second or two."""


@dataclass(frozen=True)
class Setup:
    """Everything that a run is made from, as plain values."""

    seed: int
    kind: str
    pool: str
    split: str
    alpha: float
    clients: int
    epochs: int
    participation: float
    failing: float
    server: str
    server_rate: float
    net: str
    width: int
    habits: dict[str, Any]
    variety: float
    """How much sites differ in their habits from the beginning."""
    cooling: float
    """Factor of everybody's rate from the first to the last epoch."""
    with_rows: bool
    """Does the log hold a model and the server's validation rows?"""
    changes: list[Change] = field(default_factory=list)
    attacks: list[Attack] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        return asdict(self)


def _choice(rng: Rng, *options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def _between(rng: Rng, low: float, high: float) -> float:
    """Log-uniform."""
    return round(float(np.exp(rng.uniform(np.log(low), np.log(high)))), 5)


def _habits(rng: Rng, most_steps: int, least_rate: float) -> Habits:
    habits = Habits(
        passes=int(rng.integers(1, 4)),
        rate=_between(rng, least_rate, 0.3),
        optimiser="adam" if rng.random() < 0.3 else "sgd",
        momentum=0.9 if rng.random() < 0.25 else 0.0,
        decay=_choice(rng, 0.0, 0.0, 0.001),
        batch=int(_choice(rng, 8, 16, 16, 32)),
        most_steps=most_steps,
    )
    if rng.random() < 0.15:
        habits = replace(habits, proximal=_between(rng, 0.01, 0.5))
    if rng.random() < 0.08:
        habits = replace(habits, clip_update=1.0, noise=float(rng.uniform(0.1, 0.6)))
    if rng.random() < 0.06:
        habits = replace(habits, **_choice(rng, {"half": True}, {"bits": 8}, {"keep": 0.1}))
    return habits


def _changes(rng: Rng, sites: list[int], epochs: int) -> list[Change]:
    """One kind of change (now and then two) at these sites, together or at moments of their own."""
    made: list[Change] = []
    for what in rng.choice(CHANGES, size=1 if rng.random() < 0.75 else 2, replace=False):
        together, begin = rng.random() < 0.6, int(rng.integers(max(2, epochs // 5), max(3, int(0.8 * epochs))))
        to_the_end, amount = rng.random() < 0.65, float(rng.random())
        for site in [-1] if what == "server-rate" else sites:
            first = begin if together else int(rng.integers(2, epochs))
            last = epochs if to_the_end else int(rng.integers(first, epochs + 1))
            if what in ("label-scheme", "late-joining"):
                first, last = 1, max(1, first - 1)
            if what in PRESENCE and len(sites) > 2:
                if site not in sites[: max(1, len(sites) // 2)]:
                    continue
                last = min(last, epochs - 2)
            made.append(Change(site, str(what), first, last, round(amount if together else float(rng.random()), 3)))
    return made


def _windows(rng: Rng, epochs: int) -> list[list[int]]:
    length = int(rng.integers(max(2, epochs // 6), max(3, int(0.6 * epochs)) + 1))
    mode = _choice(rng, "middle", "middle", "start", "end", "end", "whole", "on-off")
    if mode == "whole":
        return [[1, epochs]]
    if mode == "start":
        return [[1, length]]
    if mode == "end":
        return [[epochs - length + 1, epochs]]
    if mode == "on-off" and epochs >= 12:
        cuts = np.sort(rng.choice(np.arange(2, epochs), size=4, replace=False))
        return [[int(cuts[0]), int(cuts[1])], [int(cuts[2]) + 1, int(cuts[3]) + 1]]
    first = int(rng.integers(2, max(3, epochs - length)))
    return [[first, min(epochs - 1, first + length - 1)]]


def _attack(rng: Rng, clients: int, epochs: int) -> Attack:
    what = _choice(rng, *ATTACKS, "label-flip", "label-flip", "label-flip")
    count = 1 if rng.random() < 0.55 else int(rng.integers(2, max(2, int(0.35 * clients)) + 1))
    if what == "label-flip-many":
        count = max(2, (clients - 1) // 2)
    count = min(count, (clients - 1) // 2) or 1
    strength = {
        "label-flip": _choice(rng, 0.3, 0.5, 0.7, 1.0),
        "label-flip-many": _choice(rng, 0.5, 0.7, 1.0),
        "scaling": _choice(rng, 2.0, 5.0, 10.0),
        "additive-noise": _between(rng, 0.7, 5.0),
        "alie": float(rng.uniform(0.3, 1.5)),
        "inner-product": _between(rng, 0.2, 3.0),
        "targeted-flip": _choice(rng, 0.6, 1.0),
        "backdoor": float(rng.random()),
        "backdoor-replace": float(rng.random()),
    }.get(what, 1.0)
    sites = sorted(int(s) for s in rng.choice(clients, size=count, replace=False))
    return Attack(what, sites, _windows(rng, epochs), round(strength, 3), int(rng.integers(6)))


def _plan(rng: Rng, kind: str, clients: int, epochs: int) -> tuple[list[Change], list[Attack]]:
    if kind == "honest":
        return [], []
    everybody = [int(s) for s in rng.permutation(clients)]
    if kind == "changing":
        scope = rng.random()
        count = 1 if scope < 0.5 else clients if scope > 0.75 else int(rng.integers(2, max(3, clients // 2) + 1))
        return _changes(rng, everybody[:count], epochs), []
    attack = _attack(rng, clients, epochs)
    honest = [s for s in everybody if s not in attack.sites]
    return (_changes(rng, honest[: int(rng.integers(1, 3))], epochs) if rng.random() < 0.3 else []), [attack]


def draw(seed: int, pools: tuple[str, ...]) -> Setup:
    """The set-up of this seed, with data from these pools."""
    rng = np.random.default_rng([2718, seed])
    kind = str(rng.choice(["honest", "changing", "attacked"], p=[0.22, 0.36, 0.42]))
    pool = _choice(rng, *pools)
    nets = ["softmax", "mlp", "mlp", "deep-mlp", "mlp-norm", "mlp-layer-norm"] + 2 * ["cnn", "cnn-norm"] * (
        pool in IMAGES
    )
    net = _choice(rng, *nets)
    clients, participation = int(_between(rng, 4, 40.99)), _choice(rng, 1.0, 1.0, round(float(rng.uniform(0.2, 1)), 2))
    clients = min(clients, 12) if pool in ("wine", "breast-cancer") else clients
    clients = min(clients, 30) if net.startswith("cnn") else clients
    asked = max(2, round(participation * clients))
    longest = min(80, max(14, min(MOST_VISITS, STEPS[net] // 3) // asked))
    epochs = int(_between(rng, 8 if rng.random() < 0.25 else 12, longest + 0.99))
    visits = asked * epochs
    server = _choice(rng, "fedavg", "fedavg", "fedavg", "fedavgm", "fedadam")
    changes, attacks = _plan(rng, kind, clients, epochs)
    return Setup(
        seed=seed, kind=kind, pool=pool,
        split=str(rng.choice(SPLITS)), alpha=_choice(rng, 0.1, 0.3, 0.5, 1.0, 5.0),
        clients=clients, epochs=epochs, participation=participation,
        failing=_choice(rng, 0.0, 0.0, 0.0, round(float(rng.uniform(0.02, 0.2)), 2)),
        server=server,
        server_rate=1.0 if server == "fedavg" else _between(rng, 0.01, 0.04) if server == "fedadam" else 0.4,
        net=net, width=int(_choice(rng, 4, 6, 8) if net.startswith("cnn") else _choice(rng, 8, 16, 24, 32, 48)),
        habits=asdict(_habits(rng, int(np.clip(STEPS[net] // visits, 3, 20)), 0.08 if net.startswith("cnn") else 0.03)),
        variety=_choice(rng, 0.0, 0.0, 0.3, 0.6),
        cooling=_choice(rng, 1.0, 1.0, 0.3, 0.05),
        with_rows=bool(rng.random() < 0.95),
        changes=changes, attacks=attacks,
    )  # fmt: skip
