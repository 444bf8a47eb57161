"""How does the same work run on a Ray cluster, past one machine?

Ray retries tasks of dead workers by itself; the answers are the same as those of local processes.
"""

from __future__ import annotations

import logging
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from typing import Any, TypeVar
from urllib.parse import urlsplit

from flcontrib_core.errors import FLContribError, MissingPart
from flcontrib_core.execution.children import safe_starts

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Answer = TypeVar("Answer")
_ANSWER_SECONDS = 5.0


def run_tasks_on_ray(
    work: Callable[[Shared, Task], Answer],
    shared: Shared,
    tasks: Iterable[Task],
    workers: int = 2,
    address: str | None = None,
) -> Iterator[Answer]:
    """``work(shared, task)`` for every task on a Ray cluster (``address``, or one started here), as they finish.

    A cluster gets as many tasks at once as it has processors, and at least ``workers``.

    Whoever needs modules of their own on the workers calls ``ray.init`` first: what is running is used as it is.
    """
    try:
        import ray
    except ImportError as missing:
        raise MissingPart("the Ray engine needs Ray: pip install 'flcontrib[ray]', or use --engine local") from missing
    if ray.is_initialized():
        yield from _stream(ray, work, shared, iter(tasks), workers)
        return
    if address is not None:
        _must_answer(address)
    # Ray prints what befalls its nodes; standard output is for results.
    with tempfile.TemporaryDirectory(prefix="flcontrib-ray-") as empty, redirect_stdout(sys.stderr):
        _start(ray, workers, address, empty)
        try:
            yield from _stream(
                ray, work, shared, iter(tasks), workers if address is None else _processors(ray, workers)
            )
        finally:
            ray.shutdown()


def _processors(ray: Any, least: int) -> int:
    return max(least, int(ray.cluster_resources().get("CPU", 1)))


class ClusterUnreachable(FLContribError):
    """Nothing answers at the cluster's address."""


def _must_answer(address: str) -> None:
    """Asks the address itself first: Ray would try for many minutes, and say nothing meanwhile."""
    if address == "auto" or address == "local":
        return
    place = urlsplit(address if "://" in address else f"ray://{address}")
    try:
        host, port = place.hostname, place.port
    except ValueError as wrong:
        raise ClusterUnreachable(f"{address!r} is no address of a Ray cluster ({wrong})") from wrong
    if not host or port is None:
        raise ClusterUnreachable(f"{address!r} is no address of a Ray cluster; write host:port, or ray://host:port")
    try:
        socket.create_connection((host, port), timeout=_ANSWER_SECONDS).close()
    except OSError as fault:
        raise ClusterUnreachable(f"no Ray cluster answers at {address}: {fault}") from fault


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
