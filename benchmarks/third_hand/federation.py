"""Runs a drawn federation epoch by epoch and records what the server received."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.third_hand import nets
from benchmarks.third_hand.behaviour import Behaviour, View
from benchmarks.third_hand.chance import stream
from benchmarks.third_hand.plans import Federation, attendance, draw
from benchmarks.third_hand.sources import Array
from benchmarks.third_hand.training import Lesson, LocalPlan, train
from flcontrib_core import RunRecorder

LARGEST = 1e6
"""A model with larger entries has ended in no number, or is about to."""


@dataclass(frozen=True)
class Epoch:
    """What the server saw in one epoch, and who attacked in it."""

    participants: list[int]
    failed: list[int]
    updates: Array
    sizes: list[int]
    attacked: set[int]
    model: Array


class Server:
    """Turns the weighted mean of updates into the next model."""

    def __init__(self, kind: str, rate: float, momentum: float) -> None:
        self.kind, self.rate, self.momentum = kind, rate, momentum
        self.first: Array | float = 0.0
        self.second: Array | float = 1e-6

    def step(self, model: Array, mean: Array) -> Array:
        """The model after this epoch."""
        if self.kind == "fedavg":
            return (model + mean).astype(np.float32)
        if self.kind == "fedavgm":
            self.first = self.momentum * self.first + mean
            return (model + self.rate * self.first).astype(np.float32)
        self.first = 0.9 * self.first + 0.1 * mean
        square = np.square(mean)
        if self.kind == "fedadam":
            self.second = 0.99 * self.second + 0.01 * square
        else:
            self.second = self.second - 0.01 * square * np.sign(self.second - square)
        return (model + self.rate * self.first / (np.sqrt(self.second) + 1e-3)).astype(np.float32)


def _rate_factor(schedule: str, epoch: int, epochs: int) -> float:
    if schedule == "exponential":
        return 0.97**epoch
    if schedule == "steps":
        return 0.3 ** (3 * (epoch - 1) // epochs)
    if schedule == "cosine":
        return 0.05 + 0.95 * (1 + np.cos(np.pi * (epoch - 1) / epochs)) / 2
    return 1.0


class Rounds:
    """The epochs of a federation, one after the other."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.models = [nets.flat(federation.net).numpy()]
        setup = federation.setup
        self.server = Server(setup["server"], setup["server_rate"], setup["server_momentum"])
        self.memory: dict[int, dict[int, Array]] = {c: {} for c in range(setup["clients"])}

    def __iter__(self) -> Iterator[Epoch]:
        for t in range(1, self.federation.setup["epochs"] + 1):
            yield self._epoch(t)

    def _epoch(self, t: int) -> Epoch:
        here, failed = attendance(self.federation, t)
        attacked: set[int] = set()
        lessons = [self._lesson(c, t, attacked) for c in here]
        trained = dict(zip(here, train(self.federation.net, lessons), strict=True))
        sizes = [len(lesson.rows[1]) for lesson in lessons]
        share = np.asarray(sizes) / sum(sizes)
        honest = {c: self._sent(c, t, trained, share[i], self.federation.changes) for i, c in enumerate(here)}
        sent = {c: self._sent(c, t, honest, share[i], self.federation.attacks, attacked) for i, c in enumerate(here)}
        updates = np.stack([sent[c] for c in here])
        self.models.append(self.server.step(self.models[-1], share @ updates.astype(np.float64)))
        return Epoch(here, failed, updates, sizes, attacked, self.models[-1])

    def _acting(self, behaviours: list[Behaviour], client: int, t: int) -> list[Behaviour]:
        return [b for b in behaviours if b.acts(client, t)]

    def _lesson(self, client: int, t: int, attacked: set[int]) -> Lesson:
        f = self.federation
        factor = _rate_factor(f.setup["schedule"], t, f.setup["epochs"])
        plan: LocalPlan = replace(f.scene.plan, rate=f.scene.plan.rate * factor)
        rows, lag = f.sites[client], 0
        for b in self._acting(f.changes, client, t):
            plan = b.plan(plan, t) if b.plan else plan
            rows = b.data(rows, 1.0, stream(f.seed, "rows", b.name, client, t), t) if b.data else rows
            lag = max(lag, b.lag)
        for b in self._acting(f.attacks, client, t):
            plan = b.plan(plan, t) if b.plan else plan
            if b.data:
                clean = rows
                level = b.strength * b.level.get(t, 1.0)
                rows = b.data(rows, level, stream(f.seed, "poison", b.name, client, t), t)
                if any(not np.array_equal(old, new) for old, new in zip(clean, rows, strict=True)):
                    attacked.add(client)
            if plan.ascent:
                attacked.add(client)
        start = self.models[max(0, len(self.models) - 1 - lag)]
        rows = (np.ascontiguousarray(rows[0], np.float32), np.ascontiguousarray(rows[1], np.int64))
        return Lesson(rows, plan, start, stream(f.seed, "shuffle", client, t))

    def _sent(
        self,
        client: int,
        t: int,
        updates: dict[int, Array],
        share: float,
        behaviours: list[Behaviour],
        attacked: set[int] | None = None,
    ) -> Array:
        """What leaves the client: its update, through the hooks of those who send otherwise."""
        own = updates[client]
        for b in self._acting(behaviours, client, t):
            if b.send is None:
                continue
            rng = stream(self.federation.seed, "send", b.name, client, t)
            group, memory = frozenset(b.clients), self.memory[client]
            view = View(client, t, own, updates, group, float(share), self.models, memory, rng)
            sent = np.asarray(b.send(view, b.strength * b.level.get(t, 1.0)), np.float32)
            if attacked is not None and not np.array_equal(sent, own):
                attacked.add(client)
            own = sent
        return own


def score(federation: Federation, model: Array) -> tuple[float, float]:
    """Loss and accuracy on the validation set."""
    data = federation.data
    with torch.no_grad():
        out = nets.logits(federation.net, torch.from_numpy(model)[None], torch.from_numpy(data.validation_x)[None])[0]
    y = torch.from_numpy(data.validation_y)
    return float(F.cross_entropy(out, y)), float((out.argmax(1) == y).double().mean())


def _truth(federation: Federation, acts: dict[int, list[int]], curve: list[float]) -> dict[str, Any]:
    ids = federation.ids
    attack = {c: b for b in federation.attacks for c in b.clients}
    return {
        "kind": federation.kind,
        "setup": {**federation.setup, "accuracy": curve},
        "changes": [
            {"client": ids[c], "change": b.name, "epochs": sorted(b.epochs)}
            for b in federation.changes
            for c in b.clients
        ],
        "attackers": [
            {"client": ids[c], "attack": attack[c].name, "strength": attack[c].strength, "acts": epochs}
            for c, epochs in sorted(acts.items())
        ],
    }


def record(federation: Federation, folder: Path) -> tuple[dict[str, Any], str] | None:
    """Trains and records; the truth and the run's digest, or nothing where it diverged or nobody got to attack."""
    f, acts, curve = federation, dict[int, list[int]](), list[float]()
    recorder = RunRecorder(
        folder / "run",
        clients=[(name, len(y)) for name, (_, y) in zip(f.ids, f.sites, strict=True)],
        model=f.net,
        validation=(f.data.validation_x, f.data.validation_y),
        classes=f.data.classes,
        durable=False,
    )
    with recorder:
        for t, epoch in enumerate(Rounds(f), 1):
            if not np.isfinite(epoch.updates).all() or np.abs(epoch.model).max() > LARGEST:
                return None
            who = [f.ids[c] for c in epoch.participants]
            recorder.epoch(
                epoch.updates,
                participants=who,
                data_sizes=dict(zip(who, epoch.sizes, strict=True)),
                failed={f.ids[c]: "no reply" for c in epoch.failed} or None,
                global_model=None if f.setup["server"] == "fedavg" else epoch.model,
            )
            for c in epoch.attacked:
                acts.setdefault(c, []).append(t)
            curve.append(round(score(f, epoch.model)[1], 4))
        if f.kind == "attacked" and not acts:
            return None
        recorder.bundle(folder / "log.flrun", compress=False)
        return _truth(f, acts, curve), recorder.digest()


def make_run(out: Path, half: str, number: int) -> bool:
    """Makes one run with its truth beside it; False where it is there already."""
    target = out / f"{half}-{number}"
    if (target / "truth.json").exists():
        return False
    scratch = out / f".{half}-{number}.partial"
    for attempt in range(20):
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        if made := record(draw(half, number, attempt), scratch):
            shutil.rmtree(scratch / "run")
            made[0]["setup"]["attempt"] = attempt
            (scratch / "truth.json").write_text(json.dumps(made[0]) + "\n")
            shutil.rmtree(target, ignore_errors=True)
            scratch.rename(target)
            return True
    raise RuntimeError(f"{half}-{number}: twenty draws ended in no number")
