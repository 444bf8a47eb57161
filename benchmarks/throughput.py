"""How many coalitions per second are evaluated, beside the naive loop and beside the machine's own limit?

Naive is what federated-learning repositories do for each coalition: average its members' state dicts key by key,
``load_state_dict``, run the validation set as one batch (or through ``DataLoader(64)``), read loss and accuracy. The
lean loop beside it mixes all parameters with one product: what is left to gain from batching alone. All contenders
answer the same coalitions of the same epoch on one thread, in turns within one process, by CPU time; the best of
several turns counts. The limit is the best sgemm rate seen in the same turns, against the multiply-adds really done.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.measurement import Measurement
from flcontrib_core.execution.children import safe_starts
from flcontrib_core.games.architecture import Architecture
from flcontrib_core.games.evaluator import Evaluator
from flcontrib_core.games.submodels import EpochGame
from flcontrib_core.runs.run_log import Validation
from flcontrib_core.runs.trace import flat_parameters, parameters_of, trace_module

PAPER = (105, 64, 128, 256, 512, 2)
"""The paper's MLP on Adult's features."""


@dataclass(frozen=True)
class Case:
    """One network and validation set, with the goals against the naive loops and the share of the sgemm peak."""

    name: str
    sizes: tuple[int, ...]
    rows: int
    players: int
    full_batch: float | None
    loader: float | None
    peak: float | None


CASES = (
    Case("paper MLP, 360 rows", PAPER, 360, 10, 1.5, 3.0, 0.7),
    Case("paper MLP, 1000 rows", PAPER, 1000, 10, 1.5, 3.0, 0.7),
    Case("MLP(64,32), 100 features, 300 rows", (100, 64, 32, 2), 300, 10, 6.0, 20.0, None),
)
MORE_CASES = (
    Case("MLP(64,32), digits, 360 rows", (64, 64, 32, 10), 360, 8, None, None, None),
    Case("paper MLP, 3000 rows", PAPER, 3000, 10, None, None, None),
    Case("paper MLP, 360 rows, 100 players", PAPER, 360, 100, None, None, None),
    Case("logistic regression, 784 features, 1000 rows", (784, 10), 1000, 10, None, None, None),
)


def run(scale: str) -> list[Measurement]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        turns = 12 if scale == "small" else 30
        rows = [row for case in CASES for row in _compare(_of_mlp(case), case, turns)]
        if scale == "full":
            rows += [row for case in MORE_CASES for row in _compare(_of_mlp(case), case, turns)]
            images = Case("convolutional net, 500 images of 3×32×32", (), 500, 6, None, None, None)
            rows += _compare(_of_images(images), images, 3)
        return rows + _two_workers(PAPER, seconds=4.0 if scale == "small" else 20.0)
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class Epoch:
    """One seeded epoch: a module, its validation set and its participants' updates."""

    module: nn.Module
    classes: int
    validation: Validation
    base: np.ndarray
    updates: np.ndarray

    def game(self) -> EpochGame:
        spec = trace_module(self.module, torch.from_numpy(self.validation.x[:1]))
        architecture = Architecture.from_spec(spec, parameters_of(self.module), self.classes)
        evaluator = Evaluator(architecture, self.validation, ["loss", "accuracy"])
        game = EpochGame(self.base, self.updates, [10] * len(self.updates), evaluator)
        assert np.isfinite(game.empty_values).all()
        return game


def _epoch(module: nn.Module, shape: tuple[int, ...], classes: int, case: Case) -> Epoch:
    rng = np.random.default_rng(case.rows)
    validation = Validation(
        rng.standard_normal((case.rows, *shape), dtype=np.float32), rng.integers(0, classes, case.rows), None
    )
    base = flat_parameters(module)
    updates = 0.01 * rng.standard_normal((case.players, len(base)), dtype=np.float32)
    return Epoch(module.eval(), classes, validation, base, updates)


def _of_mlp(case: Case) -> Epoch:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for width, out in zip(case.sizes[:-1], case.sizes[1:], strict=True):
        layers += [nn.Linear(width, out), nn.ReLU()]
    return _epoch(nn.Sequential(*layers[:-1]), case.sizes[:1], case.sizes[-1], case)


def _of_images(case: Case) -> Epoch:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for width, out in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(width, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.Linear(2048, 128), nn.ReLU(), nn.Linear(128, 10)]
    return _epoch(nn.Sequential(*layers), (3, 32, 32), 10, case)


def _averaged(epoch: Epoch, weights: np.ndarray) -> Iterator[dict[str, Tensor]]:
    """The sub-models' state dicts, averaged key by key over the members as repositories do."""
    names = [spec.name for spec in parameters_of(epoch.module)]
    base, *updates = (_state(epoch.module, torch.from_numpy(v)) for v in (epoch.base, *epoch.updates))
    for row in weights.tolist():
        state = {name: base[name].clone() for name in names}
        for share, update in zip(row, updates, strict=True):
            if share:
                for name in names:
                    state[name] += share * update[name]
        yield state


def _mixed(epoch: Epoch, weights: np.ndarray) -> Iterator[dict[str, Tensor]]:
    """The sub-models' state dicts as views of one mixed vector."""
    base, updates = torch.from_numpy(epoch.base), torch.from_numpy(epoch.updates)
    for row in torch.from_numpy(weights.astype(np.float32)):
        yield _state(epoch.module, base + row @ updates)


def _state(module: nn.Module, vector: Tensor) -> dict[str, Tensor]:
    specs = parameters_of(module)
    parts = torch.split(vector, [spec.count for spec in specs])
    return {spec.name: part.view(spec.shape) for spec, part in zip(specs, parts, strict=True)}


def _naive(epoch: Epoch, states: Iterator[dict[str, Tensor]], loader: bool = False) -> np.ndarray:
    """(coalitions, 2) loss and accuracy, one model after the other."""
    x, y = torch.from_numpy(epoch.validation.x), torch.from_numpy(epoch.validation.y)
    batches = DataLoader(TensorDataset(x, y), batch_size=64)
    values = []
    with torch.no_grad():
        for state in states:
            epoch.module.load_state_dict(state, strict=False)
            loss, right = 0.0, 0.0
            for inputs, labels in batches if loader else [(x, y)]:
                logits = epoch.module(inputs)
                loss += float(nn.functional.cross_entropy(logits, labels, reduction="sum"))
                right += float((logits.argmax(1) == labels).sum())
            values.append((loss / len(y), right / len(y)))
    return np.array(values)


def _cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _compare(epoch: Epoch, case: Case, turns: int) -> list[Measurement]:
    game = epoch.game()
    rng = np.random.default_rng(1)
    # Enough coalitions to fill whole chunks, and about half a second of naive work per turn.
    count = 64 if game.multiply_adds < 1e9 else 16
    coalitions = rng.random((count, case.players)) < 0.5
    coalitions[:, 0] = True
    weights = game.weights(coalitions)
    square = torch.randn(1024, 1024, generator=torch.Generator().manual_seed(0))
    some = weights[: max(8, count // 4)]
    contenders: dict[str, tuple[Callable[[], object], float]] = {
        "peak": (lambda: square @ square, 2.0 * 1024**3),
        "ours": (lambda: game.absolute(coalitions), float(count)),
        "full": (lambda: _naive(epoch, _averaged(epoch, some)), float(len(some))),
        "loader": (lambda: _naive(epoch, _averaged(epoch, some), loader=True), float(len(some))),
        "lean": (lambda: _naive(epoch, _mixed(epoch, some)), float(len(some))),
    }
    expected = _naive(epoch, _averaged(epoch, weights[:8]))
    np.testing.assert_allclose(game.absolute(coalitions[:8])[:, 0], expected[:, 0], rtol=1e-4)
    best = dict.fromkeys(contenders, np.inf)
    for _ in range(turns):
        for name, (work, amount) in contenders.items():
            best[name] = min(best[name], _cpu_seconds(work) / amount)
    rate = {name: 1.0 / seconds for name, seconds in best.items()}
    reading = 16.0 * case.rows * epoch.classes  # counted by the cost model, but no matrix product
    share = 2.0 * (game.multiply_adds - reading) * rate["ours"] / rate["peak"]
    absolute = f"{rate['ours']:.0f}/s against {rate['full']:.0f}, {rate['loader']:.0f} and {rate['lean']:.0f}"
    return [
        Measurement(f"{case.name}: faster than the naive full batch", rate["ours"] / rate["full"], case.full_batch,
                    unit="×", note=absolute),
        Measurement(f"{case.name}: faster than naive DataLoader(64)", rate["ours"] / rate["loader"], case.loader,
                    unit="×"),
        Measurement(f"{case.name}: faster than a lean full batch", rate["ours"] / rate["lean"], unit="×"),
        Measurement(f"{case.name}: share of the sgemm peak", share, case.peak,
                    note=f"peak {rate['peak'] / 1e9:.0f} GFLOP/s"),
    ]  # fmt: skip


def _evaluate_for(sizes: tuple[int, ...], seconds: float, ready: Barrier, answers: Queue[tuple[float, float]]) -> None:
    """A worker: evaluates from a common moment on; reports evaluations per wall and per CPU second."""
    torch.set_num_threads(1)
    game = _of_mlp(Case("worker", sizes, 360, 10, None, None, None)).game()
    coalitions = np.random.default_rng(0).random((64, 10)) < 0.5
    game.absolute(coalitions)
    ready.wait(timeout=300)
    done, cpu, wall = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() < wall + seconds:
        game.absolute(coalitions)
        done += len(coalitions)
    answers.put((done / (time.perf_counter() - wall), done / (time.process_time() - cpu)))


def _two_workers(sizes: tuple[int, ...], seconds: float) -> list[Measurement]:
    def together(workers: int) -> tuple[float, float]:
        """Evaluations of all workers per second of wall time, and of one per second of its CPU time."""
        context = multiprocessing.get_context("spawn")
        with safe_starts():
            answers, ready = context.Queue(), context.Barrier(workers)
            given = (sizes, seconds, ready, answers)
            crew = [context.Process(target=_evaluate_for, args=given) for _ in range(workers)]
            for worker in crew:
                worker.start()
        told = [answers.get(timeout=400) for _ in crew]
        for worker in crew:
            worker.join()
        return sum(wall for wall, _ in told), float(np.mean([cpu for _, cpu in told]))

    alone_wall, alone_cpu = together(1)
    both_wall, both_cpu = together(2)
    load = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    return [
        Measurement("two workers, paper MLP: wall-clock throughput", both_wall / alone_wall, 1.7, unit="×", note=load),
        Measurement("two workers, paper MLP: by CPU time (2 × together / alone)", 2 * both_cpu / alone_cpu, unit="×"),
    ]
