"""How does the same work run on a Ray cluster, past one machine?

Ray retries tasks of dead workers by itself; the answers are the same as those of local processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from flcontrib_core.errors import MissingPart

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
    """``work(shared, task)`` for every task on a Ray cluster (``address``, or one started here), as they finish."""
    try:
        import ray
    except ImportError as missing:
        raise MissingPart("the Ray engine needs Ray: pip install 'flcontrib[ray]', or use --engine local") from missing
    started_here = not ray.is_initialized()
    if started_here:
        ray.init(address=address, num_cpus=None if address else workers, include_dashboard=False, log_to_driver=False)
    try:
        yield from _stream(ray, work, shared, iter(tasks), workers)
    finally:
        if started_here:
            ray.shutdown()


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
