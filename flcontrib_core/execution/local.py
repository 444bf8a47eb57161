"""Work spread over processes of this machine, without the result depending on how many there are.

One intra-op thread per process: two processes gain 1.9×, two intra-op threads 0.9–1.4× on the same cores. They start
with the first task: where one epoch is shared by threads, none has to.
"""

from __future__ import annotations

import copy
import multiprocessing
import shutil
import tempfile
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from flcontrib_core.execution.children import safe_starts
from flcontrib_core.execution.engine import Placed, PooledEngine
from flcontrib_core.vocabulary import Float32Array

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_shared: list[Any] = []
"""In a worker process: what every task of this pool needs, sent once at its start."""


class ProcessEngine(PooledEngine):
    """Spawned processes; when one dies (killed, out of memory) all are replaced and their work is given out again."""

    def __init__(self, shared: object, workers: int) -> None:
        super().__init__(workers)
        self.threads = workers
        self._shared = shared
        self._folder = Path(tempfile.mkdtemp(prefix="flcontrib-"))
        self._names = count()
        self._pool: ProcessPoolExecutor | None = None

    def place(self, array: Float32Array) -> Placed:
        """As a file that the workers map."""
        return _FileOfArray(self._folder / str(next(self._names)), array)

    def close(self) -> None:
        """Waits for what is being worked on, and forgets what is not begun."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        shutil.rmtree(self._folder)

    def _submit(self, work: Callable[[Any, Task], Answer], task: Task) -> Future[Answer]:
        with safe_starts():  # here already: the pool's locks start multiprocessing's own helper process
            try:
                self._pool = self._pool or self._new_pool()
                return self._pool.submit(_apply, work, task)
            except BrokenProcessPool:  # all that it was given fails at once, and it takes nothing any more
                self._pool = self._new_pool()
                return self._pool.submit(_apply, work, task)

    def _new_pool(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, mp_context=context, initializer=_prepare, initargs=(self._shared,))

    def _lost(self, error: BaseException) -> bool:
        return isinstance(error, BrokenProcessPool)


class _FileOfArray:
    """An array in a file, which goes with the giver's last reference; workers map it."""

    def __init__(self, path: Path, array: Float32Array) -> None:
        self._path = path
        array.tofile(path)
        weakref.finalize(self, path.unlink, missing_ok=True)

    def fetch(self) -> Float32Array:
        """The file's content, mapped."""
        return np.memmap(self._path, dtype=np.float32, mode="r")


def _prepare(shared: object) -> None:
    import torch

    torch.set_num_threads(1)
    # A copy: torch hands tensors over in memory that all workers share, and evaluators write into their scratch ones.
    _shared[:] = [copy.deepcopy(shared)]


def _apply(work: Callable[[Any, Task], Answer], task: Task) -> Answer:
    return work(_shared[0], task)
