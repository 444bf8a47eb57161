"""How far does an assessment go, and how much memory does it take?

Recorded runs of random updates: 100 participants in an epoch, 10 000 clients of whom ten take part, 1 000 epochs, a
model of ten million parameters. Each run is recorded by one process and assessed by another, whose peak resident memory
is the operating system's own figure. The promise is that memory is bounded by two epochs and the logits that are kept:
so a run twice as long must not take more, and a large model's assessment little more than two of its epochs.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.measurement import Measurement
from flcontrib_core.execution.children import child_environment, python_command

_MiB = 1 << 20


@dataclass(frozen=True)
class Case:
    """Layer widths, and who takes part how often."""

    name: str
    widths: tuple[int, ...]
    rows: int
    clients: int
    participants: int
    epochs: int

    @property
    def epoch_bytes(self) -> int:
        """An epoch's updates and its two models, as float32."""
        weights = sum(a * b + b for a, b in zip(self.widths[:-1], self.widths[1:], strict=True))
        return 4 * weights * (self.participants + 2)


SMALL = (20, 16, 3)
LARGE = (784, 2048, 3072, 784, 10)
CASES = {
    "many participants": Case("100 participants per epoch", (64, 64, 32, 10), 300, 100, 100, 3),
    "many clients": Case("10 000 clients, 10 per epoch", SMALL, 200, 10_000, 10, 20),
    "many epochs": Case("1 000 epochs, 6 of 8 clients", SMALL, 200, 8, 6, 1000),
    "large model": Case("10 million parameters, 4 participants", LARGE, 64, 4, 4, 3),
    "large model, longer": Case("10 million parameters, 4 participants, twice as long", LARGE, 64, 4, 4, 6),
}


def run(scale: str) -> list[Measurement]:
    """``small`` takes fewer epochs and leaves the long runs out."""
    bare = in_child("bare")["peak"]
    measured = [Measurement("peak memory of importing the engine", bare / _MiB, unit="MiB")]
    peaks: dict[str, float] = {}
    for key, case in CASES.items():
        if scale == "small" and key in ("many epochs", "large model, longer"):
            continue
        told = _assessed(key)
        peaks[key] = told["peak"]
        seconds, epochs = told["cpu"], case.epochs
        note = f"{told['evaluations']:.0f} evaluations, {seconds / epochs:.3f} s per epoch; {told['methods']}"
        measured.append(Measurement(f"{case.name}, {epochs} epochs: CPU", seconds, unit="s", note=note))
        above = told["peak"] - bare
        note = f"one epoch is {case.epoch_bytes / _MiB:.1f} MiB"
        measured.append(Measurement(f"{case.name}: peak memory above the import", above / _MiB, unit="MiB", note=note))
        if key == "large model":
            # what the evaluator holds besides: the parameters of a chunk of sub-models
            label = f"{case.name}: peak above the import / one epoch"
            measured.append(Measurement(label, above / case.epoch_bytes, 4.0, False, unit="×"))
    if "large model, longer" in peaks:
        grown = (peaks["large model, longer"] - peaks["large model"]) / CASES["large model"].epoch_bytes
        label = "10 million parameters: what three more epochs add to the peak, in epochs"
        measured.append(Measurement(label, grown, 0.5, False))
    return measured


def _assessed(key: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        in_child("record", key, folder)
        return in_child("assess", key, folder)


def in_child(*arguments: str) -> dict[str, float]:
    command = python_command("-m", "benchmarks.scale", *arguments)
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=child_environment())
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def record(case: Case, folder: Path) -> None:
    import torch
    from torch import nn

    from flcontrib_core.runs.recorder import RunRecorder

    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for width, out in zip(case.widths[:-1], case.widths[1:], strict=True):
        layers += [nn.Linear(width, out), nn.ReLU()]
    net = nn.Sequential(*layers[:-1])
    rng = np.random.default_rng(0)
    x = rng.standard_normal((case.rows, case.widths[0]), dtype=np.float32)
    y = rng.integers(0, case.widths[-1], case.rows)
    clients = [(f"client-{i:05d}", 10 + i % 7) for i in range(case.clients)]
    count = sum(p.numel() for p in net.parameters())
    with RunRecorder(
        folder / "run", clients=clients, model=net, validation=(x, y), classes=case.widths[-1], durable=False
    ) as recorder:
        for _ in range(case.epochs):
            present = rng.choice(case.clients, case.participants, replace=False)
            size = 0.3 / np.sqrt(case.widths[0])
            recorder.epoch({clients[i][0]: size * rng.standard_normal(count, dtype=np.float32) for i in present})


def assess(folder: Path) -> dict[str, object]:
    from flcontrib_core.history.assess import assess_contributions
    from flcontrib_core.runs.bundle import read_run_log

    began = time.process_time()
    history = assess_contributions(read_run_log(folder / "run"))
    assert np.isfinite(history.values).all()
    return {
        "cpu": time.process_time() - began,
        "evaluations": float(history.evaluations.sum()),
        "methods": ", ".join(sorted(set(history.estimator[1:]))),
    }


def main(what: str, key: str = "", folder: str = "") -> None:
    """One step in a process of its own; prints its figures and its peak memory as JSON."""
    told: dict[str, object] = {}
    if what == "bare":
        pass
    elif what == "record":
        record(CASES[key], Path(folder))
    else:
        told = assess(Path(folder))
    print(json.dumps(told | {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main(*sys.argv[1:])
