"""Local training of many clients at once: each has its own rows, plan and starting model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.third_hand.chance import Generator
from benchmarks.third_hand.nets import logits
from benchmarks.third_hand.sources import Array
from benchmarks.third_hand.splits import Rows


@dataclass(frozen=True)
class LocalPlan:
    """How a client trains in one epoch of the federation."""

    optimiser: str  # sgd, momentum, adam, adamw
    rate: float
    passes: int
    batch: int
    decay: float = 0.0
    prox: float = 0.0
    clip: float = 10.0
    drop_last: bool = False
    ascent: bool = False


@dataclass(frozen=True)
class Lesson:
    """What one client does in one epoch: its rows, its plan, where it starts and how it shuffles."""

    rows: Rows
    plan: LocalPlan
    start: Array
    rng: Generator

    def batches(self) -> list[Array]:
        """The rows of every step."""
        count, size = len(self.rows[1]), self.plan.batch
        steps: list[Array] = []
        for _ in range(self.plan.passes):
            order = self.rng.permutation(count)
            parts = [order[i : i + size] for i in range(0, count, size)]
            if self.plan.drop_last and len(parts) > 1 and len(parts[-1]) < size:
                parts.pop()
            steps += parts
        return steps


def train(net: nn.Sequential, lessons: Sequence[Lesson]) -> list[Array]:
    """Every client's update, in the order given."""
    groups: dict[tuple[str, int], list[int]] = {}
    for i, lesson in enumerate(lessons):
        groups.setdefault((lesson.plan.optimiser, lesson.plan.batch), []).append(i)
    updates: list[Array] = [np.empty(0)] * len(lessons)
    for members in groups.values():
        steps = {i: lessons[i].batches() for i in members}
        order = sorted(members, key=lambda i: -len(steps[i]))
        trained = _train_group(net, [lessons[i] for i in order], [steps[i] for i in order])
        for i, update in zip(order, trained, strict=True):
            updates[i] = update
    return updates


def _column(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).unsqueeze(1)


def _train_group(net: nn.Sequential, lessons: Sequence[Lesson], steps: Sequence[list[Array]]) -> list[Array]:
    """Clients with the same optimiser and batch size, those with most steps first."""
    x = torch.from_numpy(np.concatenate([lesson.rows[0] for lesson in lessons]))
    y = torch.from_numpy(np.concatenate([lesson.rows[1] for lesson in lessons]))
    first = np.cumsum([0, *(len(lesson.rows[1]) for lesson in lessons)])
    size = max(len(rows) for own in steps for rows in own)
    start = torch.from_numpy(np.stack([lesson.start for lesson in lessons]))
    w, state = start.clone(), _Optimiser([lesson.plan for lesson in lessons], start)
    for s in range(len(steps[0])):
        active = sum(len(own) > s for own in steps)
        index, weight = np.zeros((active, size), np.int64), np.zeros((active, size), np.float32)
        for c in range(active):
            rows = steps[c][s]
            index[c, : len(rows)], weight[c, : len(rows)] = rows + first[c], 1 / len(rows)
        places = torch.from_numpy(index)
        leaf = w[:active].detach().requires_grad_()
        out = logits(net, leaf, x[places])
        losses = F.cross_entropy(out.flatten(0, 1), y[places].flatten(), reduction="none")
        (gradient,) = torch.autograd.grad((losses * torch.from_numpy(weight).flatten()).sum(), leaf)
        state.step(w[:active], gradient, s + 1)
    return list((w - start).numpy())


class _Optimiser:
    """SGD, heavy ball, Adam and AdamW on rows of weights, begun afresh in every epoch as clients do."""

    def __init__(self, plans: Sequence[LocalPlan], start: Tensor) -> None:
        self.kind, self.start = plans[0].optimiser, start
        self.rate = _column([p.rate for p in plans])
        self.decay, self.prox = _column([p.decay for p in plans]), _column([p.prox for p in plans])
        self.clip = _column([p.clip for p in plans])
        self.sign = _column([-1.0 if p.ascent else 1.0 for p in plans])
        self.has_decay, self.has_prox = bool(self.decay.any()), bool(self.prox.any())
        self.first, self.second = torch.zeros_like(start), torch.zeros_like(start)

    def step(self, w: Tensor, gradient: Tensor, number: int) -> None:
        """Moves the rows of w, which are the first ones of the group."""
        k = len(w)
        gradient = gradient * (self.clip[:k] / gradient.norm(dim=1, keepdim=True).clamp_min(1e-12)).clamp_max(1.0)
        gradient *= self.sign[:k]
        if self.has_prox:
            gradient += self.prox[:k] * (w - self.start[:k])
        if self.has_decay:
            if self.kind == "adamw":
                w.mul_(1 - self.rate[:k] * self.decay[:k])
            else:
                gradient += self.decay[:k] * w
        if self.kind == "sgd":
            w.sub_(self.rate[:k] * gradient)
        elif self.kind == "momentum":
            w.sub_(self.rate[:k] * self.first[:k].mul_(0.9).add_(gradient))
        else:
            mean = self.first[:k].mul_(0.9).add_(gradient, alpha=0.1) / (1 - 0.9**number)
            square = self.second[:k].mul_(0.999).addcmul_(gradient, gradient, value=0.001) / (1 - 0.999**number)
            w.sub_(self.rate[:k] * mean / (square.sqrt_() + 1e-8))
