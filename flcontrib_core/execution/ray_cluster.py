"""The same work on a Ray cluster, past one machine; the answers are those of local processes."""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from flcontrib_core import __version__
from flcontrib_core.errors import FLContribError, MissingPart
from flcontrib_core.execution.children import safe_starts
from flcontrib_core.execution.engine import Execution, Placed, PooledEngine, usual_workers
from flcontrib_core.vocabulary import Float32Array

Task = TypeVar("Task")
Answer = TypeVar("Answer")
_ANSWER_SECONDS = 5.0
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The opening of HTTP/2 with empty settings; what speaks it, as Ray does, answers with settings (frame type 4)."""
_shared: dict[str, Any] = {}
"""On a worker: what the tasks of its engine share, under the engine's reference. One engine at a time."""


class ClusterUnreachable(FLContribError):
    """Nothing answers at the cluster's address."""


class ClusterFull(FLContribError):
    """Neither the cluster's object store nor its disk takes any more."""


class ClusterUnfit(FLContribError):
    """The cluster cannot do this work: it has no such GPU, or not this version of the package."""


class RayEngine(PooledEngine):
    """A Ray cluster (at ``where.address``, or one started here); without a number of workers all its processors work.

    Whoever needs modules of their own on the workers calls ``ray.init`` first: what is running is used as it is.
    Ray itself tries nothing again, so that every retry is counted here.
    """

    def __init__(self, shared: object, where: Execution) -> None:
        try:
            import ray
        except ImportError as missing:
            raise MissingPart(
                "the Ray engine needs Ray: pip install 'flcontrib[ray]', or choose the engine 'local'"
            ) from missing
        super().__init__(where.workers or 1)
        self._ray: Any = ray
        self._given: dict[Future[Any], Any] = {}
        # a task that computes on a GPU goes where there is one, also where nobody said how much of it
        where = replace(where, gpus=where.gpus or float(getattr(shared, "gpu_share", 0.0)))
        with ExitStack() as opened:  # what fails on the way leaves standard output and Ray as they were
            if not ray.is_initialized():
                self._start(where, opened)
            self._look_around(where)
            self._apply: Any = ray.remote(num_cpus=1, num_gpus=where.gpus, max_retries=0)(_apply)
            # in a list: Ray hands the reference on, and a worker fetches it once
            self._box = [self._put(shared), __version__]
            self._opened = opened.pop_all()

    def place(self, array: Float32Array) -> Placed:
        """In the object store, once per node."""
        return _StoredArray(self._put(array))

    def close(self) -> None:
        """Leaves the cluster, and ends it where it was started here."""
        self._opened.close()

    def _submit(self, work: Callable[[Any, Task], Answer], task: Task) -> Future[Answer]:
        reference = self._apply.remote(self._box, work, task)
        future: Future[Answer] = reference.future()
        self._given[future] = reference
        future.add_done_callback(lambda done: self._given.pop(done, None))
        return future

    def _give_up(self, future: Future[Any]) -> None:
        """Also where it is being worked on, on whichever machine."""
        reference = self._given.pop(future, None)
        if reference is not None:
            self._ray.cancel(reference, force=True)

    def _lost(self, error: BaseException) -> bool:
        """All that Ray itself reports, also from inside a task; what the work raised is an error of its own kind."""
        faults = self._ray.exceptions
        if isinstance(error, faults.RayTaskError):
            error = error.cause
        if isinstance(error, faults.ObjectStoreFullError | faults.OutOfDiskError):
            raise ClusterFull(f"the cluster's object store is full: {error}") from error
        if isinstance(error, ModuleNotFoundError):
            raise ClusterUnfit(
                f"a worker of the cluster lacks {error.name}: install flcontrib[ray] {__version__}, and whatever your "
                "own estimator or model imports, on every node"
            ) from error
        return isinstance(error, faults.RayError) and not isinstance(error, faults.RayTaskError)

    def _put(self, value: object) -> Any:
        faults = self._ray.exceptions
        try:
            return self._ray.put(value)
        except (faults.ObjectStoreFullError, faults.OutOfDiskError) as full:
            raise ClusterFull(f"the cluster's object store is full: {full}") from full

    def _look_around(self, where: Execution) -> None:
        """How many processors there are, and whether there is what was asked for."""
        there = self._ray.cluster_resources()
        processors, gpus = int(there.get("CPU", 0)), float(there.get("GPU", 0))
        if where.gpus > gpus:
            raise ClusterUnfit(
                f"each task asks for {where.gpus:g} GPUs and the cluster has {gpus:g}; ask for none, or start Ray on "
                "its nodes with GPUs"
            )
        self.workers = where.workers or max(1, processors)
        if self.workers < processors:  # as many at a time as asked for, and none waiting on a node
            self.ahead = 1
        nodes = sum(bool(node["Alive"]) for node in self._ray.nodes())
        self.about = (
            f"Ray: {nodes} nodes, {processors} processors, {gpus:g} GPUs; workers import their node's flcontrib "
            f"{__version__} in an empty folder"
        )

    def _start(self, where: Execution, opened: ExitStack) -> None:
        """Starts Ray, or joins a cluster, with an empty folder to work in.

        Ray puts its driver's working folder first on the import path of every worker, unless it is given one. It prints
        what befalls its nodes; standard output is for results.
        """
        address = where.address
        if address is not None:
            _must_answer(address)
        empty = opened.enter_context(tempfile.TemporaryDirectory(prefix="flcontrib-ray-"))
        opened.enter_context(redirect_stdout(sys.stderr))
        try:
            with safe_starts():
                self._ray.init(
                    address=address,
                    num_cpus=None if address else where.workers or usual_workers(),
                    include_dashboard=None if address else False,
                    log_to_driver=False,
                    logging_level=logging.WARNING,
                    runtime_env={"working_dir": empty},
                )
        except ImportError as missing:
            raise MissingPart(f"{address} needs a part of Ray: pip install 'ray[client]' ({missing})") from missing
        except (ConnectionError, RuntimeError, ValueError) as refused:
            raise ClusterUnreachable(
                f"no Ray cluster can be joined at {address}: {refused}. If it was started with token authentication, "
                "as Ray does by itself, set RAY_AUTH_MODE=token here too"
            ) from refused
        opened.callback(self._ray.shutdown)


class _StoredArray:
    """An array in the object store."""

    def __init__(self, reference: Any) -> None:
        self._reference = reference

    def fetch(self) -> Float32Array:
        """The node's copy, shared by all its workers."""
        import ray

        array: Float32Array = ray.get(self._reference)
        return array


def _apply(box: list[Any], work: Callable[[Any, Task], Answer], task: Task) -> Answer:
    """On a worker: what is shared is fetched once."""
    import ray
    import torch

    if box[1] != __version__:
        raise ClusterUnfit(f"a node has flcontrib {__version__}, whoever sends the work {box[1]}; install one of them")
    torch.set_num_threads(1)
    name = box[0].hex()
    if name not in _shared:
        _shared.clear()
        _shared[name] = ray.get(box[0])
    return work(_shared[name], task)


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
        with socket.create_connection((host, port), timeout=_ANSWER_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS") == "1":
                return
            connection.settimeout(_ANSWER_SECONDS)
            connection.sendall(_GREETING)
            answer = connection.recv(9)
    except OSError as fault:
        raise ClusterUnreachable(f"no Ray cluster answers at {address}: {fault}") from fault
    if answer[3:4] != b"\x04":
        raise ClusterUnreachable(f"what answers at {address} is no Ray cluster")
