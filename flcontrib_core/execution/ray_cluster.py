"""How does the same work run on a Ray cluster, past one machine?

Ray retries tasks of dead workers by itself; the answers are the same as those of local processes.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from flcontrib_core.errors import MissingPart
from flcontrib_core.execution.children import safe_starts

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Answer = TypeVar("Answer")


def run_tasks_on_ray(
    work: Callable[[Shared, Task], Answer],
    shared: Shared,
    tasks: Iterable[Task],
    workers: int = 2,
    address: str | None = None,
) -> Iterator[Answer]:
    """``work(shared, task)`` for every task on a Ray cluster (``address``, or one started here), as they finish.

    Whoever needs modules of their own on the workers calls ``ray.init`` first: what is running is used as it is.
    """
    try:
        import ray
    except ImportError as missing:
        raise MissingPart("the Ray engine needs Ray: pip install 'flcontrib[ray]', or use --engine local") from missing
    if ray.is_initialized():
        yield from _stream(ray, work, shared, iter(tasks), workers)
        return
    with tempfile.TemporaryDirectory(prefix="flcontrib-ray-") as empty:
        _start(ray, workers, address, empty)
        try:
            yield from _stream(ray, work, shared, iter(tasks), workers)
        finally:
            ray.shutdown()


def _start(ray: Any, workers: int, address: str | None, empty_folder: str) -> None:
    """Starts Ray, or joins a cluster, with an empty folder to work in.

    Ray puts its driver's working folder first on the import path of every worker, unless it is given one.
    """
    with safe_starts():
        ray.init(
            address=address,
            num_cpus=None if address else workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.WARNING,
            runtime_env={"working_dir": empty_folder},
        )


def _stream(
    ray: Any, work: Callable[[Shared, Task], Answer], shared: Shared, source: Iterator[Task], workers: int
) -> Iterator[Answer]:
    def one_thread(bench: Shared, task: Task) -> Answer:
        import torch

        torch.set_num_threads(1)
        return work(bench, task)

    remote = ray.remote(num_cpus=1, max_retries=2)(one_thread)
    bench = ray.put(shared)
    pending: list[Any] = []
    exhausted = False
    while pending or not exhausted:
        while not exhausted and len(pending) < workers:
            try:
                task = next(source)
            except StopIteration:
                exhausted = True
                break
            pending.append(remote.remote(bench, task))
        if pending:
            done, pending = ray.wait(pending, num_returns=1)
            yield ray.get(done[0])
