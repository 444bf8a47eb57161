"""How is independent work spread over processes without the result depending on how many there are?

One intra-op thread per process: two processes gain 1.9×, two threads 0.9–1.4× on the same cores. Work items are
pulled from a generator only as workers become free, so at most ``workers`` of them are in memory.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from flcontrib_core.errors import FLContribError
from flcontrib_core.execution.children import safe_starts

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Answer = TypeVar("Answer")

_shared: list[Any] = []
"""In a worker process: what every task of this pool needs, sent once at its start."""


def usual_workers() -> int:
    """All cores this process may use but one, which is left to whoever looks at the page."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - 1)


class WorkerLost(FLContribError):
    """A worker process died again after its work had been given to a new one."""


def run_tasks(
    work: Callable[[Shared, Task], Answer], shared: Shared, tasks: Iterable[Task], workers: int = 1
) -> Iterator[Answer]:
    """``work(shared, task)`` for every task, as answers become ready (order is not kept).

    With one worker everything happens in this process. With more, tasks go to spawned processes; when one dies
    (killed, out of memory) the pool is rebuilt once and only the unanswered tasks are given out again.
    """
    if workers <= 1:
        for task in tasks:
            yield work(shared, task)
        return
    source = iter(tasks)
    unanswered: list[Task] = []
    for attempt in (1, 2):
        try:
            yield from _in_pool(work, shared, source, unanswered, workers)
            return
        except BrokenProcessPool as lost:
            if attempt == 2:
                raise WorkerLost(
                    "a worker process died twice (killed, or out of memory); finished epochs are kept. "
                    "Run again with fewer workers."
                ) from lost


def _in_pool(
    work: Callable[[Shared, Task], Answer], shared: Shared, source: Iterator[Task], unanswered: list[Task], workers: int
) -> Iterator[Answer]:
    """Drains ``unanswered`` and ``source``; on a broken pool ``unanswered`` holds what was given out and lost."""
    context = multiprocessing.get_context("spawn")
    with safe_starts():  # here already: the pool's locks start multiprocessing's own helper process
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare, initargs=(shared,))

    def give_out(task: Task) -> Future[Answer]:
        with safe_starts():
            return pool.submit(_apply, work, task)

    with pool:
        pending = {give_out(task): task for task in unanswered}
        while True:
            while len(pending) < workers:
                task_or_end = next(source, _END)
                if task_or_end is _END:
                    break
                task: Task = task_or_end  # type: ignore[assignment]
                unanswered.append(task)
                pending[give_out(task)] = task
            if not pending:
                return
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                answer = future.result()
                finished = pending.pop(future)
                unanswered[:] = [t for t in unanswered if t is not finished]
                yield answer


_END = object()


def _prepare(shared: object) -> None:
    import torch

    torch.set_num_threads(1)
    _shared[:] = [shared]


def _apply(work: Callable[[Any, Task], Answer], task: Task) -> Answer:
    return work(_shared[0], task)
