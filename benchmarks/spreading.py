"""What do more workers gain, on this machine's processes and on Ray, and what does it cost whoever gives the work out?

One epoch of 100 participants is cut into parts; a log of many epochs is given out epoch by epoch, as is the job of a
dashboard (where ``FLCONTRIB_DATA`` names the folder of data sets). Each assessment runs
in a process of its own, its workers' start included, and must have the bits of the others. On a machine that others use
too, the wall clock says little, so that the gain is also told by CPU time: one process's against that of the longest
chain, the giver's and the busiest worker's together (as if neither ever worked while the other did); of work that the
giver's own threads do side by side, the share of one counts. Libraries are loaded before the clock starts. Peak memory
is that of the process which gives the work out.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import psutil

from benchmarks.measurement import Measurement
from benchmarks.scale import Case, record
from flcontrib_core.execution.children import child_environment, python_command

if TYPE_CHECKING:
    from flcontrib_core.history.contribution_history import ContributionHistory

_MiB = 1 << 20
ONE_EPOCH = Case("one epoch of 100 participants", (784, 256, 128, 10), 1000, 100, 100, 1)
LARGE_LOG = Case("a log of 1.1 GB", (784, 256, 10), 200, 24, 24, 56)
SMALL_LOG = Case("a log of 160 MB", (784, 256, 10), 200, 24, 24, 8)


@dataclass(frozen=True)
class Told:
    """What one assessment told of itself."""

    seconds: float
    cpu: float
    """Of all its processes"""
    chain: float
    """CPU of the giver, threads side by side counted once, and of the busiest worker"""
    peak: float
    digest: str


def run(scale: str) -> list[Measurement]:
    """``small`` takes a shorter log for the comparison with Ray."""
    busy = f"load average {os.getloadavg()[0]:.1f} before"
    log = LARGE_LOG if scale == "full" else SMALL_LOG
    measured = _memory() + _dashboard(50 if scale == "full" else 8, busy)
    with tempfile.TemporaryDirectory() as folder:
        record(ONE_EPOCH, Path(folder))
        one, two = (_assessed(folder, "local", workers) for workers in (1, 2))
        measured += _gain(f"{ONE_EPOCH.name}: two workers", one, two, 1.7, busy)
    with tempfile.TemporaryDirectory() as folder:
        record(log, Path(folder))
        one, two, ray = (_assessed(folder, *how) for how in (("local", 1), ("local", 2), ("ray", 2)))
        measured += _gain(f"{log.name}: two workers", one, two, None, busy)
        measured += _gain(f"{log.name}: Ray beside two local processes", two, ray, 0.9, busy)
    return measured


def _dashboard(epochs: int, busy: str) -> list[Measurement]:
    """The job of a dashboard, with a workspace's memory, on a run of Adult; nothing where the data set is not here."""
    if not Path(os.environ.get("FLCONTRIB_DATA", "missing")).is_dir():
        return [Measurement("dashboard audit: data sets found", 0.0, note="left out: FLCONTRIB_DATA names no folder")]
    from flcontrib_core.laboratory.simulation.settings import paper_settings
    from flcontrib_core.laboratory.simulation.simulated_run import simulate

    with tempfile.TemporaryDirectory() as folder:
        settings = paper_settings("adult", clients=64, epochs=epochs, seed=0, train_rows=8000, validation_rows=128)
        simulate(settings, Path(folder) / "run")
        one, two = (_assessed(folder, "local", workers, "job") for workers in (1, 2))
    return _gain(f"dashboard audit of 64 Adult clients, {epochs} epochs: two workers", one, two, 1.8, busy)


def _memory() -> list[Measurement]:
    """Of whoever gives the epochs of a large log out, without values: what is read and placed is the same."""
    with tempfile.TemporaryDirectory() as folder:
        record(LARGE_LOG, Path(folder))
        one = _assessed(folder, "local", 1, "no")
        found = []
        for name, how in (("two workers", "local"), ("Ray", "ray")):
            told = _assessed(folder, how, 2, "no")
            assert told.digest == one.digest, f"{name}: other observations"
            label = f"{LARGE_LOG.name}: memory of the giver, {name} above one process"
            more, note = (told.peak - one.peak) / _MiB, f"{one.peak / _MiB:.0f} and {told.peak / _MiB:.0f} MiB"
            found.append(Measurement(label, more, 300.0, at_least=False, unit="MiB", note=note))
    return found


def _gain(name: str, before: Told, after: Told, goal: float | None, busy: str) -> list[Measurement]:
    assert before.digest == after.digest, f"{name}: other values"
    wall = f"{before.seconds:.1f} s and {after.seconds:.1f} s; {busy}, {os.getloadavg()[0]:.1f} after"
    cpu = f"{before.chain:.1f} s and {after.chain:.1f} s; of all processes {before.cpu:.1f} s and {after.cpu:.1f} s"
    return [
        Measurement(f"{name}, wall clock", before.seconds / after.seconds, unit="×", note=wall),
        Measurement(f"{name}, by CPU time", before.chain / after.chain, goal, unit="×", note=cpu),
    ]


def _assessed(folder: str, engine: str, workers: int, values: str = "yes") -> Told:
    command = python_command("-m", "benchmarks.spreading", folder, engine, str(workers), values)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=child_environment())
    return Told(**json.loads(done.stdout))


class _Noted(ThreadPoolExecutor):
    """Threads that note what each piece of their work took."""

    pools: ClassVar[list[tuple[int, list[float]]]] = []

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], **options: Any) -> Iterator[Any]:
        taken: list[float] = []
        self.pools.append((self._max_workers, taken))

        def timed(*piece: Any) -> Any:
            began = time.thread_time()
            answer = fn(*piece)
            taken.append(time.thread_time() - began)
            return answer

        return super().map(timed, *iterables, **options)

    @classmethod
    def saved(cls) -> float:
        """CPU that stood beside other CPU: all of it without each pool's share of one thread or its longest piece."""
        return sum(sum(taken) - max(sum(taken) / threads, *taken) for threads, taken in cls.pools if taken)


def _job(folder: Path, workers: int, on_epoch: Callable[[object], None]) -> Callable[[], ContributionHistory]:
    """What a job of a workspace does, its result read back at the end."""
    from flcontrib_core.auditing import AuditSettings
    from flcontrib_core.execution.engine import Execution
    from flcontrib_core.workspace import Workspace, audit_in_workspace, stored_report

    workspace = Workspace(folder / f"workspace-{workers}")
    digest = workspace.add_run(folder / "run").digest
    workspace.preferences.set_execution(Execution(workers))

    def work() -> ContributionHistory:
        entry = audit_in_workspace(workspace, digest, AuditSettings().record(), lambda *progress: on_epoch(progress))
        return stored_report(workspace, entry).history

    return work


def main(folder: str, engine: str, workers: str, values: str) -> None:
    """One assessment; prints its figures as JSON."""
    import torch  # noqa: F401

    from flcontrib_core import blas
    from flcontrib_core.games import evaluator, observations  # noqa: F401
    from flcontrib_core.history.assess import assess_contributions
    from flcontrib_core.history.settings import AssessSettings
    from flcontrib_core.runs.bundle import read_run_log

    vars(blas)["ThreadPoolExecutor"] = _Noted
    run = read_run_log(Path(folder) / "run")
    spent: dict[int, float] = {}

    def note_workers(answer: object) -> None:
        for worker in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                spent[worker.pid] = sum(worker.cpu_times()[:2])

    def assess() -> ContributionHistory:
        settings = AssessSettings(values=values == "yes")
        return assess_contributions(run, settings, engine=engine, workers=int(workers), on_epoch=note_workers)

    work = _job(Path(folder), int(workers), note_workers) if values == "job" else assess
    began, before = time.perf_counter(), time.process_time()
    history = work()
    seconds, own = time.perf_counter() - began, time.process_time() - before
    told = Told(
        seconds,
        own + sum(spent.values()),
        own - _Noted.saved() + max(spent.values(), default=0.0),
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0,
        hashlib.sha256(history.values.tobytes() + history.increments.tobytes()).hexdigest(),
    )
    print(json.dumps(told.__dict__))


if __name__ == "__main__":
    main(*sys.argv[1:])
