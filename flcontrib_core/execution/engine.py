"""Engines: where independent work runs, so that no answer depends on it.

``with open_engine(Execution(workers=2), shared) as engine: engine.run(work, tasks)`` calls ``work(shared, task)`` for
every task: in this process, in processes of this machine, or on a Ray cluster. ``shared`` goes to each worker once. An
array that many tasks need is put where all workers reach it (``place``) and sent as a reference.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from flcontrib_core.errors import FLContribError, SettingsError
from flcontrib_core.vocabulary import Float32Array

Task = TypeVar("Task")
Answer = TypeVar("Answer")

ENGINES = ("local", "ray")
DEVICES = ("cpu", "cuda", "mps", "auto")
MOST_ATTEMPTS = 3
"""Work whose workers die as often as this is not given out again."""
AHEAD = 2
"""Tasks given out per worker: one it works on, and the next, so that it never waits for whoever gives them out."""
MOST_WORKERS = 256
WORKER_SECONDS = 2.5
"""What a further process of this machine takes until it can work: less work than that of two is done in this one."""
MULTIPLY_ADDS_PER_SECOND = 2.5e10
"""Of one core, about: how work that is priced in multiply-adds is told in seconds before anything is timed."""


def usual_workers() -> int:
    """All cores this process may use but one, which is left to whoever looks at the page."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - 1)


def worth_workers(multiply_adds: float | None) -> bool:
    """Does work of this price take longer than starting others for it? One of unknown price does."""
    return multiply_adds is None or multiply_adds >= 2 * WORKER_SECONDS * MULTIPLY_ADDS_PER_SECOND


@dataclass(frozen=True)
class Execution:
    """Where work runs. No result depends on it, but for the last bits, which are a device's."""

    workers: int | None = None
    """Processes; None: all cores but one where the work is worth their start, on a Ray cluster all its processors."""
    engine: str = "local"
    """'local' or 'ray'"""
    address: str | None = None
    """Of a running Ray cluster."""
    gpus: float = 0.0
    """Of a Ray cluster, for each task; a share lets tasks sit on one together."""
    device: str = "cpu"
    """One of ``DEVICES``; results name the one they were computed on."""

    def __post_init__(self) -> None:
        if self.workers is not None and not 1 <= self.workers <= MOST_WORKERS:
            raise SettingsError(f"{self.workers} workers: give 1 to {MOST_WORKERS}, or nothing for all cores but one")
        if self.engine not in ENGINES:
            raise SettingsError(f"engine {self.engine!r} is unknown; use 'local' or 'ray'")
        if not 0 <= self.gpus <= 64:
            raise SettingsError(f"{self.gpus} GPUs for a task: give 0 to 64")
        if self.device.partition(":")[0] not in DEVICES:
            raise SettingsError(f"device {self.device!r} is unknown; use cpu, cuda, mps or auto")
        if self.engine == "local" and (self.address or self.gpus):
            raise SettingsError("an address and GPUs are a Ray cluster's: choose the engine 'ray'")

    @property
    def processes(self) -> int:
        """The workers there may be on this machine."""
        return self.workers or usual_workers()

    def __str__(self) -> str:
        if self.engine == "local":
            usual = "" if self.workers else ", all cores but one"
            return f"up to {self.processes} processes of this machine{usual}, device {self.device}"
        there = f"the Ray cluster at {self.address}" if self.address else "Ray on this machine"
        workers = f"{self.workers} workers" if self.workers else "all processors"
        gpus = f", {self.gpus:g} GPUs for each task" if self.gpus else ""
        return f"{workers} of {there}, device {self.device}{gpus}"

    def fitting(self, multiply_adds: float | None) -> int:
        """The processes that work of this price is worth; one of unknown price is worth them all."""
        return self.processes if self.workers is not None or worth_workers(multiply_adds) else 1


class WorkerLost(FLContribError):
    """A worker died again and again at the same work."""


class Placed(Protocol):
    """An array where every worker can fetch it; it is let go of with the last reference to it."""

    def fetch(self) -> Float32Array:
        """The array; not to be written to."""
        ...


@dataclass(frozen=True)
class LocalArray:
    """An array in this process's own memory."""

    array: Float32Array

    def fetch(self) -> Float32Array:
        """The array itself."""
        return self.array


class Engine(ABC):
    """Where work runs. Opened for one ``shared``, which every worker gets once."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.threads = 1
        """Of this process, that may do one epoch's arithmetic while its workers wait; 1 where they are elsewhere."""
        self.retries = 0
        """How often work had to be given out again because its worker died."""
        self.ahead = AHEAD
        self.about = ""
        """Where the workers are, for whoever watches; nothing where that is this machine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @abstractmethod
    def run(self, work: Callable[[Any, Task], Answer], tasks: Iterable[Task]) -> Iterator[Answer]:
        """``work(shared, task)`` for every task, as answers become ready (order is not kept).

        Tasks are taken only as workers become free. While one call waits for its consumer, another may be made: both
        use the same workers.
        """

    @abstractmethod
    def place(self, array: Float32Array) -> Placed:
        """Puts an array where the workers of this engine reach it."""

    @abstractmethod
    def close(self) -> None:
        """Ends the workers; what is not begun is given up."""


class InProcess(Engine):
    """One task after the other, here; ``threads`` may share what one is made of."""

    def __init__(self, shared: object, threads: int = 1) -> None:
        super().__init__(1)
        self._shared, self.threads = shared, threads

    def run(self, work: Callable[[Any, Task], Answer], tasks: Iterable[Task]) -> Iterator[Answer]:
        """Each task when its answer is asked for."""
        for task in tasks:
            yield work(self._shared, task)

    def place(self, array: Float32Array) -> Placed:
        """It is where it has to be."""
        return LocalArray(array)

    def close(self) -> None:
        """There is nobody to end."""


class PooledEngine(Engine):
    """Workers of any kind that take work and promise its answer; work of a dead one is given to another."""

    @abstractmethod
    def _submit(self, work: Callable[[Any, Task], Answer], task: Task) -> Future[Answer]:
        """Gives one task out."""

    @abstractmethod
    def _lost(self, error: BaseException) -> bool:
        """Whether this error means that the worker died, and not that the work failed."""

    def run(self, work: Callable[[Any, Task], Answer], tasks: Iterable[Task]) -> Iterator[Answer]:
        """Up to ``ahead`` tasks per worker are given out at a time."""
        source = iter(tasks)
        pending: dict[Future[Answer], tuple[Task, int]] = {}
        try:
            while True:
                while len(pending) < self.ahead * self.workers:
                    try:
                        task = next(source)
                    except StopIteration:
                        break
                    pending[self._submit(work, task)] = task, 1
                if not pending:
                    return
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    task, attempt = pending.pop(future)
                    error = future.exception()
                    if error is None:
                        yield future.result()
                    elif not self._lost(error):
                        raise error
                    else:
                        pending[self._again(work, task, attempt, error)] = task, attempt + 1
        finally:
            for future in pending:
                self._give_up(future)

    def _give_up(self, future: Future[Any]) -> None:
        """Nobody waits for this answer any more."""
        future.cancel()

    def _again(
        self, work: Callable[[Any, Task], Answer], task: Task, attempt: int, error: BaseException
    ) -> Future[Answer]:
        if attempt == MOST_ATTEMPTS:
            raise WorkerLost(
                f"a worker died {MOST_ATTEMPTS} times at the same work (killed, out of memory, or its machine was "
                "lost); finished epochs are kept. Run again with fewer workers."
            ) from error
        self.retries += 1
        return self._submit(work, task)


def open_engine(where: Execution, shared: object, multiply_adds: float | None = None) -> Engine:
    """The engine asked for; local work whose price is not worth another process is done in this one."""
    if where.engine == "ray":
        from flcontrib_core.execution.ray_cluster import RayEngine

        return RayEngine(shared, where)
    workers = where.fitting(multiply_adds)
    if workers == 1:
        return InProcess(shared, where.processes)
    from flcontrib_core.execution.local import ProcessEngine

    return ProcessEngine(shared, workers)


def run_tasks(
    work: Callable[[Any, Task], Answer],
    shared: object,
    tasks: Iterable[Task],
    where: Execution,
    multiply_adds: float | None = None,
) -> Iterator[Answer]:
    """``work(shared, task)`` for every task, as answers become ready (order is not kept)."""
    with open_engine(where, shared, multiply_adds) as engine:
        yield from engine.run(work, tasks)
