"""One set-up, trained and written down: the log without a word about the truth, and the truth beside it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.other_hand.attacks import ON_ROWS, Attack, Knowledge, attacked_rows, crafted
from benchmarks.other_hand.changes import ROWS, changed_habits, changed_rows, present
from benchmarks.other_hand.draws import MOST_NUMBERS, Setup
from benchmarks.other_hand.nets import Net, make_net, size_of, soft
from benchmarks.other_hand.pools import Array, Pool, Rng, open_pool
from benchmarks.other_hand.sites import Habits, train
from benchmarks.other_hand.splits import split_rows


class Diverged(Exception):
    """The training left the numbers; nobody would keep such a run."""


class Server:
    """FedAvg, with momentum, or with Adam on the mean update; running moments are always averaged plainly."""

    def __init__(self, kind: str, rate: float, trainable: Array) -> None:
        self.kind, self.rate, self.trainable = kind, rate, trainable
        self.first, self.second = np.zeros(trainable.size), np.zeros(trainable.size)

    def step(self, mean: Array, factor: float) -> Array:
        """How the global model moves."""
        if self.kind == "fedavgm":
            self.first = 0.7 * self.first + mean
            move = self.rate * factor * self.first
        elif self.kind == "fedadam":
            self.first = 0.9 * self.first + 0.1 * mean
            self.second = 0.99 * self.second + 0.01 * mean * mean
            move = self.rate * factor * self.first / (np.sqrt(self.second) + 1e-3)
        else:
            move = self.rate * factor * mean
        return np.where(self.trainable, move, mean).astype("float32")


class Federation:
    """The sites, their rows and habits, and one epoch after another."""

    def __init__(self, setup: Setup) -> None:
        self.setup, rng = setup, np.random.default_rng([314, setup.seed])
        self.pool = open_pool(setup.pool, rng)
        if self.pool.is_image and not setup.net.startswith("cnn"):
            self.pool = replace(self.pool, x=self.pool.x.reshape(len(self.pool.y), -1))
        total = len(self.pool.y)
        kept, spare = int(np.clip(0.2 * total, 40, 350)), int(0.15 * total)
        self.rows_of_server, self.spare = np.arange(kept), np.arange(kept, kept + spare)
        rest = Pool("", self.pool.x[kept + spare :], self.pool.y[kept + spare :], self.pool.classes)
        parts = split_rows(rest, setup.split, setup.alpha, setup.clients, rng)
        self.parts = [rng.permutation(part) + kept + spare for part in parts]
        self.net = self._net(rng)
        base = Habits(**setup.habits)
        self.habits = [
            replace(base, rate=base.rate * float(np.exp(setup.variety * rng.normal())), passes=self._passes(base, rng))
            for _ in range(setup.clients)
        ]
        self.names = [f"site-{number:02d}" for number in rng.permutation(setup.clients) + 1]
        self.model = self.net.initial(rng)
        self.server = Server(setup.server, setup.server_rate, self.net.trainable)
        self.moves: list[Array] = []
        self.past: dict[int, list[Array]] = {}
        self.memories: dict[int, dict[str, Array]] = {}

    def _passes(self, base: Habits, rng: Rng) -> int:
        return int(rng.integers(1, 4)) if self.setup.variety else base.passes

    def _net(self, rng: Rng) -> Net:
        width, shape = self.setup.width, self.pool.x.shape[1:]
        visits = max(2, round(self.setup.participation * self.setup.clients)) * self.setup.epochs
        while True:
            net = make_net(self.setup.net, shape, width, self.pool.classes, rng)
            if size_of(net.parameters) * visits <= MOST_NUMBERS or width <= 4:
                return net
            width = max(4, width * 2 // 3)

    def _rows(self, site: int, epoch: int) -> tuple[Array, Array]:
        x, y = self.pool.x[self.parts[site]], self.pool.y[self.parts[site]]
        for number, change in enumerate(self.setup.changes):
            if change.site == site and change.what in ROWS and change.holds(epoch):
                own = np.random.default_rng([77, self.setup.seed, number])
                x, y = changed_rows(self.pool, self.parts[site], self.spare, change, epoch, own)
        return x, y

    def _habits_now(self, site: int, epoch: int, rng: Rng) -> Habits:
        habits = self.habits[site]
        cooled = self.setup.cooling ** ((epoch - 1) / max(1, self.setup.epochs - 1))
        habits = replace(habits, rate=habits.rate * cooled)
        for change in self.setup.changes:
            if change.site == site and change.holds(epoch):
                habits = changed_habits(habits, change, rng)
        return habits

    def attack_of(self, site: int, epoch: int) -> Attack | None:
        """What the site does to this epoch, if anything."""
        return next((a for a in self.setup.attacks if a.acts(site, epoch)), None)

    def _visit(self, site: int, epoch: int) -> tuple[Array, int]:
        """What training at the site gives, and how many rows it says that it has."""
        rng = np.random.default_rng([159, self.setup.seed, epoch, site])
        (x, y), habits, attack = (
            self._rows(site, epoch),
            self._habits_now(site, epoch, rng),
            self.attack_of(site, epoch),
        )
        said = len(y)
        if attack and attack.what in ON_ROWS:
            fixed = np.random.default_rng([265, self.setup.seed, site])
            x, y = attacked_rows(x, y, self.pool.classes, attack, epoch, fixed)
        if attack and attack.what == "gradient-ascent":
            habits = replace(habits, ascend=True, rate=habits.rate * 0.5, momentum=0.0, clip_gradient=1.0)
        return train(self.net, self.model, x, y, habits, rng), said

    def epoch(self, epoch: int, rng: Rng) -> dict[str, Any]:
        """Trains one epoch; returns what a recorder is told of it."""
        there = [s for s in range(self.setup.clients) if present(s, self.setup.changes, epoch)]
        asked = rng.choice(
            there, size=min(len(there), max(2, round(self.setup.participation * len(there)))), replace=False
        )
        failed = [int(s) for s in asked if rng.random() < self.setup.failing]
        failed = failed if len(asked) - len(failed) >= 2 else []
        sites = sorted(int(s) for s in asked if s not in failed)
        visits = {site: self._visit(site, epoch) for site in sites}
        sizes = {site: size for site, (_, size) in visits.items()}
        updates = self._with_attacks({site: update for site, (update, _) in visits.items()}, sizes, epoch)
        mean = sum(sizes[s] * updates[s].astype("float64") for s in sites) / sum(sizes.values())
        factor = np.prod(
            [0.1 + 0.5 * c.amount for c in self.setup.changes if c.what == "server-rate" and c.holds(epoch)]
        )
        move = self.server.step(np.asarray(mean), float(factor))
        self.model = self.model + move
        self.moves.append(move)
        if not np.isfinite(self.model).all() or np.abs(self.model).max() > 1e6:
            raise Diverged
        told: dict[str, Any] = {
            "updates": {self.names[s]: updates[s] for s in sites},
            "data_sizes": {self.names[s]: sizes[s] for s in sites},
            "failed": {self.names[s]: "no reply" for s in failed},
        }
        plain = self.setup.server == "fedavg" and factor == 1
        return told if plain else {**told, "global_model": self.model}

    def _with_attacks(self, updates: dict[int, Array], sizes: dict[int, int], epoch: int) -> dict[int, Array]:
        acting = {site: attack for site in updates if (attack := self.attack_of(site, epoch))}
        honest = np.stack([u for s, u in updates.items() if s not in acting] or list(updates.values()))
        for site, own in list(updates.items()):
            if site in acting:
                knows = Knowledge(
                    own=own, others=honest, together=np.mean([updates[s] for s in acting], axis=0),
                    past_own=self.past.get(site, []), past_moves=self.moves,
                    share=sizes[site] / sum(sizes.values()), memory=self.memories.setdefault(site, {}),
                )  # fmt: skip
                rng = np.random.default_rng([535, self.setup.seed, epoch, site])
                sent = crafted(acting[site], knows, epoch, rng)
                updates[site] = np.where(self.net.trainable, sent, sent if _whole(acting[site]) else own)
            self.past.setdefault(site, []).append(own)
        return updates

    def score(self) -> dict[str, float]:
        """Loss and accuracy of the global model on the server's rows."""
        x, y = self.pool.x[self.rows_of_server], self.pool.y[self.rows_of_server]
        chances = soft(self.net.logits(self.model, x).astype("float64"))
        loss = -np.log(np.maximum(chances[np.arange(len(y)), y], 1e-12)).mean()
        return {"loss": float(loss), "accuracy": float((chances.argmax(axis=1) == y).mean())}


def _whole(attack: Attack) -> bool:
    """Does the attack replace the running moments too? Those that send somebody's whole update do."""
    return attack.what in ("copy", "mimic", "stale", "last-move", "zero")


def make_run(setup: Setup, folder: Path) -> dict[str, Any]:
    """Trains and records: ``folder`` then holds ``log.flrun`` and ``truth.json``. A finished folder stays as it is."""
    from flcontrib_core import RunRecorder

    if (folder / "truth.json").exists():
        return json.loads((folder / "truth.json").read_text())
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    federation, rng = Federation(setup), np.random.default_rng([897, setup.seed])
    server_rows = (federation.pool.x[federation.rows_of_server], federation.pool.y[federation.rows_of_server])
    with_rows: dict[str, Any] = {
        "model": federation.net.declared,
        "validation": server_rows,
        "classes": federation.pool.classes,
    }
    scores, seen, diverged = [federation.score()], [], False
    with RunRecorder(
        folder / "open",
        clients=[(name, max(1, len(part))) for name, part in zip(federation.names, federation.parts, strict=True)],
        parameters=federation.net.parameters, initial=federation.model, durable=False,
        **(with_rows if setup.with_rows else {}),
    ) as recorder:  # fmt: skip
        for epoch in range(1, setup.epochs + 1):
            try:
                told = federation.epoch(epoch, rng)
            except Diverged:
                diverged = True
                break
            recorder.epoch(told.pop("updates"), **told)
            seen.append([federation.names.index(name) for name in told["data_sizes"]])
            scores.append(federation.score())
        if not diverged:
            recorder.bundle(folder / "log.flrun")
    shutil.rmtree(folder / "open")
    truth = {**_truth(federation, seen), "scores": scores, "diverged": diverged, "setup": setup.record()}
    (folder / "truth.json").write_text(json.dumps(truth, indent=1))
    return truth


def _truth(federation: Federation, seen: list[list[int]]) -> dict[str, Any]:
    """Who did what, by name: acts are the epochs in which an attacker took part and attacked."""
    setup, names = federation.setup, federation.names
    attackers = [
        {
            "client": names[site], "attack": attack.what, "strength": attack.strength, "windows": attack.windows,
            "acts": [t for t, there in enumerate(seen, 1) if site in there and attack.acts(site, t)],
            "took_part": [t for t, there in enumerate(seen, 1) if site in there],
        }
        for attack in setup.attacks for site in attack.sites
    ]  # fmt: skip
    changed = [
        {
            "client": names[c.site] if c.site >= 0 else None,
            "what": c.what,
            "epochs": [c.first, c.last],
            "amount": c.amount,
        }
        for c in setup.changes
    ]
    return {"seed": setup.seed, "kind": setup.kind, "attackers": attackers, "changed": changed, "clients": names}
