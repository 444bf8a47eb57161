"""Do the figures hold on runs that our simulator did not make?

A federation written from scratch: Gaussian clusters drawn here, softmax regression or one hidden layer, gradients by
hand in numpy, its own splits, selection and attacks. Nothing is shared with ``laboratory.simulation``; the run
enters like anybody's, through ``RunRecorder``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from flcontrib_core.runs.recorder import RunRecorder

Weights = dict[str, np.ndarray]
FLIP, NOISE, LARGE, SILENT = "flip", "noise", "large", "silent"


@dataclass(frozen=True)
class Federation:
    """One federation to train; ``attack`` None = all honest."""

    seed: int
    clients: int = 8
    epochs: int = 30
    share: float = 1.0
    classes: int = 4
    inputs: int = 12
    hidden: int = 0
    """0 = softmax regression"""
    skew: float = 0.0
    """0 = everybody sees all classes alike, 1 = strong preferences"""
    rows: int = 120
    """per client"""
    noisy_labels: float = 0.0
    """of one honest client, over the whole run"""
    attack: str | None = None
    attackers: int = 1
    strength: float = 0.7
    window: tuple[int, int] = (12, 20)


def record(plan: Federation, folder: Path) -> None:
    """Train the federation and write its run log into ``folder``."""
    rng = np.random.default_rng([77, plan.seed])
    centres = rng.normal(scale=1.1, size=(plan.classes, plan.inputs))

    def rows_of(labels: np.ndarray) -> np.ndarray:
        return (centres[labels] + rng.normal(size=(len(labels), plan.inputs))).astype(np.float32)

    names = [f"site {k}" for k in range(plan.clients)]
    data = [_client_rows(plan, rng, rows_of) for _ in names]
    attackers = rng.permutation(plan.clients)[: plan.attackers] if plan.attack else np.zeros(0, dtype=np.int64)
    if plan.noisy_labels:
        careless = int(next(k for k in rng.permutation(plan.clients) if k not in attackers))
        data[careless] = (data[careless][0], _relabelled(data[careless][1], plan.noisy_labels, plan.classes, rng))
    checked = rng.integers(plan.classes, size=400)
    truth = {
        "dishonest": [
            {"client": names[k], "windows": [list(plan.window)], "attack": plan.attack, "strength": plan.strength}
            for k in attackers
        ]
    }
    model = _first_model(plan, rng)
    with RunRecorder(
        folder,
        clients=[(name, len(y)) for name, (_, y) in zip(names, data, strict=True)],
        parameters=model,
        model=_described(plan),
        validation=(rows_of(checked), checked.astype(np.int64)),
        classes=plan.classes,
        truth=truth,
        durable=False,
    ) as recorder:
        for epoch in range(1, plan.epochs + 1):
            chosen = np.sort(rng.permutation(plan.clients)[: max(2, round(plan.share * plan.clients))])
            sent = {}
            for k in chosen:
                acts = k in attackers and plan.window[0] <= epoch <= plan.window[1]
                x, y = data[k]
                sent[names[k]] = _update(plan, model, x, y, acts, rng)
            recorder.epoch(sent)
            weights = np.array([len(data[k][1]) for k in chosen], dtype=np.float64)
            model = {
                p: model[p]
                + sum(w * sent[names[k]][p] for w, k in zip(weights / weights.sum(), chosen, strict=True)).astype("f4")
                for p in model
            }


def _client_rows(plan: Federation, rng: np.random.Generator, rows_of: Any) -> tuple[np.ndarray, np.ndarray]:
    liking = np.exp(2.5 * plan.skew * rng.normal(size=plan.classes))
    labels = rng.choice(plan.classes, size=plan.rows, p=liking / liking.sum())
    return rows_of(labels), labels


def _relabelled(labels: np.ndarray, p: float, classes: int, rng: np.random.Generator) -> np.ndarray:
    wrong = rng.random(len(labels)) < p
    return np.where(wrong, (labels + rng.integers(1, classes, len(labels))) % classes, labels)


def _first_model(plan: Federation, rng: np.random.Generator) -> Weights:
    widths = [plan.inputs, plan.hidden, plan.classes] if plan.hidden else [plan.inputs, plan.classes]
    model: Weights = {}
    for layer, (a, b) in enumerate(pairwise(widths)):
        model[f"w{layer}"] = (rng.normal(size=(b, a)) * np.sqrt(1.0 / a)).astype(np.float32)
        model[f"b{layer}"] = np.zeros(b, dtype=np.float32)
    return model


def _described(plan: Federation) -> Mapping[str, Any]:
    first = {"op": "linear", "weight": "w0", "bias": "b0"}
    if not plan.hidden:
        return {"input": [plan.inputs], "layers": [first]}
    return {"input": [plan.inputs], "layers": [first, {"op": "relu"}, {"op": "linear", "weight": "w1", "bias": "b1"}]}


def _update(
    plan: Federation, model: Weights, x: np.ndarray, y: np.ndarray, acts: bool, rng: np.random.Generator
) -> Weights:
    """What the client sends: its local model minus the global one, or what its attack makes of it."""
    if acts and plan.attack == SILENT:
        return {p: np.zeros_like(v) for p, v in model.items()}
    labels = _relabelled(y, plan.strength, plan.classes, rng) if acts and plan.attack == FLIP else y
    local = {p: v.astype(np.float64) for p, v in model.items()}
    order = rng.permutation(len(labels))
    for batch in np.array_split(order, max(1, len(labels) // 20)):
        for p, slope in _gradient(local, x[batch], labels[batch]).items():
            local[p] -= 0.1 * slope
    sent = {p: (local[p] - model[p]).astype(np.float32) for p in model}
    if acts and plan.attack == LARGE:
        return {p: np.float32(5) * v for p, v in sent.items()}
    if acts and plan.attack == NOISE:
        size = np.sqrt(sum(float((v**2).sum()) for v in sent.values()) / sum(v.size for v in sent.values()))
        return {p: (size * rng.normal(size=v.shape)).astype(np.float32) for p, v in sent.items()}
    return sent


def _gradient(model: Mapping[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """Of the mean cross-entropy, by the chain rule."""
    deep = "w1" in model
    inner = np.maximum(x @ model["w0"].T + model["b0"], 0.0) if deep else x
    last = "1" if deep else "0"
    logits = inner @ model[f"w{last}"].T + model[f"b{last}"]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1.0
    p /= len(y)
    slopes = {f"w{last}": p.T @ inner, f"b{last}": p.sum(axis=0)}
    if deep:
        back = (p @ model["w1"]) * (inner > 0)
        slopes |= {"w0": back.T @ x, "b0": back.sum(axis=0)}
    return slopes


def draw(kind: str, number: int) -> Federation:
    """The ``number``-th federation of a kind: honest, skewed, careless, or an attack's name."""
    rng = np.random.default_rng([1991, number, sum(map(ord, kind))])
    length = int(rng.integers(5, 11))
    first = int(rng.integers(5, 29 - length))
    common: dict[str, Any] = {
        "seed": int(rng.integers(2**31)),
        "clients": int(rng.choice([6, 8, 10, 12])),
        "share": float(rng.choice([1.0, 1.0, 0.6])),
        "classes": int(rng.choice([2, 4, 6])),
        "hidden": int(rng.choice([0, 16])),
        "window": (first, first + length - 1),
    }
    if kind in (FLIP, NOISE, LARGE, SILENT):
        strength = float(rng.choice([0.5, 0.7, 1.0]))
        return Federation(**common, attack=kind, strength=strength, attackers=int(rng.choice([1, 1, 2])))
    return Federation(**common, skew=1.0 if kind == "skewed" else 0.0, noisy_labels=0.3 if kind == "careless" else 0.0)
